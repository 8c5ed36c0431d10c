import type { LineChart, LineSeries } from '@braess/telemetry';
import type { Measurement, MeasureTask } from '../measure-scenario.js';
import type { ReproductionRow } from './rows.js';

/** A scenario to run once for each seed. */
export interface ScenarioCase extends MeasureTask {
  /** Relative cost of a run, to start the longest first and to tell the time left; default 1. */
  readonly cost?: number;
  /** Its own seeds instead of those of the suite. */
  readonly seeds?: readonly (number | string)[];
}

/** A figure: published numbers dashed, emulated ones solid with their intervals. */
export type Chart = LineChart;
export type ChartSeries = LineSeries;

/** What a table or figure comes to. */
export interface PartResult {
  readonly rows: readonly ReproductionRow[];
  readonly charts?: readonly Chart[];
}

/** The measured runs of a case, one a seed, in the order of the seeds. */
export type RunsOf = (scenario: ScenarioCase) => readonly Measurement[];

/** A table or figure of a paper: the runs it needs, and what its rows make of them. */
export interface SuitePart {
  /** e.g. table2. */
  readonly id: string;
  readonly title: string;
  readonly note?: string;
  readonly cases: readonly ScenarioCase[];
  evaluate(runsOf: RunsOf): PartResult | Promise<PartResult>;
}

/** Which parts of a paper are asked for. */
export interface SuiteSelection {
  /** Numbers of tables, figures and experiments; none given: all. */
  readonly tables?: readonly number[];
  readonly figures?: readonly number[];
  readonly experiments?: readonly number[];
  /** Fewer seeds and points, shorter runs. */
  readonly quick: boolean;
}

/** A paper whose tables and figures can be reproduced. */
export interface ReproductionSuite {
  readonly name: string;
  readonly title: string;
  /** Where the published numbers come from. */
  readonly source: string;
  readonly tables: readonly number[];
  readonly figures: readonly number[];
  readonly experiments?: readonly number[];
  seeds(quick: boolean): readonly (number | string)[];
  parts(selection: SuiteSelection): readonly SuitePart[];
}

/** Whether a selection asks for a table, figure or experiment of that number. */
export function isSelected(
  { tables, figures, experiments }: SuiteSelection,
  kind: 'table' | 'figure' | 'experiment',
  number: number,
): boolean {
  if (tables === undefined && figures === undefined && experiments === undefined) return true;
  return { table: tables, figure: figures, experiment: experiments }[kind]?.includes(number) === true;
}
