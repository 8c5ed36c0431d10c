import { clusterProgram, loadWorkload, type PoaState, planCluster, readScenario } from '@braess/cluster';
import type { FrontendState } from '@braess/control';
import { modelOf, Simulation } from '@braess/kernel';
import { describe, expect, it } from 'vitest';
import { createProject, smallEngines, smallScenario } from './small-cluster.js';

// Planners that move engines while requests are in flight: nothing is lost, and the engines are always the same number.

const project = createProject();
project.write('scenario.yaml', smallScenario);

/** Long prompts, then long answers, then long prompts: the thresholds are passed both ways. */
const restless = (policy: string, parameters: string): string[] => [
  'workload.requests=400',
  'workload.source.arrivals={ kind: diurnal, meanRatePerSecond: 8, amplitude: 0.9, periodS: 20, peakS: 5 }',
  'workload.source.inputTokens={ kind: lognormal, meanTokens: 6000, sigma: 1, maxTokens: 30000 }',
  'workload.source.outputTokens={ kind: exponential, meanTokens: 300, maxTokens: 1000 }',
  'serving=[{ count: 2, role: prefill, blockTokens: 64, kvBlocks: 1200 }, { count: 3, role: decode, blockTokens: 64, kvBlocks: 1200 }]',
  'router.loadReportMs=100',
  `planner={ policy: ${policy}, switchSeconds: 0.5, startSeconds: 2, parameters: ${parameters} }`,
];

const splitQuery = `select time_ns, max(value) filter (where metric = 'prefill_engines') as prefill, max(value) filter (where metric = 'decode_engines') as decode,
        max(value) filter (where metric = 'moving_engines') as moving, max(value) filter (where metric = 'off_engines') as off
      from (select time_ns, metric, arg_max(value, rowid) as value from (select *, row_number() over () as rowid from series) group by all) group by time_ns having prefill is not null order by time_ns`;

interface Split {
  readonly time_ns: number;
  readonly prefill: number;
  readonly decode: number;
  readonly moving: number;
  readonly off: number;
}

describe('a planner that takes the last decode engine away', () => {
  const planner = (name: string, order: string): string =>
    project.write(
      `${name}.ts`,
      `import { definePlannerPolicy } from '@braess/control';
import { z } from 'zod';
export default definePlannerPolicy({ name: '${name}', description: 'Orders the same of every engine.', parameters: z.strictObject({}),
  periodNs: () => 5e8, plan({ engines }, actions) { for (let engine = 0; engine < engines.count; engine++) ${order}; } });
`,
    );
  // Prompts are under way to decode when it goes: engines that drain hold their KV, and must not be waited for.
  const settings = ['workload.requests=100', 'workload.source.inputTokens.maxTokens=4000', 'router.loadReportMs=100', 'untilSeconds=60'];

  it('starts over at aggregated engines what has no decode engine any more', async () => {
    const { summary, query } = await project.runOnShards('scenario.yaml', [
      ...settings,
      `planner.policy=${planner('together', 'actions.changeRole(engine, 0)')}`,
    ]);
    expect(summary).toMatchObject({ submitted: 100, completed: 100, stopped: false, faults: [] });
    // Some were prefilled when the first order came at 0.5 s.
    expect(Number((await query('select count(*) as n from requests where attempts > 1'))[0]!.n)).toBeGreaterThan(0);
  });

  it.each([
    ['all-off', 'actions.stopEngine(engine)'],
    ['no-decode', 'actions.changeRole(engine, 1)'],
  ])('%s: rejects what nobody will serve, and the run ends', async (name, order) => {
    const { summary } = await project.runOnShards('scenario.yaml', [...settings, `planner.policy=${planner(name, order)}`]);
    expect(summary).toMatchObject({ submitted: 100, inFlight: 0, stopped: false, faults: [] });
    expect(summary.lostReasons).toEqual({ no_worker: summary.rejected });
    expect(summary.completed + summary.rejected).toBe(100);
    expect(summary.gpuHours.used + summary.gpuHours.givenBack).toBeCloseTo((smallEngines.length * summary.simulatedSeconds) / 3600, 9);
  });
});

