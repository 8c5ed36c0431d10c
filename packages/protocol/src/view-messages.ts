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

/**
 * engine -> frontend: KV events that are nothing but a few blocks that can no longer be found, in order, 0 where there are fewer; in one sequence with
 * `kvEvents`. An engine with a full cache has a message for most of its passes, which needs no body so.
 */
export const kvRemoved = message('kvRemoved', ['sequence', 'block0', 'block1', 'block2', 'block3']);

/** Blocks that one `kvRemoved`, or one `offloadFew`, names at most. */
export const fewBlocks = 4;

/** engine -> frontend (and planner): the engine's load when it was sent. Tokens queued for prefill, sequences running and waiting, KV blocks. */
export const loadReport = message('loadReport', [
  'engine',
  'queuedTokens',
  'runningSequences',
  'waitingSequences',
  'usedBlocks',
  'totalBlocks',
]);

/** planner -> engine: take another role (of `engineRole`): drain, then switch for `switchNs`. */
export const changeRole = message('changeRole', ['role', 'switchNs']);

/** planner -> engine: start serving in a role after `startNs`. */
export const startEngine = message('startEngine', ['role', 'startNs']);

/** planner -> engine: drain, then be off until the next start; its GPUs are free for others. */
export const stopEngine = message('stopEngine', []);

/** What an engine does with a request: all of it, the prompt only, or the tokens after a KV transfer. */
export const engineRole = { aggregated: 0, prefill: 1, decode: 2 } as const;

/** Whether an engine takes work. A dead one comes back when its GPU does, one that is off when it is told to. */
export const engineStatus = {
  active: 0,
  draining: 1,
  switching: 2,
  starting: 3,
  dead: 4,
  off: 5,
  /** As others are told: it drains, and nothing goes on until KV that waits there is fetched. Its end is in the hands of others. */
  drainingHeld: 6,
} as const;

/** Whether it goes on with what it has and takes nothing new. */
export function isDraining(status: number): boolean {
  return status === engineStatus.draining || status === engineStatus.drainingHeld;
}

/** Whether it drains, switches or starts: on its way to something else. */
export function isMoving(status: number): boolean {
  return isDraining(status) || status === engineStatus.switching || status === engineStatus.starting;
}

/** engine -> frontends, planner: the engine's role (of `engineRole`) and status (of `engineStatus`) changed. */
export const engineState = message('engineState', ['engine', 'role', 'status']);
