import {
  type ArrivalSpec,
  checkArrivals,
  checkLength,
  cosineOfTurns,
  createArrivalState,
  empiricalLength,
  exponentialQuantile,
  gammaProbability,
  gammaQuantile,
  type LengthSpec,
  lengthQuantile,
  logGamma,
  meanRatePerSecond,
  nextArrivalNs,
  normalQuantile,
  sampleLength,
  sineOfTurns,
} from '@braess/workload';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { uniformFrom } from './streams.js';

/** Simpson's rule, the independent check of the distribution functions. */
function integrate(f: (x: number) => number, from: number, to: number, steps = 20_000): number {
  const width = (to - from) / steps;
  let sum = f(from) + f(to);
  for (let index = 1; index < steps; index++) sum += f(from + index * width) * (index % 2 === 1 ? 4 : 2);
  return (sum * width) / 3;
}

function moments(values: number[]): { mean: number; variance: number } {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return { mean, variance: values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1) };
}

describe('inverse distribution functions', () => {
  it.each([1e-9, 1e-4, 0.01, 0.075, 0.3, 0.5, 0.62, 0.925, 0.99, 0.9999])(
    'normal at %d inverts the integral of its density',
    (probability) => {
      const density = (x: number): number => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
      expect(integrate(density, -12, normalQuantile(probability)) / probability).toBeCloseTo(1, 7);
    },
  );

  it('normal is finite at the ends and odd', () => {
    expect(Number.isFinite(normalQuantile(0)) && Number.isFinite(normalQuantile(1 - 2 ** -53))).toBe(true);
    fc.assert(
      fc.property(fc.double({ min: 1e-6, max: 0.5, noNaN: true }), (p) => Math.abs(normalQuantile(p) + normalQuantile(1 - p)) < 1e-9),
    );
  });

  it.each([
    [0.0625, 0.9],
    [0.25, 0.5],
    [1, 0.3],
    [4, 0.01],
    [4, 0.99],
    [400, 0.5],
    [0.0025, 0.999],
    [0.0025, 0.99],
  ])('gamma of shape %d at %d inverts the integral of its density', (shape, probability) => {
    const x = gammaQuantile(probability, shape) * shape;
    expect(x).toBeGreaterThan(0);
    // Below shape 1, x = y^(1/shape) takes the density's pole at 0 away; at tiny shapes even that is too steep for Simpson's rule.
    const integral =
      shape < 1
        ? integrate((y) => Math.exp(-(y ** (1 / shape))), 0, x ** shape) / shape / Math.exp(logGamma(shape))
        : integrate((y) => Math.exp((shape - 1) * Math.log(y) - y - logGamma(shape)), 1e-12, x);
    if (shape >= 0.05) expect(integral).toBeCloseTo(probability, 4);
    expect(gammaProbability(x, shape)).toBeCloseTo(probability, 10);
  });

  it('gamma of shape 1 is the exponential, of shape n the Poisson sum', () => {
    for (const p of [0.001, 0.2, 0.7, 0.999]) expect(gammaQuantile(p, 1)).toBeCloseTo(exponentialQuantile(p), 10);
    for (const x of [0.5, 3, 9]) expect(gammaProbability(x, 3)).toBeCloseTo(1 - Math.exp(-x) * (1 + x + (x * x) / 2), 12);
  });

  it('ln gamma of whole numbers is the sum of logarithms', () => {
    for (let n = 1, sum = 0; n < 60; sum += Math.log(n), n++) expect(logGamma(n)).toBeCloseTo(sum, 9);
    expect(logGamma(0.5)).toBeCloseTo(Math.log(Math.sqrt(Math.PI)), 12);
  });

  it('cos and sin of turns agree with the built-in ones', () => {
    fc.assert(
      fc.property(fc.double({ min: -20, max: 20, noNaN: true }), (turns) => {
        expect(cosineOfTurns(turns)).toBeCloseTo(Math.cos(2 * Math.PI * turns), 12);
        expect(sineOfTurns(turns)).toBeCloseTo(Math.sin(2 * Math.PI * turns), 12);
      }),
    );
  });
});

