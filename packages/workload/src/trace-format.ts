import type { RequestRow } from './requests.js';
import { rejectValue, type TracePlace } from './trace-error.js';

/** The trace formats that are read. */
export type TraceFormatName = 'mooncake' | 'azure' | 'burstgpt' | 'dynamo' | 'plain';

/** How a format's arrivals are to be taken. */
export interface ArrivalConvention {
  /** Widest tick the format's clock is quantised to; 0 when its arrivals are exact. */
  tickNs: number;
  /** Absolute clocks: the first arrival becomes 0. */
  fromFirst: boolean;
  /** Rows that may stand out of order by nature, as many at a time. */
  reorderRows: number;
}

export const ARRIVAL_CONVENTIONS: Record<TraceFormatName, ArrivalConvention> = {
  // Timestamps of the FAST'25 traces step by 2,997 to 3,003 ms.
  mooncake: { tickNs: 3.003e9, fromFirst: false, reorderRows: 0 },
  azure: { tickNs: 0, fromFirst: true, reorderRows: 0 },
  // BurstGPT logs whole seconds.
  burstgpt: { tickNs: 1e9, fromFirst: false, reorderRows: 0 },
  // Dynamo writes a request when it ends, so arrivals stand in order of completion.
  dynamo: { tickNs: 0, fromFirst: true, reorderRows: 65_536 },
  plain: { tickNs: 0, fromFirst: false, reorderRows: 0 },
};

/** A row with its line, for messages about order. */
export interface TraceRow extends RequestRow {
  line: number;
}

/** Turns lines into rows; null is a line that is known to be no request (a tool event). */
export interface LineParser {
  /** Known at the latest after the first row; 0 without prefix identity. */
  blockTokens: number;
  parse(line: string, place: TracePlace): TraceRow | null;
}

/** Names met so far and their numbers, in order of appearance. */
export interface NameTable {
  names: string[];
  numbers: Map<string, number>;
  what: string;
}

/** Names are held in memory for the whole trace, so their number is limited. */
const MAX_NAMES = 4_194_304;

export function createNameTable(what: string, names: string[] = []): NameTable {
  return { names: [...names], numbers: new Map(names.map((name, index) => [name, index])), what };
}

/** Forgets the names given at creation, where the trace brings its own. */
export function clearNames(table: NameTable): void {
  table.names.length = 0;
  table.numbers.clear();
}

/** The number of a name, a new one at its first appearance. */
export function nameNumber(table: NameTable, name: string, place: TracePlace): number {
  const known = table.numbers.get(name);
  if (known !== undefined) return known;
  const next = table.names.length;
  if (next >= MAX_NAMES) rejectValue(place, table.what, name, `at most ${MAX_NAMES} different values in one trace`);
  table.names.push(name);
  table.numbers.set(name, next);
  return next;
}

/** Tells the format from a file's first line. */
export function detectFormat(firstLine: string, place: TracePlace): TraceFormatName {
  if (firstLine.startsWith('{')) return detectJsonFormat(firstLine, place);
  const columns = firstLine.split(',').map((column) => column.trim().toLowerCase());
  if (columns.includes('contexttokens')) return 'azure';
  if (columns.includes('request tokens')) return 'burstgpt';
  if (columns.includes('input_tokens') || columns.includes('arrival_s') || columns.includes('arrival_ns')) return 'plain';
  return rejectValue(
    place,
    'format',
    firstLine,
    'a header with ContextTokens (Azure), Request tokens (BurstGPT) or arrival_s,input_tokens,output_tokens (plain CSV), or JSON lines (Mooncake, Dynamo)',
  );
}

function detectJsonFormat(firstLine: string, place: TracePlace): TraceFormatName {
  // A truncated or broken first line still tells its format by its keys; the parser then reports it exactly.
  if (firstLine.includes('"event"') || firstLine.includes('"dynamo.request.trace')) return 'dynamo';
  if (mooncakeFields.some((field) => firstLine.includes(field))) return 'mooncake';
  return rejectValue(
    place,
    'format',
    firstLine,
    'JSON lines with input_length and hash_ids (Mooncake) or event.schema dynamo.request.trace.v1',
  );
}

/** Of a request in Mooncake's format, also where it holds text, which its parser refuses. */
const mooncakeFields = ['"input_length"', '"input_tokens"', '"hash_ids"', '"text_input"', '"messages"', '"payload"'];
