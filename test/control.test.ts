import { describe, expect, it } from 'vitest';
import { createProject, smallScenario } from './small-cluster.js';

// Controllers and client policies through a scenario, on one and on two shards with one fingerprint.

const project = createProject();
project.write('scenario.yaml', smallScenario);
// One engine that does both, overloaded from the beginning: TTFT only grows.
const overload = [
  'serving=[{ count: 2, role: aggregated, blockTokens: 64, maxSequences: 4 }]',
  'workload.source.outputTokens.tokens=400',
  'router.policy=kv',
  'controller.periodSeconds=1',
  'workload.requests=200',
  'telemetry.decisionsEvery=1',
];
const controlSql = "select time_s, candidate, note from decisions where kind = 'control' order by time_s";

describe('a controller in a scenario', () => {
  it('moves the clients to the frontend with the parameters of the regime, and only new requests go there', async () => {
    const settings = [
      ...overload,
      'controller.policy=adaptive',
      'controller.parameters={ thresholds: [500, 5000], weight: 1, samplesInARow: 1 }',
      'router.frontends=3',
      'router.frontendParameters=[{ tau: 0, omega: 1 }, { tau: 0.7, omega: 1 }, { tau: 0.8, omega: 0.1 }]',
    ];
    const { summary, query } = await project.runOnShards('scenario.yaml', settings);
    expect(summary).toMatchObject({ submitted: 200, completed: 200, faults: [] });
    const moves = await query(controlSql);
    expect(moves).toMatchObject([
      { candidate: 'control/frontend1', note: 'move clients to tau 0.7, omega 1' },
      { candidate: 'control/frontend2', note: 'move clients to tau 0.8, omega 0.1' },
    ]);
    const [first, second] = moves.map(({ time_s }) => time_s as number) as [number, number];
    const placed = await query('select actor, time_s from decisions where chosen and request_id is not null');
    expect(placed).toHaveLength(200);
    for (const { actor, time_s } of placed) {
      // What the client sent less than a delay before the move came is placed by the old one, 0.2 ms later at most.
      const at = (time_s as number) - 0.0005;
      const expected = at < first ? 0 : at < second ? 1 : 2;
      expect(actor).toBe(`control/frontend${expected}`);
    }
    const scraped = await query("select count(*) as n, max(value) as worst from series where metric = 'scraped_ttft_p99'");
    const worst = (await query('select max(ttft_ms) / 1000 as worst from requests'))[0]!.worst as number;
    // Buckets are a 32nd wide.
    expect(scraped[0]!.worst as number).toBeLessThan(worst * (1 + 1 / 32));
    expect(scraped[0]!.worst as number).toBeGreaterThan(worst * 0.9);
  });

  it('sets parameters on all frontends instead, and a controller from a file decides', async () => {
    project.write(
      'late.ts',
      `import { defineControllerPolicy } from '@braess/control';
import { z } from 'zod';
export default defineControllerPolicy({
  name: 'late',
  description: 'Sets the temperature once, at the third scrape.',
  parameters: z.strictObject({ tau: z.number() }),
  createState: () => ({ scrapes: 0 }),
  decide: (_view, { tau }, state) => (++state.scrapes === 3 ? { tau } : null),
});
`,
    );
    const settings = (tau: number): string[] => [
      ...overload,
      `controller.policy=${project.path('late.ts')}`,
      `controller.parameters.tau=${tau}`,
    ];
    const cold = await project.run('scenario.yaml', settings(0));
    const warm = await project.runOnShards('scenario.yaml', settings(5));
    expect(await warm.query(controlSql)).toMatchObject([{ time_s: 3.001, candidate: null, note: 'set tau 5' }]);
    // Only what is placed after the third scrape can differ.
    const places = 'select request_id, decode_worker, arrival_s from requests order by request_id';
    const [before, after] = [await cold.query(places), await warm.query(places)];
    const differs = before.filter((row, index) => row.decode_worker !== after[index]!.decode_worker);
    expect(differs.length).toBeGreaterThan(0);
    expect(Math.min(...differs.map((row) => row.arrival_s as number))).toBeGreaterThan(3);
    const bad = project.run('scenario.yaml', [...overload, 'controller.policy=adaptive', 'controller.parameters={ thresholds: [2, 1] }']);
    await expect(bad).rejects.toThrow(/controller\.parameters\.thresholds.*thresholds must rise/);
    const wrong = project.run('scenario.yaml', [...overload, 'controller.policy=adaptive', 'router.frontendParameters=[{ gamma: 1 }]']);
    await expect(wrong).rejects.toThrow(/router\.frontendParameters\[0\].*gamma/);
  });

  it('is told the live PoA-hat where there is an actor that measures it', async () => {
    project.write(
      'listener.ts',
      `import { defineControllerPolicy } from '@braess/control';
import { z } from 'zod';
export default defineControllerPolicy({
  name: 'listener',
  description: 'Sets what it hears.',
  parameters: z.strictObject({}),
  decide: ({ metrics }) => (metrics.has('poa_hat') ? { tau: metrics.get('poa_hat') } : null),
});
`,
    );
    const { query } = await project.runOnShards('scenario.yaml', [
      ...overload,
      `controller.policy=${project.path('listener.ts')}`,
      'telemetry.poa={ slopeSeconds: 0.1 }',
    ]);
    const heard = (await query(controlSql)).map(({ note }) => Number(String(note).replace('set tau ', '')));
    const live = (await query("select value from series where metric = 'poa_live'")).map(({ value }) => value as number);
    expect(heard.length).toBeGreaterThan(3);
    for (const value of heard) expect(live).toContain(value);
  });

  it('sees the wait for a connection in the client signal only', async () => {
    const settings = (signal: string): string[] => [
      'router.policy=kv',
      'controller.policy=adaptive',
      'controller.periodSeconds=1',
      `controller.signal=${signal}`,
      'workload.client={ kind: closed-loop, inFlight: 60 }',
      'workload.connections={ connections: 5 }',
    ];
    const worst = async (signal: string): Promise<number> => {
      const { query } = await project.runOnShards('scenario.yaml', settings(signal));
      return (await query("select max(value) as worst from series where metric = 'scraped_ttft_p99'"))[0]!.worst as number;
    };
    const { query } = await project.run('scenario.yaml', settings('server'));
    const slowest = (await query('select max(ttft_ms) / 1000 as slowest from requests'))[0]!.slowest as number;
    expect(await worst('client')).toBeGreaterThan(0.9 * slowest);
    expect(await worst('server')).toBeLessThan(0.3 * slowest);
  });
});

