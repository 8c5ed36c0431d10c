import type { Uniform } from './distributions.js';

/** What a client does about slow and failed attempts. */
export interface RetrySpec {
  /** Time an attempt may take before the client cancels it; absent: for ever. */
  timeoutMs?: number;
  /** Time for all attempts together, pauses included; absent: for ever. */
  deadlineMs?: number;
  /** Attempts in all, 1 or more. */
  attempts: number;
  /** Pause before the second attempt; each later one `backoffFactor` times longer, up to `maxBackoffMs`. */
  backoffMs: number;
  backoffFactor: number;
  maxBackoffMs: number;
  /** `full`: a uniform part of the pause; `equal`: half of it and a uniform part of the other half. */
  jitter: 'none' | 'equal' | 'full';
}

/** No timeout, one attempt. */
export const NO_RETRY: RetrySpec = { attempts: 1, backoffMs: 0, backoffFactor: 1, maxBackoffMs: 0, jitter: 'none' };

export function checkRetry(spec: RetrySpec): void {
  if (!(Number.isInteger(spec.attempts) && spec.attempts >= 1)) {
    throw new RangeError(`retry.attempts is ${spec.attempts}; must be a whole number, 1 or more`);
  }
  for (const name of ['timeoutMs', 'deadlineMs'] as const) {
    const value = spec[name];
    if (value !== undefined && !(value > 0 && Number.isFinite(value)))
      throw new RangeError(`retry.${name} is ${value}; must be above 0, or absent`);
  }
  for (const name of ['backoffMs', 'maxBackoffMs'] as const) {
    if (!(spec[name] >= 0 && Number.isFinite(spec[name]))) throw new RangeError(`retry.${name} is ${spec[name]}; must be 0 or more`);
  }
  if (!(spec.backoffFactor >= 1 && spec.backoffFactor <= 100)) {
    throw new RangeError(`retry.backoffFactor is ${spec.backoffFactor}; must be from 1 to 100`);
  }
  if (!['none', 'equal', 'full'].includes(spec.jitter))
    throw new RangeError(`retry.jitter is ${String(spec.jitter)}; one of none, equal, full`);
}

/** When the attempt that starts at `startNs` is cancelled, for a request first sent at `firstNs`; Infinity: never. */
export function attemptEndsNs(spec: RetrySpec, firstNs: number, startNs: number): number {
  const timeout = spec.timeoutMs === undefined ? Number.POSITIVE_INFINITY : startNs + Math.round(spec.timeoutMs * 1e6);
  return Math.min(timeout, requestEndsNs(spec, firstNs));
}

/**
 * When to start the attempt after the failure of number `failedAttempt` (from 1) at `nowNs`; -1 to give up: no attempts left, or the
 * deadline would have passed. One draw whenever the jitter is not `none`.
 */
export function nextAttemptNs(spec: RetrySpec, failedAttempt: number, firstNs: number, nowNs: number, uniform: Uniform): number {
  if (failedAttempt >= spec.attempts) return -1;
  const startNs = nowNs + Math.round(jittered(spec, backoffMs(spec, failedAttempt), uniform) * 1e6);
  return startNs < requestEndsNs(spec, firstNs) ? startNs : -1;
}

/** The pause after a failed attempt (from 1), before jitter. By multiplication: powers differ between Node versions. */
export function backoffMs(spec: RetrySpec, failedAttempt: number): number {
  let pauseMs = spec.backoffMs;
  for (let attempt = 1; attempt < failedAttempt && pauseMs < spec.maxBackoffMs; attempt++) pauseMs *= spec.backoffFactor;
  return Math.min(pauseMs, spec.maxBackoffMs);
}

function jittered(spec: RetrySpec, pauseMs: number, uniform: Uniform): number {
  if (spec.jitter === 'none') return pauseMs;
  return spec.jitter === 'full' ? pauseMs * uniform() : (pauseMs / 2) * (1 + uniform());
}

function requestEndsNs(spec: RetrySpec, firstNs: number): number {
  return spec.deadlineMs === undefined ? Number.POSITIVE_INFINITY : firstNs + Math.round(spec.deadlineMs * 1e6);
}
