/**
 * The one form of requests in the project: one row a request, in columns, ordered by arrival.
 *
 * Prefix identity: row r owns `blockHashes[blockOffsets[r] .. blockOffsets[r + 1])`, the identities of its first blocks of `blockTokens`
 * tokens. Equal hashes at the same place mean equal content up to there. Tokens behind the listed blocks are shared with nobody.
 */
export interface RequestTable {
  requestCount: number;
  /** Number of row 0 within the whole trace; not 0 only in batches of a stream. */
  firstRequest: number;
  /** Integer nanoseconds, never decreasing. Of a row that comes after an answer (`delayNs`) the earliest moment it may come, as if answers took no time. */
  arrivalNs: Float64Array;
  /** Empty when no row has one, else by row: ns from the end of the session's previous turn to this one, -1 for rows that come at their arrival. */
  delayNs: Float64Array;
  inputTokens: Int32Array;
  outputTokens: Int32Array;
  /** Index into `tenantNames`. */
  tenant: Int32Array;
  /** Index into `sessionNames`, -1 outside a session. */
  session: Int32Array;
  /** Tokens a hash stands for; 0 when the table carries no prefix identity. */
  blockTokens: number;
  /** `requestCount + 1` offsets into `blockHashes`. */
  blockOffsets: Int32Array;
  /** Safe integers, 0 or more. */
  blockHashes: Float64Array;
  tenantNames: string[];
  sessionNames: string[];
  /** The trace's own request ids, or empty when they are just the row numbers. */
  requestNames: string[];
}

/** One row on its way into a table. */
export interface RequestRow {
  arrivalNs: number;
  inputTokens: number;
  outputTokens: number;
  tenant: number;
  session: number;
  name: string;
  hashes: ArrayLike<number>;
  /** As in `RequestTable.delayNs`; absent: -1. */
  delayNs?: number;
}

/** The tenant of requests that do not say whose they are. */
export const DEFAULT_TENANT = 'default';

/** A table under construction; columns grow by doubling. */
export interface RequestTableBuilder {
  table: RequestTable;
  hashCount: number;
  /** Whether every name so far was the row's own number; then names are not kept. */
  namesAreNumbers: boolean;
}

/** The most block hashes one table can hold: offsets are 32-bit. */
const MAX_TABLE_HASHES = 2_147_483_647;

/**
 * A builder for rows from number `firstRequest` on, with hashes of `blockTokens` tokens (0: no identity). Empty, so that its columns are replaced
 * before there is code that takes them for constant (docs/kernel.md, "Compiled code").
 */
export function createRequestTableBuilder(blockTokens: number, firstRequest = 0, capacity = 0): RequestTableBuilder {
  return {
    table: {
      requestCount: 0,
      firstRequest,
      arrivalNs: new Float64Array(capacity),
      delayNs: new Float64Array(0),
      inputTokens: new Int32Array(capacity),
      outputTokens: new Int32Array(capacity),
      tenant: new Int32Array(capacity),
      session: new Int32Array(capacity),
      blockTokens,
      blockOffsets: new Int32Array(capacity + 1),
      blockHashes: new Float64Array(blockTokens === 0 ? 0 : capacity * 8),
      tenantNames: [DEFAULT_TENANT],
      sessionNames: [],
      requestNames: [],
    },
    hashCount: 0,
    namesAreNumbers: true,
  };
}

/** Appends one row; the caller has checked the values. */
export function appendRequest(builder: RequestTableBuilder, row: RequestRow): void {
  const table = builder.table;
  const index = table.requestCount;
  if (index === table.arrivalNs.length) growRows(table);
  table.arrivalNs[index] = row.arrivalNs;
  table.inputTokens[index] = row.inputTokens;
  table.outputTokens[index] = row.outputTokens;
  table.tenant[index] = row.tenant;
  table.session[index] = row.session;
  if (row.delayNs !== undefined) keepDelay(table, index, row.delayNs);
  appendHashes(builder, row.hashes);
  table.blockOffsets[index + 1] = builder.hashCount;
  keepName(builder, row.name);
  table.requestCount = index + 1;
}

