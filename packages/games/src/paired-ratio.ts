import { GameInputError, requireAtLeast, requireInteger, requireLength } from './input-check.js';
import { studentQuantile } from './student.js';

/** Ratio of two paired totals with a confidence interval. */
export interface PairedRatio {
  /** sum(numerator) / sum(denominator), less the jackknife's estimate of its bias. */
  readonly ratio: number;
  readonly low: number;
  readonly high: number;
  readonly standardError: number;
  readonly pairs: number;
}

/**
 * Ratio of sums over independent pairs, for example the total latency a run had against that of its fork with better decisions, with a
 * 95 % interval by the delete-one jackknife (B. Efron, R. Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 11) and
 * Student's t. Bias: of order 1 / pairs squared; the interval assumes independent pairs, so forks that overlap in time make it too narrow.
 * When the denominator is only the best that a search found, the ratio is a lower bound on the price of anarchy, whatever the interval.
 * Undefined with fewer than 3 pairs or a zero denominator.
 */
export function pairedRatio(numerators: ArrayLike<number>, denominators: ArrayLike<number>): PairedRatio | undefined {
  const pairs = numerators.length;
  requireLength('denominators', denominators.length, pairs, `${pairs} numerators`);
  requireInteger('number of pairs', pairs, 0);
  let top = 0;
  let bottom = 0;
  for (let index = 0; index < pairs; index++) {
    requireAtLeast(`numerators[${index}]`, numerators[index]!, 0);
    requireAtLeast(`denominators[${index}]`, denominators[index]!, 0);
    top += numerators[index]!;
    bottom += denominators[index]!;
  }
  if (pairs < 3 || bottom === 0) return undefined;
  const without = Float64Array.from({ length: pairs }, (_, index) => (top - numerators[index]!) / (bottom - denominators[index]!));
  if (!without.every(Number.isFinite))
    throw new GameInputError('one pair holds the whole denominator; a ratio over pairs needs several that count');
  const mean = without.reduce((sum, value) => sum + value, 0) / pairs;
  let spread = 0;
  for (const value of without) spread += (value - mean) * (value - mean);
  const standardError = Math.sqrt((spread * (pairs - 1)) / pairs);
  const ratio = (pairs * top) / bottom - (pairs - 1) * mean;
  const reach = studentQuantile(pairs - 1) * standardError;
  return { ratio, low: ratio - reach, high: ratio + reach, standardError, pairs };
}
