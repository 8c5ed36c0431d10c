import { scenarioSchema } from '@braess/cluster';
import { beforeAll, describe, expect, it } from 'vitest';
import { createProject, smallEngines, smallScenario } from './small-cluster.js';

// Policies from a user's .ts files, end to end through a scenario: each is shown to decide, on one and on two shards with one fingerprint.

const project = createProject();

/** Little KV memory and prompts that share their beginnings: blocks are evicted. */
const cachedScenario = `name: cached
model: { name: Llama-3.1-8B }
serving:
  - { count: 1, role: prefill, blockTokens: 64, kvBlocks: 64 }
  - { count: 1, role: decode, blockTokens: 64, kvBlocks: 64 }
workload:
  requests: 60
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 2 }
    inputTokens: { kind: constant, tokens: 1100 }
    outputTokens: { kind: constant, tokens: 10 }
    prefix: { groups: 6, popularity: { kind: uniform }, prefixTokens: { kind: constant, tokens: 1024 } }
`;

beforeAll(() => {
  project.write('scenario.yaml', smallScenario);
  project.write('cached.yaml', cachedScenario);
});

const header = (kind: string): string => `import { define${kind}Policy } from '@braess/control';\nimport { z } from 'zod';\n`;

describe('a router from a file', () => {
  it('places every request, with its state, its parameters and what it may read', async () => {
    project.write(
      'policies/by-size.ts',
      `${header('Router')}
export default defineRouterPolicy({
  name: 'by-size',
  description: 'Prefill by the parity of the prompt, decode in turn.',
  parameters: z.strictObject({ offset: z.int() }),
  createState: () => ({ placed: 0 }),
  choose(view, request, { offset }, state) {
    const place = view.stage === 0 ? request.inputTokens + offset : state.placed++;
    return view.candidates[place % view.count]!;
  },
});
`,
    );
    const settings = (offset: number): string[] => [
      `router.policy=${project.path('policies/by-size.ts')}`,
      `router.parameters.offset=${offset}`,
    ];
    const { summary, query } = await project.runOnShards('scenario.yaml', settings(0));
    expect(summary).toMatchObject({ submitted: 60, completed: 60, faults: [] });
    const rows = await query('select input_tokens, prefill_worker, decode_worker from requests order by prefill_end_ns, request_id');
    expect(rows).toHaveLength(60);
    for (const row of rows) expect(row.prefill_worker).toBe(smallEngines[(row.input_tokens as number) % 2]);
    // In turn over three engines: twenty each.
    const turns = await query('select decode_worker, count(*) as n from requests group by all order by decode_worker');
    expect(turns).toEqual(smallEngines.slice(2).map((name) => ({ decode_worker: name, n: 20 })));
    const shifted = await project.run('scenario.yaml', settings(1));
    expect(shifted.summary.fingerprint).not.toBe(summary.fingerprint);
    for (const row of await shifted.query('select input_tokens, prefill_worker from requests'))
      expect(row.prefill_worker).toBe(smallEngines[((row.input_tokens as number) + 1) % 2]);
  });

  it('draws from a random stream of its own that the seed decides', async () => {
    project.write(
      'policies/dice.ts',
      `${header('Router')}
export const dice = defineRouterPolicy({
  name: 'dice',
  description: 'Any engine.',
  parameters: z.strictObject({}),
  choose: (view, _request, _parameters, _state, random) => view.candidates[Math.floor(random() * view.count)]!,
});
`,
    );
    const policy = `router.policy=${project.path('policies/dice.ts')}#dice`;
    const first = await project.runOnShards('scenario.yaml', [policy, 'seed=1']);
    // The built-in policy is the same function: nothing about it is private.
    const builtIn = await project.run('scenario.yaml', ['router.policy=random', 'seed=1']);
    expect(builtIn.summary.fingerprint).toBe(first.summary.fingerprint);
    const other = await project.run('scenario.yaml', [policy, 'seed=2']);
    expect(other.summary.fingerprint).not.toBe(first.summary.fingerprint);
  });
});

