import type { ColumnArray, ParquetType } from './page.js';

/**
 * The present values of one column, brought to the memory layout Parquet stores. Every loop here sees one kind of array (small integers are widened by
 * the native `set` first): over the six kinds of arrays in the tables the same loops ran ten times slower.
 */
export interface ColumnScratch {
  /** 1 or 0 a row; filled only when some row is missing and some is not. */
  isPresent: Uint8Array;
  /** Present values of int32, boolean and string columns. */
  integers: Int32Array;
  /** Present values of int64 columns: low and high word in turn. */
  words: Int32Array;
  doubles: Float64Array;
  floats: Float32Array;
}

export function createColumnScratch(rows: number): ColumnScratch {
  return {
    isPresent: new Uint8Array(rows),
    integers: new Int32Array(rows),
    words: new Int32Array(rows * 2),
    doubles: new Float64Array(rows),
    floats: new Float32Array(rows),
  };
}

/** Fills the scratch from a column and returns how many rows are present; missing is the integer -1 or a NaN, and only in an optional column. */
export function gatherColumn(scratch: ColumnScratch, type: ParquetType, optional: boolean, values: ColumnArray, rows: number): number {
  const source = values.subarray(0, rows);
  if (type === 'float') {
    scratch.floats.set(source);
    return optional && scratch.floats.subarray(0, rows).includes(Number.NaN) ? packFloats(scratch, rows) : rows;
  }
  if (type === 'double' || type === 'int64') {
    scratch.doubles.set(source);
    const missing = optional && scratch.doubles.subarray(0, rows).includes(type === 'double' ? Number.NaN : -1);
    const present = !missing ? rows : type === 'double' ? packDoubles(scratch, rows) : packTimes(scratch, rows);
    if (type === 'int64') splitWords(scratch, present);
    return present;
  }
  scratch.integers.set(source);
  return optional && scratch.integers.subarray(0, rows).includes(-1) ? packIntegers(scratch, rows) : rows;
}

/** Whether the first `count` gathered values are equal. */
export function isConstant(scratch: ColumnScratch, type: ParquetType, count: number): boolean {
  if (type === 'float') return false;
  if (type === 'int64' || type === 'double') {
    const { doubles } = scratch;
    const first = doubles[0];
    for (let i = 1; i < count; i++) if (doubles[i] !== first) return false;
    return count > 0 && !Object.is(first, -0);
  }
  const { integers } = scratch;
  const first = integers[0];
  for (let i = 1; i < count; i++) if (integers[i] !== first) return false;
  return count > 0;
}

function packIntegers(scratch: ColumnScratch, rows: number): number {
  const { integers, isPresent } = scratch;
  let present = 0;
  for (let row = 0; row < rows; row++) {
    const value = integers[row]!;
    isPresent[row] = value === -1 ? 0 : 1;
    if (value !== -1) integers[present++] = value;
  }
  return present;
}

function packTimes(scratch: ColumnScratch, rows: number): number {
  const { doubles, isPresent } = scratch;
  let present = 0;
  for (let row = 0; row < rows; row++) {
    const value = doubles[row]!;
    isPresent[row] = value === -1 ? 0 : 1;
    if (value !== -1) doubles[present++] = value;
  }
  return present;
}

function packDoubles(scratch: ColumnScratch, rows: number): number {
  const { doubles, isPresent } = scratch;
  let present = 0;
  for (let row = 0; row < rows; row++) {
    const value = doubles[row]!;
    isPresent[row] = Number.isNaN(value) ? 0 : 1;
    if (!Number.isNaN(value)) doubles[present++] = value;
  }
  return present;
}

function packFloats(scratch: ColumnScratch, rows: number): number {
  const { floats, isPresent } = scratch;
  let present = 0;
  for (let row = 0; row < rows; row++) {
    const value = floats[row]!;
    isPresent[row] = Number.isNaN(value) ? 0 : 1;
    if (!Number.isNaN(value)) floats[present++] = value;
  }
  return present;
}

function splitWords(scratch: ColumnScratch, count: number): void {
  const { doubles, words } = scratch;
  for (let i = 0; i < count; i++) {
    const value = doubles[i]!;
    const high = Math.floor(value / 4_294_967_296);
    words[2 * i] = value - high * 4_294_967_296;
    words[2 * i + 1] = high;
  }
}
