/** How a request ended. Conservation: submitted = completed + rejected + failed + in flight. */
export const OUTCOME = { inFlight: 0, completed: 1, rejected: 2, failed: 3 } as const;
/** A value of `OUTCOME`. */
export type Outcome = (typeof OUTCOME)[keyof typeof OUTCOME];
export const OUTCOME_NAMES = ['in_flight', 'completed', 'rejected', 'failed'] as const;

/**
 * Why a request was rejected or failed; `none` for the others. `queueFull` is a queue of the router or of an engine, `clientQueueFull` one in front of
 * them: no connection and no task of the client was left.
 */
export const REASON = {
  none: 0,
  queueFull: 1,
  tooLong: 2,
  noWorker: 3,
  timeout: 4,
  cancelled: 5,
  workerLost: 6,
  transferLost: 7,
  admission: 8,
  other: 9,
  clientQueueFull: 10,
} as const;
/** A value of `REASON`. */
export type Reason = (typeof REASON)[keyof typeof REASON];
export const REASON_NAMES = [
  'none',
  'queue_full',
  'too_long',
  'no_worker',
  'timeout',
  'cancelled',
  'worker_lost',
  'transfer_lost',
  'admission',
  'other',
  'client_queue_full',
] as const;

/**
 * One request's life. Times are simulated ns, -1 where the request never got there; ids are numeric actor ids, -1 for none.
 * The record is read and not kept, so one object can be reused for all appends.
 */
export interface RequestRecord {
  /** Below 2^31, as all ids and token counts. */
  requestId: number;
  tenantId: number;
  outcome: number;
  reason: number;
  /** 1 for a request that was never retried. */
  attempts: number;
  preemptions: number;
  /** Network tier between the prefill and the decode worker (0 = nearest), -1 without transfer. */
  networkTier: number;
  prefillWorkerId: number;
  decodeWorkerId: number;
  inputTokens: number;
  /** Tokens produced, also for a request that did not end well. */
  outputTokens: number;
  /** Input tokens found in each tier (G1 HBM, G2 host DRAM, G3 NVMe, G4 network storage) and not computed again. */
  cachedTokensG1: number;
  cachedTokensG2: number;
  cachedTokensG3: number;
  cachedTokensG4: number;
  /** KV bytes moved from the prefill to the decode worker. */
  transferBytes: number;
  arrivalNs: number;
  /** Entered the prefill worker's queue. */
  queuedNs: number;
  prefillStartNs: number;
  prefillEndNs: number;
  transferStartNs: number;
  transferEndNs: number;
  firstTokenNs: number;
  lastTokenNs: number;
  /** The outcome was known (equals lastTokenNs for a completed request), -1 in flight. */
  endNs: number;
  /** Longest gap between two tokens, -1 with fewer than two tokens. */
  maxItlNs: number;
  /** From `prefillStartNs` on: the wait for blocks fetched from G2, G3 and G4, and their KV bytes. 0 where nothing was fetched. */
  tierFetchNs: number;
  tierFetchBytes: number;
}

/** The order of a request's numbers where they come as a row. `endNs` is not among them: it is the time of the record that carries them. */
export const requestRowColumns = [
  'requestId',
  'tenantId',
  'outcome',
  'reason',
  'attempts',
  'preemptions',
  'networkTier',
  'prefillWorkerId',
  'decodeWorkerId',
  'inputTokens',
  'outputTokens',
  'cachedTokensG1',
  'cachedTokensG2',
  'cachedTokensG3',
  'cachedTokensG4',
  'transferBytes',
  'arrivalNs',
  'queuedNs',
  'prefillStartNs',
  'prefillEndNs',
  'transferStartNs',
  'transferEndNs',
  'firstTokenNs',
  'lastTokenNs',
  'maxItlNs',
  'tierFetchNs',
  'tierFetchBytes',
] as const satisfies readonly Exclude<keyof RequestRecord, 'endNs'>[];

/** A record with nothing filled in: the start of a reused one. */
export function emptyRequestRecord(): RequestRecord {
  return {
    requestId: 0,
    tenantId: 0,
    outcome: OUTCOME.inFlight,
    reason: REASON.none,
    attempts: 1,
    preemptions: 0,
    networkTier: -1,
    prefillWorkerId: -1,
    decodeWorkerId: -1,
    inputTokens: 0,
    outputTokens: 0,
    cachedTokensG1: 0,
    cachedTokensG2: 0,
    cachedTokensG3: 0,
    cachedTokensG4: 0,
    transferBytes: 0,
    arrivalNs: -1,
    queuedNs: -1,
    prefillStartNs: -1,
    prefillEndNs: -1,
    transferStartNs: -1,
    transferEndNs: -1,
    firstTokenNs: -1,
    lastTokenNs: -1,
    endNs: -1,
    maxItlNs: -1,
    tierFetchNs: 0,
    tierFetchBytes: 0,
  };
}