describe('faults while engines change their roles', () => {
  const turner = project.write(
    'turner-in-trouble.ts',
    `import { definePlannerPolicy } from '@braess/control';
import { z } from 'zod';
export default definePlannerPolicy({ name: 'turner-in-trouble', description: 'Turns an engine each way.', parameters: z.strictObject({}),
  timesNs: () => [5e8, 1e9], plan({ nowNs }, actions) { if (nowNs < 1e9) actions.changeRole(0, 2); else actions.changeRole(2, 1); } });
`,
  );
  const gpu = (index: number, atSeconds: number, factor: number): string =>
    `{ kind: gpu-speed, atSeconds: ${atSeconds}, gpu: pod0/rack0/node0/gpu${index}, factor: ${factor} }`;

  it.each([
    ['one dies while it drains', [gpu(0, 0.501, 0)]],
    ['one dies while it switches and comes back', [gpu(0, 0.7, 0), gpu(0, 1.5, 1)]],
    ['a decode engine dies on its way to prefill', [gpu(2, 1.001, 0), gpu(2, 2, 1)]],
    ['one is slow', [gpu(0, 0.4, 0.1)]],
    ['nobody is told', ['{ kind: telemetry-loss, atSeconds: 0.4, actor: control/frontend0, lost: true }']],
  ])('%s: every request has one end, and the GPU-hours add up', async (_name, faults) => {
    const settings = ['workload.source.arrivals.ratePerSecond=60', 'workload.requests=150', `faults=[${faults.join(', ')}]`];
    const { summary } = await project.runOnShards('scenario.yaml', [...settings, `planner={ policy: ${turner}, switchSeconds: 0.5 }`]);
    const { submitted, completed, rejected, failed, inFlight, gpuHours, simulatedSeconds } = summary;
    expect({ submitted, inFlight, ended: completed + rejected + failed }).toEqual({ submitted: 150, inFlight: 0, ended: 150 });
    expect(summary.faults).toEqual([]);
    expect(gpuHours.used + gpuHours.givenBack).toBeCloseTo((smallEngines.length * simulatedSeconds) / 3600, 9);
  });
});

describe('two frontends', () => {
  const parity = project.write(
    'parity.ts',
    `import { defineRouterPolicy, routerStage } from '@braess/control';
import { z } from 'zod';
export default defineRouterPolicy({ name: 'parity', description: 'Even requests to engine 0, odd ones to engine 1.', parameters: z.strictObject({}),
  cost: (view, engine, request) => view.stage === routerStage.decode ? engine : Math.abs(engine - request.request % 2) });
`,
  );
  const turnAll = (name: string, role: number): string =>
    project.write(
      `${name}.ts`,
      `import { definePlannerPolicy } from '@braess/control';
import { z } from 'zod';
export default definePlannerPolicy({ name: '${name}', description: 'Stops decode, turns prefill.', parameters: z.strictObject({}),
  timesNs: () => [6e7], plan({ engines }, actions) { for (let engine = 0; engine < engines.count; engine++) if (engine < 2) ${role < 0 ? 'actions.stopEngine(engine)' : `actions.changeRole(engine, ${role})`}; else actions.stopEngine(engine); } });
`,
    );
  const settings = [
    'workload.requests=2',
    'workload.source.arrivals.ratePerSecond=100',
    'workload.source.inputTokens={ kind: constant, tokens: 30000 }',
    'router.frontends=2',
    `router.policy=${parity}`,
  ];

  it('whose KV lies on two engines that drain do not wait for each other: the lower engine is let go and serves the other', async () => {
    const { summary } = await project.runOnShards('scenario.yaml', [...settings, `planner.policy=${turnAll('to-decode', 2)}`]);
    expect(summary).toMatchObject({ submitted: 2, completed: 1, rejected: 1, inFlight: 0, lostReasons: { no_worker: 1 }, faults: [] });
  });

  it('lose both requests where the engines that drain come back as something else', async () => {
    const { summary } = await project.runOnShards('scenario.yaml', [...settings, `planner.policy=${turnAll('to-nothing', -1)}`]);
    expect(summary).toMatchObject({ submitted: 2, completed: 0, rejected: 2, inFlight: 0, lostReasons: { no_worker: 2 }, faults: [] });
  });
});

