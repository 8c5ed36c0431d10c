import { writeFileSync } from 'node:fs';
import { writing } from '../writing.js';

/**
 * Writes the report of a finished run folder, to `report.html` in it or to `path`: one self-contained page of static SVG, no scripts, no network.
 * Returns its path.
 * Errors when the folder is not a finished run.
 */
export async function writeReport(folder: string, path?: string): Promise<string> {
  // Loaded only here: the chart library and DuckDB cost more time and memory than a run may spend on them.
  const { renderReport } = await import('./report.js');
  return renderReport(folder, path);
}

/** A page of numbers and line charts, e.g. published against emulated ones. All text is escaped. */
export interface ComparisonPage {
  readonly title: string;
  readonly meta: string;
  readonly sections: readonly ComparisonSection[];
}

/** Charts over one table, with a sentence about them. */
export interface ComparisonSection {
  readonly title: string;
  readonly note: string;
  readonly charts: readonly LineChart[];
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Columns that stand right. */
  readonly numeric: readonly number[];
}

/** Lines of one figure; those of a group share a colour, dashed ones are the published numbers. */
export interface LineChart {
  readonly title: string;
  readonly xLabel: string;
  readonly yLabel: string;
  readonly xScale?: 'linear' | 'log';
  readonly series: readonly LineSeries[];
}

/** A line of a chart; those of the same `group` have one colour. */
export interface LineSeries {
  readonly name: string;
  readonly group: string;
  readonly kind: 'published' | 'emulated';
  /** `low` and `high` bound an interval, drawn as a bar. */
  readonly points: readonly { readonly x: number; readonly y: number; readonly low?: number | null; readonly high?: number | null }[];
}

/** Writes such a page: one self-contained file of static SVG, no scripts, no network. */
export async function writeComparison(page: ComparisonPage, path: string): Promise<void> {
  const { renderComparison } = await import('./comparison.js');
  writing(path, () => writeFileSync(path, renderComparison(page)));
}
