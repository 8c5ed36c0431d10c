import { body, message } from '@braess/kernel';

/** Codes of `KvEventColumns.kinds`: a block can be found there now, no longer, or nothing there can. */
export const kvEventKind = { stored: 1, removed: 2, cleared: 3 } as const;

/**
 * What an engine's prefix cache gained and lost since the last report, as columns. Identity 0 stands for
 * `blocks` blocks that nobody can look up: they matter to the tier below, never to a router. `parents` is set for `stored` only.
 */
export interface KvEventColumns {
  readonly kinds: Uint8Array;
  readonly identities: Float64Array;
  readonly parents: Float64Array;
  readonly blocks: Int32Array;
}

/** engine -> frontend: KV events, late by the control delay and the reporting period. `sequence` lets a gap be noticed. */
export const kvEvents = message('kvEvents', ['engine', 'sequence'], body<KvEventColumns>());

/** engine -> frontend (and planner): the engine's load when it was sent. Tokens queued for prefill, sequences running and waiting, KV blocks. */
export const loadReport = message('loadReport', [
  'engine',
  'queuedTokens',
  'runningSequences',
  'waitingSequences',
  'usedBlocks',
  'totalBlocks',
]);

/** planner -> engine: take another role (0 aggregated, 1 prefill, 2 decode): drain, then switch for `switchNs`. */
export const changeRole = message('changeRole', ['role', 'switchNs']);

/** planner -> engine: start serving in a role after `startNs`. */
export const startEngine = message('startEngine', ['role', 'startNs']);

/** planner -> engine: drain, then be off until the next start; its GPUs are free for others. */
export const stopEngine = message('stopEngine', []);

/** engine -> frontends, planner: the engine's role and status changed (status codes of the serving package). */
export const engineState = message('engineState', ['engine', 'role', 'status']);
