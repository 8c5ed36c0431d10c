import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { ThreadPool } from '@braess/kernel';
import type { ScenarioSummary } from './run-scenario.js';

/** What varies in a sweep, and where its runs go. */
export interface SweepOptions {
  readonly file: string;
  readonly settings?: readonly string[];
  /** What varies: with several, every combination is run. */
  readonly axes: readonly SweepAxis[];
  /** Folder for the run folders of all points. */
  readonly out: string;
  /** Runs at a time (default: one a core). */
  readonly parallel?: number;
  readonly signal?: AbortSignal;
  readonly onPoint?: (done: number, of: number) => void;
}

/** A value of the scenario that a sweep varies. */
export interface SweepAxis {
  /** Its path, e.g. workload.rateFactor. */
  readonly path: string;
  /** Its values, in YAML, e.g. 1, 1.5, 2 or kv, least-loaded. */
  readonly values: readonly string[];
}

/** One point of a sweep: what its run came to, or why there is none. */
export interface SweepPoint {
  readonly value: string;
  readonly summary: ScenarioSummary | null;
  readonly error: string | null;
}

/** Runs along the last axis, everything else being equal. */
export interface Sweep {
  readonly path: string;
  /** Values of the other axes, in order. */
  readonly held: readonly { readonly path: string; readonly value: string }[];
  readonly points: readonly SweepPoint[];
  /** Whether the values are numbers that rise, or fall, and no seeds: of others no point comes before another. */
  readonly isScale: boolean;
  /** Index of the last point, in order, up to which every run keeps the SLO for `sloShare` of its requests; -1: none, no SLO, or no scale. */
  readonly knee: number;
  readonly sloShare: number;
  readonly interrupted: boolean;
}

/** What a worker thread of a sweep is given. */
export interface SweepTask {
  readonly file: string;
  readonly settings: readonly string[];
  readonly out: string;
}

/** Share of requests that must meet the SLO for a point to count as within it. */
const sloShare = 0.9;

/**
 * Runs a scenario once for each value, several at a time, each run on one thread. One sweep comes of one axis; of several, one for each combination of
 * the values of all but the last.
 */
export async function sweepScenario(options: SweepOptions): Promise<Sweep[]> {
  const { axes, signal } = options;
  for (const { path, values } of axes)
    if (values.length === 0) throw new RangeError(`sweep of ${path} has no values; give some, e.g. ${path}=1,2,3`);
  const last = axes.at(-1);
  if (last === undefined) throw new RangeError('sweep: nothing varies; give a path with values');
  const points = await runPoints(options, combinations(axes));
  const isScale = last.path !== 'seed' && areScale(last.values);
  return combinations(axes.slice(0, -1)).map((held, index) => {
    const line = points.slice(index * last.values.length, (index + 1) * last.values.length);
    const knee = isScale ? kneeOf(line) : -1;
    return { path: last.path, held, points: line, isScale, knee, sloShare, interrupted: signal?.aborted === true };
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

async function runPoints(options: SweepOptions, points: readonly Combination[]): Promise<SweepPoint[]> {
  const { settings = [], signal, onPoint } = options;
  const threads = Math.min(points.length, options.parallel ?? Math.max(1, availableParallelism()));
  const pool = new ThreadPool(new URL('./sweep-worker.js', import.meta.url).href, threads);
  let done = 0;
  try {
    return await Promise.all(
      points.map(async (combination, index): Promise<SweepPoint> => {
        const { value } = combination.at(-1)!;
        const name = combination.map(({ value }) => value.replaceAll(/[^\w.-]+/g, '_').slice(0, 40)).join('-');
        const task: SweepTask = {
          file: options.file,
          settings: [...settings, ...combination.map(({ path, value }) => `${path}=${value}`)],
          out: join(options.out, `${String(index).padStart(3, '0')}-${name.slice(0, 80)}`),
        };
        try {
          const summary = await pool.run<ScenarioSummary>(task, { signal });
          onPoint?.(++done, points.length);
          return { value, summary, error: null };
        } catch (error) {
          onPoint?.(++done, points.length);
          return { value, summary: null, error: signal?.aborted === true ? 'interrupted' : (error as Error).message };
        }
      }),
    );
  } finally {
    await pool.destroy();
  }
}

/** Whether texts are numbers, each larger than the one before, or each smaller. */
export function areScale(values: readonly string[]): boolean {
  const numbers = values.map((value) => (value.trim() === '' ? Number.NaN : Number(value)));
  const steps = numbers.slice(1).map((number, index) => Math.sign(number - (numbers[index] as number)));
  return numbers.every(Number.isFinite) && steps.every((step) => step !== 0 && step === steps[0]);
}

/** The last point before the SLO is first missed. */
export function kneeOf(points: readonly Pick<SweepPoint, 'summary'>[]): number {
  let knee = -1;
  for (const [index, { summary }] of points.entries()) {
    const share = summary?.sloAttainment ?? null;
    if (share === null || share < sloShare) break;
    knee = index;
  }
  return knee;
}
