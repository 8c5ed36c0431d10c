import Table from 'cli-table3';
import { colors } from './colors.js';

export type Alignment = 'left' | 'right';

/** A table for a terminal: columns align, numbers to the right. */
export function textTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  alignments: readonly Alignment[] = head.map((_, column) => (column === 0 ? 'left' : 'right')),
): string {
  const table = new Table({
    head: head.map((text) => colors.bold(text)),
    colAligns: [...alignments],
    style: { head: [], border: [], compact: true },
  });
  for (const row of rows) table.push([...row]);
  return table.toString();
}

/** A rate, as millions a second. */
export function millions(perSecond: number | null): string {
  return perSecond === null ? '-' : `${(perSecond / 1e6).toFixed(2)} M/s`;
}

export function times(ratio: number | null): string {
  return ratio === null ? '-' : `${ratio.toFixed(2)} x`;
}

/** A number with so many decimals and thousands set apart. */
export function fixed(value: number | null, decimals = 0): string {
  if (value === null) return '-';
  return value.toLocaleString('en-US', { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

export function verdict(holds: boolean): string {
  return holds ? colors.green('yes') : colors.red('no');
}
