import { createLoadCurve, kneeOfLoadCurve, observeLoad, pairedRatio } from '@braess/games';
import { describe, expect, it } from 'vitest';
import { testStream } from './random.js';

describe('ratio over pairs', () => {
  it('covers the true ratio in about 95 % of repeated experiments', () => {
    const random = testStream(8);
    // Exponential work W per pair by inverse CDF; numerator 1.5 W plus noise of mean 0.5, denominator W: true ratio 1.5 + 0.5 / 1.
    let covered = 0;
    const repeats = 2000;
    for (let repeat = 0; repeat < repeats; repeat++) {
      const work = Float64Array.from({ length: 40 }, () => -Math.log(1 - random()));
      const estimate = pairedRatio(
        work.map((value) => 1.5 * value + random()),
        work,
      )!;
      if (estimate.low <= 2 && 2 <= estimate.high) covered++;
    }
    // Three standard errors of a proportion of 0.95 over 2,000 are 0.015; skewed ratios lose another percent or two.
    expect(covered / repeats).toBeGreaterThan(0.915);
    expect(covered / repeats).toBeLessThan(0.975);
  });

  it('is exact for proportional pairs and undefined for too few', () => {
    expect(pairedRatio([2, 4, 6], [1, 2, 3])).toMatchObject({ ratio: 2, standardError: 0, pairs: 3 });
    expect(pairedRatio([2, 4], [1, 2])).toBeUndefined();
    expect(pairedRatio([2, 4, 1], [0, 0, 0])).toBeUndefined();
    expect(() => pairedRatio([1, 1, Number.NaN], [1, 1, 1])).toThrow(/numerators\[2\] is NaN/);
  });
});

describe('load curve', () => {
  it('finds the knee of noisy samples taken in any order', () => {
    const random = testStream(4);
    const curve = createLoadCurve([0, 20, 40, 60, 80, 100, 120, 140]);
    for (let sample = 0; sample < 4000; sample++) {
      const load = random() * 160;
      observeLoad(curve, load, (0.06 + 0.002 * load + Math.max(0, load - 100) * 0.05) * (0.9 + 0.2 * random()));
    }
    // The bend at 100 lies between the means of its neighbour classes: 90 and 110 or, one class on, 110 and 130.
    const knee = kneeOfLoadCurve(curve)!;
    expect(knee.kneeLoad).toBeGreaterThan(85);
    expect(knee.kneeLoad).toBeLessThan(115);
  });

  it('forgets with a retention below 1, and counts what lies below its range', () => {
    const curve = createLoadCurve([10, 20, 30], 0.5);
    for (let sample = 0; sample < 50; sample++) observeLoad(curve, 25, 1);
    for (let sample = 0; sample < 10; sample++) observeLoad(curve, 25, 3);
    // Weights 1, 1/2, 1/4, ...: the ten new ones hold 1 - 2^-10 of the weight.
    expect(curve.latencySum[1]! / curve.weight[1]!).toBeCloseTo(3 - 2 / 1024, 9);
    observeLoad(curve, 5, 1);
    expect(curve.belowRange).toBe(1);
    expect(kneeOfLoadCurve(curve)).toBeUndefined();
  });
});
