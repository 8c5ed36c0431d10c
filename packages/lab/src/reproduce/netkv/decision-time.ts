import { performance } from 'node:perf_hooks';
import { chooseEngine, createRouterView, loadPolicy, type RouterView, routerStage } from '@braess/control';

/** Decisions that warm the code up, and those of a measurement. */
const warmDecisions = 2000;
const timedDecisions = 2000;

/** Mean wall time of one decision of a built-in decode router over so many candidates, ms; once a repetition. */
export function decisionTimesMs(policy: string, candidates: number, repetitions: number): number[] {
  const bound = loadPolicy('router', { policy, parameters: {} }, { baseDirectory: '.' });
  const view = busyView(candidates);
  const request = { request: 1, inputTokens: 7800, outputTokens: 512, tenant: 0, priority: 0, attempt: 1, ageNs: 0 };
  const state = bound.policy.createState?.(bound.parameters, candidates);
  let seed = 1;
  // Only ties draw.
  const random = (): number => {
    seed = (Math.imul(seed, 48_271) >>> 0) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  const decide = (times: number): void => {
    for (let index = 0; index < times; index++) chooseEngine(bound, view, request, state, random);
  };
  decide(warmDecisions);
  return Array.from({ length: repetitions }, () => {
    const startedMs = performance.now();
    decide(timedDecisions);
    return (performance.now() - startedMs) / timedDecisions;
  });
}

/** Engines that all differ: four in the pod of the prefill engine, the others across pods. */
function busyView(count: number): RouterView {
  const column = (value: (engine: number) => number): Float64Array => Float64Array.from({ length: count }, (_, engine) => value(engine));
  const isNear = (engine: number): boolean => engine < 4;
  return createRouterView({
    stage: routerStage.decode,
    blockTokens: 512,
    prefillEngine: 0,
    transferBytes: 7800 * 327_680,
    engines: Array.from({ length: count }, (_, engine) => ({
      role: 2,
      activeRequests: (engine * 7) % 9,
      activeBlocks: (engine * 31) % 150,
      overlapBlocks: (engine * 5) % 6,
      maxSequences: 64,
      capacityBlocks: 268,
      passNs: [12.4e6],
    })),
    network: {
      tier: column((engine) => (isNear(engine) ? 2 : 3)),
      bytesPerSecond: column((engine) => (isNear(engine) ? 6.25e9 : 3.125e9)),
      latencyNs: column(() => 6000),
      transferNs: column(() => 8e8),
      congestion: column((engine) => (isNear(engine) ? 0.25 : 0.3)),
      pathCongestion: column(() => Number.NaN),
      computeCost: column(() => Number.NaN),
      cacheCost: column(() => Number.NaN),
      networkCost: column(() => Number.NaN),
    },
  });
}
