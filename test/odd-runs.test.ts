import { clusterProgram, loadWorkload, parseScenario, planCluster, readScenario, validateScenario, whoWaits } from '@braess/cluster';
import { modelOf, Simulation } from '@braess/kernel';
import { measureScenario } from '@braess/lab';
import { describe, expect, it } from 'vitest';
import { createProject, smallEngines, smallScenario } from './small-cluster.js';

const project = createProject();
project.write('small.yaml', smallScenario);
const trace = (rows: readonly string[]): string => `arrival_s,input_tokens,output_tokens\n${rows.join('\n')}\n`;
const fromTrace = (file: string, more = ''): string => `workload.source={kind: trace, file: ${project.path(file)}${more}}`;

describe('what is lost, left out or cut is told with the run', () => {
  it('an end before the last request of a trace is no fault, though nothing is in flight then', async () => {
    project.write('long.csv', trace(['0,100,5', '1,100,5', '900,100,5']));
    const { summary } = await project.run('small.yaml', [fromTrace('long.csv'), 'workload.requests=null', 'untilSeconds=60']);
    expect(summary).toMatchObject({ submitted: 2, completed: 2, inFlight: 0, faults: [] });
  });

  it('rows left out, spread arrivals and outputs beyond the model length, by `run` as by `validate`', async () => {
    project.write('bad.csv', trace(['0,100,5', '1,x,5', '2,130000,5000']));
    const settings = [fromTrace('bad.csv', ', badRows: count'), 'workload.requests=null'];
    await expect(project.run('small.yaml', [fromTrace('bad.csv'), 'workload.requests=null'])).rejects.toThrow(
      /bad\.csv:3: input_tokens: found "x", .*; correct the row, or count such rows and leave them out \(badRows: count\)$/,
    );
    const { summary, query } = await project.run('small.yaml', settings);
    expect(summary.warnings).toEqual([
      expect.stringMatching(/^1 rows of the trace are left out: .*bad\.csv:3: input_tokens: found "x"/),
      expect.stringMatching(/^1 of 2 requests ask for more output than the model length leaves: .* 131072 tokens/),
    ]);
    expect(await query('select output_tokens as tokens from requests order by arrival_ns')).toEqual([
      { tokens: 5 },
      { tokens: 131_072 - 130_000 },
    ]);
    expect((await validateScenario(readScenario(project.path('small.yaml'), settings))).warnings).toEqual(
      expect.arrayContaining([...summary.warnings]),
    );
  });

  it('reasons are counted: KV that cannot come is no lost worker, and a full queue of the client none of the router', async () => {
    const cut = [0, 1].map((nic) => `{kind: link-share, atSeconds: 0, from: pod0/rack0/node0/nic${nic}, to: pod0/rack0/leaf0, share: 0}`);
    const apart = ['cluster={serversPerRack: 2, gpusPerServer: 2}', 'serving[1].count=2'];
    const lost = await project.run('small.yaml', [...apart, `faults=[${cut.join(', ')}]`, 'workload.requests=6']);
    expect(lost.summary).toMatchObject({ completed: 0, failed: 6, lostReasons: { transfer_lost: 6 } });
    const full = await project.run('small.yaml', ['workload.connections={connections: 1, queueLimit: 0}']);
    expect(full.summary.lostReasons).toEqual({ client_queue_full: full.summary.rejected });
    expect(full.summary.rejected).toBeGreaterThan(0);
  });
});

