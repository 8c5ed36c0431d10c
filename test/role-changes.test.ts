import { describe, expect, it } from 'vitest';
import { createProject, smallEngines, smallScenario } from './small-cluster.js';

// A planner that deals the roles of all engines anew, again and again, and leaves at least one of each on its way: requests wait or go elsewhere.

const project = createProject();
project.write('scenario.yaml', smallScenario);
project.write(
  'shuffle.ts',
  `import { definePlannerPolicy, engineStatus } from '@braess/control';
import { z } from 'zod';
export default definePlannerPolicy({ name: 'shuffle', description: 'Deals roles.', parameters: z.strictObject({}),
  createState: () => ({ meant: new Map<number, number>() }),
  timesNs: () => Array.from({ length: 40 }, (_, turn) => (turn + 1) * 5e8),
  plan({ engines, status }, actions, _parameters, { meant }, random) {
    const free: number[] = [];
    for (let engine = 0; engine < engines.count; engine++) {
      if (!meant.has(engine)) meant.set(engine, engines.role[engine]!);
      if (status[engine] === engineStatus.active) free.push(engine);
    }
    for (let tries = 0; tries < 50; tries++) {
      const dealt = new Map([...meant, ...free.map((engine) => [engine, random() < 0.5 ? 1 : 2] as const)]);
      if (new Set(dealt.values()).size < 2) continue;
      for (const engine of free) if (dealt.get(engine) !== engines.role[engine]) actions.changeRole(engine, dealt.get(engine)!);
      for (const [engine, role] of dealt) meant.set(engine, role);
      return;
    }
  } });
`,
);
const settings = [
  'planner={ policy: ./shuffle.ts, switchSeconds: 0.2 }',
  'workload.requests=300',
  'workload.source.arrivals={ kind: poisson, ratePerSecond: 20 }',
  'workload.source.inputTokens={ kind: lognormal, meanTokens: 3000, sigma: 1, maxTokens: 20000 }',
  'workload.source.outputTokens={ kind: exponential, meanTokens: 80, maxTokens: 500 }',
  'untilSeconds=300',
].map((setting) => setting.replace('./shuffle.ts', project.path('shuffle.ts')));

describe('changes of role', () => {
  it.each([
    ['one frontend, one attempt a request', ['router.maxAttempts=1']],
    ['two frontends that hold each other’s engines', ['router.frontends=2', 'planner.switchSeconds=0.001', 'seed=3']],
    [
      'two frontends, prompts that wait for the memory of held KV',
      [
        'router.frontends=2',
        'serving=[{ count: 2, role: prefill, blockTokens: 64, kvBlocks: 900 }, { count: 3, role: decode, blockTokens: 64, kvBlocks: 900 }]',
      ],
    ],
    [
      'prompts that wait for the slots of held KV',
      [
        'router.frontends=2',
        'serving=[{ count: 2, role: prefill, blockTokens: 64, holdsSlots: true, maxSequences: 4 }, { count: 3, role: decode, blockTokens: 64 }]',
      ],
    ],
    ['decodes assigned together', ['router.decode={ policy: netkv-joint }', 'router.oracle={ policy: static-tier }']],
    ['KV sent layer by layer', ['cluster.fabric.overlap=layers', 'router.frontends=2']],
  ])('lose and reject no request: %s', async (_name, more) => {
    const { summary, query } = await project.run('scenario.yaml', [...settings, ...more]);
    expect(summary).toMatchObject({ submitted: 300, completed: 300, rejected: 0, failed: 0, inFlight: 0, faults: [] });
    const [orders] = await query("select count(*) as n from decisions where kind = 'plan'");
    expect(Number(orders!.n)).toBeGreaterThan(10);
  });
});

describe('a decode engine that takes one request at a time', () => {
  it.each([1, 2, 3])(
    'is not waited for by KV behind one that it refused, on engines that wait to be rid of both (seed %i)',
    async (seed) => {
      const [first, second, third] = smallEngines;
      const changes = JSON.stringify([
        { atMs: 500, engine: second, role: 'prefill' },
        { atMs: 500, engine: third, role: 'prefill' },
        { atMs: 2500, engine: first },
        { atMs: 4000, engine: first, role: 'decode', start: true },
        // Both hold KV that only the first can take; who was refused there waits for the third, which waits for just that.
        { atMs: 4800, engine: third, role: 'decode' },
        { atMs: 5500, engine: second },
      ]);
      const { summary } = await project.run('scenario.yaml', [
        'serving=[{ count: 1, role: prefill, kvBlocks: 80, maxWaiting: 1 }, { count: 2, role: decode, kvBlocks: 80 }]',
        `planner={ policy: schedule, switchSeconds: 0.5, startSeconds: 1, parameters: { changes: ${changes} } }`,
        'router.policy=least-loaded',
        'workload.requests=120',
        'workload.source.arrivals={ kind: poisson, ratePerSecond: 20 }',
        'workload.source.inputTokens={ kind: lognormal, meanTokens: 500, sigma: 0.8, maxTokens: 1200 }',
        `seed=${seed}`,
      ]);
      expect(summary).toMatchObject({ submitted: 120, inFlight: 0, faults: [] });
      expect(summary.completed).toBeGreaterThan(5);
    },
  );
});

describe('KV tiers', () => {
  it('are below engines that a planner turns to prefill, too, and hold what others computed', async () => {
    const changes = JSON.stringify([
      { atMs: 3000, engine: smallEngines[2], role: 'prefill' },
      { atMs: 3000, engine: smallEngines[0], role: 'decode' },
      { atMs: 3000, engine: smallEngines[1], role: 'decode' },
    ]);
    const { summary, query } = await project.runOnShards('scenario.yaml', [
      'workload.source.arrivals.ratePerSecond=4',
      'workload.source.prefix={ groups: 2, popularity: { kind: uniform }, prefixTokens: { kind: constant, tokens: 4096 } }',
      'kvTiers={ g2: { gigabytes: 50 } }',
      // Or HBM would have them from decoding.
      'serving[1].cacheBlocks=0',
      `planner={ policy: schedule, switchSeconds: 0.2, parameters: { changes: ${changes} } }`,
    ]);
    expect(summary).toMatchObject({ completed: 60, faults: [] });
    const rows = await query('select prefill_worker as engine, count(*) as n, max(cached_tokens_g2) as g2 from requests group by all');
    const turned = rows.find(({ engine }) => engine === smallEngines[2])!;
    expect(Number(turned.n)).toBeGreaterThan(10);
    // A whole prefix came from the server's DRAM.
    expect(Number(turned.g2)).toBeGreaterThanOrEqual(4096);
  });
});