describe('a client policy in a scenario', () => {
  it('decides when requests are sent, and those it leaves out are no fault', async () => {
    project.write(
      'pairs.ts',
      `import { defineClientPolicy } from '@braess/control';
import { z } from 'zod';
export default defineClientPolicy({
  name: 'pairs',
  description: 'Two requests at once, a pause after each, and only the even ones.',
  parameters: z.strictObject({ pauseMs: z.number() }),
  createState: () => ({ next: 0 }),
  start(view, actions, _parameters, state) {
    actions.submit(state.next, 0);
    actions.submit(state.next + 2, 0);
    state.next += 4;
  },
  settled(view, _request, _outcome, actions, { pauseMs }, state) {
    if (state.next >= view.requests) return;
    actions.submit(state.next, pauseMs * 1e6);
    state.next += 2;
  },
});
`,
    );
    const client = (file: string): string[] => [
      `workload.client={ kind: policy, policy: ${project.path(file)}, parameters: { pauseMs: 50 } }`,
    ];
    const { summary, query } = await project.runOnShards('scenario.yaml', client('pairs.ts'));
    const warnings = ['30 of the 60 requests of the workload were never sent'];
    expect(summary).toMatchObject({ submitted: 30, completed: 30, faults: [], warnings });
    const rows = await query('select request_id, arrival_ns, end_ns from requests order by arrival_ns, request_id');
    expect(rows.every((row) => (row.request_id as number) % 2 === 0)).toBe(true);
    // Never more than two at a time, and each but the first two begins 50 ms after an end (the answer takes 0.1 ms).
    for (const [index, row] of rows.entries()) {
      const open = rows.filter((other) => other.arrival_ns! <= row.arrival_ns! && other.end_ns! > row.arrival_ns!).length;
      expect(open).toBeLessThanOrEqual(2);
      if (index > 1) expect(rows.some((other) => Math.abs(Number(row.arrival_ns) - Number(other.end_ns) - 50e6) < 1e6)).toBe(true);
    }
    project.write(
      'twice.ts',
      "import { defineClientPolicy } from '@braess/control';\nimport { z } from 'zod';\nexport default defineClientPolicy({ name: 'twice', description: 'Sends one request twice.', parameters: z.strictObject({ pauseMs: z.number() }), start(_view, actions) { actions.submit(3, 0); actions.submit(3, 5); } });\n",
    );
    await expect(project.run('scenario.yaml', client('twice.ts'))).rejects.toThrow(/twice.*asked to start.*sent request 3 a second time/);
  });
});
