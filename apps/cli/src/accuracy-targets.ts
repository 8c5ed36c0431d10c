import type { AccuracyRow } from '@braess/serving';

/** Largest errors allowed, in percent of the measured value; absent: any. */
export interface AccuracyTarget {
  readonly meanPercent?: number;
  readonly largestPercent?: number;
}

/** The rows of one group and basis, their absolute errors, and whether these are within the target. */
export interface Verdict {
  readonly group: string;
  readonly basis: AccuracyRow['basis'];
  readonly rows: readonly AccuracyRow[];
  readonly meanPercent: number;
  readonly largestPercent: number;
  readonly target: AccuracyTarget;
  readonly reached: boolean;
}

/** Sweeps of one engine: the mean over what was predicted, and no row far off, fitted ones included. Runs of chat clients: every median predicted. */
const largestOfSweeps = 30;
const targets: Readonly<Record<string, AccuracyTarget>> = {
  prefill: { meanPercent: 6, largestPercent: largestOfSweeps },
  decode: { meanPercent: 10, largestPercent: largestOfSweeps },
  'ttft-median': { largestPercent: 25 },
  'tpot-median': { largestPercent: 10 },
};

/** Groups rows by engine and quantity (`engine/prefill/8240` and `engine/32-clients/ttft-median`), in order of appearance, fit before prediction. */
export function judgeAccuracy(rows: readonly AccuracyRow[]): Verdict[] {
  const groups = [...new Set(rows.map(groupOf))];
  return groups.flatMap((group) =>
    (['fit', 'prediction'] as const).flatMap((basis) => {
      const chosen = rows.filter((row) => groupOf(row) === group && row.basis === basis);
      return chosen.length === 0 ? [] : [judge(group, basis, chosen)];
    }),
  );
}

function groupOf({ id }: AccuracyRow): string {
  const [engine, second, third] = id.split('/');
  return second === 'prefill' || second === 'decode' ? `${engine}/${second}` : `${engine}/${third}`;
}

function judge(group: string, basis: AccuracyRow['basis'], rows: readonly AccuracyRow[]): Verdict {
  const errors = rows.map((row) => Math.abs(row.errorPercent));
  const meanPercent = errors.reduce((sum, error) => sum + error, 0) / errors.length;
  const largestPercent = Math.max(...errors);
  const target = targetOf(group, basis);
  const reached = meanPercent <= (target.meanPercent ?? Infinity) && largestPercent <= (target.largestPercent ?? Infinity);
  return { group, basis, rows, meanPercent, largestPercent, target, reached };
}

function targetOf(group: string, basis: AccuracyRow['basis']): AccuracyTarget {
  const quantity = group.slice(group.indexOf('/') + 1);
  const target = targets[quantity] ?? {};
  if (basis === 'prediction') return target;
  return quantity === 'prefill' || quantity === 'decode' ? { largestPercent: largestOfSweeps } : {};
}
