import { hashList, type JsonObject, parseObject } from './json-values.js';
import { type TurnPromptState, type TurnPrompts, turnPrompt } from './mooncake-turns.js';
import type { TraceReport } from './read-trace.js';
import { rejectValue, TraceError, type TracePlace } from './trace-error.js';
import { type LineParser, type NameTable, nameNumber, type TraceRow } from './trace-format.js';
import { millisecondsNs, tokenCount } from './trace-values.js';

/** Mooncake's hash ids stand for 512 tokens (Mooncake, FAST 2025, section 4, and the README of its traces). */
export const MOONCAKE_BLOCK_TOKENS = 512;

/** What may be wrong where Mooncake's rows have too many or too few hashes: the format does not say how long its blocks are. */
const otherBlocks = '; where a hash stands for another number of tokens, give workload.source.hashTokens (braess trace: --hash-tokens)';

/** What a row may say that is gone by. The second names are those that Dynamo's tools accept, too. */
const KNOWN_FIELDS = new Set([
  'timestamp',
  'created_time',
  'delay',
  'delay_ms',
  'input_length',
  'input_tokens',
  'output_length',
  'output_tokens',
  'hash_ids',
  'session_id',
  'request_id',
  'context_mode',
  'type',
]);

const lengthForText = 'input_length: prompts are known by their lengths alone, and there is no tokenizer here';

/** What makes a row another thing than its lengths and times say, and what to give instead. */
const REFUSED_FIELDS = new Map([
  ['text_input', lengthForText],
  ['messages', lengthForText],
  ['payload', lengthForText],
  ['wait_for', 'session_id and delay: a row can wait for the turn before it, not for other requests'],
  ['parent_chat_id', 'session_id and milliseconds: this is a row of a Bailian trace, whose times are seconds'],
]);

/** How Mooncake's rows are read. */
export interface MooncakeOptions {
  /** 512 in the traces of Mooncake itself; what others write in its format may have blocks of another size. */
  readonly hashTokens: number;
  /** Default: a row that lists hashes has its whole prompt, one without has what the turn adds. */
  readonly turnPrompts?: TurnPrompts;
}

interface MooncakeParser extends LineParser {
  readonly options: MooncakeOptions;
  readonly sessions: NameTable;
  readonly report: TraceReport;
  /** The latest turn of each session, by its name. */
  readonly turns: Map<string, LastTurn>;
}

interface LastTurn {
  readonly line: number;
  readonly hasDelay: boolean;
  readonly prompt: TurnPromptState;
}

/**
 * Mooncake: {"timestamp": ms, "input_length", "output_length", "hash_ids": one id a block, the last one perhaps partial}, and what AIPerf and Dynamo's replay
 * read besides: rows without hashes (prompts nobody shares), and sessions by `session_id`, whose later turns have a timestamp of their own or come `delay` ms
 * after the end of the turn before (their arrival is NaN: it is not known yet).
 */
export function mooncakeParser(options: MooncakeOptions, sessions: NameTable, report: TraceReport): LineParser {
  const parser: MooncakeParser = {
    blockTokens: options.hashTokens,
    options,
    sessions,
    report,
    turns: new Map(),
    parse: (line, place) => parseMooncake(parser, parseObject(line, place), place),
  };
  return parser;
}

function parseMooncake(parser: MooncakeParser, object: JsonObject, place: TracePlace): TraceRow {
  const unknown = unknownFields(object, place);
  const session = nameOf(object, 'session_id', place);
  const before = session === '' ? undefined : parser.turns.get(session);
  const ownTokens = tokenCount(object.input_length ?? object.input_tokens, place, 'input_length');
  const outputTokens = tokenCount(object.output_length ?? object.output_tokens, place, 'output_length');
  const listed = object.hash_ids ?? null;
  const hashes = listed === null ? null : hashList(listed, ownTokens, parser.blockTokens, place, 'hash_ids', otherBlocks);
  const { arrivalNs, delayNs } = turnTime(object, session, before, place);
  const row: TraceRow = { arrivalNs, inputTokens: ownTokens, outputTokens, tenant: 0, session: -1, name: '', hashes: [], line: place.line };
  if (delayNs >= 0) row.delayNs = delayNs;
  if (session === '') row.hashes = hashes ?? [];
  else {
    const adds = turnAdds(parser.options, object, hashes !== null, place);
    const prompt = turnPrompt(adds ? before?.prompt : undefined, ownTokens, outputTokens, hashes, parser.blockTokens, place);
    row.inputTokens = prompt.inputTokens;
    row.hashes = prompt.hashes;
    row.session = nameNumber(parser.sessions, session, place);
    if (before !== undefined) countTurn(parser.report, row, before, adds);
    parser.turns.set(session, { line: place.line, hasDelay: delayNs >= 0, prompt: prompt.state });
  }
  row.name = nameOf(object, 'request_id', place);
  noteIgnored(parser.report, unknown);
  return row;
}