describe('values that leave nothing to work with name their key', () => {
  it.each([
    [
      'telemetry.poa={slopeSeconds: 0.01, everySeconds: 1e-9}',
      /everySeconds is 1e-9; 1e-9 s must be at least a millionth of windowSeconds, 10 s/,
    ],
    [
      'telemetry.poa={slopeSeconds: 0.01, windowSeconds: 1e8}',
      /everySeconds is left to its default; 1 s must be at least a millionth of windowSeconds, 100000000 s/,
    ],
    ['telemetry.poa={slopeSeconds: 0.01, everySeconds: 1e9}', /telemetry\.poa\.everySeconds is 1000000000 s; at most/],
    ['kvTiers={g2: {gigabytes: 1e-9}}', /kvTiers\.g2\.gigabytes is 1e-9, less than one block of \d+ bytes/],
    [
      'kvTiers={g4: {gigabytes: 1.0e+9}}',
      /kvTiers\.g4\.gigabytes is 1000000000; a tier has at most 2147483647 blocks, of \d+ bytes \d+ GB/,
    ],
    [
      'workload.source.prefix={groups: 1000000, popularity: {kind: uniform}, prefixTokens: {kind: constant, tokens: 4096}}',
      /prefix\.prefixTokens of \d+ of 1000000 groups are \d+ blocks of 16 tokens; at most 67108864: take fewer groups or shorter prefixes/,
    ],
    [
      'workload.source.prefix={groups: 1, popularity: {kind: uniform}, prefixTokens: {kind: constant, tokens: 1000000000}}',
      /prefix\.prefixTokens is 1000000000 for group 0; at most 67108864, 4194304 blocks of 16/,
    ],
    ['kvTiers={g2: {gigabytes: 10, bytesPerSecond: 80}}', /kvTiers\.g2\.bytesPerSecond is 80; must be at least 1000000/],
    ['cluster.topology.bytesPerSecond.nic=50', /cluster\.topology\.bytesPerSecond\.nic is 50; must be at least 1000000/],
    [
      'cluster.topology.spinesPerPod=1.0e+9',
      /the topology would have about \d+ nodes; the limit is 1000000: take fewer pods, racks, servers or switches/,
    ],
    [
      'cluster.topology.uplinksPerLeaf=1.0e+9',
      /the topology would have 1000000000 cables between switches; the limit is 1000000: lower uplinksPerLeaf/,
    ],
  ])('%s', async (setting, message) => {
    await expect(project.run('small.yaml', [setting])).rejects.toThrow(message);
  });

  it.each([
    ...['load', 'sla', 'gnep', 'social'].map(
      (planner) =>
        [
          [`planner.policy=${planner}`, 'serving=[{count: 2, blockTokens: 64}]'],
          new RegExp(`planner\\.policy is "${planner}", which moves engines between prefill and decode, but all engines are aggregated`),
        ] as const,
    ),
    [
      ['controller={policy: adaptive, apply: move}', 'router={policy: kv, frontends: 2}'],
      /controller\.apply is move, but all frontends have the same/,
    ],
    [
      ['controller.policy=adaptive', 'router={policy: kv, frontends: 2, frontendParameters: [{tau: 0, omega: 1}, {tau: 0.7, omega: 1}]}'],
      /controller\.policy is "adaptive", which may choose .*"tau":0.8,"omega":0.1.*, but no frontend has them/,
    ],
    ...['adaptive', 'hysteresis', 'poa-driven', 'gradient'].map(
      (controller) =>
        [
          [`controller.policy=${controller}`, 'router.policy=round-robin'],
          new RegExp(`controller\\.policy is "${controller}", which may choose .*, which router "round-robin" does not take`),
        ] as const,
    ),
  ] as const)('%s is refused by `validate` as by `run`: it would do nothing, or stop the run', async (settings, message) => {
    await expect(project.run('small.yaml', settings)).rejects.toThrow(message);
    await expect(async () => validateScenario(readScenario(project.path('small.yaml'), settings))).rejects.toThrow(message);
  });

  it('a latency model of any size is taken', async () => {
    const { summary } = await project.run('small.yaml', ['telemetry.poa={slopeSeconds: 1e-12, interceptSeconds: 1e-10}']);
    expect(summary).toMatchObject({ completed: 60, faults: [] });
  });

  it('a planner that wants no time between its plans is told of 0 ns, its own number', async () => {
    const code = `import { definePlannerPolicy } from '@braess/control';
import { z } from 'zod';
export default definePlannerPolicy({ name: 'restless', description: 'Plans all the time.', parameters: z.strictObject({}), periodNs: () => 0, plan: () => undefined });
`;
    const file = project.write('restless.ts', code);
    await expect(project.run('small.yaml', [`planner.policy=${file}`])).rejects.toThrow(/every 0 ns; .* periods at least 1/);
  });
});

