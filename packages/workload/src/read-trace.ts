import { createArrivalQueue, flushRows, offerRow } from './arrival-order.js';
import { azureParser, burstGptParser } from './csv-traces.js';
import { dynamoParser } from './dynamo-trace.js';
import { readLines } from './lines.js';
import { MOONCAKE_BLOCK_TOKENS, type MooncakeOptions, mooncakeParser } from './mooncake-trace.js';
import type { TurnPrompts } from './mooncake-turns.js';
import { plainCsvParser } from './plain-csv.js';
import {
  appendRequest,
  createRequestTableBuilder,
  DEFAULT_TENANT,
  finishRequestTable,
  joinRequestTables,
  type RequestTable,
  type RequestTableBuilder,
} from './requests.js';
import { rejectValue, TraceError, type TracePlace } from './trace-error.js';
import {
  ARRIVAL_CONVENTIONS,
  createNameTable,
  detectFormat,
  type LineParser,
  type NameTable,
  type TraceFormatName,
  type TraceRow,
} from './trace-format.js';
import { createTurnOrder, expectTurn, flushTurns, offerTurn, passInOrder, type TurnOrder } from './turn-order.js';

/** How a trace is read. */
export interface ReadTraceOptions {
  /** Default: told from the first line. */
  format?: TraceFormatName;
  /** `spread` (default): requests with one timestamp are spread evenly over the clock's tick, where the format's clock has one. */
  arrivals?: 'spread' | 'as-is';
  /** `stop` (default): a bad row is an error. `count`: it is left out and counted in the report, with the first messages. */
  badRows?: 'stop' | 'count';
  /** Block size for prefix groups of a plain CSV, tokens; default 16. */
  prefixBlockTokens?: number;
  /** Tokens that a hash of a Mooncake trace stands for; default 512. */
  hashTokens?: number;
  /** What rows of a session's later turns have in a Mooncake trace; default: those with hashes the whole prompt, those without what they add. */
  turnPrompts?: TurnPrompts;
  /** Rows a batch; default 8,192. */
  batchRequests?: number;
}

/** What a reading came across; filled while the stream runs. */
export interface TraceReport {
  file: string;
  format: TraceFormatName | '';
  lines: number;
  requests: number;
  /** The clock tick over which equal timestamps were spread, ns; 0 when arrivals are as in the file. */
  spreadTickNs: number;
  /** Lines that are no requests by their type (Dynamo's tool events). */
  otherEvents: number;
  /** Turns of Mooncake sessions that come a delay after the turn before. */
  delayedTurns: number;
  /** Later turns of Mooncake sessions that have a timestamp of their own. */
  timedTurns: number;
  /** Turns with whole prompts that are shorter than the prompt before. */
  shorterTurns: number;
  /** Names of fields that nothing goes by, the first 20 (Mooncake). */
  ignoredFields: string[];
  rejectedRows: number;
  /** The first 20 messages about rejected rows. */
  rejections: string[];
}

const MAX_REPORTED_REJECTIONS = 20;
const DEFAULT_PREFIX_BLOCK_TOKENS = 16;
const DEFAULT_BATCH_REQUESTS = 8192;
/** A large batch starts with room for this many rows and grows. */
const INITIAL_ROWS = 8192;

export function createTraceReport(file: string): TraceReport {
  return {
    file,
    format: '',
    lines: 0,
    requests: 0,
    spreadTickNs: 0,
    otherEvents: 0,
    delayedTurns: 0,
    timedTurns: 0,
    shorterTurns: 0,
    ignoredFields: [],
    rejectedRows: 0,
    rejections: [],
  };
}

/** Reads a whole trace. Throws TraceError with file, line, field, value and expectation. */
export async function readTrace(file: string, options: ReadTraceOptions = {}): Promise<{ table: RequestTable; report: TraceReport }> {
  const report = createTraceReport(file);
  const batches: RequestTable[] = [];
  for await (const batch of streamTrace(file, options, report)) batches.push(batch);
  return { table: joinRequestTables(batches), report };
}

/**
 * Reads a trace in batches with bounded memory: one chunk of the file, one batch, one clock tick, and for Dynamo the reordering window.
 * Batches share their growing lists of tenant and session names. A trace without a request is an error.
 */
export async function* streamTrace(
  file: string,
  options: ReadTraceOptions = {},
  report = createTraceReport(file),
): AsyncGenerator<RequestTable> {
  const reading = startReading(file, options, report);
  for await (const lines of readLines(file)) {
    for (const line of lines) takeLine(reading, line);
    yield* takeBatches(reading);
  }
  finishReading(reading);
  yield* takeBatches(reading);
}

interface Reading {
  options: ReadTraceOptions;
  report: TraceReport;
  place: TracePlace;
  blankLine: number;
  parser: LineParser | null;
  queue: ReturnType<typeof createArrivalQueue>;
  /** Null where every row has its arrival. */
  turns: TurnOrder | null;
  /** Takes a row whose arrival is final. */
  pass: (row: TraceRow) => void;
  /** Takes a row whose place is final. */
  emit: (row: TraceRow) => void;
  /** The batch being filled; null between batches. */
  builder: RequestTableBuilder | null;
  finished: RequestTable[];
  passed: number;
  batchRequests: number;
  tenants: NameTable;
  sessions: NameTable;
}