/** The finished table, columns cut to size; the builder must not be used afterwards. */
export function finishRequestTable(builder: RequestTableBuilder): RequestTable {
  const table = builder.table;
  const count = table.requestCount;
  table.arrivalNs = table.arrivalNs.slice(0, count);
  table.delayNs = table.delayNs.slice(0, count);
  table.inputTokens = table.inputTokens.slice(0, count);
  table.outputTokens = table.outputTokens.slice(0, count);
  table.tenant = table.tenant.slice(0, count);
  table.session = table.session.slice(0, count);
  table.blockOffsets = table.blockOffsets.slice(0, count + 1);
  table.blockHashes = table.blockHashes.slice(0, builder.hashCount);
  return table;
}

/**
 * Joins batches of one stream, in order; names are those of the last batch (a stream's names only grow). Where no row has a hash the table carries no
 * prefix identity, whatever the format.
 */
export function joinRequestTables(batches: RequestTable[]): RequestTable {
  const last = batches.at(-1);
  if (last === undefined) throw new Error('joinRequestTables: no batches; an empty trace has no table');
  const table = batches.length === 1 ? last : joined(batches, last);
  return table.blockHashes.length === 0 ? { ...table, blockTokens: 0 } : table;
}

function joined(batches: RequestTable[], last: RequestTable): RequestTable {
  const rows = batches.reduce((sum, batch) => sum + batch.requestCount, 0);
  const hashes = batches.reduce((sum, batch) => sum + batch.blockHashes.length, 0);
  if (hashes > MAX_TABLE_HASHES) throw hashLimitError(hashes);
  const table: RequestTable = {
    requestCount: rows,
    firstRequest: batches[0]!.firstRequest,
    arrivalNs: joinFloat64(
      batches.map((batch) => batch.arrivalNs),
      rows,
    ),
    delayNs: joinDelays(batches, rows),
    inputTokens: joinInt32(
      batches.map((batch) => batch.inputTokens),
      rows,
    ),
    outputTokens: joinInt32(
      batches.map((batch) => batch.outputTokens),
      rows,
    ),
    tenant: joinInt32(
      batches.map((batch) => batch.tenant),
      rows,
    ),
    session: joinInt32(
      batches.map((batch) => batch.session),
      rows,
    ),
    blockTokens: last.blockTokens,
    blockOffsets: joinOffsets(batches, rows),
    blockHashes: joinFloat64(
      batches.map((batch) => batch.blockHashes),
      hashes,
    ),
    tenantNames: last.tenantNames,
    sessionNames: last.sessionNames,
    requestNames: [],
  };
  if (batches.some((batch) => batch.requestNames.length > 0)) table.requestNames = joinedNames(batches);
  return table;
}

function joinFloat64(columns: Float64Array[], length: number): Float64Array {
  const joined = new Float64Array(length);
  let offset = 0;
  for (const column of columns) {
    joined.set(column, offset);
    offset += column.length;
  }
  return joined;
}

function joinDelays(batches: RequestTable[], rows: number): Float64Array {
  if (!batches.some(hasDelays)) return new Float64Array(0);
  const columns = batches.map((batch) => (hasDelays(batch) ? batch.delayNs : new Float64Array(batch.requestCount).fill(-1)));
  return joinFloat64(columns, rows);
}

function joinInt32(columns: Int32Array[], length: number): Int32Array {
  const joined = new Int32Array(length);
  let offset = 0;
  for (const column of columns) {
    joined.set(column, offset);
    offset += column.length;
  }
  return joined;
}

function joinOffsets(batches: RequestTable[], rows: number): Int32Array {
  const offsets = new Int32Array(rows + 1);
  let row = 0;
  let before = 0;
  for (const batch of batches) {
    for (let index = 1; index <= batch.requestCount; index++) offsets[++row] = before + batch.blockOffsets[index]!;
    before += batch.blockHashes.length;
  }
  return offsets;
}