describe('a standstill', () => {
  it.each([
    ['of engines alone', []],
    ['that a controller goes on to scrape for an hour', ['router.policy=kv', 'controller={ policy: adaptive, periodSeconds: 60 }']],
  ])('%s: names the actor, the request and what it waits for', async (_name, settings) => {
    // Somebody takes a request away from its engine behind the back of its frontend.
    project.write(
      'thief.ts',
      `import { defineActorPolicy } from '@braess/control';
import { type ActorId, actorKind } from '@braess/kernel';
import { cancel } from '@braess/protocol';
import { z } from 'zod';
export default defineActorPolicy({
  name: 'thief',
  description: 'Cancels a request at its engines.',
  parameters: z.strictObject({ request: z.int(), atMs: z.number() }),
  build(cell, { request, atMs }, { actors }) {
    const engines = [...actors.keys()].filter((name) => name.includes('engine'));
    cell.actor('thief', actorKind({
      name: 'thief',
      messages: {},
      state: () => ({ ids: engines.map((name) => actors.get(name)!.id as ActorId<'cancel'>) }),
      start: (state, context) => { for (const id of state.ids) context.send(id, cancel, atMs * 1e6, request); },
      on: {},
    }), undefined);
  },
});`,
    );
    const { summary } = await project.run('small.yaml', [
      'actors=[{policy: ./thief.ts, parameters: {request: 3, atMs: 400}}]'.replace('./', `${project.folder}/`),
      ...settings,
    ]);
    expect(summary).toMatchObject({ submitted: 60, completed: 59, inFlight: 1, lost: 1 });
    expect(summary.faults).toEqual([
      'the run ended by itself with 1 requests in flight: they wait for ever',
      expect.stringMatching(
        /^control\/frontend0: request 3 waits for pod0\/rack0\/node0\/engine\d, which does not have it \((prefill|decode) engine, active\)$/,
      ),
    ]);
  });

  it('of a request that its router asks for again and again ends after an hour without anything else', async () => {
    project.write(
      'choosy.ts',
      `import { defineRouterPolicy, waitForRoom } from '@braess/control';
import { z } from 'zod';
export default defineRouterPolicy({
  name: 'choosy',
  description: 'Takes no decode engine for one request.',
  parameters: z.strictObject({}),
  waits: true,
  choose: (view, request) => (request.request === 59 ? waitForRoom : view.candidates[0]!),
});`,
    );
    const { summary } = await project.run('small.yaml', [`router.decode={policy: ${project.path('choosy.ts')}, retryMs: 5000}`]);
    expect(summary).toMatchObject({ submitted: 60, completed: 59, inFlight: 1, lost: 1 });
    expect(summary.faults).toEqual([
      'the run ended by itself with 1 requests in flight: they wait for ever',
      expect.stringMatching(
        /^control\/frontend0: request 59 waits in the router for a decode engine; pod0\/rack0\/node0\/engine\d holds its KV$/,
      ),
    ]);
  });

  it('of which no request knows is a fault as well: KV that an engine holds for nobody', async () => {
    project.write(
      'ghost.ts',
      `import { defineActorPolicy } from '@braess/control';
import { type ActorId, actorKind } from '@braess/kernel';
import { prefill, prefilled } from '@braess/protocol';
import { z } from 'zod';
export default defineActorPolicy({
  name: 'ghost',
  description: 'Has a prompt computed and never asks for it.',
  parameters: z.strictObject({ engine: z.string(), request: z.int() }),
  build(cell, { engine, request }, { actors }) {
    cell.actor('ghost', actorKind({
      name: 'ghost',
      messages: { prefilled },
      state: () => ({ id: actors.get(engine)!.id as ActorId<'prefill'> }),
      start: ({ id }, context) => context.sendBody(id, prefill, 400e6, undefined, request, 1000, 5, 0, 0),
      on: { prefilled: () => undefined },
    }), undefined);
  },
});`,
    );
    const [engine] = smallEngines;
    const ghost = `actors=[{policy: ${project.path('ghost.ts')}, parameters: {engine: ${engine}, request: 777}}]`;
    for (const shards of [1, 2]) {
      const { summary } = await project.run('small.yaml', [ghost], shards);
      expect(summary).toMatchObject({ submitted: 60, completed: 60, inFlight: 0, lost: 0, shards });
      expect(summary.faults).toEqual([`${engine}: request 777 is still here at the end (held)`]);
      // An end after the last event leaves out nothing; before it, what is still to come might settle it.
      expect((await project.run('small.yaml', [ghost, 'untilSeconds=60'], shards)).summary.faults).toEqual(summary.faults);
      expect((await project.run('small.yaml', [ghost, 'untilSeconds=0.5'], shards)).summary.faults).toEqual([]);
    }
    await expect(measureScenario({ file: project.path('small.yaml'), settings: [ghost] })).rejects.toThrow(/request 777 is still here/);
  });

  it('with tiers below is named, too: who looks a prompt up there, and who waits for KV from there', async () => {
    const settings = [
      'serving[0].count=1',
      'serving[0].kvBlocks=64',
      'kvTiers={g2: {gigabytes: 1, latencyUs: 3000}, g4: {gigabytes: 100, latencyUs: 3000}}',
      'workload.requests=40',
      'workload.source.arrivals.ratePerSecond=5',
      'workload.source.inputTokens={kind: constant, tokens: 100}',
      'workload.source.prefix={groups: 4, popularity: {kind: uniform}, prefixTokens: {kind: constant, tokens: 2048}}',
    ];
    const [prefill] = smallEngines as [string];
    const read = readScenario(project.path('small.yaml'), settings);
    const { table } = await loadWorkload(read);
    const model = modelOf(clusterProgram, { plan: planCluster(read), table, seriesNs: 0, alone: true });
    const run = new Simulation(model, { seed: '1' });
    const waiting = new Map<string, number>();
    // A request reaches its engine 0.6 ms after it was sent; the tier of the server answers at once, network storage
    // some microseconds later, and blocks move for milliseconds.
    const moments = [600, 602, 604, 606, 608, 610, 612, 614, 1000, 2000, 4000, 8000];
    for (let sent = 5; sent < 20; sent++)
      for (const us of moments) {
        run.runUntil(sent * 200e6 + us * 1e3);
        for (const sentence of whoWaits({ actorNames: model.actorNames, stateOf: (actor) => run.stateOf(actor) }))
          if (sentence.includes('KV tier'))
            waiting.set(sentence.replace(/request \d+/, 'request'), Number(/request (\d+)/.exec(sentence)?.[1]));
      }
    expect([...waiting.keys()].sort()).toEqual([
      `control/frontend0: request waits for ${prefill}, which looks its prompt up in a KV tier (1 have answered)`,
      `control/frontend0: request waits for ${prefill}, which waits for its KV from a KV tier`,
    ]);
    // One that is taken away while a tier moves its blocks waits for ever, is named, and holds nobody else up.
    const stolen = waiting.get(`control/frontend0: request waits for ${prefill}, which waits for its KV from a KV tier`) as number;
    const { summary } = await project.run('small.yaml', [
      ...settings,
      `actors=[{policy: ${project.folder}/thief.ts, parameters: {request: ${stolen}, atMs: ${200 * (stolen + 1) + 2}}}]`,
    ]);
    expect(summary).toMatchObject({ submitted: 40, completed: 39, inFlight: 1, lost: 1 });
    expect(summary.faults[1]).toBe(
      `control/frontend0: request ${stolen} waits for ${prefill}, which does not have it (prefill engine, active)`,
    );
  });

  it('tells waiting for blocks, for KV, for an engine and for a connection apart', async () => {
    const settings = [
      // 32 blocks of 64 tokens hold one prompt of 1,500 tokens and its output, not two.
      'serving[0].count=1',
      'serving[1].count=1',
      'serving[1].kvBlocks=32',
      'workload.requests=6',
      'workload.source.arrivals.ratePerSecond=1000',
      'workload.source.inputTokens={kind: constant, tokens: 1500}',
      'workload.connections={connections: 5}',
      'router.queue={maxEngineRequests: 3}',
    ];
    const read = readScenario(project.path('small.yaml'), settings);
    const { table } = await loadWorkload(read);
    const model = modelOf(clusterProgram, { plan: planCluster(read), table, seriesNs: 0, alone: true });
    const run = new Simulation(model, { seed: '1' });
    const [prefill, decode] = smallEngines as [string, string];
    const seen = new Set<string>();
    for (let ms = 5; ms < 200; ms += 0.2) {
      run.runUntil(Math.round(ms * 1e6));
      for (const sentence of whoWaits({ actorNames: model.actorNames, stateOf: (actor) => run.stateOf(actor) })) seen.add(sentence);
    }
    const said = [...seen];
    const expected = [
      `control/frontend0: request 0 waits for ${prefill}, which computes its prompt (prefill engine, active)`,
      `control/frontend0: request 3 waits in the router for an engine that takes its prompt`,
      `control/frontend0: request 0 waits for ${decode}, which waits for its KV from ${prefill}`,
      `control/frontend0: request 0 waits for ${decode}, which decodes it (decode engine, active)`,
      'clients/client0: request 5 waits for a connection',
    ];
    for (const sentence of expected) expect(said).toContain(sentence);
    // Request 0 has 24 of the 32 blocks while it decodes: the second prompt of 24 blocks has to wait.
    expect(
      said.some((sentence) =>
        /request 1 waits for .*engine1, where it waits for .* KV blocks \(8 of 32 are available, its prompt takes up to 24; decode engine, active\)/.test(
          sentence,
        ),
      ),
    ).toBe(true);
    run.runUntil();
    expect(whoWaits({ actorNames: model.actorNames, stateOf: (actor) => run.stateOf(actor) })).toEqual([]);
  });
});

