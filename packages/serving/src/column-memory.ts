/** Cuts the columns of a table, all of so many rows, out of one piece of memory. */
export interface ColumnMemory {
  float64(): Float64Array;
  int32(): Int32Array;
  uint8(): Uint8Array;
  int8(): Int8Array;
}

/**
 * Memory for `rows` rows, a multiple of 8, of `rowBytes` bytes. A typed array with memory of its own is three objects of 200 bytes, however short: an idle
 * engine would be little else.
 */
export function columnMemory(rows: number, rowBytes: number): ColumnMemory {
  const memory = new ArrayBuffer(rows * rowBytes);
  let end = 0;
  // Columns of a multiple of 8 rows begin at multiples of 8 bytes, whatever stands before them.
  const next = (bytes: number): number => {
    const start = end;
    end += rows * bytes;
    return start;
  };
  return {
    float64: () => new Float64Array(memory, next(8), rows),
    int32: () => new Int32Array(memory, next(4), rows),
    uint8: () => new Uint8Array(memory, next(1), rows),
    int8: () => new Int8Array(memory, next(1), rows),
  };
}