/** When a row comes: at a time (`delayNs` -1), or after the turn before (`arrivalNs` NaN). */
function turnTime(
  object: JsonObject,
  session: string,
  before: LastTurn | undefined,
  place: TracePlace,
): { arrivalNs: number; delayNs: number } {
  const delay = object.delay ?? object.delay_ms ?? null;
  const timestamp = object.timestamp ?? object.created_time ?? null;
  if (before === undefined) {
    const first = session === '' ? 'this row is of no session (session_id)' : `this is the first of session "${session}"`;
    if (delay !== null && delay !== 0) rejectValue(place, 'delay', delay, `nothing: it counts from the turn before, and ${first}`);
    if (timestamp === null)
      rejectValue(
        place,
        'timestamp',
        undefined,
        `milliseconds, since ${first}; for a number in flight instead of times give 0 and a closed loop`,
      );
    return { arrivalNs: millisecondsNs(timestamp, place, 'timestamp'), delayNs: -1 };
  }
  if (delay !== null) return { arrivalNs: Number.NaN, delayNs: millisecondsNs(delay, place, 'delay') };
  if (timestamp === null) return { arrivalNs: Number.NaN, delayNs: 0 };
  if (before.hasDelay)
    rejectValue(
      place,
      'delay',
      undefined,
      `milliseconds, as the turn before in line ${before.line} has: nobody knows before the run when that one ends`,
    );
  return { arrivalNs: millisecondsNs(timestamp, place, 'timestamp'), delayNs: -1 };
}

/** Whether a row has what its turn adds to the prompt and the answer before, rather than the whole prompt. */
function turnAdds({ turnPrompts }: MooncakeOptions, row: JsonObject, lists: boolean, place: TracePlace): boolean {
  const mode = row.context_mode ?? null;
  if (mode === null) return (turnPrompts ?? (lists ? 'whole' : 'added')) === 'added';
  const own = contextModes.get(mode) ?? rejectValue(place, 'context_mode', mode, [...contextModes.keys()].join(' or '));
  if (turnPrompts !== undefined && own !== turnPrompts)
    rejectValue(place, 'context_mode', mode, `nothing, or what workload.source.turnPrompts: ${turnPrompts} says`);
  return own === 'added';
}

/** AIPerf's words. */
const contextModes = new Map<unknown, TurnPrompts>([
  ['deltas_without_responses', 'added'],
  ['message_array_with_responses', 'whole'],
]);

function nameOf(object: JsonObject, field: string, place: TracePlace): string {
  const name = object[field];
  if (name === undefined || name === null) return '';
  return typeof name === 'string' && name !== '' ? name : rejectValue(place, field, name, 'a non-empty text');
}

/** Refuses what changes a row's meaning; returns what else there is that nothing goes by. */
function unknownFields(object: JsonObject, place: TracePlace): string[] {
  let unknown = NOTHING;
  for (const field of Object.keys(object)) {
    if (KNOWN_FIELDS.has(field)) continue;
    const value = object[field];
    if (value === null || (Array.isArray(value) && value.length === 0)) continue;
    const instead = REFUSED_FIELDS.get(field);
    if (instead !== undefined) throw new TraceError(place.file, place.line, field, `is not replayed; expected ${instead}`);
    unknown = [...unknown, field];
  }
  return unknown;
}

const NOTHING: string[] = [];

/** The report names a few; more are not a trace. */
const MAX_IGNORED_FIELDS = 20;

function noteIgnored({ ignoredFields }: TraceReport, fields: string[]): void {
  for (const field of fields) if (ignoredFields.length < MAX_IGNORED_FIELDS && !ignoredFields.includes(field)) ignoredFields.push(field);
}

function countTurn(report: TraceReport, row: TraceRow, before: LastTurn, adds: boolean): void {
  if (row.delayNs !== undefined) report.delayedTurns++;
  else report.timedTurns++;
  if (!adds && row.inputTokens < before.prompt.inputTokens) report.shorterTurns++;
}
