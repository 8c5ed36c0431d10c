import { KernelError } from './errors.js';

/** Limits of a run; each has a default, and passing one is an error that names the object and the limit. */
export interface Limits {
  /** Bytes of pending events a shard may hold, and as many again of their bodies (default 1 GiB). */
  readonly pendingBytes: number;
  /** Longest chain of zero-delay sends at one instant (default 10,000). */
  readonly zeroDelaySteps: number;
  /** Bytes of one ring between two shards (default 1 MiB, less for many shards: see `ringBytesFor`); larger batches pass through it in pieces. */
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

/** Below these a run could not even begin. */
const leastBytes: readonly (readonly [keyof Limits, number])[] = [
  ['pendingBytes', 4096],
  ['batchBytes', 8192],
  ['ringBytes', 4096],
];

/** There is a ring for each pair of shards. */
const mostRingBytes = 2 ** 30;

/** Fills in defaults. @throws KernelError `bad-option` for an unknown limit, and for a value that is not a positive number, too small or too large. */
export function resolveLimits(given: Partial<Limits> = {}): Limits {
  const limits = { ...defaultLimits, ...given };
  for (const [name, value] of Object.entries(limits) as [string, unknown][]) {
    if (!(name in defaultLimits))
      throw new KernelError('bad-option', `there is no limits.${name}; there are ${Object.keys(defaultLimits).join(', ')}`);
    if (!(typeof value === 'number' && value > 0))
      throw new KernelError('bad-option', `limits.${name} is ${String(value)}; it must be a positive number`);
  }
  for (const [name, least] of leastBytes) {
    if (limits[name] < least) throw new KernelError('bad-option', `limits.${name} is ${limits[name]}; at least ${least}`);
  }
  if (limits.ringBytes > mostRingBytes)
    throw new KernelError('bad-option', `limits.ringBytes is ${limits.ringBytes}; at most ${mostRingBytes}`);
  return limits;
}

/** Bytes of a ring where none are given: all rings between `shards` shards stay within 64 MiB, none under 64 KiB. A power of two. */
export function ringBytesFor(shards: number): number {
  const share = 2 ** 26 / Math.max(1, shards * (shards - 1));
  return Math.min(defaultLimits.ringBytes, Math.max(2 ** 16, 2 ** Math.floor(Math.log2(share))));
}
