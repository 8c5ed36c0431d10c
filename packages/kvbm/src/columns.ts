/** Growth of typed-array columns: plain data that doubles, because most pools use far fewer nodes than blocks. */

export function widenInt32(column: Int32Array, length: number, fill: number = 0): Int32Array {
  const wider = new Int32Array(length);
  wider.set(column);
  if (fill !== 0) wider.fill(fill, column.length);
  return wider;
}

export function widenFloat64(column: Float64Array, length: number): Float64Array {
  const wider = new Float64Array(length);
  wider.set(column);
  return wider;
}

export function widenUint8(column: Uint8Array, length: number): Uint8Array {
  const wider = new Uint8Array(length);
  wider.set(column);
  return wider;
}
