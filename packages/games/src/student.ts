/** 97.5 % quantiles of Student's t for 1..10 degrees of freedom, from standard tables (e.g. Abramowitz and Stegun, table 26.10). */
const SMALL_STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
/** 97.5 % quantile of the normal distribution. */
const NORMAL = 1.959964;

/** 97.5 % quantile of Student's t: half the width of a 95 % interval in standard errors. Beyond the table the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5), good to 1e-3 there. */
export function studentQuantile(freedom: number): number {
  if (freedom <= SMALL_STUDENT.length) return SMALL_STUDENT[freedom - 1]!;
  const cube = NORMAL * NORMAL * NORMAL;
  const first = (cube + NORMAL) / 4;
  const second = (5 * cube * NORMAL * NORMAL + 16 * cube + 3 * NORMAL) / 96;
  return NORMAL + first / freedom + second / (freedom * freedom);
}

/** Mean of independent values of one quantity, for example one a seed, and its 95 % interval; null with fewer than two values. */
export interface MeanInterval {
  readonly mean: number;
  readonly halfWidth: number | null;
  readonly low: number | null;
  readonly high: number | null;
}

/** Half the width is t(0.975, n - 1) s / sqrt(n), s the standard deviation of the n values. Without a value the mean is NaN. */
export function meanInterval(values: readonly number[]): MeanInterval {
  const count = values.length;
  const mean = values.reduce((sum, value) => sum + value, 0) / count;
  if (count < 2) return { mean, halfWidth: null, low: null, high: null };
  const squares = values.reduce((sum, value) => sum + (value - mean) * (value - mean), 0);
  const halfWidth = studentQuantile(count - 1) * Math.sqrt(squares / (count - 1) / count);
  return { mean, halfWidth, low: mean - halfWidth, high: mean + halfWidth };
}
