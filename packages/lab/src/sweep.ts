import { setMaxListeners } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { planCluster, readScenario } from '@braess/cluster';
import { ThreadPool } from '@braess/kernel';
import { makeFreeFolder } from '@braess/telemetry';
import { figuresOf, type RunFigures } from './run-figures.js';
import type { ScenarioSummary } from './run-scenario.js';
import { RunsCount, type RunsProgress } from './runs-progress.js';

/** What varies in a sweep, and where its runs go. */
export interface SweepOptions {
  readonly file: string;
  readonly settings?: readonly string[];
  /** What varies: with several, every combination is run; with none there is one point, the scenario. */
  readonly axes: readonly SweepAxis[];
  /** Runs of each point, with seeds counted on from the scenario's own (`seedAt`): the same ones at every point. Default 1. */
  readonly seeds?: number;
  /** Folder for the run folders of all points; default the next free runs/sweep-<number>, or runs/seeds-<number> where only the seed varies. */
  readonly out?: string;
  /** Runs at a time (default: one a core). */
  readonly parallel?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: RunsProgress) => void;
}

/** A value of the scenario that a sweep varies. */
export interface SweepAxis {
  /** Its path, e.g. workload.rateFactor. */
  readonly path: string;
  /** Its values, in YAML, e.g. 1, 1.5, 2 or kv, least-loaded. */
  readonly values: readonly string[];
}

/** One run of a point: what it came to, or why there is nothing. */
export interface SweepRun {
  readonly summary: ScenarioSummary | null;
  readonly error: string | null;
}

/** One point of a sweep. */
export interface SweepPoint {
  /** Null where nothing varies but the seed. */
  readonly value: string | null;
  /** Means over the runs that came to something. */
  readonly figures: RunFigures;
  /** One a seed. */
  readonly runs: readonly SweepRun[];
}

/** Runs along the last axis, everything else being equal. */
export interface Sweep {
  /** Null where nothing varies but the seed. */
  readonly path: string | null;
  /** Values of the other axes, in order. */
  readonly held: readonly { readonly path: string; readonly value: string }[];
  /** Runs of each point. */
  readonly seeds: number;
  readonly points: readonly SweepPoint[];
  /** Whether the values are numbers that rise, or fall, and no seeds: of others no point comes before another. */
  readonly isScale: boolean;
  /**
   * Index of the last point, in order, up to which every point keeps the SLO for `sloShare` of its requests, in the mean of its runs; -1: none, no SLO,
   * or no scale.
   */
  readonly knee: number;
  readonly sloShare: number;
  readonly interrupted: boolean;
}

/** What a worker thread of a sweep is given. */
export interface SweepTask {
  readonly file: string;
  readonly settings: readonly string[];
  /** Run folder; with a seed, the folder for those of the point. */
  readonly out: string;
  /** Place among the seeds of the point; null: the scenario's own, and no other. */
  readonly seedIndex: number | null;
}

/** Share of requests that must meet the SLO for a point to count as within it. */
const sloShare = 0.9;

/**
 * Runs a scenario for each value, once or with several seeds, several runs at a time, each on one thread. One sweep comes of one axis; of several, one
 * for each combination of the values of all but the last. @throws ScenarioError where nothing varies and the scenario is wrong; RangeError where there
 * is nothing to run, or both the axes and `seeds` say the seed.
 */
export async function sweepScenario(options: SweepOptions): Promise<Sweep[]> {
  const { axes, seeds = 1, signal } = options;
  for (const { path, values } of axes)
    if (values.length === 0) throw new RangeError(`sweep of ${path} has no values; give some, e.g. ${path}=1,2,3`);
  if (!Number.isInteger(seeds) || seeds < 1) throw new RangeError(`sweep with ${seeds} seeds; give a whole number from 1`);
  if (options.seeds !== undefined && axes.some(({ path }) => path === 'seed'))
    throw new RangeError(`${seeds} seeds of each point, and a sweep over seed: both say which seeds to run; leave one of them out`);
  // A mistake would be each run's; of several points it is perhaps that of one.
  if (axes.length === 0) planCluster(readScenario(options.file, options.settings));
  const out = options.out ?? makeFreeFolder(join('runs', axes.length === 0 ? 'seeds' : 'sweep'));
  const points = await runPoints({ ...options, out }, combinations(axes));
  const last = axes.at(-1);
  const length = last?.values.length ?? 1;
  const isScale = last !== undefined && last.path !== 'seed' && areScale(last.values);
  return combinations(axes.slice(0, -1)).map((held, index) => {
    const line = points.slice(index * length, (index + 1) * length);
    const knee = isScale ? kneeOf(line) : -1;
    return { path: last?.path ?? null, held, seeds, points: line, isScale, knee, sloShare, interrupted: signal?.aborted === true };
  });
}