describe('a router from a package', () => {
  it('is found from the folder of the scenario, by the name of an export', async () => {
    project.write(
      'node_modules/acme-router/package.json',
      '{ "name": "acme-router", "version": "1.0.0", "type": "module", "exports": "./index.js" }',
    );
    project.write(
      'node_modules/acme-router/index.js',
      `${header('Router')}
export const last = defineRouterPolicy({
  name: 'last',
  description: 'The last engine.',
  parameters: z.strictObject({}),
  choose: (view) => view.candidates[view.count - 1],
});
`,
    );
    const { query } = await project.runOnShards('scenario.yaml', ['router.policy=package:acme-router#last']);
    const workers = await query('select distinct prefill_worker, decode_worker from requests');
    expect(workers).toEqual([{ prefill_worker: smallEngines[1], decode_worker: smallEngines[4] }]);
  });
});

describe('a planner from a file', () => {
  const scenario = `extends: scenario.yaml
router: { policy: round-robin, loadReportMs: 50 }
planner:
  policy: ./policies/mover.ts
  parameters: { atMs: 1000 }
  switchSeconds: 0.1
`;

  it('moves an engine at its time and by its period', async () => {
    project.write(
      'policies/mover.ts',
      `${header('Planner')}
export default definePlannerPolicy({
  name: 'mover',
  description: 'Makes the last decode engine a prefill engine at a time, back once a report says that it has worked.',
  parameters: z.strictObject({ atMs: z.number() }),
  periodNs: () => 500_000_000,
  timesNs: ({ atMs }) => [atMs * 1e6],
  createState: () => ({ moved: false, returned: false }),
  plan(view, actions, { atMs }, state) {
    const last = view.engines.count - 1;
    if (!state.moved && view.nowNs === atMs * 1e6) {
      state.moved = true;
      actions.changeRole(last, 1);
    } else if (state.moved && !state.returned && view.nowNs >= 2.5e9 && view.engines.role[last] === 1) {
      if (view.engines.reportedAtNs[last]! <= 0) throw new Error('no load report has come');
      state.returned = true;
      actions.changeRole(last, 2);
    }
  },
});
`,
    );
    project.write('planned.yaml', scenario);
    const { summary, query } = await project.runOnShards('planned.yaml');
    expect(summary).toMatchObject({ completed: 60, faults: [] });
    const [prefills] = await query(
      `select count(*) as n, min(prefill_start_ns) as first, max(prefill_start_ns) as last from requests where prefill_worker = '${smallEngines[4]}'`,
    );
    // Ordered at 1 s, switched 0.1 s after the engine has drained at the soonest; ordered back at 2.5 s.
    expect(prefills?.n).toBeGreaterThan(0);
    expect(prefills?.first).toBeGreaterThan(1.1e9);
    expect(prefills?.last).toBeLessThan(2.7e9);
    const decodes = (await query(
      `select first_token_ns as at from requests where decode_worker = '${smallEngines[4]}' order by first_token_ns`,
    )) as { at: number }[];
    expect(decodes.filter(({ at }) => at < 1.1e9).length).toBeGreaterThan(0);
    expect(decodes.filter(({ at }) => at > 1.1e9 && at < 2.5e9)).toEqual([]);
    expect(decodes.filter(({ at }) => at > 2.5e9).length).toBeGreaterThan(0);
  });
});

