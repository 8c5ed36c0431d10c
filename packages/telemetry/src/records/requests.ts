import { type ColumnTable, reserveRow } from './table.js';

/** How a request ended. Conservation: submitted = completed + rejected + failed + in flight. */
export const OUTCOME = { inFlight: 0, completed: 1, rejected: 2, failed: 3 } as const;
export type Outcome = (typeof OUTCOME)[keyof typeof OUTCOME];
export const OUTCOME_NAMES = ['in_flight', 'completed', 'rejected', 'failed'] as const;

/** Why a request was rejected or failed; `none` for the others. */
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
} as const;
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
}

/** A fixed number of rows, one typed array per field. 131 bytes a row. */
export interface RequestSegment {
  rows: number;
  requestId: Int32Array;
  tenantId: Uint16Array;
  outcome: Uint8Array;
  reason: Uint8Array;
  attempts: Uint8Array;
  preemptions: Uint8Array;
  networkTier: Int8Array;
  prefillWorkerId: Int32Array;
  decodeWorkerId: Int32Array;
  inputTokens: Int32Array;
  outputTokens: Int32Array;
  cachedTokensG1: Int32Array;
  cachedTokensG2: Int32Array;
  cachedTokensG3: Int32Array;
  cachedTokensG4: Int32Array;
  transferBytes: Float64Array;
  arrivalNs: Float64Array;
  queuedNs: Float64Array;
  prefillStartNs: Float64Array;
  prefillEndNs: Float64Array;
  transferStartNs: Float64Array;
  transferEndNs: Float64Array;
  firstTokenNs: Float64Array;
  lastTokenNs: Float64Array;
  endNs: Float64Array;
  maxItlNs: Float64Array;
}

export type RequestColumns = ColumnTable<RequestSegment>;

/** Rows in a segment: 8,192 rows are about 1 MB, small enough to hand on often and large enough for a Parquet row group. */
export const REQUEST_SEGMENT_ROWS = 8192;

/** A growing table of requests. Memory is segments of `segmentRows` rows, so at most one segment is not yet filled. */
export function createRequestColumns(maxRows = 100_000_000, segmentRows = REQUEST_SEGMENT_ROWS): RequestColumns {
  return { name: 'requests', segments: [], spare: [], rows: 0, releasedRows: 0, segmentRows, maxRows };
}

function createRequestSegment(rows: number): RequestSegment {
  return {
    rows: 0,
    requestId: new Int32Array(rows),
    tenantId: new Uint16Array(rows),
    outcome: new Uint8Array(rows),
    reason: new Uint8Array(rows),
    attempts: new Uint8Array(rows),
    preemptions: new Uint8Array(rows),
    networkTier: new Int8Array(rows),
    prefillWorkerId: new Int32Array(rows),
    decodeWorkerId: new Int32Array(rows),
    inputTokens: new Int32Array(rows),
    outputTokens: new Int32Array(rows),
    cachedTokensG1: new Int32Array(rows),
    cachedTokensG2: new Int32Array(rows),
    cachedTokensG3: new Int32Array(rows),
    cachedTokensG4: new Int32Array(rows),
    transferBytes: new Float64Array(rows),
    arrivalNs: new Float64Array(rows),
    queuedNs: new Float64Array(rows),
    prefillStartNs: new Float64Array(rows),
    prefillEndNs: new Float64Array(rows),
    transferStartNs: new Float64Array(rows),
    transferEndNs: new Float64Array(rows),
    firstTokenNs: new Float64Array(rows),
    lastTokenNs: new Float64Array(rows),
    endNs: new Float64Array(rows),
    maxItlNs: new Float64Array(rows),
  };
}

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
  };
}

/** Adds one request. Allocates only when a segment is full. */
export function appendRequest(columns: RequestColumns, record: RequestRecord): void {
  const segment = reserveRow(columns, createRequestSegment);
  const row = segment.rows++;
  segment.requestId[row] = record.requestId;
  segment.tenantId[row] = record.tenantId;
  segment.outcome[row] = record.outcome;
  segment.reason[row] = record.reason;
  segment.attempts[row] = Math.min(record.attempts, 255);
  segment.preemptions[row] = Math.min(record.preemptions, 255);
  segment.networkTier[row] = record.networkTier;
  segment.prefillWorkerId[row] = record.prefillWorkerId;
  segment.decodeWorkerId[row] = record.decodeWorkerId;
  segment.inputTokens[row] = record.inputTokens;
  segment.outputTokens[row] = record.outputTokens;
  segment.cachedTokensG1[row] = record.cachedTokensG1;
  segment.cachedTokensG2[row] = record.cachedTokensG2;
  segment.cachedTokensG3[row] = record.cachedTokensG3;
  segment.cachedTokensG4[row] = record.cachedTokensG4;
  segment.transferBytes[row] = record.transferBytes;
  segment.arrivalNs[row] = record.arrivalNs;
  segment.queuedNs[row] = record.queuedNs;
  segment.prefillStartNs[row] = record.prefillStartNs;
  segment.prefillEndNs[row] = record.prefillEndNs;
  segment.transferStartNs[row] = record.transferStartNs;
  segment.transferEndNs[row] = record.transferEndNs;
  segment.firstTokenNs[row] = record.firstTokenNs;
  segment.lastTokenNs[row] = record.lastTokenNs;
  segment.endNs[row] = record.endNs;
  segment.maxItlNs[row] = record.maxItlNs;
}
