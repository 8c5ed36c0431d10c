/** The middle value; of an even count the mean of the two in the middle. NaN of nothing. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  if (sorted.length === 0) return Number.NaN;
  return sorted.length % 2 === 1 ? (sorted[middle] as number) : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
}

/** Peak resident memory of this process in MB. */
export function peakRssMb(): number {
  return process.resourceUsage().maxRSS / 1024;
}

/** What every bench takes: when to end early, and whom to tell how far it is. */
export interface BenchOptions {
  readonly signal?: AbortSignal;
  /** Called with the share done and what comes next. */
  readonly progress?: (share: number, step: string) => void;
}

/** A bench whose result is wrong; its numbers would mean nothing. */
export class BenchError extends Error {
  override readonly name = 'BenchError';
}
