import type { Limits } from './limits.js';

/** Told of every event that is about to run, when a recorder or a trace asks for it. */
export type EventTap = (timeNs: number, step: number, sender: number, target: number, messageName: string) => void;

export interface EngineOptions {
  readonly seed: string;
  readonly limits: Limits;
  /** Every message passes through the codec, and views are poisoned after the handler. */
  readonly strict: boolean;
  /** Whether records are kept for a sink (they are hashed in any case). */
  readonly keepRecords: boolean;
  /** Where a watcher reads what runs (see `WatchWords`): int32 [events, actor, message, in a handler], and the time as the double at index 4. */
  readonly watch?: Int32Array;
}
