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
  `planner={ policy: ${policy}, switchSeconds: 0.5, parameters: ${parameters} }`,
];

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
      const splits = await query(
        `select time_ns, max(value) filter (where metric = 'prefill_engines') as prefill, max(value) filter (where metric = 'decode_engines') as decode,
        max(value) filter (where metric = 'moving_engines') as moving
      from (select time_ns, metric, arg_max(value, rowid) as value from (select *, row_number() over () as rowid from series) group by all) group by time_ns having prefill is not null order by time_ns`,
      );
      expect(splits.length).toBeGreaterThan(2);
      for (const { prefill, decode, moving } of splits as { prefill: number; decode: number; moving: number }[]) {
        expect(prefill + decode + moving).toBe(smallEngines.length);
        expect(Math.min(prefill, decode)).toBeGreaterThanOrEqual(1);
      }
    },
  );
});
