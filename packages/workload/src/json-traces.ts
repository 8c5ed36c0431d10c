import { foldHash } from './block-identity.js';
import { rejectValue, TraceError, type TracePlace } from './trace-error.js';
import { type LineParser, type NameTable, nameNumber, type TraceRow } from './trace-format.js';
import { millisecondsNs, tokenCount } from './trace-values.js';

/** Mooncake's hash ids stand for 512 tokens (Mooncake, FAST 2025, section 4, and the README of its traces). */
export const MOONCAKE_BLOCK_TOKENS = 512;

/** What may be wrong where Mooncake's rows have too many or too few hashes: the format does not say how long its blocks are. */
const otherBlocks = '; where a hash stands for another number of tokens, give workload.source.hashTokens (braess trace: --hash-tokens)';

type JsonObject = Record<string, unknown>;

/**
 * Mooncake: {"timestamp": ms, "input_length", "output_length", "hash_ids": one id a block, the last one perhaps partial}.
 * @param blockTokens 512 in the traces of Mooncake itself; what others write in its format may have blocks of another size.
 */
export function mooncakeParser(blockTokens: number): LineParser {
  return { blockTokens, parse: (line, place) => parseMooncake(line, place, blockTokens) };
}

function parseMooncake(line: string, place: TracePlace, blockTokens: number): TraceRow {
  const row = parseObject(line, place);
  const inputTokens = tokenCount(row.input_length, place, 'input_length');
  return {
    arrivalNs: millisecondsNs(row.timestamp, place, 'timestamp'),
    inputTokens,
    outputTokens: tokenCount(row.output_length, place, 'output_length'),
    tenant: 0,
    session: -1,
    name: '',
    hashes: hashList(row.hash_ids, inputTokens, blockTokens, place, 'hash_ids', otherBlocks),
    line: place.line,
  };
}

/**
 * Dynamo's request trace, schema dynamo.request.trace.v1: `request_end` events carry a request with its prompt's hashes in `replay`; the
 * arrival is `request_received_ms`, the session `agent_context.session_id`. Events of other types are no requests.
 */
export function dynamoParser(sessions: NameTable): LineParser {
  let firstReceivedMs = Number.NaN;
  const parser: LineParser = {
    blockTokens: 0,
    parse(line, place) {
      const event = objectField(parseObject(line, place).event, place, 'event');
      const schema = event.schema;
      if (schema !== 'dynamo.request.trace.v1') rejectValue(place, 'event.schema', schema, '"dynamo.request.trace.v1"');
      if (typeof event.event_type !== 'string') rejectValue(place, 'event.event_type', event.event_type, 'a name such as "request_end"');
      if (event.event_type !== 'request_end') return null;
      const request = objectField(event.request, place, 'event.request');
      const receivedMs = request.request_received_ms;
      if (typeof receivedMs !== 'number' || !(receivedMs >= 0)) {
        return rejectValue(place, 'event.request.request_received_ms', receivedMs, 'milliseconds since 1970');
      }
      if (Number.isNaN(firstReceivedMs)) firstReceivedMs = receivedMs;
      const row = dynamoRow(request, place, parser);
      row.arrivalNs = Math.round((receivedMs - firstReceivedMs) * 1e6);
      row.session = dynamoSession(event, sessions, place);
      return row;
    },
  };
  return parser;
}

function dynamoRow(request: JsonObject, place: TracePlace, parser: LineParser): TraceRow {
  const inputTokens = tokenCount(request.input_tokens, place, 'event.request.input_tokens');
  const replay = objectField(request.replay, place, 'event.request.replay');
  const blockTokens = tokenCount(replay.trace_block_size, place, 'event.request.replay.trace_block_size');
  if (parser.blockTokens !== 0 && blockTokens !== parser.blockTokens) {
    rejectValue(place, 'event.request.replay.trace_block_size', blockTokens, `${parser.blockTokens}, as in the rows before`);
  }
  if (replay.input_length !== inputTokens) {
    rejectValue(place, 'event.request.replay.input_length', replay.input_length, `${inputTokens}, as input_tokens says`);
  }
  const field = 'event.request.replay.input_sequence_hashes';
  const hashes = hashList(replay.input_sequence_hashes, inputTokens, blockTokens, place, field);
  parser.blockTokens = blockTokens;
  const name = request.request_id;
  return {
    arrivalNs: 0,
    inputTokens,
    outputTokens: tokenCount(request.output_tokens, place, 'event.request.output_tokens'),
    tenant: 0,
    session: -1,
    name: typeof name === 'string' && name !== '' ? name : rejectValue(place, 'event.request.request_id', name, 'a non-empty text'),
    hashes,
    line: place.line,
  };
}

function dynamoSession(event: JsonObject, sessions: NameTable, place: TracePlace): number {
  const context = event.agent_context;
  if (context === undefined || context === null) return -1;
  const session = objectField(context, place, 'event.agent_context').session_id;
  if (session === undefined || session === null) return -1;
  if (typeof session !== 'string') return rejectValue(place, 'event.agent_context.session_id', session, 'a text');
  return nameNumber(sessions, session, place);
}

/** Checks the list's length and values; hashes beyond 53 bits are folded. `advice` ends the message about a wrong length. */
function hashList(value: unknown, inputTokens: number, blockTokens: number, place: TracePlace, field: string, advice = ''): number[] {
  if (!Array.isArray(value)) return rejectValue(place, field, value, 'a list of hash ids');
  const expected = Math.ceil(inputTokens / blockTokens);
  if (value.length !== expected) {
    throw new TraceError(
      place.file,
      place.line,
      field,
      `has ${value.length} hashes, expected ${expected}: one for each ${blockTokens} tokens of the prompt of ${inputTokens}, the last block perhaps partial${advice}`,
    );
  }
  for (let index = 0; index < expected; index++) {
    const hash = value[index] as unknown;
    if (typeof hash !== 'number' || !Number.isInteger(hash) || hash < 0)
      rejectValue(place, `${field}[${index}]`, hash, 'a whole number, 0 or more');
    if ((hash as number) > Number.MAX_SAFE_INTEGER) value[index] = foldHash(hash as number);
  }
  return value as number[];
}

function parseObject(line: string, place: TracePlace): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new TraceError(place.file, place.line, '', `not a JSON object: ${(error as Error).message}`);
  }
  return objectField(value, place, 'line');
}

function objectField(value: unknown, place: TracePlace, field: string): JsonObject {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonObject;
  return rejectValue(place, field, value, 'an object');
}