describe('a run that --until ends in the middle', () => {
  it('accounts for every request, whatever it is at: on the way, computed, moved, decoded', async () => {
    // Two prompts of 8,000 tokens over one NIC of 10 GB/s, the second 50 ms after the first: 104.9 ms alone, shared from then on.
    const bytes = 8000 * 131_072;
    const linear = '{kind: linear, prefillMs: 10, prefillMsPerToken: 0, decodeMs: 10, decodeMsPerSequence: 0}';
    project.write('two.csv', 'arrival_s,input_tokens,output_tokens\n0,8000,5\n0.05,8000,5\n');
    project.write(
      'pipe.yaml',
      `name: pipe
model: { name: Llama-3.1-8B }
cluster: { gpusPerServer: 2, serversPerRack: 2, topology: { nicsPerServer: 1, bytesPerSecond: { nic: 10.0e+9 } } }
serving: [{ count: 2, role: prefill, timing: ${linear} }, { count: 2, role: decode, timing: ${linear} }]
router: { policy: round-robin }
workload: { source: { kind: trace, file: two.csv } }
`,
    );
    const { query } = await project.run('pipe.yaml');
    const rows = (await query('select transfer_start_ns as start, transfer_end_ns as last from requests order by request_id')) as {
      start: number;
      last: number;
    }[];
    const [first, second] = rows as [(typeof rows)[0], (typeof rows)[0]];
    expect(second.start - first.start).toBe(50e6);
    // Max-min shares as they come and go: each 2 S / C - d, and 50 us of notice.
    for (const { start, last } of rows) expect((last - start) / 1e6).toBeCloseTo((2 * bytes) / 10e6 - 50 + 0.05, 1);
    const middle = (first.start + first.last) / 2e9;
    for (const until of [0.00005, 0.0005, first.start / 1e9, middle, first.last / 1e9, (first.last + second.last) / 2e9, 0.25, 0.28, 10]) {
      const { summary } = await project.run('pipe.yaml', [`untilSeconds=${until}`]);
      const { submitted, completed, rejected, failed, inFlight, faults } = summary;
      expect({ until, sum: completed + rejected + failed + inFlight, faults }).toEqual({ until, sum: submitted, faults: [] });
      if (until === middle) expect([submitted, inFlight]).toEqual([2, 2]);
      if (until === 10) expect([submitted, completed]).toEqual([2, 2]);
    }
  });
});