function joinedNames(batches: RequestTable[]): string[] {
  const names: string[] = [];
  for (const batch of batches) for (let row = 0; row < batch.requestCount; row++) names.push(requestName(batch, row));
  return names;
}

/** Whether any row comes a delay after the end of its session's previous turn. */
export function hasDelays(table: RequestTable): boolean {
  return table.delayNs.length > 0;
}

/** Row `row` as an object; `hashes` is a view into the table. */
export function requestRow(table: RequestTable, row: number): RequestRow {
  if (!(row >= 0 && row < table.requestCount)) throw new RangeError(`request table: row ${row} of ${table.requestCount}`);
  return {
    arrivalNs: table.arrivalNs[row]!,
    inputTokens: table.inputTokens[row]!,
    outputTokens: table.outputTokens[row]!,
    tenant: table.tenant[row]!,
    session: table.session[row]!,
    name: requestName(table, row),
    hashes: table.blockHashes.subarray(table.blockOffsets[row]!, table.blockOffsets[row + 1]!),
    delayNs: table.delayNs[row] ?? -1,
  };
}

/** The request's id in its trace. */
export function requestName(table: RequestTable, row: number): string {
  return table.requestNames[row] ?? String(table.firstRequest + row);
}

/** The column comes into being with the first row that needs it. */
function keepDelay(table: RequestTable, index: number, delayNs: number): void {
  if (delayNs < 0 && !hasDelays(table)) return;
  if (!hasDelays(table)) table.delayNs = new Float64Array(table.arrivalNs.length).fill(-1);
  table.delayNs[index] = delayNs;
}

function keepName(builder: RequestTableBuilder, name: string): void {
  const table = builder.table;
  if (builder.namesAreNumbers) {
    if (name === '' || isNumeral(name, table.firstRequest + table.requestCount)) return;
    builder.namesAreNumbers = false;
    for (let row = 0; row < table.requestCount; row++) table.requestNames.push(String(table.firstRequest + row));
  }
  table.requestNames.push(name);
}

/** Whether `name` is the decimal numeral of `number`; without writing the number out, which costs more than all the rest of a row. */
function isNumeral(name: string, number: number): boolean {
  return +name === number && (name.length === 1 || name.charCodeAt(0) !== 48) && /^\d+$/.test(name);
}

function appendHashes(builder: RequestTableBuilder, hashes: ArrayLike<number>): void {
  const table = builder.table;
  const needed = builder.hashCount + hashes.length;
  if (needed > table.blockHashes.length) growHashes(table, needed);
  const column = table.blockHashes;
  for (let index = 0; index < hashes.length; index++) column[builder.hashCount++] = hashes[index]!;
}

function hashLimitError(hashes: number): RangeError {
  return new RangeError(`request table: ${hashes} block hashes, at most ${MAX_TABLE_HASHES}; read the trace as a stream`);
}

function growHashes(table: RequestTable, needed: number): void {
  if (needed > MAX_TABLE_HASHES) throw hashLimitError(needed);
  const grown = new Float64Array(Math.min(MAX_TABLE_HASHES, Math.max(needed, table.blockHashes.length * 2)));
  grown.set(table.blockHashes);
  table.blockHashes = grown;
}

function growRows(table: RequestTable): void {
  const capacity = table.arrivalNs.length * 2 + 16;
  const arrivalNs = new Float64Array(capacity);
  arrivalNs.set(table.arrivalNs);
  table.arrivalNs = arrivalNs;
  if (hasDelays(table)) {
    const delayNs = new Float64Array(capacity).fill(-1);
    delayNs.set(table.delayNs);
    table.delayNs = delayNs;
  }
  table.inputTokens = grownInt32(table.inputTokens, capacity);
  table.outputTokens = grownInt32(table.outputTokens, capacity);
  table.tenant = grownInt32(table.tenant, capacity);
  table.session = grownInt32(table.session, capacity);
  table.blockOffsets = grownInt32(table.blockOffsets, capacity + 1);
}

function grownInt32(column: Int32Array, capacity: number): Int32Array {
  const grown = new Int32Array(capacity);
  grown.set(column);
  return grown;
}