describe('an oracle from a file', () => {
  const decodes = [...smallEngines.slice(2, 4), 'pod0/rack0/node1/engine0'];

  beforeAll(() => {
    project.write(
      'policies/nearest.ts',
      `${header('Router')}
export default defineRouterPolicy({
  name: 'nearest',
  description: 'The shortest transfer.',
  parameters: z.strictObject({}),
  reads: { network: true },
  cost: (view, engine) => view.network?.transferNs[engine] ?? 0,
});
`,
    );
    project.write(
      'oracle.yaml',
      `extends: scenario.yaml
# The last engine on a server of its own: links inside servers do not report.
cluster: { gpusPerServer: 4, serversPerRack: 2 }
router:
  policy: round-robin
  decode: { policy: ./policies/nearest.ts }
  oracle: { policy: ./policies/oracle.ts, parameters: { bytesPerToken: 131072 } }
telemetry: { seriesSeconds: 1, decisionsEvery: 1 }
`,
    );
  });

  it('decides where a router that reads the network sends the KV', async () => {
    project.write(
      'policies/oracle.ts',
      `${header('Oracle')}
export default defineOraclePolicy({
  name: 'by-bytes',
  description: 'Calls one decode engine near, by the size of the prompt.',
  parameters: z.strictObject({ bytesPerToken: z.number() }),
  answer(question, answer, { bytesPerToken }) {
    const near = (question.transferBytes / bytesPerToken) % question.count;
    for (let place = 0; place < question.count; place++) answer.transferNs[question.candidates[place]!] = place === near ? 1e6 : 2e6;
  },
});
`,
    );
    const { summary, query } = await project.runOnShards('oracle.yaml');
    expect(summary).toMatchObject({ completed: 60, faults: [] });
    const rows = await query('select input_tokens, decode_worker from requests');
    for (const row of rows) expect(row.decode_worker).toBe(decodes[(row.input_tokens as number) % 3]);
    // What the decision saw is in its record.
    const seen = await query(
      "select policy, chosen, transfer_ms, count(*) as n from decisions where kind = 'decode_route' group by all order by chosen",
    );
    expect(seen).toEqual([
      { policy: 'nearest', chosen: false, transfer_ms: 2, n: 120 },
      { policy: 'nearest', chosen: true, transfer_ms: 1, n: 60 },
    ]);
  });

  it('hears what links carried, a report period later', async () => {
    project.write(
      'policies/listener.ts',
      `${header('Oracle')}
export default defineOraclePolicy({
  name: 'listener',
  description: 'Calls the engine on the other server near until links report bytes, then the first one.',
  parameters: z.strictObject({}),
  createState: () => ({ bytes: 0 }),
  observe(observation, _parameters, state) {
    state.bytes += observation.transferBytes;
  },
  answer(question, answer, _parameters, state) {
    const near = state.bytes > 0 ? 0 : question.count - 1;
    for (let place = 0; place < question.count; place++) answer.transferNs[question.candidates[place]!] = place === near ? 1e6 : 2e6;
  },
});
`,
    );
    const { query } = await project.runOnShards('oracle.yaml', [`router.oracle={policy: ${project.path('policies/listener.ts')}}`]);
    const rows = (await query('select decode_worker, prefill_end_ns, transfer_start_ns from requests order by prefill_end_ns')) as {
      decode_worker: string;
      prefill_end_ns: number;
      transfer_start_ns: number;
    }[];
    // The fabric reports each second from its first transfer on at the latest; a decision falls 0.5 ms after its prefill.
    const firstNs = rows[0]?.transfer_start_ns as number;
    const before = rows.filter(({ prefill_end_ns }) => prefill_end_ns < 1e9 - 1e6);
    const after = rows.filter(({ prefill_end_ns }) => prefill_end_ns > firstNs + 1e9 + 1e6);
    expect(before.length).toBeGreaterThan(10);
    expect(after.length).toBeGreaterThan(10);
    expect(new Set(before.map((row) => row.decode_worker))).toEqual(new Set([decodes[2]]));
    expect(new Set(after.map((row) => row.decode_worker))).toEqual(new Set([decodes[0]]));
  });
});

