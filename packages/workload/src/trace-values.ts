import { rejectValue, type TracePlace } from './trace-error.js';

/** Token counts live in 32-bit columns. */
const MAX_TOKENS = 2_147_483_647;
/** Most blocks of a prompt that a list of hashes, or a prefix, may name: far beyond any model's length, and few enough to hold. */
export const MAX_PROMPT_BLOCKS = 4_194_304;
/** The latest arrival: simulated time is exact up to 2^53 ns, 104 days. */
const MAX_ARRIVAL_NS = Number.MAX_SAFE_INTEGER;

/** A token count from a number, 1 or more. */
export function tokenCount(value: unknown, place: TracePlace, field: string): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= MAX_TOKENS) return value;
  return rejectValue(place, field, value, `a whole number of tokens from 1 to ${MAX_TOKENS}`);
}

/** A token count from a CSV cell. */
export function tokenCell(cell: string | undefined, place: TracePlace, field: string): number {
  const value = wholeNumber(cell);
  return value >= 1 && value <= MAX_TOKENS ? value : rejectValue(place, field, cell, `a whole number of tokens from 1 to ${MAX_TOKENS}`);
}

/** Digits only: the number; anything else, also more than 15 digits: -1. */
export function wholeNumber(cell: string | undefined): number {
  if (cell === undefined || cell.length === 0 || cell.length > 15) return -1;
  let value = 0;
  for (let index = 0; index < cell.length; index++) {
    const digit = cell.charCodeAt(index) - 48;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
}

/** Seconds as written ("12.034567", "1.5e3") in integer nanoseconds, without passing through a binary fraction. */
export function secondsCellNs(cell: string | undefined, place: TracePlace, field: string): number {
  const text = cell ?? '';
  const point = text.indexOf('.');
  const whole = wholeNumber(point < 0 ? text : text.slice(0, point));
  const fraction = point < 0 ? 0 : fractionNs(text.slice(point + 1));
  if (whole >= 0 && fraction >= 0) return arrivalLimit(whole * 1e9 + fraction, cell, place, field);
  if (/^\d+(\.\d*)?[eE][-+]?\d+$/.test(text)) return arrivalLimit(Math.round(Number(text) * 1e9), cell, place, field);
  return rejectValue(place, field, cell, 'seconds, 0 or more');
}

/** The digits behind a decimal point of seconds, in nanoseconds (rounded); -1 when they are not digits. */
export function fractionNs(digits: string): number {
  const value = wholeNumber(digits.slice(0, 9).padEnd(9, '0'));
  if (value < 0 || digits.length <= 9) return value;
  return /^\d+$/.test(digits) ? value + (digits.charCodeAt(9) >= 53 ? 1 : 0) : -1;
}

/** Milliseconds from JSON in integer nanoseconds. */
export function millisecondsNs(value: unknown, place: TracePlace, field: string): number {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0) return rejectValue(place, field, value, 'milliseconds, 0 or more');
  return arrivalLimit(Math.round(value * 1e6), value, place, field);
}

/** Integer nanoseconds from a CSV cell. */
export function nanosecondsCell(cell: string | undefined, place: TracePlace, field: string): number {
  const value = /^\d{1,16}$/.test(cell ?? '') ? Number(cell) : -1;
  return value >= 0 ? arrivalLimit(value, cell, place, field) : rejectValue(place, field, cell, 'integer nanoseconds, 0 or more');
}

function arrivalLimit(arrivalNs: number, value: unknown, place: TracePlace, field: string): number {
  return arrivalNs <= MAX_ARRIVAL_NS ? arrivalNs : rejectValue(place, field, value, 'an arrival within 104 days (2^53 ns) of the start');
}
