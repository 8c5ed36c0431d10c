import { GameInputError, requireAtLeast, requireInteger, requireLength } from './input-check.js';

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
