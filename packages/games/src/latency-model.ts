import { GameInputError, requireAbove, requireAtLeast } from './input-check.js';
import { inversePower } from './inverse-power.js';

/**
 * Latency of one worker that holds n requests, with a pole at saturation:
 *
 *     l(n) = a n + b + d / (n_sat - n)^beta        for n < n_sat
 *
 * a, b, d >= 0 and beta > 0, so l is increasing and convex, and n l(n) is convex too (which the min-cost-flow
 * optimum needs). With d = 0 there is no pole and the model is the affine a n + b at every load.
 * Source: "The Price of Anarchy in Disaggregated Inference", arXiv 2606.17081, worker latency model.
 */
export interface SaturatingLatency {
  /** a: seconds added by each request on the worker. */
  readonly slopeSeconds: number;
  /** b: seconds at zero load, apart from the pole term. */
  readonly interceptSeconds: number;
  /** d: size of the pole term, in seconds x requests^beta. */
  readonly poleScale: number;
  /** n_sat: requests at which the worker saturates; only meaningful when poleScale > 0. */
  readonly saturationLoad: number;
  /** beta: order of the pole. 1 is the M/M/1-like case. */
  readonly poleExponent: number;
}

/** @throws GameInputError when a coefficient is negative, not finite, or the pole has no place. */
export function checkLatency(model: SaturatingLatency): void {
  requireAtLeast('slopeSeconds', model.slopeSeconds, 0);
  requireAtLeast('interceptSeconds', model.interceptSeconds, 0);
  requireAtLeast('poleScale', model.poleScale, 0);
  requireAbove('saturationLoad', model.saturationLoad, 0);
  requireAbove('poleExponent', model.poleExponent, 0);
}

/** The affine model a n + b: the saturating one without its pole. */
export function affineLatency(slopeSeconds: number, interceptSeconds: number): SaturatingLatency {
  return { slopeSeconds, interceptSeconds, poleScale: 0, saturationLoad: Number.MAX_VALUE, poleExponent: 1 };
}

/** True when the model has no finite value at this load. */
export function isPastPole(model: SaturatingLatency, load: number): boolean {
  return model.poleScale > 0 && load >= model.saturationLoad;
}

/**
 * l(load) in seconds; Infinity at and past the pole.
 * The load may be fractional (a mean over a window); a load below zero is a caller's mistake and is not checked here (hot path).
 */
export function latencySeconds(model: SaturatingLatency, load: number): number {
  const affine = model.slopeSeconds * load + model.interceptSeconds;
  if (model.poleScale === 0) return affine;
  const headroom = model.saturationLoad - load;
  return headroom <= 0 ? Number.POSITIVE_INFINITY : affine + model.poleScale * inversePower(headroom, model.poleExponent);
}

/** dl/dn in seconds per request; Infinity at and past the pole. */
export function latencySlopeSeconds(model: SaturatingLatency, load: number): number {
  if (model.poleScale === 0) return model.slopeSeconds;
  const headroom = model.saturationLoad - load;
  if (headroom <= 0) return Number.POSITIVE_INFINITY;
  return model.slopeSeconds + model.poleScale * model.poleExponent * inversePower(headroom, model.poleExponent + 1);
}

/** d2l/dn2 in seconds per request squared; Infinity at and past the pole. */
export function latencyCurvatureSeconds(model: SaturatingLatency, load: number): number {
  if (model.poleScale === 0) return 0;
  const headroom = model.saturationLoad - load;
  if (headroom <= 0) return Number.POSITIVE_INFINITY;
  const exponent = model.poleExponent;
  return model.poleScale * exponent * (exponent + 1) * inversePower(headroom, exponent + 2);
}

/** What a caller wants for a load at or past the pole. `exclude` yields Infinity, which the assignment solver reads as "forbidden". */
export type PastPoleRule = 'infinite' | 'clamp' | 'exclude' | 'error';

/**
 * l(load) with a rule for loads at and past the pole.
 * `clamp` evaluates the model half a request before the pole: the last state an integer load can be in without crossing it,
 * so a clamped worker costs what an almost full one does and never less (the affine part still grows with the true load).
 * @throws GameInputError under `error`.
 */
export function latencyWithRule(model: SaturatingLatency, load: number, rule: PastPoleRule): number {
  if (model.poleScale === 0 || load < model.saturationLoad - CLAMP_HEADROOM) return latencySeconds(model, load);
  if (rule === 'clamp') {
    const affine = model.slopeSeconds * load + model.interceptSeconds;
    return affine + model.poleScale * inversePower(CLAMP_HEADROOM, model.poleExponent);
  }
  if (load < model.saturationLoad) return latencySeconds(model, load);
  if (rule === 'error') {
    throw new GameInputError(
      `load ${load} is at or past saturationLoad ${model.saturationLoad}; raise saturationLoad or choose another past-pole rule`,
    );
  }
  return Number.POSITIVE_INFINITY;
}

/** Half a request: keeps an integer load one step below an integer pole unclamped. */
const CLAMP_HEADROOM = 0.5;

/**
 * Mean time in system of an M/M/1 queue, 1 / (mu - lambda), in seconds; Infinity when the queue is not stable.
 * The paper uses it as the shape of the wait near saturation. It assumes Poisson arrivals and exponential service.
 */
export function queueSojournSeconds(arrivalsPerSecond: number, servicesPerSecond: number): number {
  requireAtLeast('arrivalsPerSecond', arrivalsPerSecond, 0);
  requireAbove('servicesPerSecond', servicesPerSecond, 0);
  return arrivalsPerSecond < servicesPerSecond ? 1 / (servicesPerSecond - arrivalsPerSecond) : Number.POSITIVE_INFINITY;
}
