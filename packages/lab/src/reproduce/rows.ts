import { meanInterval } from '@braess/games';

/** ms, s, rps, ratio and tokens are absolute; percent and points (of percentage) are compared by their difference. */
export type RowUnit = 'ms' | 's' | 'rps' | 'ratio' | 'percent' | 'points' | 'requests';

/** fit: used to choose the configuration; assumed: follows from a mechanism chosen to explain it; prediction: neither. */
export type RowBasis = 'fit' | 'assumed' | 'prediction';

/** One number of a paper beside the emulated one. */
export interface ReproductionRow {
  /** Place and meaning, e.g. table2.rag.200.netkv.ttft. */
  readonly id: string;
  /** Null where the paper gives no number. */
  readonly published: number | null;
  readonly emulated: number | null;
  /** 95 % interval of the emulated mean over the seeds (Student's t); null with fewer than two. */
  readonly ciLow: number | null;
  readonly ciHigh: number | null;
  readonly unit: RowUnit;
  readonly basis: RowBasis;
  /** What else there is to say of it, e.g. whether it keeps Little's law. */
  readonly note?: string;
}

/** A row from one value a seed. */
export function rowOf(
  id: string,
  published: number | null,
  values: readonly number[],
  unit: RowUnit,
  basis: RowBasis = 'prediction',
): ReproductionRow {
  if (values.length === 0) return { id, published, emulated: null, ciLow: null, ciHigh: null, unit, basis };
  const { mean, low, high } = meanInterval(values);
  return { id, published, emulated: mean, ciLow: low, ciHigh: high, unit, basis };
}

/** How far the emulated number is off: percent of the published one, or the difference where both are percentages. Null without both. */
export function deviationOf({
  published,
  emulated,
  unit,
}: ReproductionRow): { readonly value: number; readonly unit: '%' | 'points' } | null {
  if (published === null || emulated === null) return null;
  if (unit === 'percent' || unit === 'points') return { value: emulated - published, unit: 'points' };
  return published === 0 ? null : { value: (100 * (emulated - published)) / published, unit: '%' };
}
