import { KernelError } from './errors.js';
import { epochMs, wallMs } from './wall-clock.js';

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

/** What a pacer knows, as plain data: it goes on in the next stretch of the same run, so lateness is not forgotten there. */
export interface PacerState {
  /** NaN until the clock has begun. */
  readonly startEpochMs: number;
  readonly startNs: number;
  readonly buckets: Float64Array;
  readonly windows: number;
  readonly maxMs: number;
  readonly lastMs: number;
}

/** Maps simulated time to the wall clock and counts lateness (buckets of 9 %, from 1 us up). */
export class Pacer {
  readonly pace: number;
  readonly #startNs: number;
  readonly #buckets: Float64Array;
  #startEpochMs: number;
  #windows: number;
  #maxMs: number;
  #lastMs: number;

  /** @param before the state of the stretch before, undefined at the start of a run at `startNs`. */
  constructor(pace: number, startNs: number, before: PacerState | undefined) {
    this.pace = pace;
    this.#startNs = before?.startNs ?? startNs;
    this.#startEpochMs = before?.startEpochMs ?? Number.NaN;
    this.#buckets = before?.buckets.slice() ?? new Float64Array(bucketCount);
    this.#windows = before?.windows ?? 0;
    this.#maxMs = before?.maxMs ?? 0;
    this.#lastMs = before?.lastMs ?? 0;
  }

  get state(): PacerState {
    return {
      startEpochMs: this.#startEpochMs,
      startNs: this.#startNs,
      buckets: this.#buckets,
      windows: this.#windows,
      maxMs: this.#maxMs,
      lastMs: this.#lastMs,
    };
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

  /** Holds until `timeNs` is due or a quantum has passed; `pause` sleeps until a wall time and may return early. */
  waitFor(timeNs: number, pause: (untilMs: number) => void): void {
    const dueMs = this.untilDueMs(timeNs);
    if (dueMs <= 0) return;
    if (dueMs <= spinMs) {
      while (this.untilDueMs(timeNs) > 0);
      return;
    }
    const endMs = wallMs() + Math.min(dueMs - spinMs, paceQuantumMs);
    // Frames of shards that are already a round ahead wake this one: it has to go on waiting.
    for (let left = 100; left > 0 && wallMs() < endMs; left--) pause(endMs);
  }

  note(firstEventNs: number): void {
    const lagMs = Math.max(0, -this.untilDueMs(firstEventNs));
    this.#lastMs = lagMs;
    this.#windows++;
    if (lagMs > this.#maxMs) this.#maxMs = lagMs;
    const bucket = lagMs < 0.001 ? 0 : Math.min(bucketCount - 1, 1 + Math.floor(Math.log2(lagMs * 1000) * bucketsPerDoubling));
    this.#buckets[bucket] = (this.#buckets[bucket] as number) + 1;
  }
}

/** The report of the shard that lagged most; undefined for a run that was not paced. */
export function pacingReport(pace: Pace | undefined, states: readonly PacerState[]): PacingReport | undefined {
  if (typeof pace !== 'number' || states.length === 0) return undefined;
  const reports = states.map((state) => reportOf(pace, state));
  return reports.reduce((worst, report) => (report.lagP99Ms > worst.lagP99Ms ? report : worst));
}

function reportOf(pace: number, state: PacerState): PacingReport {
  let late = 0;
  for (let bucket = 0; bucket < bucketCount; bucket++) if (upperEdgeMs(bucket) > behindMs) late += state.buckets[bucket] as number;
  return {
    pace,
    windows: state.windows,
    lagP50Ms: quantileMs(state, 0.5),
    lagP99Ms: quantileMs(state, 0.99),
    lagMaxMs: state.maxMs,
    keptUp: state.lastMs <= behindMs && late <= 0.01 * state.windows,
  };
}

function quantileMs(state: PacerState, share: number): number {
  let count = 0;
  for (let bucket = 0; bucket < bucketCount; bucket++) {
    count += state.buckets[bucket] as number;
    if (count >= share * state.windows) return Math.min(state.maxMs, upperEdgeMs(bucket));
  }
  return state.maxMs;
}

function upperEdgeMs(bucket: number): number {
  return bucket === 0 ? 0.001 : 2 ** (bucket / bucketsPerDoubling) / 1000;
}

/** @throws KernelError `bad-option`. */
export function checkPace(pace: Pace): void {
  if (pace === 'max' || (typeof pace === 'number' && pace > 0 && pace < Number.POSITIVE_INFINITY)) return;
  throw new KernelError('bad-option', `pace is ${pace}; it must be 'max' or a positive number (times the wall clock)`);
}
