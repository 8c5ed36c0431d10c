/** JSON of any value a query may return: whole numbers above 2^53 become text, bytes become hexadecimal text, NaN and infinities null. */
export function plainJson(value: unknown): string {
  return JSON.stringify(value, (_, inner: unknown) => {
    if (typeof inner === 'bigint') return inner >= -maximum && inner <= maximum ? Number(inner) : String(inner);
    if (inner instanceof Uint8Array) return Buffer.from(inner).toString('hex');
    return inner;
  });
}

const maximum = BigInt(Number.MAX_SAFE_INTEGER);
