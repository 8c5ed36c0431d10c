import { type DecodeCurve, maximumStretchPasses, type PassShape } from './timing.js';

/** Prefill time as a polynomial of the chunk's tokens, decode time as one of the share of KV memory in use. */
export interface PolynomialTiming {
  kind: 'polynomial';
  /** Milliseconds: coefficients of n^2, n and 1. */
  prefillMs: [number, number, number];
  /** Milliseconds: coefficients of u^2, u and 1. */
  decodeMs: [number, number, number];
  decodeFloorMs: number;
  /** KV tokens that make u = 1. */
  capacityTokens: number;
}

/** The coefficients of the mocker engine of NVIDIA Dynamo (lib/mocker, polynomial performance model). */
export function createPolynomial(capacityTokens: number): PolynomialTiming {
  if (!(capacityTokens >= 1)) throw new Error(`polynomial timing: capacity is ${capacityTokens} KV tokens; must be at least 1`);
  return {
    kind: 'polynomial',
    prefillMs: [4.209989e-7, 1.518344e-2, 16.50142],
    decodeMs: [-25.74, 54.01, 5.74],
    decodeFloorMs: 1,
    capacityTokens,
  };
}

/** With u = (S + B j) / capacity in pass j, a quadratic in u is one in j. Where the floor takes over or lets go, the curve ends. */
export function polynomialCurve(timing: PolynomialTiming, sequences: number, contextTokens: number, curve: DecodeCurve): void {
  const [a, b, c] = timing.decodeMs;
  const use = contextTokens / timing.capacityTokens;
  const step = sequences / timing.capacityTokens;
  const first = a * use * use + b * use + c;
  const floored = first < timing.decodeFloorMs;
  curve.c0Ns = (floored ? timing.decodeFloorMs : first) * 1e6;
  curve.c1Ns = floored ? 0 : (2 * a * use + b) * step * 1e6;
  curve.c2Ns = floored ? 0 : a * step * step * 1e6;
  curve.validPasses = passesOnSide(timing, use, step, floored);
}

/** Passes until the quadratic first stands on the other side of the floor. */
function passesOnSide(timing: PolynomialTiming, use: number, step: number, floored: boolean): number {
  const [a, b, c] = timing.decodeMs;
  const constant = c - timing.decodeFloorMs;
  let nearest = Number.POSITIVE_INFINITY;
  for (const root of quadraticRoots(a, b, constant)) {
    const passes = Math.ceil((root - use) / step);
    // A root behind, or one the first pass already stands on, changes nothing ahead.
    if (passes >= 1 && passes < nearest) {
      const there = use + passes * step;
      if (a * there * there + b * there + constant < 0 !== floored) nearest = passes;
    }
  }
  return Math.min(nearest, maximumStretchPasses);
}

function quadraticRoots(a: number, b: number, c: number): number[] {
  if (a === 0) return b === 0 ? [] : [-c / b];
  const discriminant = b * b - 4 * a * c;
  if (discriminant < 0) return [];
  const root = Math.sqrt(discriminant);
  return [(-b - root) / (2 * a), (-b + root) / (2 * a)];
}

/** Chunks and decodes of a pass run one after the other, as in the mocker. */
export function polynomialMixedNs(timing: PolynomialTiming, shape: PassShape): number {
  const [a, b, c] = timing.prefillMs;
  const tokens = shape.prefillTokens;
  const prefill = tokens > 0 ? a * tokens * tokens + b * tokens + c : 0;
  return (prefill + (shape.decodeSequences > 0 ? decodeMs(timing, shape.decodeContextTokens) : 0)) * 1e6;
}

function decodeMs(timing: PolynomialTiming, contextTokens: number): number {
  const [a, b, c] = timing.decodeMs;
  const use = contextTokens / timing.capacityTokens;
  return Math.max(timing.decodeFloorMs, a * use * use + b * use + c);
}