describe('a client that does not go by arrival times', () => {
  const sessions = `workload.source={kind: sessions, sessionArrivals: {kind: constant, ratePerSecond: 20}, turns: {kind: constant, tokens: 4}, firstTokens: {kind: constant, tokens: 200},
    turnTokens: {kind: constant, tokens: 100}, outputTokens: {kind: constant, tokens: 20}, meanThinkS: 1, maxInputTokens: 5000}`;
  it.each([
    ['workers', ['workload.client={kind: closed-loop, inFlight: 8}']],
    ['a backlog', ['workload.client={kind: closed-loop, style: semaphore, backlog: true, inFlight: 8}']],
    ['turns after a think time', [sessions, 'workload.sessions={next: think, meanThinkMs: 50}']],
  ])('sends the same requests where the run is cut before most of them arrive: %s', async (_name, settings) => {
    const whole = await project.run('small.yaml', settings);
    const [row] = await whole.query('select count(*) as sent from requests where arrival_ns < 600000000');
    const { summary } = await project.run('small.yaml', [...settings, 'untilSeconds=0.6']);
    expect(summary).toMatchObject({ submitted: row!.sent, faults: [], warnings: [] });
    expect(summary.submitted).toBeGreaterThan(0.6 * 20); // Those that arrive by then.
  });

  it('needs the number of requests, and is told when they did not last', async () => {
    const workers = 'workload.client={kind: closed-loop, inFlight: 8}';
    const endless = parseScenario(smallScenario, 'small.yaml', [workers, 'workload.requests=null', 'untilSeconds=9']);
    await expect(loadWorkload(endless)).rejects.toThrow(/does not go by arrival times.*give workload\.requests/);
    const { summary } = await project.run('small.yaml', [workers, 'untilSeconds=900']);
    expect(summary.warnings).toEqual([expect.stringMatching(/^the closed loop had sent all 60 requests .* before its end at 900 s/)]);
  });
});

