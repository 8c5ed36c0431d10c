import { GameInputError, requireAtLeast, requireInteger, requireLength, requireWithin } from './input-check.js';

/** Second derivative of latency in load, at the inner points of a sweep. */
export interface Curvature {
  /** seconds per request squared; NaN at both ends. */
  readonly curvature: Float64Array;
  /** Slopes of the segments: [k] leads from point k to k + 1, in seconds per request. */
  readonly slope: Float64Array;
}

/**
 * Second derivative by divided differences on an uneven grid: 2 (s_k - s_(k-1)) / (x_(k+1) - x_(k-1)). Exact for parabolas; on a coarse grid
 * it is the mean curvature around the point. Needs 3 points or more, loads strictly rising.
 */
export function latencyCurvature(loads: ArrayLike<number>, latenciesSeconds: ArrayLike<number>): Curvature {
  const points = loads.length;
  requireLength('latenciesSeconds', latenciesSeconds.length, points, `${points} loads`);
  requireInteger('number of points', points, 3);
  const slope = new Float64Array(points - 1);
  for (let index = 0; index + 1 < points; index++) {
    const width = loads[index + 1]! - loads[index]!;
    if (!(width > 0)) throw new GameInputError(`loads[${index + 1}] is ${loads[index + 1]}, not above ${loads[index]}; sort the sweep`);
    slope[index] = (latenciesSeconds[index + 1]! - latenciesSeconds[index]!) / width;
    if (!Number.isFinite(slope[index]!))
      throw new GameInputError(`latency at load ${loads[index]} or the next is not finite; drop the point`);
  }
  const curvature = new Float64Array(points).fill(Number.NaN);
  for (let index = 1; index + 1 < points; index++) {
    curvature[index] = (2 * (slope[index]! - slope[index - 1]!)) / (loads[index + 1]! - loads[index - 1]!);
  }
  return { curvature, slope };
}

export interface Knee {
  /** Last load before latency takes off: where the second derivative is largest. */
  readonly kneeLoad: number;
  /** First measured load past it. */
  readonly firstPastKnee: number;
  readonly slopeBefore: number;
  readonly slopeAfter: number;
}

/**
 * The knee of a load sweep: the inner point of largest second derivative, if latency bends up there: the slope after must be at least
 * `minimumBend` times the mean slope before (3 by default, our choice: noise of 10 % in latency on a doubling grid stays below it).
 * Undefined when there is no such point. Bias: the true knee lies between kneeLoad and firstPastKnee; a coarse grid cannot say where.
 */
export function findKnee(loads: ArrayLike<number>, latenciesSeconds: ArrayLike<number>, minimumBend = 3): Knee | undefined {
  requireAtLeast('minimumBend', minimumBend, 1);
  const { curvature, slope } = latencyCurvature(loads, latenciesSeconds);
  let at = -1;
  for (let index = 1; index + 1 < loads.length; index++)
    if (curvature[index]! > 0 && (at < 0 || curvature[index]! > curvature[at]!)) at = index;
  if (at < 0) return undefined;
  const slopeBefore = (latenciesSeconds[at]! - latenciesSeconds[0]!) / (loads[at]! - loads[0]!);
  const slopeAfter = slope[at]!;
  if (slopeAfter <= 0 || slopeAfter < minimumBend * slopeBefore) return undefined;
  return { kneeLoad: loads[at]!, firstPastKnee: loads[at + 1]!, slopeBefore, slopeAfter };
}

/** An EWMA regime detector: s_t = w x_t + (1 - w) s_(t-1), thresholds on s, n samples in a row before a change. */
export interface RegimeDetectorOptions {
  /** w in (0, 1]; the paper uses 0.3 on TTFT P99 read every 5 s. */
  readonly weight: number;
  /** Rising thresholds in the signal's unit; regime r means r of them are reached (s >= threshold). */
  readonly thresholds: readonly number[];
  /** Samples in a row that must agree on the same new regime. The paper's controller: 3. */
  readonly samplesInARow: number;
  /** To leave a regime downwards s must fall below releaseFraction x its threshold. 1: as published; less: hysteresis. */
  readonly releaseFraction: number;
}

/** Plain data: an actor may hold it as state. */
export interface RegimeDetector {
  /** s_t; NaN before the first sample, which sets it (no bias towards 0). */
  smoothed: number;
  regime: number;
  candidate: number;
  streak: number;
  samples: number;
  missing: number;
  changes: number;
}

export function createRegimeDetector(): RegimeDetector {
  return { smoothed: Number.NaN, regime: 0, candidate: 0, streak: 0, samples: 0, missing: 0, changes: 0 };
}

/** @throws GameInputError on a weight outside (0, 1], thresholds that do not rise, and the like. */
export function checkRegimeOptions(options: RegimeDetectorOptions): void {
  requireWithin('weight', options.weight, Number.MIN_VALUE, 1);
  requireInteger('samplesInARow', options.samplesInARow, 1);
  requireWithin('releaseFraction', options.releaseFraction, Number.MIN_VALUE, 1);
  options.thresholds.forEach((threshold, index) => {
    const previous = options.thresholds[index - 1];
    if (!Number.isFinite(threshold) || (previous !== undefined && threshold <= previous)) {
      throw new GameInputError(`thresholds[${index}] is ${threshold} after ${previous}; thresholds must rise`);
    }
  });
}

/**
 * Feeds one sample; returns true when the regime changed with it. NaN means nothing was measured: the smoothed value and the streak stay.
 * Bias: the detector lags; for a step the lag is ewmaCrossingSamples + samplesInARow - 1 samples.
 */
export function observeRegime(detector: RegimeDetector, options: RegimeDetectorOptions, sample: number): boolean {
  if (Number.isNaN(sample)) {
    detector.missing++;
    return false;
  }
  detector.samples++;
  detector.smoothed = Number.isNaN(detector.smoothed) ? sample : options.weight * sample + (1 - options.weight) * detector.smoothed;
  const seen = classify(detector, options);
  if (seen === detector.regime) {
    detector.candidate = seen;
    detector.streak = 0;
    return false;
  }
  detector.streak = seen === detector.candidate ? detector.streak + 1 : 1;
  detector.candidate = seen;
  if (detector.streak < options.samplesInARow) return false;
  detector.regime = seen;
  detector.streak = 0;
  detector.changes++;
  return true;
}

function classify(detector: RegimeDetector, options: RegimeDetectorOptions): number {
  let reached = 0;
  for (let index = 0; index < options.thresholds.length; index++) {
    // Thresholds at or below the present regime are already passed: they let go only below the release level.
    const level = index < detector.regime ? options.thresholds[index]! * options.releaseFraction : options.thresholds[index]!;
    if (detector.smoothed >= level) reached = index + 1;
  }
  return reached;
}

/**
 * Samples until an EWMA at `from` reaches `threshold` when the signal steps to `to`: the least k with
 * to - (to - from) (1 - w)^k >= threshold, i.e. ceil(ln((to - threshold) / (to - from)) / ln(1 - w)). Infinity if it never does.
 */
export function ewmaCrossingSamples(from: number, to: number, threshold: number, weight: number): number {
  requireWithin('weight', weight, Number.MIN_VALUE, 1);
  if (from >= threshold) return 0;
  if (to < threshold) return Number.POSITIVE_INFINITY;
  if (weight === 1) return 1;
  if (to === threshold) return Number.POSITIVE_INFINITY;
  const exact = Math.log((to - threshold) / (to - from)) / Math.log(1 - weight);
  // The logarithms may land a hair above an integer that is reached exactly.
  return Math.max(1, Math.ceil(exact - 1e-9));
}