describe('lengths', () => {
  const specs: [LengthSpec, number, number][] = [
    [{ kind: 'constant', tokens: 7 }, 7, 0],
    [{ kind: 'uniform', minTokens: 10, maxTokens: 19 }, 14.5, 99 / 12],
    [{ kind: 'lognormal', meanTokens: 2000, sigma: 0.6 }, 2000, 2000 ** 2 * (Math.exp(0.36) - 1)],
    [{ kind: 'exponential', meanTokens: 5000 }, 5000, 5000 ** 2],
    [
      {
        kind: 'quantiles',
        points: [
          [0, 1000],
          [0.5, 2000],
          [1, 5000],
        ],
      },
      2500,
      1_416_667,
    ],
  ];
  it.each(specs)('%o has the mean and variance of theory', (spec, mean, variance) => {
    checkLength(spec, 'test');
    const uniform = uniformFrom(5);
    const found = moments(Array.from({ length: 40_000 }, () => sampleLength(spec, uniform)));
    expect(Math.abs(found.mean - mean)).toBeLessThanOrEqual(4 * Math.sqrt(variance / 40_000) + 1e-9);
    expect(Math.abs(found.variance - variance)).toBeLessThanOrEqual(0.06 * variance);
  });

  it('are whole, clipped, monotone, and take one draw', () => {
    const spec: LengthSpec = { kind: 'lognormal', meanTokens: 256, sigma: 2, minTokens: 8, maxTokens: 1024 };
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (a, b) => {
          const [low, high] = [lengthQuantile(spec, Math.min(a, b)), lengthQuantile(spec, Math.max(a, b))];
          return Number.isInteger(low) && low >= 8 && high <= 1024 && low <= high;
        },
      ),
    );
    for (const [sampled] of specs) {
      let draws = 0;
      sampleLength(sampled, () => 0.5 + 0 * draws++);
      expect(draws).toBe(1);
    }
  });

  it('of a sample are resampled with its quantiles', () => {
    const uniform = uniformFrom(4);
    const sample = Int32Array.from({ length: 5000 }, () => 1 + Math.floor(-300 * Math.log(1 - uniform())));
    const spec = empiricalLength(sample);
    checkLength(spec, 'test');
    const sorted = sample.slice().sort();
    for (const p of [0, 0.005, 0.25, 0.5, 0.9, 0.995, 1]) {
      expect(lengthQuantile(spec, p) / sorted[Math.round(p * 4999)]!).toBeCloseTo(1, 1);
    }
    expect(lengthQuantile(empiricalLength(Int32Array.of(7)), 0.3)).toBe(7);
  });

  it('interpolate in the logarithm on request', () => {
    const points: [number, number][] = [
      [0, 100],
      [1, 10_000],
    ];
    expect(lengthQuantile({ kind: 'quantiles', points, interpolation: 'logarithmic' }, 0.5)).toBe(1000);
    expect(lengthQuantile({ kind: 'quantiles', points }, 0.5)).toBe(5050);
  });

  it.each([
    [{ kind: 'constant', tokens: 0 }, /tokens is 0/],
    [{ kind: 'uniform', minTokens: 9, maxTokens: 3 }, /minTokens 9 is above maxTokens 3/],
    [{ kind: 'lognormal', meanTokens: Number.NaN, sigma: 1 }, /meanTokens is NaN/],
    [{ kind: 'lognormal', meanTokens: 9, sigma: -1 }, /sigma is -1/],
    [{ kind: 'exponential', meanTokens: -3 }, /meanTokens is -3/],
    [
      {
        kind: 'quantiles',
        points: [
          [0, 5],
          [0.9, 6],
        ],
      },
      /end at 1/,
    ],
    [
      {
        kind: 'quantiles',
        points: [
          [0, 5],
          [0.5, 4],
          [1, 9],
        ],
      },
      /points\[1\]/,
    ],
  ] as [LengthSpec, RegExp][])('%o is refused', (spec, message) => {
    expect(() => checkLength(spec, 'test')).toThrow(message);
  });
});

function arrivalTimes(spec: ArrivalSpec, count: number, seed: number): number[] {
  checkArrivals(spec, 'test');
  const state = createArrivalState();
  const [uniform, phases] = [uniformFrom(seed), uniformFrom(seed + 1)];
  return Array.from({ length: count }, () => nextArrivalNs(spec, state, uniform, phases) / 1e9);
}

