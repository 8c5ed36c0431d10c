import { foldHash } from './block-identity.js';
import { rejectValue, TraceError, type TracePlace } from './trace-error.js';

export type JsonObject = Record<string, unknown>;

/** Checks the list's length and values; hashes beyond 53 bits are folded. `advice` ends the message about a wrong length. */
export function hashList(
  value: unknown,
  inputTokens: number,
  blockTokens: number,
  place: TracePlace,
  field: string,
  advice = '',
): number[] {
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

export function parseObject(line: string, place: TracePlace): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    throw new TraceError(place.file, place.line, '', `not a JSON object: ${(error as Error).message}`);
  }
  return objectField(value, place, 'line');
}

export function objectField(value: unknown, place: TracePlace, field: string): JsonObject {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as JsonObject;
  return rejectValue(place, field, value, 'an object');
}
