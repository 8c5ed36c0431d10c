import { type LinearTiming, linearCurve, linearMixedNs } from './timing-linear.js';
import { type PolynomialTiming, polynomialCurve, polynomialMixedNs } from './timing-polynomial.js';
import { type RooflineTiming, rooflineCurve, rooflineMixedNs } from './timing-roofline.js';
import { type TableTiming, tableCurve, tableMixedNs } from './timing-table.js';

/** How long passes of an engine take; plain data, one copy for each engine. */
export type TimingModel = RooflineTiming | PolynomialTiming | LinearTiming | TableTiming;

/**
 * Times of the decode passes of one unchanged batch: pass j (from 0) takes c0 + c1 j + c2 j^2 nanoseconds, because the context grows by one
 * token a sequence and pass. Holds for `validPasses` passes; then the curve has to be derived anew.
 */
export interface DecodeCurve {
  c0Ns: number;
  c1Ns: number;
  c2Ns: number;
  validPasses: number;
}

/** What one pass computes. Contexts count the tokens attended to, the new token of a decode included. */
export interface PassShape {
  decodeSequences: number;
  decodeContextTokens: number;
  prefillSequences: number;
  prefillTokens: number;
  /** Token pairs of causal attention of the chunks: sum of q (s + (q + 1) / 2) over chunks of q tokens after s. */
  prefillPairs: number;
  /** Tokens attended to by the chunks: sum of s + q. */
  prefillContextTokens: number;
  /** Chunks that end their prompt and so sample a token. */
  prefillSampled: number;
}

/** No pass is shorter: a pass needs at least this for time to move on in whole nanoseconds. */
export const minimumPassNs = 1000;

/** Limit on the passes of one stretch, so that sums stay exact and searches short. */
export const maximumStretchPasses = 1 << 22;

export function createCurve(): DecodeCurve {
  return { c0Ns: minimumPassNs, c1Ns: 0, c2Ns: 0, validPasses: maximumStretchPasses };
}

export function createPassShape(): PassShape {
  return {
    decodeSequences: 0,
    decodeContextTokens: 0,
    prefillSequences: 0,
    prefillTokens: 0,
    prefillPairs: 0,
    prefillContextTokens: 0,
    prefillSampled: 0,
  };
}

/** Writes the curve of a batch of `sequences` decodes whose contexts sum to `contextTokens` in the next pass; `speedFactor` 0.5 doubles the times. */
export function decodeCurve(timing: TimingModel, sequences: number, contextTokens: number, speedFactor: number, curve: DecodeCurve): void {
  if (timing.kind === 'roofline') rooflineCurve(timing, sequences, contextTokens, curve);
  else if (timing.kind === 'polynomial') polynomialCurve(timing, sequences, contextTokens, curve);
  else if (timing.kind === 'linear') linearCurve(timing, sequences, curve);
  else tableCurve(timing, sequences, contextTokens, curve);
  if (speedFactor !== 1) {
    curve.c0Ns /= speedFactor;
    curve.c1Ns /= speedFactor;
    curve.c2Ns /= speedFactor;
  }
  if (!(curve.c0Ns >= minimumPassNs)) {
    curve.c0Ns = minimumPassNs;
  }
}

/** Time of one pass that holds prefill chunks, whole nanoseconds. */
export function mixedPassNs(timing: TimingModel, shape: PassShape, speedFactor: number): number {
  let ns: number;
  if (timing.kind === 'roofline') ns = rooflineMixedNs(timing, shape);
  else if (timing.kind === 'polynomial') ns = polynomialMixedNs(timing, shape);
  else if (timing.kind === 'linear') ns = linearMixedNs(timing, shape);
  else ns = tableMixedNs(timing, shape);
  return Math.max(minimumPassNs, Math.round(ns / speedFactor));
}

/** Closed form of the first `passes` passes of a curve: sums of 1, j and j^2 over j < passes. Whole nanoseconds. */
export function elapsedNs(curve: DecodeCurve, passes: number): number {
  const linear = (passes * (passes - 1)) / 2;
  return Math.round(passes * curve.c0Ns + linear * curve.c1Ns + ((linear * (2 * passes - 1)) / 3) * curve.c2Ns);
}

/** How many passes are over at `ns` after the anchor: the largest k in low..high with elapsed(k) <= ns. */
export function passesWithin(curve: DecodeCurve, ns: number, low: number, high: number): number {
  let floor = low;
  let ceiling = high + 1;
  while (ceiling - floor > 1) {
    const middle = (floor + ceiling) >>> 1;
    if (elapsedNs(curve, middle) <= ns) floor = middle;
    else ceiling = middle;
  }
  return floor;
}