describe('times that simulated time cannot hold', () => {
  it.each([
    ['delays.controlUs=0.0001', /delays\.controlUs is 0\.0001 us, less than 1 ns/],
    ['untilSeconds=1e9', /untilSeconds is 1000000000 s; at most 4503599 s/],
    ['faults=[{kind: gpu-speed, atSeconds: 1e12, gpu: pod0/rack0/node0/gpu0, factor: 0}]', /faults\[0\]\.atSeconds is 1000000000000 s/],
    [
      'faults=[{kind: gpu-speed, atSeconds: 1, gpu: pod0/rack0/node0/gpu0, factor: 1e-9}]',
      /factor is 1e-9; must be 0 \(dead, out\) or at least/,
    ],
    ['telemetry.seriesSeconds=1e-6', /seriesSeconds is 0\.000001; must be 0 \(none\) or at least 0\.001/],
  ])('%s is refused by its place', (setting, message) => {
    expect(() => parseScenario(smallScenario, 'small.yaml', [setting])).toThrow(message);
  });

  it.each([
    ['workload.source.arrivals.ratePerSecond=1e-9', /workload has its last request at .* at most 4503599 s/],
    ['untilSeconds=0.000001', /workload has no requests: none comes within the 0\.000001 s of untilSeconds/],
  ])('%s, too', async (setting, message) => {
    await expect(
      loadWorkload(parseScenario(smallScenario, 'small.yaml', [setting, 'workload.source.arrivals.kind=poisson'])),
    ).rejects.toThrow(message);
  });
});

describe('an eviction policy whose state cannot be kept', () => {
  it('stops the run before it begins, with its file and what is no plain data', async () => {
    const file = project.write(
      'kept.ts',
      `import { defineEvictionPolicy } from '@braess/control';
import { z } from 'zod';
const idle = () => undefined;
const functions = { reserve: idle, stored: idle, acquired: idle, released: idle, removed: idle, victim: () => -1 };
const create = () => ({ name: 'kept', parameters: {}, createState: () => ({ idle }), ...functions });
export default defineEvictionPolicy({ name: 'kept', description: 'Keeps a function.', parameters: z.strictObject({}), create });
`,
    );
    await expect(project.run('small.yaml', [`serving[0].eviction=${file}`])).rejects.toThrow(
      `(${file}), asked for its state, threw KernelError: the state.idle holds a function`,
    );
  });
});
