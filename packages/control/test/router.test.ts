import {
  bindPolicy,
  builtInPolicy,
  builtInPolicyNames,
  chooseEngine,
  createRouterView,
  type RouterPolicy,
  routerStage,
} from '@braess/control';
import { describe, expect, it } from 'vitest';
import { engineLog, type FakeEngine, type FakeRequest, imbalance, router, simulate } from './fakes.js';
import { randomStream } from './random-stream.js';

const names = builtInPolicyNames('router');

/** Chi-square of observed counts against equal shares. */
function chiSquare(counts: readonly number[]): number {
  const expected = counts.reduce((a, b) => a + b) / counts.length;
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
}

describe('kv router', () => {
  // Raw prefill blocks 10 each; overlap 2, 5, 8; active blocks with this request's 10, 5, 9.
  const golden = createRouterView({
    stage: routerStage.aggregated,
    blockTokens: 16,
    engines: [
      { activeBlocks: 10 - 4, overlapBlocks: 2, activePrefillTokens: 96 },
      { activeBlocks: 5 - 4, overlapBlocks: 5, activePrefillTokens: 96 },
      { activeBlocks: 9 - 4, overlapBlocks: 8, activePrefillTokens: 96 },
    ],
  });
  const request = { request: 0, inputTokens: 64, outputTokens: 1, tenant: 0, priority: 0, attempt: 1, ageNs: 0 };

  it('costs 18, 10 and 11 in the golden case and takes the lowest', () => {
    expect(chooseEngine(router('kv'), golden, request, null, randomStream(1))).toBe(1);
    expect([...golden.scores]).toEqual([18, 10, 11]);
  });

  it('weighs prefill by omega', () => {
    chooseEngine(router('kv', { omega: 2 }), golden, request, null, randomStream(1));
    expect([...golden.scores]).toEqual([26, 15, 13]);
  });

  it('keeps fractions of prefill blocks', () => {
    chooseEngine(router('kv'), golden, { ...request, inputTokens: 60 }, null, randomStream(1));
    expect([...golden.scores]).toEqual([17.75, 9.75, 10.75]);
  });

  it('ignores active blocks when it chooses a prefill engine', () => {
    chooseEngine(router('kv'), { ...golden, stage: routerStage.prefill }, request, null, randomStream(1));
    expect([...golden.scores]).toEqual([8, 5, 2]);
  });

  it('counts active blocks only when it chooses a decode engine, with no overlap credit', () => {
    chooseEngine(router('kv', { omega: 7 }), { ...golden, stage: routerStage.decode }, request, null, randomStream(1));
    expect([...golden.scores]).toEqual([10, 5, 9]);
  });

  it('draws by softmax over min-max scaled costs at tau > 0', () => {
    const tau = 0.5;
    const weights = [18, 10, 11].map((cost) => Math.exp(-(cost - 10) / 8 / tau));
    const sum = weights.reduce((a, b) => a + b);
    const random = randomStream(7);
    const counts = [0, 0, 0];
    const draws = 60_000;
    const bound = router('kv', { tau });
    for (let draw = 0; draw < draws; draw++) counts[chooseEngine(bound, golden, request, null, random)]!++;
    // Four standard deviations of a binomial share.
    for (const [engine, weight] of weights.entries()) {
      const share = weight / sum;
      expect(Math.abs(counts[engine]! / draws - share)).toBeLessThan(4 * Math.sqrt((share * (1 - share)) / draws));
    }
  });

  it('spreads equal costs evenly', () => {
    const view = createRouterView({ stage: routerStage.aggregated, blockTokens: 16, engines: [{}, { activeBlocks: 1 }, {}, {}] });
    const random = randomStream(3);
    const counts = [0, 0, 0, 0];
    const bound = router('kv');
    for (let draw = 0; draw < 9000; draw++) counts[chooseEngine(bound, view, request, null, random)]!++;
    expect(counts[1]).toBe(0);
    expect(chiSquare([counts[0]!, counts[2]!, counts[3]!])).toBeLessThan(13.8); // 99.9 % of chi-square with 2 degrees
  });
});