// Named by a scenario from the moment that its schema has the keys.
describe.skipIf(!('evictionParameters' in scenarioSchema.shape.serving.element.shape))('an eviction policy from a file', () => {
  const queue = (name: string, victim: string): string => `${header('Eviction')}
interface State { idle: number[] }
const drop = (state: State, node: number): void => void (state.idle.includes(node) && state.idle.splice(state.idle.indexOf(node), 1));
export default defineEvictionPolicy({
  name: '${name}',
  description: 'A list of the blocks that nobody holds, in order of release.',
  parameters: z.strictObject({}),
  create: () => ({
    name: '${name}',
    parameters: {},
    createState: (): State => ({ idle: [] }),
    reserve: () => undefined,
    stored: () => undefined,
    acquired: (state: State, _view: unknown, node: number) => drop(state, node),
    released: (state: State, _view: unknown, node: number) => void state.idle.push(node),
    removed: (state: State, _view: unknown, node: number) => drop(state, node),
    victim: (state: State) => ${victim},
  }),
});
`;
  const eviction = (policy: string): string[] => [0, 1].map((group) => `serving[${group}].eviction=${policy}`);

  it('is asked for every victim: lru written anew equals the built-in one, its reverse does not', async () => {
    const oldest = project.write('policies/oldest.ts', queue('oldest', 'state.idle[0] ?? -1'));
    const newest = project.write('policies/newest.ts', queue('newest', 'state.idle[state.idle.length - 1] ?? -1'));
    const lru = await project.run('cached.yaml', eviction('lru'));
    const own = await project.runOnShards('cached.yaml', eviction(oldest));
    expect(own.summary.fingerprint).toBe(lru.summary.fingerprint);
    expect(lru.summary.hitRates.g1).toBeGreaterThan(0);
    const reverse = await project.runOnShards('cached.yaml', eviction(newest));
    expect(reverse.summary.hitRates.g1).not.toBe(lru.summary.hitRates.g1);
    // A tier below evicts by its own policy.
    const tier = (policy: string): string[] => ['kvTiers={g2: {gigabytes: 0.4}}', `kvTiers.g2.eviction=${policy}`];
    const lruTier = await project.run('cached.yaml', tier('lru'));
    const ownTier = await project.run('cached.yaml', tier(oldest));
    expect(ownTier.summary.fingerprint).toBe(lruTier.summary.fingerprint);
    const reverseTier = await project.run('cached.yaml', tier(newest));
    expect(reverseTier.summary.fingerprint).not.toBe(lruTier.summary.fingerprint);
  });

  it('takes parameters when it is built in, too', async () => {
    const share = (value: number): string[] => [...eviction('s3-fifo'), `serving[0].evictionParameters={smallShare: ${value}}`];
    const [small, large] = [await project.run('cached.yaml', share(0.1)), await project.run('cached.yaml', share(0.9))];
    expect(large.summary.fingerprint).not.toBe(small.summary.fingerprint);
    await expect(project.run('cached.yaml', [...eviction('lru'), 'serving[0].evictionParameters={speed: 1}'])).rejects.toThrow(
      "eviction policy 'lru': unknown parameter 'speed'; it takes none",
    );
  });

  it.each([
    ["(() => { throw new Error('no idea'); })()", 'asked for the block to evict, threw Error: no idea'],
    ['state.idle.length + 1e6', 'victim() gave 10000'],
    ['Number.NaN', 'victim() gave NaN'],
  ])('stops the run with its file and the request when it goes wrong: %s', async (victim, message) => {
    const file = project.write('policies/wrong.ts', queue('wrong', victim));
    const failure = await project.run('cached.yaml', eviction(file)).then(String, (error: Error) => error.message);
    expect(failure).toContain(`(${file})`);
    expect(failure).toContain(message);
    // 1,024 + 1,100 tokens are 34 of the 64 blocks: the second prompt asks for the first eviction.
    expect(failure).toContain('(to admit request 1)');
    expect(failure).toContain('at actor pod0/rack0/node0/engine0');
  });
});

