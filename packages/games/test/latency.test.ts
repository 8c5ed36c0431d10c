import {
  affineLatency,
  fitLatency,
  latencyCurvatureSeconds,
  latencySeconds,
  latencySlopeSeconds,
  latencyWithRule,
  queueSojournSeconds,
} from '@braess/games';
import { describe, expect, it } from 'vitest';
import { testStream } from './random.js';

const model = { slopeSeconds: 0.02, interceptSeconds: 0.5, poleScale: 3, saturationLoad: 110, poleExponent: 1.5 };

describe('saturating latency', () => {
  it('has its pole at the saturation load and the affine part before it', () => {
    expect(latencySeconds(model, 10)).toBeCloseTo(0.2 + 0.5 + 3 / 1000, 12);
    expect(latencySeconds(model, 110)).toBe(Number.POSITIVE_INFINITY);
    expect(latencySeconds(affineLatency(2, 1), 1e9)).toBe(2e9 + 1);
  });

  it('has derivatives that agree with differences', () => {
    for (const load of [0, 37.5, 100, 108]) {
      const step = 1e-4;
      const [low, middle, high] = [load - step, load, load + step].map((at) => latencySeconds(model, at)) as [number, number, number];
      expect(latencySlopeSeconds(model, load) / ((high - low) / (2 * step))).toBeCloseTo(1, 6);
      expect(latencyCurvatureSeconds(model, load)).toBeCloseTo((high - 2 * middle + low) / (step * step), 4);
    }
  });

  it('treats loads past the pole by name', () => {
    expect(latencyWithRule(model, 120, 'infinite')).toBe(Number.POSITIVE_INFINITY);
    expect(latencyWithRule(model, 120, 'clamp')).toBeCloseTo(2.4 + 0.5 + 3 / 0.5 ** 1.5, 10);
    expect(latencyWithRule(model, 109, 'clamp')).toBe(latencySeconds(model, 109));
    expect(() => latencyWithRule(model, 110, 'error')).toThrow(/saturationLoad 110/);
  });

  it('knows the mean time in an M/M/1 system', () => {
    expect(queueSojournSeconds(0.75, 1)).toBe(4);
    expect(queueSojournSeconds(1, 1)).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('fitting', () => {
  const loads = [1, 4, 8, 16, 32, 48, 64, 80, 90, 96, 100, 104];

  it('recovers a model from exact points', () => {
    const fit = fitLatency(
      loads,
      loads.map((load) => latencySeconds(model, load)),
    );
    expect(fit.rootMeanSquareError).toBeLessThan(1e-5);
    expect(fit.model.saturationLoad).toBeCloseTo(110, 1);
    expect(fit.model.poleExponent).toBeCloseTo(1.5, 1);
    expect(fit.model.slopeSeconds).toBeCloseTo(0.02, 4);
    expect(fit.poleIdentified).toBe(true);
  });

  it('recovers coefficients closely when the pole is known, under 1 % noise', () => {
    const random = testStream(2);
    const noisy = loads.map((load) => latencySeconds(model, load) * (1 + 0.01 * (2 * random() - 1)));
    const fit = fitLatency(loads, noisy, { saturationLoad: 110, poleExponent: 1.5 });
    expect(fit.rootMeanSquareError).toBeLessThan(0.01);
    expect(Math.abs(fit.model.interceptSeconds - 0.5)).toBeLessThan(0.02);
    expect(Math.abs(fit.model.poleScale / 3 - 1)).toBeLessThan(0.3);
  });

  it('says when the points hold no pole, and keeps coefficients from going negative', () => {
    const straight = fitLatency(
      loads,
      loads.map((load) => 0.3 + 0.01 * load),
    );
    expect(straight.poleIdentified).toBe(false);
    expect(straight.rootMeanSquareError).toBeLessThan(1e-9);
    const falling = fitLatency(
      loads,
      loads.map((load) => 5 - 0.02 * load),
      { residual: 'absolute' },
    );
    expect(falling.model).toMatchObject({ slopeSeconds: 0, poleScale: 0 });
    // Best constant: the mean.
    expect(falling.model.interceptSeconds).toBeCloseTo(5 - 0.02 * (loads.reduce((sum, load) => sum + load, 0) / loads.length), 12);
  });

  it('asks for more points or fewer parameters', () => {
    expect(() => fitLatency([1, 2, 3, 4], [1, 1, 1, 2])).toThrow(/4 distinct loads cannot fix 5 parameters/);
    expect(() => fitLatency([1, 2, 3, 9], [1, 1, 1, 2], { saturationLoad: 8, poleExponent: 1 })).toThrow(
      /not above the largest measured load 9/,
    );
  });
});
