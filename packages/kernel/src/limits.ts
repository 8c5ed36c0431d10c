import { KernelError } from './errors.js';

/** Limits of a run; each has a default, and passing one is an error that names the object and the limit. */
export interface Limits {
  /** Bytes of pending events a shard may hold (default 1 GiB). */
  readonly pendingBytes: number;
  /** Longest chain of zero-delay sends at one instant (default 10,000). */
  readonly zeroDelaySteps: number;
  /** Bytes of one ring between two shards (default 1 MiB); larger batches pass through it in pieces. */
  readonly ringBytes: number;
  /** Bytes of one batch to one other shard (default 512 MiB). */
  readonly batchBytes: number;
  /** Bytes of records under way to the sink before shards are held (default 16 MiB). */
  readonly recordBytes: number;
  /** Wall time one handler may take before its thread is ended, in ms (default 60,000). */
  readonly handlerLimitMs: number;
}

export const defaultLimits: Limits = {
  pendingBytes: 2 ** 30,
  zeroDelaySteps: 10_000,
  ringBytes: 2 ** 20,
  batchBytes: 2 ** 29,
  recordBytes: 2 ** 24,
  handlerLimitMs: 60_000,
};

/** Fills in defaults. @throws KernelError `bad-option` for a value that is not a positive number. */
export function resolveLimits(given: Partial<Limits> = {}): Limits {
  const limits = { ...defaultLimits, ...given };
  for (const [name, value] of Object.entries(limits) as [string, number][]) {
    if (!(value > 0)) throw new KernelError('bad-option', `limits.${name} is ${value}; it must be a positive number`);
  }
  if (limits.ringBytes < 4096) throw new KernelError('bad-option', `limits.ringBytes is ${limits.ringBytes}; at least 4096`);
  return limits;
}
