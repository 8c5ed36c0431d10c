import { findKnee, latencyCurvature, measureOscillation, measureStepResponse } from '@braess/games';
import { describe, expect, it } from 'vitest';

/** Unit step response of a second-order system with natural frequency 1 per microsecond, sampled every ns. */
function secondOrder(damping: number, samples: number) {
  const damped = Math.sqrt(1 - damping * damping);
  const timeNs = Float64Array.from({ length: samples }, (_, index) => index);
  const values = timeNs.map((ns) => {
    const t = ns / 1000;
    return 1 - Math.exp(-damping * t) * (Math.cos(damped * t) + (damping / damped) * Math.sin(damped * t));
  });
  return { signal: { timeNs, values }, damped };
}

describe('step response and oscillation', () => {
  it('measures overshoot, period and decay of a second-order system as theory has them', () => {
    const damping = 0.2;
    const { signal, damped } = secondOrder(damping, 30_000);
    const step = measureStepResponse(signal, { changeAtNs: 0, from: 0, to: 1 });
    // Textbook: overshoot exp(-pi zeta / sqrt(1 - zeta^2)); swings shrink by the same factor each half period pi / omega_d.
    const factor = Math.exp((-Math.PI * damping) / damped);
    expect(step.overshoot).toBeCloseTo(factor, 5);
    const oscillation = measureOscillation(signal, 0.02);
    expect(oscillation.growth).toBeCloseTo(factor, 3);
    expect(Math.abs(oscillation.periodNs - (2000 * Math.PI) / damped)).toBeLessThan(3);
    // Extreme k is at 1 +- factor^k and counts as a turning point when the way to the next one, factor^k (1 + factor), is at least 0.02.
    let expected = 0;
    while (factor ** (expected + 1) * (1 + factor) >= 0.02) expected++;
    expect(oscillation.turningPoints.length).toBe(expected);
    expect(oscillation.swings).toBe(expected - 1);
    // The error is proportional to sin(omega_d t + acos zeta), so it crosses 0 wherever that phase is a multiple of pi.
    expect(step.targetCrossings).toBe(Math.floor((29.999 * damped + Math.acos(damping)) / Math.PI));
  });

  it('measures times of a stepped signal by hand', () => {
    const signal = { timeNs: Float64Array.of(0, 10, 20, 30, 40, 50, 60), values: Float64Array.of(4, 4, 7, 10, 7, 8, 8) };
    const step = measureStepResponse(signal, { changeAtNs: 10, from: 4, to: 8, bandFraction: 0.25 });
    expect(step).toEqual({ transitionTimeNs: 10, overshoot: 0.5, targetCrossings: 2, settlingTimeNs: 30 });
    expect(measureOscillation(signal, 2)).toMatchObject({ swings: 0, turningPoints: [3] });
    expect(measureOscillation(signal, 1)).toMatchObject({ swings: 1, meanSwing: 3, periodNs: 20, turningPoints: [3, 4] });
  });

  it('takes neither end of the record for a turning point', () => {
    const signal = { timeNs: Float64Array.of(0, 1, 2, 3, 4), values: Float64Array.of(10, 5, 8, 3, 6) };
    expect(measureOscillation(signal, 1).turningPoints).toEqual([1, 2, 3]);
  });

  it('reports what cannot be measured as NaN and refuses unsorted samples', () => {
    const signal = { timeNs: Float64Array.of(0, 1, 2), values: Float64Array.of(0, 0, 0) };
    const step = measureStepResponse(signal, { changeAtNs: 0, from: 0, to: 5 });
    expect(step.transitionTimeNs).toBeNaN();
    expect(step.settlingTimeNs).toBeNaN();
    expect(measureStepResponse(signal, { changeAtNs: 0, from: 5, to: 5 }).overshoot).toBeNaN();
    expect(measureOscillation(signal, 1).periodNs).toBeNaN();
    expect(() => measureOscillation({ timeNs: Float64Array.of(1, 1), values: Float64Array.of(0, 1) }, 1)).toThrow(/not after 1/);
  });
});

describe('knee of a load sweep', () => {
  it('differentiates parabolas exactly on an uneven grid', () => {
    const loads = [1, 2, 5, 9, 20];
    const { curvature } = latencyCurvature(
      loads,
      loads.map((load) => 3 * load * load + load),
    );
    for (const value of curvature.subarray(1, 4)) expect(value).toBeCloseTo(6, 10);
    expect(curvature[0]).toBeNaN();
  });

  it('puts the published knee between 96 and 128, with 128 the first point past it', () => {
    // TTFT of a closed loop with 100 connections at 5.5 s: 60 ms + 5 ms each up to 100, then the wait of the machine repair queue.
    const loads = [1, 4, 8, 64, 96, 128, 256, 384, 512];
    const latencies = loads.map((load) => 0.06 + 0.005 * Math.min(load, 100) + (Math.max(0, load - 100) / 100) * 5.5);
    expect(findKnee(loads, latencies)).toMatchObject({ kneeLoad: 96, firstPastKnee: 128 });
  });

  it('finds none in straight or flattening sweeps', () => {
    expect(findKnee([1, 2, 4, 8, 16], [1, 1.5, 2.5, 4.5, 8.5])).toBeUndefined();
    expect(findKnee([1, 2, 4, 8, 16], [1, 2, 3, 3.5, 3.6])).toBeUndefined();
    expect(() => findKnee([1, 3, 2], [1, 1, 1])).toThrow(/sort the sweep/);
  });
});