type Combination = readonly { readonly path: string; readonly value: string }[];

/** All of them, the last axis changing first. */
function combinations(axes: readonly SweepAxis[]): Combination[] {
  return axes.reduce<Combination[]>(
    (before, { path, values }) => before.flatMap((combination) => values.map((value) => [...combination, { path, value }])),
    [[]],
  );
}

/** The options of a sweep whose folder is known. */
type PlacedSweep = SweepOptions & { readonly out: string };

async function runPoints(options: PlacedSweep, points: readonly Combination[]): Promise<SweepPoint[]> {
  const { signal, seeds } = options;
  const runs = points.length * (seeds ?? 1);
  // Each run listens for the end.
  if (signal !== undefined) setMaxListeners(0, signal);
  const threads = Math.min(runs, options.parallel ?? Math.max(1, availableParallelism()));
  const pool = new ThreadPool(new URL('./sweep-worker.js', import.meta.url).href, threads);
  const count = new RunsCount(runs, runs, options.onProgress);
  const run = async (task: SweepTask): Promise<SweepRun> => {
    try {
      return { summary: await pool.run<ScenarioSummary>(task, { signal }), error: null };
    } catch (error) {
      return { summary: null, error: signal?.aborted === true ? 'interrupted' : (error as Error).message };
    } finally {
      count.advance();
    }
  };
  try {
    return await Promise.all(
      points.map(async (combination, index): Promise<SweepPoint> => {
        const tasks = tasksOf(options, combination, index);
        const ended = await Promise.all(tasks.map(run));
        const figures = figuresOf(ended.flatMap(({ summary }) => summary ?? []));
        return { value: combination.at(-1)?.value ?? null, figures, runs: ended };
      }),
    );
  } finally {
    await pool.destroy();
  }
}

/** The runs of a point, one a seed. */
function tasksOf({ file, settings = [], seeds, out }: PlacedSweep, combination: Combination, index: number): SweepTask[] {
  const name = combination.map(({ value }) => folderPart(value).slice(0, 40)).join('-');
  const task = {
    file,
    settings: [...settings, ...combination.map(({ path, value }) => `${path}=${value}`)],
    out: combination.length === 0 ? out : join(out, `${String(index).padStart(3, '0')}-${name.slice(0, 80)}`),
  };
  return seeds === undefined ? [{ ...task, seedIndex: null }] : Array.from({ length: seeds }, (_, seedIndex) => ({ ...task, seedIndex }));
}

/** A text as a part of a folder's name. */
export function folderPart(text: string): string {
  return text.replaceAll(/[^\w.-]+/g, '_');
}

/** Whether texts are numbers, each larger than the one before, or each smaller. */
export function areScale(values: readonly string[]): boolean {
  const numbers = values.map((value) => (value.trim() === '' ? Number.NaN : Number(value)));
  const steps = numbers.slice(1).map((number, index) => Math.sign(number - (numbers[index] as number)));
  return numbers.every(Number.isFinite) && steps.every((step) => step !== 0 && step === steps[0]);
}

/** The last point before the SLO is first missed, or a run came to nothing. */
export function kneeOf(
  points: readonly { readonly figures: Pick<RunFigures, 'sloAttainment'>; readonly runs: ArrayLike<unknown> }[],
): number {
  const missed = points.findIndex(({ figures: { sloAttainment }, runs }) => {
    return sloAttainment === null || sloAttainment.runs < runs.length || sloAttainment.mean < sloShare;
  });
  return (missed < 0 ? points.length : missed) - 1;
}
