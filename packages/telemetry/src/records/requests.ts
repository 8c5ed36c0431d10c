import type { RequestRecord } from '@braess/protocol';
import { type ColumnTable, reserveRow } from './table.js';

/** A fixed number of rows, one typed array per field. 131 bytes a row. */
export interface RequestSegment {
  rows: number;
  requestId: Int32Array;
  tenantId: Int32Array;
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
    tenantId: new Int32Array(rows),
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
