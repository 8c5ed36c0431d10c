import type { RunsProgress } from '@braess/lab';
import Table from 'cli-table3';
import { colors } from './colors.js';

export type Alignment = 'left' | 'right';

/** Longer texts, such as notes, wrap inside their column: a table wider than the terminal is no table. */
const widestColumn = 64;

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
    colWidths: head.map((_, column) => columnWidth(rows.map((row) => row[column] as string))),
    wordWrap: true,
  });
  for (const row of rows) table.push([...row]);
  return table.toString();
}

/** With a space on either side; null: as wide as its widest text. A word, such as a path, is never cut. */
function columnWidth(texts: readonly string[]): number | null {
  if (texts.every(({ length }) => length <= widestColumn)) return null;
  return 2 + Math.max(widestColumn, ...texts.flatMap((text) => text.split(/\s+/).map(({ length }) => length)));
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

/** How far a set of runs is. */
export function runsText({ runsDone, runs, secondsLeft }: RunsProgress): string {
  const left = secondsLeft === undefined || runsDone === runs ? '' : `, about ${Math.ceil(secondsLeft)} s left`;
  return `${runsDone} of ${runs} runs done${left}`;
}

export function verdict(holds: boolean): string {
  return holds ? colors.green('yes') : colors.red('no');
}
