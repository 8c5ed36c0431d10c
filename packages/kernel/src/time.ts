import { KernelError } from './errors.js';

/** Simulated time is an integer count of nanoseconds, exact up to this value (about 104 days). */
export const maximumTimeNs = Number.MAX_SAFE_INTEGER;

export const microsecondNs = 1_000;
export const millisecondNs = 1_000_000;
export const secondNs = 1_000_000_000;

/** Checks a duration or instant; throws a `KernelError` that names `what`, the value and the fix. */
export function checkNs(what: string, valueNs: number): void {
  if (Number.isSafeInteger(valueNs) && valueNs >= 0) return;
  throw new KernelError('bad-time', `${what} is ${valueNs}; ${timeFault(valueNs)}`);
}

export function timeFault(valueNs: number): string {
  if (typeof valueNs !== 'number' || Number.isNaN(valueNs)) return 'it must be a number of nanoseconds';
  if (valueNs < 0) return 'it must not be negative';
  if (valueNs > maximumTimeNs) return `it must not pass 2^53 - 1 ns (${maximumTimeNs})`;
  return 'it must be a whole number of nanoseconds: round it (Math.round)';
}
