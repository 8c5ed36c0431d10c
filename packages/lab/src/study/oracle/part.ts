import { type MeanInterval, meanInterval } from '@braess/games';
import type { Measurement, MeasureTask } from '../../measure-scenario.js';
import { scenarioFile } from '../../scenario-files.js';
import type { StudyCell, StudyTable } from '../study.js';

/** Scenarios of the study. */
export const oracleFile = scenarioFile('study/oracle.yaml');
export const incastFile = scenarioFile('study/incast.yaml');

/** One question of the study: what it needs to run, a table and a sentence about it. */
export interface StudyPart {
  readonly tasks: readonly MeasureTask[];
  evaluate(runs: readonly Measurement[]): { readonly table: StudyTable; readonly sentence: string };
}

/** A case of a part, run once a seed. */
export type Case = Omit<MeasureTask, 'file'> & { readonly file?: string };

export function tasksOf(cases: readonly Case[], seeds: readonly number[]): MeasureTask[] {
  return cases.flatMap((each) => seeds.map((seed) => ({ file: oracleFile, ...each, settings: [...each.settings, `seed=${seed}`] })));
}

/** The runs of the case at a place, seed by seed. */
export function runsAt(runs: readonly Measurement[], place: number, seeds: readonly number[]): readonly Measurement[] {
  return runs.slice(place * seeds.length, (place + 1) * seeds.length);
}

export const mean = (values: readonly number[]): number => meanInterval(values).mean;
export const ttftMs = ({ summary }: Measurement): number => summary.ttftMs?.mean ?? Number.NaN;
export const transferMs = ({ summary }: Measurement): number => summary.transferMs?.mean ?? Number.NaN;

/** Share of transfers that stayed in the pod, %. */
export function nearPercent({ transfersByTier }: Measurement): number {
  const all = transfersByTier.reduce((sum, count) => sum + count, 0);
  const near = transfersByTier.slice(0, 3).reduce((sum, count) => sum + count, 0);
  return (100 * near) / all;
}

/** A line of a chart from the rows of a table: its first column along, another one up. */
export function lineOf(
  rows: readonly (readonly StudyCell[])[],
  name: string,
  column: number,
): StudyTable['charts'][number]['series'][number] {
  return { name, group: name, kind: 'emulated', points: rows.map((row) => ({ x: row[0] as number, y: row[column] as number })) };
}

/** Change of a number from `before` to `after`, % of `before`, seed by seed: both had the same requests. */
export function changes(
  before: readonly Measurement[],
  after: readonly Measurement[],
  of: (run: Measurement) => number = ttftMs,
): MeanInterval {
  return meanInterval(before.map((run, seed) => 100 * (of(after[seed] as Measurement) / of(run) - 1)));
}
