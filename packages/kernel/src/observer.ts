import { EventEmitter } from 'eventemitter3';
import type { KernelError } from './errors.js';
import type { RunResult } from './run-options.js';

/** One window of one shard. */
export interface WindowReport {
  readonly shard: number;
  /** First event in it; Infinity when the shard had none. */
  readonly fromNs: number;
  readonly boundNs: number;
  readonly events: number;
}

export interface ProgressReport {
  readonly nowNs: number;
  readonly events: number;
  readonly eventsPerSecond: number;
  readonly wallMs: number;
  /** Share of the simulated time done, when the end is known. */
  readonly share: number | undefined;
  readonly remainingMs: number | undefined;
}

export interface StallReport {
  readonly shard: number;
  readonly actor: string;
  readonly message: string;
  readonly nowNs: number;
  readonly stalledMs: number;
}

export interface StartReport {
  readonly program: string;
  readonly seed: string;
  readonly actors: number;
  readonly shards: number;
  readonly transport: string;
}

/** What an observer of a run can listen to. Nothing is collected for events nobody listens to. */
export interface RunEvents {
  started: (report: StartReport) => void;
  window: (report: WindowReport) => void;
  progress: (report: ProgressReport) => void;
  stalled: (report: StallReport) => void;
  'actor-error': (error: KernelError) => void;
  finished: (result: RunResult) => void;
}

export class RunObserver extends EventEmitter<RunEvents> {}
