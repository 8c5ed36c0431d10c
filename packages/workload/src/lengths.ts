import { exponentialQuantile, normalQuantile, type Uniform } from './distributions.js';

/** A distribution of token counts. Samples are whole numbers, 1 or more; `minTokens` and `maxTokens` clip. */
export type LengthSpec =
  | { kind: 'constant'; tokens: number }
  /** Each whole number from minTokens to maxTokens alike. */
  | { kind: 'uniform'; minTokens: number; maxTokens: number }
  /** `meanTokens` is the mean before clipping; `sigma` the standard deviation of the logarithm. */
  | { kind: 'lognormal'; meanTokens: number; sigma: number; minTokens?: number; maxTokens?: number }
  | { kind: 'exponential'; meanTokens: number; minTokens?: number; maxTokens?: number }
  /** Points (probability, tokens) of the inverse distribution from probability 0 to 1, linear between or linear in the logarithm. */
  | { kind: 'quantiles'; points: [number, number][]; interpolation?: 'linear' | 'logarithmic' };

const MAX_LENGTH_TOKENS = 2_147_483_647;

/** One sample; exactly one draw, also for constants, so that changing a distribution leaves other draws where they are. */
export function sampleLength(spec: LengthSpec, uniform: Uniform): number {
  return lengthQuantile(spec, uniform());
}

/** The length at `probability`. */
export function lengthQuantile(spec: LengthSpec, probability: number): number {
  switch (spec.kind) {
    case 'constant':
      return spec.tokens;
    case 'uniform':
      return spec.minTokens + Math.floor(probability * (spec.maxTokens - spec.minTokens + 1));
    case 'lognormal': {
      const logMean = Math.log(spec.meanTokens) - (spec.sigma * spec.sigma) / 2;
      return clipLength(Math.exp(logMean + spec.sigma * normalQuantile(probability)), spec.minTokens, spec.maxTokens);
    }
    case 'exponential':
      return clipLength(spec.meanTokens * exponentialQuantile(probability), spec.minTokens, spec.maxTokens);
    case 'quantiles':
      return clipLength(interpolate(spec.points, probability, spec.interpolation === 'logarithmic'), 1, undefined);
    default:
      return spec satisfies never;
  }
}

/** The empirical distribution of measured lengths: `points` equally spaced quantiles, so resampling follows the data. */
export function empiricalLength(lengths: Int32Array, points = 201): LengthSpec {
  if (lengths.length === 0 || points < 2)
    throw new RangeError(`empiricalLength: ${lengths.length} lengths, ${points} points; needs 1 and 2 or more`);
  const sorted = lengths.slice().sort();
  const quantiles: [number, number][] = [];
  for (let index = 0; index < points; index++) {
    const rank = (index / (points - 1)) * (sorted.length - 1);
    const below = sorted[Math.floor(rank)]!;
    const value = below + (rank - Math.floor(rank)) * (sorted[Math.ceil(rank)]! - below);
    quantiles.push([index / (points - 1), Math.round(value)]);
  }
  return { kind: 'quantiles', points: quantiles };
}

/** Refuses a specification that has no meaning; `name` says whose it is. */
export function checkLength(spec: LengthSpec, name: string): void {
  switch (spec.kind) {
    case 'constant':
      checkTokens(spec.tokens, `${name}.tokens`);
      break;
    case 'uniform':
      checkRange(spec.minTokens, spec.maxTokens, name);
      break;
    case 'lognormal':
      checkPositive(spec.meanTokens, `${name}.meanTokens`);
      if (!(spec.sigma >= 0 && spec.sigma <= 10)) throw new RangeError(`${name}.sigma is ${spec.sigma}; must be from 0 to 10`);
      checkRange(spec.minTokens ?? 1, spec.maxTokens ?? MAX_LENGTH_TOKENS, name);
      break;
    case 'exponential':
      checkPositive(spec.meanTokens, `${name}.meanTokens`);
      checkRange(spec.minTokens ?? 1, spec.maxTokens ?? MAX_LENGTH_TOKENS, name);
      break;
    case 'quantiles':
      checkPoints(spec.points, name);
      break;
    default:
      throw new RangeError(
        `${name}.kind is ${String((spec satisfies never as LengthSpec).kind)}; one of constant, uniform, lognormal, exponential, quantiles`,
      );
  }
}

function clipLength(tokens: number, minTokens: number | undefined, maxTokens: number | undefined): number {
  return Math.round(Math.max(minTokens ?? 1, Math.min(maxTokens ?? MAX_LENGTH_TOKENS, tokens)));
}

/** Linear between the points (probability, value), binary search. */
export function interpolate(points: [number, number][], probability: number, logarithmic: boolean): number {
  let low = 0;
  let high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle]![0] <= probability) low = middle;
    else high = middle;
  }
  const [startAt, start] = points[low]!;
  const [endAt, end] = points[high]!;
  if (endAt === startAt) return end;
  const share = (probability - startAt) / (endAt - startAt);
  return logarithmic ? Math.exp(Math.log(start) + share * (Math.log(end) - Math.log(start))) : start + share * (end - start);
}

function checkPoints(points: [number, number][], name: string): void {
  if (points.length < 2 || points[0]![0] !== 0 || points.at(-1)![0] !== 1) {
    throw new RangeError(`${name}.points must begin at probability 0 and end at 1; has ${points.length} points`);
  }
  for (const [index, point] of points.entries()) {
    checkTokens(point[1], `${name}.points[${index}]`);
    const before = points[index - 1];
    if (before === undefined || (point[0] > before[0] && point[1] >= before[1])) continue;
    throw new RangeError(`${name}.points[${index}] is (${point[0]}, ${point[1]}); must lie beyond (${before[0]}, ${before[1]})`);
  }
}

function checkRange(minTokens: number, maxTokens: number, name: string): void {
  checkTokens(minTokens, `${name}.minTokens`);
  checkTokens(maxTokens, `${name}.maxTokens`);
  if (minTokens > maxTokens) throw new RangeError(`${name}.minTokens ${minTokens} is above maxTokens ${maxTokens}`);
}

function checkTokens(value: number, name: string): void {
  if (Number.isInteger(value) && value >= 1 && value <= MAX_LENGTH_TOKENS) return;
  throw new RangeError(`${name} is ${value}; must be a whole number of tokens, 1 or more`);
}

/** Refuses anything but a finite number above 0. */
export function checkPositive(value: number, name: string): void {
  if (!(value > 0 && Number.isFinite(value))) throw new RangeError(`${name} is ${value}; must be a finite number above 0`);
}