describe('the price-of-anarchy actor under a planner', () => {
  const turner = project.write(
    'turner.ts',
    `import { definePlannerPolicy } from '@braess/control';
import { z } from 'zod';
export default definePlannerPolicy({ name: 'turner', description: 'Turns engine 0 from prefill to decode, and engine 2 the other way.', parameters: z.strictObject({}),
  timesNs: () => [5e8, 1e9], plan({ nowNs }, actions) { if (nowNs < 1e9) actions.changeRole(0, 2); else actions.changeRole(2, 1); } });
`,
  );
  const settings = [`planner={ policy: ${turner}, switchSeconds: 0.2 }`, 'telemetry.poa={ slopeSeconds: 0.01, everySeconds: 0.5 }'];

  it('has the workers that the frontend has, before and after engines turned', async () => {
    const read = readScenario(project.path('scenario.yaml'), settings);
    const { table } = await loadWorkload(read);
    const run = new Simulation(modelOf(clusterProgram, { plan: planCluster(read), table, seriesNs: 0, alone: true }), { seed: '1' });
    const workersAt = (seconds: number): number[][] => {
      run.runUntil(seconds * 1e9);
      const { decodes } = run.stateOf('control/poa') as PoaState;
      const { decodeCandidates, decodeCount } = run.stateOf('control/frontend0') as FrontendState;
      return [[...decodes].flatMap((takes, engine) => (takes === 1 ? [engine] : [])), [...decodeCandidates.slice(0, decodeCount)]];
    };
    expect(workersAt(0.4)).toEqual([
      [2, 3, 4],
      [2, 3, 4],
    ]);
    expect(workersAt(2.8)).toEqual([
      [0, 3, 4],
      [0, 3, 4],
    ]);
  });

  it('counts them the same on one and on two shards, also those that came later', async () => {
    const { summary, query } = await project.runOnShards('scenario.yaml', settings);
    expect(summary).toMatchObject({ completed: 60, faults: [] });
    expect((await query("select value from series where metric = 'poa_hat'")).length).toBeGreaterThan(0);
  });
});

describe('planners', () => {
  it.each([
    ['load', '{ intervalSeconds: 1, contextTokens: 4096 }'],
    ['social', '{ intervalSeconds: 1, ttftMs: 500, itlMs: 20 }'],
  ])(
    '%s: loses no request in a change of role, keeps the number of engines at every instant and one of each role',
    async (policy, parameters) => {
      const { summary, query } = await project.runOnShards('scenario.yaml', restless(policy, parameters));
      expect(summary).toMatchObject({ submitted: 400, completed: 400, faults: [] });
      const orders = await query("select count(*) as n, count(distinct note) as ways from decisions where kind = 'plan'");
      expect(Number(orders[0]!.n)).toBeGreaterThan(1);
      const splits = await query(splitQuery);
      expect(splits.length).toBeGreaterThan(2);
      for (const { prefill, decode, moving, off } of splits as unknown as Split[]) {
        expect(prefill + decode + moving + off).toBe(smallEngines.length);
        expect(Math.min(prefill, decode)).toBeGreaterThanOrEqual(1);
      }
    },
  );

  it.each([
    ['load', '{ intervalSeconds: 1, contextTokens: 16384, prefillDown: 0.5, decodeUp: 0.6, decodeDown: 0.3 }', project.run],
    ['sla', '{ intervalSeconds: 1, ttftMs: 3000, itlMs: 40 }', project.runOnShards],
  ])('%s: gives engines back and starts them again; loses no request, and the GPU-hours add up', async (policy, parameters, run) => {
    const { summary, query } = await run('scenario.yaml', restless(policy, parameters));
    expect(summary).toMatchObject({ submitted: 400, completed: 400, faults: [] });
    const notes = (await query("select distinct note from decisions where kind = 'plan'")).map(({ note }) => String(note).split(' ')[0]);
    expect(notes).toEqual(expect.arrayContaining(['stop', 'start']));
    const splits = (await query(splitQuery)) as unknown as Split[];
    const endNs = summary.simulatedSeconds * 1e9;
    let offNs = 0;
    for (const [index, { time_ns, prefill, decode, moving, off }] of splits.entries()) {
      expect(prefill + decode + moving + off).toBe(smallEngines.length);
      expect(Math.min(prefill, decode)).toBeGreaterThanOrEqual(1);
      offNs += off * Math.max(0, Math.min(endNs, Number(splits[index + 1]?.time_ns ?? endNs)) - Number(time_ns));
    }
    // Engines of one GPU each.
    expect(summary.gpuHours.givenBack).toBeGreaterThan(0);
    expect(summary.gpuHours.givenBack).toBeCloseTo(offNs / 3600e9, 9);
    expect(summary.gpuHours.used + summary.gpuHours.givenBack).toBeCloseTo((smallEngines.length * endNs) / 3600e9, 9);
  });
});
