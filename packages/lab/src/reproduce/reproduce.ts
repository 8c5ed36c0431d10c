import { setMaxListeners } from 'node:events';
import { MeasurePool } from '../measure-pool.js';
import type { Measurement } from '../measure-scenario.js';
import { RunsCount, type RunsProgress } from '../runs-progress.js';
import type { ReproductionRow } from './rows.js';
import type { Chart, ReproductionSuite, ScenarioCase, SuitePart, SuiteSelection } from './suite.js';

/** What is reproduced, and how. */
export interface ReproduceOptions extends SuiteSelection {
  /** Runs at a time (default: one a core). */
  readonly parallel?: number;
  /** Ends it early; parts whose runs are all there are still evaluated. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: RunsProgress) => void;
}

/** A table or figure as reproduced. */
export interface ReproducedPart {
  readonly id: string;
  readonly title: string;
  readonly note: string | null;
  readonly rows: readonly ReproductionRow[];
  readonly charts: readonly Chart[];
}

/** A paper, or parts of it, as reproduced; `rows` are those of all parts in order. */
export interface Reproduction {
  readonly suite: string;
  readonly title: string;
  readonly source: string;
  readonly quick: boolean;
  readonly seeds: number;
  /** Runs done, those that several parts share counted once. */
  readonly runs: number;
  readonly parts: readonly ReproducedPart[];
  readonly rows: readonly ReproductionRow[];
  readonly interrupted: boolean;
}

/** Runs what the selected tables and figures need, each run once, in parallel over the cores, and sets published against emulated numbers. */
export async function reproduce(suite: ReproductionSuite, options: ReproduceOptions): Promise<Reproduction> {
  checkSelection(suite, options);
  const parts = suite.parts(options);
  const seeds = suite.seeds(options.quick);
  const { measured, runs } = await measureCases(
    parts.flatMap(({ cases }) => cases),
    seeds,
    options,
  );
  const done: ReproducedPart[] = [];
  for (const part of parts) {
    if (part.cases.some((each) => !measured.has(keyOf(each)))) continue;
    done.push(await evaluate(part, measured));
  }
  return {
    suite: suite.name,
    title: suite.title,
    source: suite.source,
    quick: options.quick,
    seeds: seeds.length,
    runs,
    parts: done,
    rows: done.flatMap(({ rows }) => rows),
    interrupted: options.signal?.aborted === true,
  };
}

/** @throws RangeError that names the tables and figures there are. */
export function checkSelection(
  suite: ReproductionSuite,
  { tables = [], figures = [], experiments = [] }: Pick<SuiteSelection, 'tables' | 'figures' | 'experiments'>,
): void {
  for (const [kind, wanted, known] of [
    ['table', tables, suite.tables],
    ['figure', figures, suite.figures],
    ['experiment', experiments, suite.experiments ?? []],
  ] as const) {
    const unknown = wanted.find((number) => !known.includes(number));
    if (unknown === undefined) continue;
    const has = known.length === 0 ? `no ${kind}s` : `${kind}s ${known.join(', ')}`;
    throw new RangeError(`${suite.name} has no ${kind} ${unknown}; it has ${has}`);
  }
}

async function evaluate(part: SuitePart, measured: ReadonlyMap<string, readonly Measurement[]>): Promise<ReproducedPart> {
  const { rows, charts = [] } = await part.evaluate((scenario) => {
    const found = measured.get(keyOf(scenario));
    if (found === undefined) throw new Error(`${part.id} asks for a run that it did not announce: ${keyOf(scenario)}`);
    return found;
  });
  return { id: part.id, title: part.title, note: part.note ?? null, rows, charts };
}

function keyOf({ file, settings, windows, seeds }: ScenarioCase): string {
  return JSON.stringify([file, settings, windows, seeds]);
}

/** The runs of all cases by case, those with all their seeds only. */
async function measureCases(
  cases: readonly ScenarioCase[],
  seeds: readonly (number | string)[],
  options: ReproduceOptions,
): Promise<{ measured: Map<string, readonly Measurement[]>; runs: number }> {
  const unique = [...new Map(cases.map((each) => [keyOf(each), each])).values()].sort((a, b) => (b.cost ?? 1) - (a.cost ?? 1));
  const measured = new Map<string, readonly Measurement[]>();
  let runs = 0;
  if (unique.length === 0) return { measured, runs };
  const runsOf = (each: ScenarioCase): number => (each.seeds ?? seeds).length;
  const total = (of: (each: ScenarioCase) => number): number => unique.reduce((sum, each) => sum + runsOf(each) * of(each), 0);
  const progress = new RunsCount(
    total(() => 1),
    total(({ cost = 1 }) => cost),
    options.onProgress,
  );
  // Each run under way listens for the end.
  if (options.signal !== undefined) setMaxListeners(0, options.signal);
  const pool = new MeasurePool(options.parallel);
  try {
    await Promise.all(
      unique.map(async (each) => {
        const results = await Promise.all(
          (each.seeds ?? seeds).map(async (seed) => {
            const { file, windows } = each;
            const settings = [...each.settings, `seed=${JSON.stringify(seed)}`];
            const task = windows === undefined ? { file, settings } : { file, settings, windows };
            try {
              const result = await pool.measure(task, options.signal);
              runs++;
              progress.advance(each.cost);
              return result;
            } catch (error) {
              if (options.signal?.aborted === true) return undefined;
              throw error;
            }
          }),
        );
        if (results.every((result) => result !== undefined)) measured.set(keyOf(each), results);
      }),
    );
    return { measured, runs };
  } finally {
    await pool.close();
  }
}
