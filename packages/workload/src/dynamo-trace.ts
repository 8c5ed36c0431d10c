import { hashList, type JsonObject, objectField, parseObject } from './json-values.js';
import { rejectValue, type TracePlace } from './trace-error.js';
import { type LineParser, type NameTable, nameNumber, type TraceRow } from './trace-format.js';
import { tokenCount } from './trace-values.js';

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