function startReading(file: string, options: ReadTraceOptions, report: TraceReport): Reading {
  const batchRequests = positiveOption('batchRequests', options.batchRequests ?? DEFAULT_BATCH_REQUESTS);
  positiveOption('prefixBlockTokens', options.prefixBlockTokens ?? DEFAULT_PREFIX_BLOCK_TOKENS);
  positiveOption('hashTokens', options.hashTokens ?? MOONCAKE_BLOCK_TOKENS);
  const reading: Reading = {
    options,
    report,
    place: { file, line: 0 },
    blankLine: 0,
    parser: null,
    queue: createArrivalQueue(file, 0, 0, false),
    turns: null,
    pass: (row) => (reading.turns === null ? addRow(reading, row) : passInOrder(reading.turns, row, reading.emit)),
    emit: (row) => addRow(reading, row),
    builder: null,
    finished: [],
    passed: 0,
    batchRequests,
    tenants: createNameTable('tenant', [DEFAULT_TENANT]),
    sessions: createNameTable('session'),
  };
  return reading;
}

function positiveOption(name: string, value: number): number {
  if (Number.isInteger(value) && value >= 1) return value;
  throw new RangeError(`readTrace: ${name} is ${value}; must be a whole number, 1 or more`);
}

function takeLine(reading: Reading, line: string): void {
  const place = reading.place;
  place.line++;
  reading.report.lines = place.line;
  if (line.trim() === '') {
    if (reading.blankLine === 0) reading.blankLine = place.line;
    return;
  }
  if (reading.blankLine > 0) throw new TraceError(place.file, reading.blankLine, '', 'blank line before the end; expected a row');
  if (reading.parser === null && startFormat(reading, line)) return;
  parseRow(reading, line);
}

/** Sets up the parser from the first line; true when that line was a header. */
function startFormat(reading: Reading, line: string): boolean {
  const { options, place, report } = reading;
  const format = options.format ?? detectFormat(line, place);
  const convention = ARRIVAL_CONVENTIONS[format];
  const tickNs = options.arrivals === 'as-is' ? 0 : convention.tickNs;
  report.format = format;
  reading.queue = createArrivalQueue(place.file, convention.reorderRows, tickNs, convention.fromFirst);
  reading.parser = createParser(reading, format, line);
  return format !== 'mooncake' && format !== 'dynamo';
}

function createParser(reading: Reading, format: TraceFormatName, firstLine: string): LineParser {
  const { place, tenants, sessions, options, report } = reading;
  switch (format) {
    case 'mooncake':
      reading.turns = createTurnOrder(place.file);
      return mooncakeParser(mooncakeOptions(options), sessions, report);
    case 'dynamo':
      return dynamoParser(sessions);
    case 'azure':
      return azureParser(firstLine, place);
    case 'burstgpt':
      return burstGptParser(firstLine, place, sessions);
    case 'plain':
      return plainCsvParser(firstLine, place, tenants, sessions, options.prefixBlockTokens ?? DEFAULT_PREFIX_BLOCK_TOKENS);
    default:
      return rejectValue(place, 'format', format satisfies never, 'mooncake, azure, burstgpt, dynamo or plain');
  }
}

function mooncakeOptions({ hashTokens = MOONCAKE_BLOCK_TOKENS, turnPrompts }: ReadTraceOptions): MooncakeOptions {
  return turnPrompts === undefined ? { hashTokens } : { hashTokens, turnPrompts };
}

function parseRow(reading: Reading, line: string): void {
  const report = reading.report;
  try {
    const row = reading.parser!.parse(line, reading.place);
    if (row === null) report.otherEvents++;
    else if (reading.turns === null) offerRow(reading.queue, row, reading.pass);
    else takeTurn(reading, reading.turns, row);
  } catch (error) {
    if (!(error instanceof TraceError)) throw error;
    const { file, line: number, field, problem } = error;
    if (reading.options.badRows !== 'count')
      throw new TraceError(file, number, field, `${problem}; correct the row, or count such rows and leave them out (badRows: count)`);
    report.rejectedRows++;
    if (report.rejections.length < MAX_REPORTED_REJECTIONS) report.rejections.push(error.message);
  }
}

function takeTurn(reading: Reading, turns: TurnOrder, row: TraceRow): void {
  if (Number.isNaN(row.arrivalNs)) offerTurn(turns, row);
  else {
    // Behind, since a row that the queue refuses never comes.
    offerRow(reading.queue, row, reading.pass);
    expectTurn(turns, row);
  }
}

function finishReading(reading: Reading): void {
  flushRows(reading.queue, reading.pass);
  if (reading.turns !== null) flushTurns(reading.turns, reading.emit);
  if (reading.builder !== null) finishBatch(reading, reading.builder);
  if (reading.passed > 0) return;
  const { file, line } = reading.place;
  const rejected = reading.report.rejectedRows;
  const detail = rejected > 0 ? `: all ${rejected} rows were rejected, the first: ${reading.report.rejections[0]}` : '';
  throw new TraceError(file, line, '', `${line === 0 ? 'the file is empty' : 'no requests'}${detail}; expected at least one request`);
}

/** Hands out the batches that are complete. */
function* takeBatches(reading: Reading): Generator<RequestTable> {
  const finished = reading.finished;
  if (finished.length === 0) return;
  reading.finished = [];
  yield* finished;
}

function addRow(reading: Reading, row: TraceRow): void {
  reading.builder ??= createRequestTableBuilder(reading.parser!.blockTokens, reading.passed, Math.min(reading.batchRequests, INITIAL_ROWS));
  appendRequest(reading.builder, row);
  if (reading.builder.table.requestCount >= reading.batchRequests) finishBatch(reading, reading.builder);
}

function finishBatch(reading: Reading, builder: RequestTableBuilder): void {
  const table = finishRequestTable(builder);
  table.tenantNames = reading.tenants.names;
  table.sessionNames = reading.sessions.names;
  reading.builder = null;
  reading.finished.push(table);
  reading.passed += table.requestCount;
  reading.report.requests = reading.passed;
  reading.report.spreadTickNs = reading.queue.spread ? reading.queue.tickNs : 0;
}
