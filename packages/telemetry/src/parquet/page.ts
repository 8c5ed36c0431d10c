/** Values of a column: the typed arrays the tables keep. */
export type ColumnArray = Float64Array | Float32Array | Int32Array | Uint16Array | Int8Array | Uint8Array;

/** Types of columns that are written; a boolean is a bit, a string a number into a dictionary of names. */
export type ParquetType = 'int32' | 'int64' | 'double' | 'float' | 'boolean' | 'string';

/**
 * A reused buffer in which the bytes of one page are put together.
 * Encodings are those of the Parquet format specification (Apache Parquet, "Encodings"): PLAIN, and RLE/bit-packing hybrid for levels and dictionary indexes.
 */
export interface PageBuffer {
  bytes: Buffer;
  length: number;
}

export function createPageBuffer(): PageBuffer {
  return { bytes: Buffer.alloc(1 << 17), length: 0 };
}

function reserveBytes(page: PageBuffer, count: number): void {
  if (page.length + count <= page.bytes.length) return;
  const grown = Buffer.alloc(Math.max(page.bytes.length * 2, page.length + count));
  grown.set(page.bytes.subarray(0, page.length));
  page.bytes = grown;
}

/** Copies the memory of `values`: what PLAIN encoding is on a little-endian machine. */
export function putMemory(page: PageBuffer, values: ArrayBufferView, byteLength: number): void {
  reserveBytes(page, byteLength);
  page.bytes.set(new Uint8Array(values.buffer, values.byteOffset, byteLength), page.length);
  page.length += byteLength;
}

/**
 * Definition levels with their 4-byte length: one bit a row, `present` of them set. `isPresent` holds 1 or 0 a row and is read only where they differ.
 */
export function putLevels(page: PageBuffer, isPresent: Uint8Array, rows: number, present: number): void {
  const groups = Math.ceil(rows / 8);
  reserveBytes(page, groups + 16);
  const start = page.length;
  page.length += 4;
  if (present === rows || present === 0) {
    putVarint(page, rows * 2);
    page.bytes[page.length++] = present === 0 ? 0 : 1;
  } else {
    putVarint(page, groups * 2 + 1);
    putBits(page, isPresent, rows);
  }
  putUint32(page.bytes, start, page.length - start - 4);
}

/** One bit a row, least significant first. `flags` holds 0 or 1. */
export function putBits(page: PageBuffer, flags: Uint8Array, rows: number): void {
  const size = Math.ceil(rows / 8);
  reserveBytes(page, size);
  const { bytes } = page;
  const start = page.length;
  bytes.fill(0, start, start + size);
  for (let row = 0; row < rows; row++) bytes[start + (row >> 3)]! |= flags[row]! << (row & 7);
  page.length += size;
}

/** Dictionary indexes as one bit-packed run of 8, 16 or 32 bits an index (bit packing of whole bytes is plain little-endian order); one run-length run for one entry. */
export function putIndexes(page: PageBuffer, indexes: Int32Array, count: number, entries: number): void {
  const bytesEach = entries <= 256 ? 1 : entries <= 65_536 ? 2 : 4;
  const groups = Math.ceil(count / 8);
  const size = groups * 8 * bytesEach;
  reserveBytes(page, size + 16);
  page.bytes[page.length++] = bytesEach * 8;
  if (entries === 1) {
    putVarint(page, count * 2);
    page.bytes[page.length++] = 0;
    return;
  }
  putVarint(page, groups * 2 + 1);
  page.bytes.fill(0, page.length, page.length + size);
  // Narrowing by the typed arrays' own constructor: native, and the same for all widths.
  const used = indexes.subarray(0, count);
  const narrow = bytesEach === 1 ? Uint8Array.from(used) : bytesEach === 2 ? Uint16Array.from(used) : used;
  page.bytes.set(new Uint8Array(narrow.buffer, narrow.byteOffset, narrow.byteLength), page.length);
  page.length += size;
}

/** Dictionary entries in PLAIN encoding of byte arrays. */
export function putTexts(page: PageBuffer, texts: readonly string[]): void {
  for (const text of texts) {
    // UTF-8 takes at most three bytes for each unit of UTF-16.
    reserveBytes(page, 3 * text.length + 4);
    const size = page.bytes.write(text, page.length + 4);
    putUint32(page.bytes, page.length, size);
    page.length += size + 4;
  }
}

function putUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value & 255;
  bytes[at + 1] = (value >>> 8) & 255;
  bytes[at + 2] = (value >>> 16) & 255;
  bytes[at + 3] = value >>> 24;
}

function putVarint(page: PageBuffer, value: number): void {
  let rest = value;
  while (rest >= 128) {
    page.bytes[page.length++] = (rest & 127) | 128;
    rest >>>= 7;
  }
  page.bytes[page.length++] = rest;
}