describe('a policy that writes to what it may only read', () => {
  const policy = (kind: string, body: string): string => `${header(kind)}
const name = 'scribbler';
const description = 'Writes where it should only read.';
const parameters = z.strictObject({ step: z.number().default(1) });
export default define${kind}Policy({ name, description, parameters, ${body} } as any);
`;
  const evicting = (functions: string): string => `create: () => ({
    name, parameters: {}, createState: () => ({ idle: [] }), reserve: () => {}, stored: () => {}, acquired: () => {}, removed: () => {},
    released: (state: any, _view: any, node: number) => { state.idle.push(node); }, victim: (state: any) => state.idle.shift() ?? -1, ${functions} })`;
  const choose = 'return view.candidates[0];';

  it.each([
    [
      'Router',
      'router.policy',
      `choose: (view: any) => { view.engines.activeRequests[1] += 7; ${choose} }`,
      'view.engines.activeRequests[1] (it was 0, and is now 7)',
    ],
    ['Router', 'router.policy', `choose: (view: any) => { view.engines = {}; ${choose} }`, 'view.engines'],
    [
      'Router',
      'router.policy',
      `cost: (view: any, engine: number, request: any) => { request.inputTokens = 1; return engine; }`,
      'request.inputTokens',
    ],
    [
      'Router',
      'router.policy',
      `choose: (view: any, _r: any, parameters: any) => { parameters.step += 1; ${choose} }`,
      'read only property',
    ],
    [
      'Router',
      'router.decode',
      `choose: (view: any) => { if (view.stage === 1) view.tierTransfers[0] = 9; ${choose} }`,
      'view.tierTransfers[0]',
    ],
    [
      'Admission',
      'router.admission',
      'admit: (view: any) => { view.engines.role[0] = 2; return true; }',
      'view.engines.role[0] (it was 1, and is now 2)',
    ],
    ['Planner', 'planner', 'timesNs: () => [1e9], plan: (view: any) => { view.status[0] = 4; }', 'status[0] (it was 0, and is now 4)'],
    [
      'Client',
      'workload.client',
      'start: (view: any, actions: any) => { view.inputTokens[3] = 1; actions.submit(0, 0); }',
      'view.inputTokens[3]',
    ],
    [
      'Client',
      'workload.client',
      'start: (_v: any, actions: any) => actions.submit(0, 0), settled: (view: any, request: number) => { view.arrivalNs[request] = 5; }',
      'view.arrivalNs[0]',
    ],
    ['Eviction', 'eviction', evicting('acquired: (_s: any, view: any, node: number) => { view.refs[node] = 0; }'), 'view.refs['],
    [
      'Eviction',
      'eviction',
      evicting('victim: (state: any, view: any) => { view.depth[0] = 9; return state.idle.shift() ?? -1; }'),
      'view.depth[0]',
    ],
  ])('stops the run with its file and the place: %s at %s, %s', async (kind, place, body, message) => {
    const file = project.write('policies/scribbler.ts', policy(kind, body));
    const settings: Record<string, string[]> = {
      'router.policy': [`router.policy=${file}`],
      'workload.client': [`workload.client={kind: policy, policy: ${file}}`],
      eviction: [`serving[0].eviction=${file}`],
    };
    const scenario = place === 'eviction' ? 'cached.yaml' : 'scenario.yaml';
    const failure = await project
      .run(scenario, settings[place] ?? [`${place}={policy: ${file}}`])
      .then(String, (error: Error) => error.message);
    expect(failure).toContain(`(${file})`);
    expect(failure).toContain(message);
    if (!message.includes('property')) expect(failure).toContain('views are for reading');
  });
});