describe.each(names)('router %s', (name) => {
  const engines: FakeEngine[] = Array.from({ length: 8 }, () => ({ role: 0, prefillNs: 10_000, tokenNs: 100 }));
  // Each request finds all engines with much the same load: 8 engines of 10 us at one request every 2 us, 62 % busy.
  const requests: FakeRequest[] = Array.from({ length: 4000 }, (_, index) => ({ atNs: 2000 * index, inputTokens: 32, outputTokens: 2 }));

  it('uses all engines alike', () => {
    const simulation = simulate({ engines, requests, router: name }, { strict: false });
    simulation.runUntil();
    const counts = engines.map((_, index) => engineLog(simulation, index).prefills.length);
    expect(counts.reduce((a, b) => a + b)).toBe(4000);
    // Independent draws would be the least even; chi-square with 7 degrees of freedom is below 24.3 in 99.9 %.
    expect(chiSquare(counts)).toBeLessThan(24.3);
    expect(imbalance(simulation)).toBe(0);
  });

  it('takes the only candidate', () => {
    const policy = builtInPolicy('router', name) as RouterPolicy;
    for (const stage of Object.values(routerStage)) {
      const view = createRouterView({ stage, blockTokens: 16, engines: [{}, { activeRequests: 9 }, {}], candidates: [1] });
      const bound = bindPolicy(policy);
      const state = policy.createState?.(bound.parameters, 3) ?? null;
      const request = { request: 0, inputTokens: 64, outputTokens: 1, tenant: 0, priority: 0, attempt: 1, ageNs: 0 };
      for (let time = 0; time < 5; time++) expect(chooseEngine(bound, view, request, state, randomStream(time))).toBe(1);
    }
  });
});

describe('load-aware routers', () => {
  const request = { request: 0, inputTokens: 64, outputTokens: 1, tenant: 0, priority: 0, attempt: 1, ageNs: 0 };
  const view = createRouterView({
    stage: routerStage.prefill,
    blockTokens: 16,
    engines: [
      { activeRequests: 3, activePrefillTokens: 10 },
      { activeRequests: 1, activePrefillTokens: 900 },
      { activeRequests: 2, activePrefillTokens: 50 },
    ],
  });

  it('least-loaded takes the fewest requests, or the least work', () => {
    expect(chooseEngine(router('least-loaded'), view, request, null, randomStream(1))).toBe(1);
    expect(chooseEngine(router('least-loaded', { by: 'work' }), view, request, null, randomStream(1))).toBe(0);
  });

  it('power-of-two takes the better of two distinct draws', () => {
    // Of the three equally likely pairs, engine 1 wins the two that it is in, engine 2 the other one.
    const counts = [0, 0, 0];
    const random = randomStream(5);
    const bound = router('power-of-two');
    for (let draw = 0; draw < 30_000; draw++) counts[chooseEngine(bound, view, request, null, random)]!++;
    expect(counts[0]).toBe(0);
    expect(counts[1]! / 30_000).toBeCloseTo(2 / 3, 1.5);
    expect(counts[2]! / 30_000).toBeCloseTo(1 / 3, 1.5);
  });

  it('round-robin goes on behind the last engine when candidates come and go', () => {
    const bound = router('round-robin');
    const state = bound.policy.createState?.({}, 4);
    const choose = (candidates: number[]): number =>
      chooseEngine(
        bound,
        createRouterView({ stage: 0, blockTokens: 16, engines: [{}, {}, {}, {}], candidates }),
        request,
        state,
        randomStream(1),
      );
    expect([choose([0, 1, 2, 3]), choose([0, 2, 3]), choose([0, 1]), choose([0, 1, 3]), choose([3]), choose([0, 3])]).toEqual([
      0, 2, 0, 1, 3, 0,
    ]);
  });
});
