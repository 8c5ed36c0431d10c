import { fixed } from './text-output.js';

/** A number of any size for a table: whole numbers in full, others to about five digits. Null and NaN are a dash. */
export function numberText(value: number | null): string {
  if (value === null || Number.isNaN(value)) return '-';
  if (Number.isInteger(value)) return fixed(value);
  const size = Math.abs(value);
  if (size >= 10_000) return fixed(value);
  if (size >= 1) return fixed(value, size >= 1000 ? 1 : size >= 100 ? 2 : 3);
  return String(Number(value.toPrecision(4)));
}

/** The same with its sign, for differences. */
export function signedText(value: number | null): string {
  return value !== null && value > 0 ? `+${numberText(value)}` : numberText(value);
}

/** A share as a percentage with so many decimals. */
export function percentText(share: number, decimals = 1): string {
  return Number.isNaN(share) ? '-' : `${(100 * share).toFixed(decimals)} %`;
}