describe.skipIf(!('actors' in scenarioSchema.shape))('a whole actor from a file', () => {
  const source = (body: string): string => `import { defineActorPolicy } from '@braess/control';
import { actorKind, message } from '@braess/kernel';
import { setGpuSpeed } from '@braess/protocol';
import { z } from 'zod';
const tick = message('ownTick');
export default defineActorPolicy({
  name: 'brake',
  description: 'Slows a GPU down.',
  parameters: z.strictObject({ gpu: z.string(), atMs: z.number(), factor: z.number() }),
  build(cell, { gpu, atMs, factor }, { actors }) {
    const kind = actorKind({
      name: 'brake',
      messages: { ownTick: tick },
      state: () => ({ gpu: actors.get(gpu)!.id, told: 0 }),
      start: (_state, context) => { context.timer(tick, atMs * 1e6 - 1e6); },
      on: { ownTick(state, _message, context) { ${body} } },
    });
    cell.actor('brake', kind, undefined);
  },
});
`;
  const actor = (file: string, gpu = 'pod0/rack0/node0/gpu0'): string =>
    `actors=[{policy: ${file}, parameters: {gpu: ${gpu}, atMs: 1000, factor: 0.25}}]`;
  const columns = 'select * from requests order by request_id';

  it('acts on others: what it does to a GPU equals the same fault of the schedule', async () => {
    const file = project.write('actors/brake.ts', source('state.told++; context.send(state.gpu, setGpuSpeed, 1e6, factor);'));
    const healthy = await project.run('scenario.yaml');
    const own = await project.runOnShards('scenario.yaml', [actor(file)]);
    const faults = 'faults=[{kind: gpu-speed, atSeconds: 1, gpu: pod0/rack0/node0/gpu0, factor: 0.25}]';
    const scheduled = await project.run('scenario.yaml', [faults]);
    const rows = await own.query(columns);
    expect(rows).toEqual(await scheduled.query(columns));
    expect(rows).not.toEqual(await healthy.query(columns));
  });

  it('stops the run with its file when it throws or names nobody', async () => {
    const file = project.write('actors/throws.ts', source("throw new Error('no idea');"));
    const failing = (setting: string): Promise<string> =>
      project.run('scenario.yaml', [setting]).then(String, (error: Error) => error.message);
    const thrown = await failing(actor(file));
    expect(thrown).toContain(`actor policy 'brake' (${file}), asked to handle 'ownTick', threw Error: no idea`);
    expect(thrown).toContain("/brake, message 'ownTick', simulated time 999000000 ns");
    expect(await failing(actor(file, 'nobody'))).toContain("Cannot read properties of undefined (reading 'id')");
  });
});

