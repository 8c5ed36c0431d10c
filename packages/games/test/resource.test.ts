import {
  checkUniqueness,
  generalizedEquilibria,
  logarithmicResourceGame,
  resourceGameFromPayoffs,
  resourcePriceOfAnarchy,
  socialSplit,
  variationalEquilibrium,
  wholeGpuSplits,
} from '@braess/games';
import { describe, expect, it } from 'vitest';

describe('prefill against decode', () => {
  it('has the closed form of logarithmic payoffs: p / (p + d) selfish, (p + e) / (p + d + e) social', () => {
    for (const [prefillWeight, decodeWeight, externalityWeight, totalGpus] of [
      [1, 3, 2, 24],
      [2, 2, 0, 1024],
      [0.2, 5, 1, 8],
    ] as const) {
      const game = logarithmicResourceGame({ totalGpus, prefillWeight, decodeWeight, externalityWeight });
      const selfish = variationalEquilibrium(game);
      const social = socialSplit(game);
      expect(selfish.prefillGpus).toBeCloseTo((totalGpus * prefillWeight) / (prefillWeight + decodeWeight), 9);
      expect(selfish.pricePerGpu).toBeCloseTo((prefillWeight + decodeWeight) / totalGpus, 9);
      const socialPrefill = prefillWeight + externalityWeight;
      expect(social.prefillGpus).toBeCloseTo((totalGpus * socialPrefill) / (socialPrefill + decodeWeight), 9);
      expect(social.welfare).toBeGreaterThanOrEqual(selfish.welfare);
      expect(selfish.prefillGpus + selfish.decodeGpus).toBe(totalGpus);
    }
  });

  it('has the closed form of quadratic payoffs with a linear externality, and leaves GPUs unused when nobody wants more', () => {
    // U_P = 10 p - p^2, U_D = 8 d - d^2 + 3 p. G = 6: 10 - 2p = 8 - 2 (6 - p) gives p = 3.5, price 3; social 13 - 2p = 8 - 2 (6 - p): 4.25.
    const quadratic = (totalGpus: number) =>
      resourceGameFromPayoffs({
        totalGpus,
        minimumPrefillGpus: 0,
        minimumDecodeGpus: 0,
        prefillPayoff: (p) => 10 * p - p * p,
        decodePayoff: (p, d) => 8 * d - d * d + 3 * p,
      });
    const selfish = variationalEquilibrium(quadratic(6));
    expect(selfish.prefillGpus).toBeCloseTo(3.5, 6);
    expect(selfish.pricePerGpu).toBeCloseTo(3, 6);
    expect(socialSplit(quadratic(6)).prefillGpus).toBeCloseTo(4.25, 6);
    // Welfare on G_P + G_D = 6, written out.
    const at = (p: number) => 13 * p - p * p + 8 * (6 - p) - (6 - p) * (6 - p);
    expect(resourcePriceOfAnarchy(quadratic(6))).toBeCloseTo(at(4.25) / at(3.5), 6);
    const roomy = variationalEquilibrium(quadratic(20));
    expect(roomy).toMatchObject({ constraintActive: false, pricePerGpu: 0 });
    expect(roomy.prefillGpus).toBeCloseTo(5, 6);
    expect(roomy.decodeGpus).toBeCloseTo(4, 6);
    expect(socialSplit(quadratic(20)).prefillGpus).toBeCloseTo(6.5, 6);
  });

  it('finds the whole interval of generalized equilibria and the variational one inside it', () => {
    // Marginals 10 - 2p >= 0 up to p = 5; 8 - 2 (6 - p) >= 0 from p = 2.
    const game = {
      ...resourceGameFromPayoffs({
        totalGpus: 6,
        minimumPrefillGpus: 0,
        minimumDecodeGpus: 0,
        prefillPayoff: (p) => 10 * p - p * p,
        decodePayoff: (_, d) => 8 * d - d * d,
      }),
    };
    const interval = generalizedEquilibria(game)!;
    expect(interval.lowestPrefill).toBeCloseTo(2, 6);
    expect(interval.highestPrefill).toBeCloseTo(5, 6);
  });

  it('respects minima: the corner takes the price of the other player', () => {
    const game = { ...logarithmicResourceGame({ totalGpus: 10, prefillWeight: 1, decodeWeight: 9 }), minimumPrefillGpus: 4 };
    const corner = variationalEquilibrium(game);
    expect(corner.prefillGpus).toBe(4);
    expect(corner.pricePerGpu).toBeCloseTo(9 / 6, 12);
    expect(() => variationalEquilibrium({ ...game, minimumDecodeGpus: 7 })).toThrow(/exceed totalGpus 10/);
  });

  it('certifies uniqueness for concave payoffs and denies it where the players pull each other', () => {
    expect(checkUniqueness(logarithmicResourceGame({ totalGpus: 16, prefillWeight: 1, decodeWeight: 2, externalityWeight: 1 })).holds).toBe(
      true,
    );
    const coupled = resourceGameFromPayoffs({
      totalGpus: 6,
      minimumPrefillGpus: 0,
      minimumDecodeGpus: 0,
      prefillPayoff: (p, d) => -p * p + 3 * p * d,
      decodePayoff: (p, d) => -d * d + 3 * p * d,
    });
    // J + J^T = [[-4, 6], [6, -4]]: eigenvalues 2 and -10.
    const check = checkUniqueness(coupled);
    expect(check.holds).toBe(false);
    expect(check.largestEigenvalue).toBeCloseTo(2, 3);
  });

  it('splits whole units: next to the real-valued equilibrium, and the social one by enumeration', () => {
    const game = logarithmicResourceGame({ totalGpus: 24, prefillWeight: 1, decodeWeight: 3, externalityWeight: 2 });
    const start = { ...game, minimumPrefillGpus: 1, minimumDecodeGpus: 1 };
    const { equilibrium, social } = wholeGpuSplits(start);
    expect(Math.abs(equilibrium.prefillGpus - 6)).toBeLessThanOrEqual(1);
    expect(social.prefillGpus).toBe(12);
    const units = wholeGpuSplits(start, 8);
    expect(units.social.prefillGpus % 8).toBe(0);
    expect(units.social.prefillGpus + units.social.decodeGpus).toBe(24);
  });
});