function gapCv(times: number[]): number {
  const { mean, variance } = moments(times.map((time, index) => time - (times[index - 1] ?? 0)));
  return Math.sqrt(variance) / mean;
}

describe('arrivals', () => {
  const specs: ArrivalSpec[] = [
    { kind: 'constant', ratePerSecond: 8 },
    { kind: 'poisson', ratePerSecond: 8 },
    { kind: 'gamma', ratePerSecond: 8, cv: 3 },
    { kind: 'gamma', ratePerSecond: 8, cv: 0.3 },
    { kind: 'on-off', onRatePerSecond: 20, offRatePerSecond: 2, meanOnS: 2, meanOffS: 4 },
    { kind: 'on-off', onRatePerSecond: 24, offRatePerSecond: 0, meanOnS: 2, meanOffS: 4 },
    { kind: 'diurnal', meanRatePerSecond: 8, amplitude: 1, periodS: 100, peakS: 30 },
  ];
  it.each(specs)('%o keep their order and their mean rate, one draw an arrival', (spec) => {
    const times = arrivalTimes(spec, 40_000, 11);
    expect(times.every((time, index) => time >= (times[index - 1] ?? 0))).toBe(true);
    expect(40_000 / times.at(-1)! / meanRatePerSecond(spec)).toBeCloseTo(1, 1);
    let draws = 0;
    nextArrivalNs(spec, createArrivalState(), () => 0.5 + 0 * draws++, uniformFrom(1));
    expect(draws).toBe(1);
  });

  it('have the burstiness of theory: Poisson 1, gamma its CV, on-off the interrupted Poisson process', () => {
    expect(gapCv(arrivalTimes(specs[1]!, 40_000, 3))).toBeCloseTo(1, 1);
    expect(gapCv(arrivalTimes(specs[2]!, 80_000, 3)) / 3).toBeCloseTo(1, 1);
    expect(gapCv(arrivalTimes(specs[3]!, 40_000, 3))).toBeCloseTo(0.3, 1);
    // Kuczura 1973: squared CV = 1 + 2 rate * off-switching / (on-switching + off-switching)^2, with rates out of on (1/2) and out of off (1/4).
    const squared = 1 + (2 * 24 * 0.5) / (0.5 + 0.25) ** 2;
    expect(gapCv(arrivalTimes(specs[5]!, 200_000, 3)) / Math.sqrt(squared)).toBeCloseTo(1, 1);
  });

  it('of a day follow the cosine: counts by phase against its integral', () => {
    const spec: ArrivalSpec = { kind: 'diurnal', meanRatePerSecond: 8, amplitude: 0.8, periodS: 100, peakS: 30 };
    const times = arrivalTimes(spec, 80_000, 4);
    const counts = new Array<number>(10).fill(0);
    const whole = Math.floor(times.at(-1)! / 100);
    for (const time of times) if (time < whole * 100) counts[Math.floor((time % 100) / 10)]!++;
    for (const [index, count] of counts.entries()) {
      const expected = whole * integrate((t) => 8 * (1 + 0.8 * Math.cos((2 * Math.PI * (t - 30)) / 100)), index * 10, index * 10 + 10, 100);
      expect(Math.abs(count - expected)).toBeLessThan(4.5 * Math.sqrt(expected));
    }
  });

  it.each([
    [{ kind: 'poisson', ratePerSecond: 0 }, /ratePerSecond is 0/],
    [{ kind: 'gamma', ratePerSecond: 1, cv: 0 }, /cv is 0/],
    [{ kind: 'on-off', onRatePerSecond: 1, offRatePerSecond: -1, meanOnS: 1, meanOffS: 1 }, /offRatePerSecond is -1/],
    [{ kind: 'diurnal', meanRatePerSecond: 1, amplitude: 1.1, periodS: 1, peakS: 0 }, /amplitude is 1.1/],
  ] as [ArrivalSpec, RegExp][])('%o is refused', (spec, message) => {
    expect(() => checkArrivals(spec, 'test')).toThrow(message);
  });
});