describe('a policy that misbehaves stops the run', () => {
  const router = `${header('Router')}
export default defineRouterPolicy({
  name: 'broken',
  description: 'Goes wrong at request 20.',
  parameters: z.strictObject({ how: z.enum(['throw', 'unknown', 'nan']) }),
  choose(view, request, { how }) {
    if (request.request < 20) return view.candidates[0]!;
    if (how === 'throw') throw new Error('no idea');
    return how === 'unknown' ? 4711 : Number.NaN;
  },
});
`;
  const asked = 'asked for the prefill engine of request 20 (';

  it.each([
    ['throw', 'threw Error: no idea'],
    ['unknown', 'returned 4711, which is no candidate; return one of view.candidates (0, 1)'],
    ['nan', 'returned NaN, which is no candidate'],
  ])('a router by %s: the error has its file and the request', async (how, fault) => {
    const file = project.write('policies/broken.ts', router);
    const settings = [`router.policy=${file}`, `router.parameters.how=${how}`];
    const messages = await Promise.all(
      [1, 2].map((shards) => project.run('scenario.yaml', settings, shards).then(String, (error: Error) => error.message)),
    );
    for (const message of messages) {
      expect(message).toContain(`router policy 'broken' (${file}), ${asked}`);
      expect(message).toContain(fault);
      expect(message).toContain('at actor control/frontend0');
      expect(message).toContain("seed '1'");
    }
  });

  const cases: readonly (readonly [string, string, string, string, string[]])[] = [
    [
      'a cost that is not a number',
      'Router',
      'cost: (view, engine, request) => (request.request === 20 ? Number.NaN : engine),',
      'asked for the prefill engine of request 20 (',
      ['router.policy=FILE'],
    ],
    [
      'an admission policy that throws',
      'Admission',
      "admit(_view, request) { if (request.request === 20) throw new Error('no idea'); return true; },",
      'asked whether to admit request 20, threw Error: no idea',
      ['router.admission={policy: FILE}'],
    ],
    [
      'an admission policy that answers nothing',
      'Admission',
      'admit: (_view, request) => (request.request === 20 ? (undefined as never) : true),',
      'asked whether to admit request 20, returned undefined; return true or false',
      ['router.admission={policy: FILE}'],
    ],
    [
      'an oracle that throws',
      'Oracle',
      "answer() { throw new Error('no idea'); },",
      'asked about the KV transfer of request 0, threw Error: no idea',
      ['router.policy=NEAREST', 'router.oracle={policy: FILE}'],
    ],
    [
      'an oracle that probes with no bytes',
      'Oracle',
      'beat(_view, actions) { actions.probe(0, 3, 0, 0); }, answer: () => undefined,',
      'asked at its beat, threw RangeError: probes with 0 bytes forth and 0 back; it must be whole numbers up to 2^53 - 1, of at least 1 forth',
      ['router.policy=NEAREST', 'router.oracle={policy: FILE}'],
    ],
    [
      'a planner that orders an engine that does not exist',
      'Planner',
      'timesNs: () => [5e8], plan(_view, actions) { actions.changeRole(99, 1); },',
      'asked for a plan at 500000000 ns over 5 engines (active: 2 prefill, 3 decode), threw RangeError: ordered engine 99; engines are numbered 0 to 4',
      ['planner.policy=FILE'],
    ],
    [
      'a planner that orders NaN',
      'Planner',
      'timesNs: () => [5e8], plan(_view, actions) { actions.changeRole(Number.NaN, 1); },',
      'ordered engine NaN; engines are numbered 0 to 4',
      ['planner.policy=FILE'],
    ],
    [
      'a planner that does not know when to plan',
      'Planner',
      "timesNs() { throw new Error('no idea'); }, plan: () => undefined,",
      'asked when it wants to plan, threw Error: no idea',
      ['planner.policy=FILE'],
    ],
    [
      'a controller whose choice the router does not take',
      'Controller',
      'decide: () => ({ zeta: 1 }),',
      "returned { zeta: 1 }, which the router does not take: router policy 'kv'",
      ['controller={ policy: FILE, periodSeconds: 1 }', 'router.policy=kv'],
    ],
  ];

  it.each(cases)('%s', async (name, kind, functions, message, settings) => {
    const file = project.write(
      `policies/${name.replaceAll(' ', '-')}.ts`,
      `${header(kind)}
export default define${kind}Policy({ name: 'broken', description: 'Goes wrong.', parameters: z.strictObject({}), ${functions} });
`,
    );
    const given = settings.map((setting) => setting.replace('FILE', file).replace('NEAREST', project.path('policies/nearest.ts')));
    const failure = await project.run('scenario.yaml', given).then(String, (error: Error) => error.message);
    expect(failure).toContain(`${kind.toLowerCase()} policy 'broken' (${file}), asked`);
    expect(failure).toContain(message);
  });

  it.each([
    ['Math.random()', 'Math.random'],
    ['Date.now()', 'Date.now'],
  ])('a router that calls %s', async (call, name) => {
    const file = project.write(
      'policies/forbidden.ts',
      `${header('Router')}
export default defineRouterPolicy({
  name: 'forbidden',
  description: 'Breaks a rule.',
  parameters: z.strictObject({}),
  choose: (view) => view.candidates[Math.floor(${call}) % view.count]!,
});
`,
    );
    const failure = await project.run('scenario.yaml', [`router.policy=${file}`], 2).then(String, (error: Error) => error.message);
    expect(failure).toContain(`router policy 'forbidden' (${file}), asked for the prefill engine of request 0 (`);
    expect(failure).toContain(name);
  });

  it('before it runs when it is no policy, of another kind, misspelt, or given parameters that it does not take', async () => {
    const file = project.write('policies/empty.ts', 'export const nothing = 1;\n');
    const failing = (...settings: string[]): Promise<string> =>
      project.run('scenario.yaml', settings).then(String, (error: Error) => error.message);
    expect(await failing(`router.policy=${file}`)).toContain(`${file}: its export 'default' is no policy (it exports nothing)`);
    expect(await failing(`router.policy=${project.path('policies/oracle.ts')}`)).toContain('is a policy of kind oracle, not router');
    expect(await failing('router.policy=round-robbin')).toMatch(/router policy 'round-robbin' is unknown.*did you mean "round-robin"/s);
    expect(await failing('router.policy=./missing.ts')).toContain('missing.ts does not exist');
    expect(await failing('router.policy=kv', 'router.parameters.omage=2')).toMatch(/omage.*it takes omega, tau/s);
    expect(await failing('router.policy=package:not-installed')).toContain("package 'not-installed' is not found");
  });
});
