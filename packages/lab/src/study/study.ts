import type { Measurement, MeasureTask } from '../measure-scenario.js';
import type { Chart } from '../reproduce/suite.js';

/** A cell of a table; null where there is nothing to say. */
export type StudyCell = string | number | null;

/** A table of a study; `id` names it in study.json. */
export interface StudyTable {
  readonly id: string;
  readonly title: string;
  readonly note: string;
  readonly head: readonly string[];
  readonly rows: readonly (readonly StudyCell[])[];
  readonly charts: readonly Chart[];
}

/** What the runs of a study come to. */
export interface StudyResult {
  readonly tables: readonly StudyTable[];
  /** One paragraph, made from the numbers of this run. */
  readonly finding: string;
}

/** What a study may use. */
export interface StudyContext {
  /** Thinner grids and shorter runs. */
  readonly quick: boolean;
  /** Scenario file to study in place of the study's own. */
  readonly scenario?: string;
  /** Runs scenarios several at a time on warm threads; results in the order of the tasks. */
  measureAll(tasks: readonly MeasureTask[]): Promise<readonly Measurement[]>;
}

/** Experiments that answer one question, with tables and a finding. */
export interface Study {
  readonly name: string;
  readonly title: string;
  /** Whether it can study a scenario of the user's. */
  readonly takesScenario?: boolean;
  run(context: StudyContext): Promise<StudyResult>;
}

export const table = (
  id: string,
  title: string,
  note: string,
  head: readonly string[],
  rows: readonly (readonly StudyCell[])[],
  charts: readonly Chart[] = [],
): StudyTable => ({ id, title, note, head, rows, charts });

/** A value for a sentence: so many decimals, n/a where it is not known. */
export function said(value: number | null | undefined, decimals = 1): string {
  return value === null || value === undefined || Number.isNaN(value) ? 'n/a' : value.toFixed(decimals);
}

/** A share as percent, for a sentence. */
export function percent(share: number | null | undefined, decimals = 1): string {
  return share === null || share === undefined || Number.isNaN(share) ? 'n/a' : `${(100 * share).toFixed(decimals)} %`;
}

/** A change in percent, with its sign, for a sentence. */
export function signed(percentage: number): string {
  return `${percentage >= 0 ? '+' : ''}${said(percentage)} %`;
}
