import { KernelError } from './errors.js';
import { epochMs } from './wall-clock.js';

/** How fast simulated time runs: as fast as possible, or this many times the wall clock. */
export type Pace = number | 'max';

/** How a paced run kept up. Lateness is the wall time an event ran after its due time. */
export interface PacingReport {
  readonly pace: number;
  readonly windows: number;
  readonly lagP50Ms: number;
  readonly lagP99Ms: number;
  readonly lagMaxMs: number;
  /** False when the run was more than 100 ms late at its end or for more than 1 % of its windows. */
  readonly keptUp: boolean;
}

/** Waits at most this long at once, so that external input and an abort are met in time. */
const paceQuantumMs = 1;
/** `Atomics.wait` wakes about 0.1 ms late; the rest is spun. */
const spinMs = 0.3;
const behindMs = 100;

const bucketsPerDoubling = 8;
const bucketCount = 40 * bucketsPerDoubling;

/** Maps simulated time to the wall clock and counts lateness (buckets of 9 %, from 1 us up). */
export class Pacer {
  readonly pace: number;
  #startEpochMs = Number.NaN;
  readonly #startNs: number;
  readonly #buckets = new Float64Array(bucketCount);
  #windows = 0;
  #maxMs = 0;
  #lastMs = 0;

  constructor(pace: number, startNs: number) {
    this.pace = pace;
    this.#startNs = startNs;
  }

  /** Lets the wall clock begin, once every shard is there. Later calls change nothing. */
  start(): void {
    if (Number.isNaN(this.#startEpochMs)) this.#startEpochMs = epochMs();
  }

  /** Simulated time that is due now. */
  dueNs(): number {
    if (Number.isNaN(this.#startEpochMs)) return this.#startNs;
    return this.#startNs + Math.max(0, Math.floor((epochMs() - this.#startEpochMs) * 1e6 * this.pace));
  }

  /** Wall milliseconds until a simulated time is due; negative when it is past due. */
  untilDueMs(timeNs: number): number {
    return this.#startEpochMs + (timeNs - this.#startNs) / (1e6 * this.pace) - epochMs();
  }

  /** Holds until `timeNs` is due or about a quantum has passed; `sleep` waits and may return early. */
  waitFor(timeNs: number, sleep: (ms: number) => void): void {
    const remainingMs = this.untilDueMs(timeNs);
    if (remainingMs <= 0) return;
    if (remainingMs > spinMs) sleep(Math.min(remainingMs - spinMs, paceQuantumMs));
    else while (this.untilDueMs(timeNs) > 0);
  }

  note(firstEventNs: number): void {
    const lagMs = Math.max(0, -this.untilDueMs(firstEventNs));
    this.#lastMs = lagMs;
    this.#windows++;
    if (lagMs > this.#maxMs) this.#maxMs = lagMs;
    const bucket = lagMs < 0.001 ? 0 : Math.min(bucketCount - 1, 1 + Math.floor(Math.log2(lagMs * 1000) * bucketsPerDoubling));
    this.#buckets[bucket] = (this.#buckets[bucket] as number) + 1;
  }

  report(): PacingReport {
    let late = 0;
    for (let bucket = 0; bucket < bucketCount; bucket++) if (upperEdgeMs(bucket) > behindMs) late += this.#buckets[bucket] as number;
    return {
      pace: this.pace,
      windows: this.#windows,
      lagP50Ms: this.#quantileMs(0.5),
      lagP99Ms: this.#quantileMs(0.99),
      lagMaxMs: this.#maxMs,
      keptUp: this.#lastMs <= behindMs && late <= 0.01 * this.#windows,
    };
  }

  #quantileMs(share: number): number {
    let count = 0;
    for (let bucket = 0; bucket < bucketCount; bucket++) {
      count += this.#buckets[bucket] as number;
      if (count >= share * this.#windows) return Math.min(this.#maxMs, upperEdgeMs(bucket));
    }
    return this.#maxMs;
  }
}

function upperEdgeMs(bucket: number): number {
  return bucket === 0 ? 0.001 : 2 ** (bucket / bucketsPerDoubling) / 1000;
}

/** @throws KernelError `bad-option`. */
export function checkPace(pace: Pace): void {
  if (pace === 'max' || (typeof pace === 'number' && pace > 0 && pace < Number.POSITIVE_INFINITY)) return;
  throw new KernelError('bad-option', `pace is ${pace}; it must be 'max' or a positive number (times the wall clock)`);
}
