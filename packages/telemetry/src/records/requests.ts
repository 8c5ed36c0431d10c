import { type RequestRecord, requestRowColumns } from '@braess/protocol';
import { type ColumnTable, reserveRow } from './table.js';

/** A fixed number of rows, one typed array per field. 149 bytes a row. */
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
  tierFetchNs: Float64Array;
  tierFetchBytes: Float64Array;
}

/** All requests of a run, a row each. */
export type RequestColumns = ColumnTable<RequestSegment>;

/** Rows in a segment: 8,192 rows are about 1.2 MB, small enough to hand on often and large enough for a Parquet row group. */
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
    tierFetchNs: new Float64Array(rows),
    tierFetchBytes: new Float64Array(rows),
  };
}

/** Adds one request. Allocates only when a segment is full. */
export function appendRequest(columns: RequestColumns, record: RequestRecord): void {
  for (let column = 0; column < rowNumbers.length; column++) rowNumbers[column] = record[requestRowColumns[column]!];
  appendRequestRow(columns, rowNumbers, 0, record.arrivalNs, record.endNs);
}

const rowNumbers = new Float64Array(requestRowColumns.length);

/** Adds the request whose row (`requestRowColumns`) begins at numbers[at]; the time of its arrival is given apart, for who wrote the row may have seen it later. */
export function appendRequestRow(columns: RequestColumns, numbers: Float64Array, at: number, arrivalNs: number, endNs: number): void {
  const segment = reserveRow(columns, createRequestSegment);
  const row = segment.rows++;
  segment.requestId[row] = numbers[at]!;
  segment.tenantId[row] = numbers[at + 1]!;
  segment.outcome[row] = numbers[at + 2]!;
  segment.reason[row] = numbers[at + 3]!;
  segment.attempts[row] = Math.min(numbers[at + 4]!, 255);
  segment.preemptions[row] = Math.min(numbers[at + 5]!, 255);
  segment.networkTier[row] = numbers[at + 6]!;
  segment.prefillWorkerId[row] = numbers[at + 7]!;
  segment.decodeWorkerId[row] = numbers[at + 8]!;
  segment.inputTokens[row] = numbers[at + 9]!;
  segment.outputTokens[row] = numbers[at + 10]!;
  segment.cachedTokensG1[row] = numbers[at + 11]!;
  segment.cachedTokensG2[row] = numbers[at + 12]!;
  segment.cachedTokensG3[row] = numbers[at + 13]!;
  segment.cachedTokensG4[row] = numbers[at + 14]!;
  segment.transferBytes[row] = numbers[at + 15]!;
  segment.arrivalNs[row] = arrivalNs;
  segment.queuedNs[row] = numbers[at + 17]!;
  segment.prefillStartNs[row] = numbers[at + 18]!;
  segment.prefillEndNs[row] = numbers[at + 19]!;
  segment.transferStartNs[row] = numbers[at + 20]!;
  segment.transferEndNs[row] = numbers[at + 21]!;
  segment.firstTokenNs[row] = numbers[at + 22]!;
  segment.lastTokenNs[row] = numbers[at + 23]!;
  segment.maxItlNs[row] = numbers[at + 24]!;
  segment.tierFetchNs[row] = numbers[at + 25]!;
  segment.tierFetchBytes[row] = numbers[at + 26]!;
  segment.endNs[row] = endNs;
}
