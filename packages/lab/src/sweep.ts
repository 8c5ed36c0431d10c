import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { ThreadPool } from '@braess/kernel';
import type { ScenarioSummary } from './run-scenario.js';

export interface SweepOptions {
  readonly file: string;
  readonly settings?: readonly string[];
  /** Path of the value that varies, e.g. workload.rateFactor. */
  readonly path: string;
  /** Its values, in YAML, e.g. 1, 1.5, 2 or kv, least-loaded. */
  readonly values: readonly string[];
  /** Folder for the run folders of all points. */
  readonly out: string;
  /** Runs at a time (default: one a core). */
  readonly parallel?: number;
  readonly signal?: AbortSignal;
  readonly onPoint?: (done: number, of: number) => void;
}

/** One point of a sweep: what its run came to, or why there is none. */
export interface SweepPoint {
  readonly value: string;
  readonly summary: ScenarioSummary | null;
  readonly error: string | null;
}

export interface Sweep {
  readonly path: string;
  readonly points: readonly SweepPoint[];
  /** Whether the values are numbers that rise, or fall: of others no point comes before another. */
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

/** Runs a scenario once for each value, several at a time, each run on one thread. */
export async function sweepScenario(options: SweepOptions): Promise<Sweep> {
  const { values, path, settings = [], signal, onPoint } = options;
  if (values.length === 0) throw new RangeError(`sweep of ${path} has no values; give some, e.g. ${path}=1,2,3`);
  const threads = Math.min(values.length, options.parallel ?? Math.max(1, availableParallelism()));
  const pool = new ThreadPool(new URL('./sweep-worker.js', import.meta.url).href, threads);
  let done = 0;
  try {
    const points = await Promise.all(
      values.map(async (value, index): Promise<SweepPoint> => {
        const task: SweepTask = {
          file: options.file,
          settings: [...settings, `${path}=${value}`],
          out: join(options.out, `${String(index).padStart(3, '0')}-${value.replaceAll(/[^\w.-]+/g, '_').slice(0, 40)}`),
        };
        try {
          const summary = await pool.run<ScenarioSummary>(task, { signal });
          onPoint?.(++done, values.length);
          return { value, summary, error: null };
        } catch (error) {
          onPoint?.(++done, values.length);
          return { value, summary: null, error: signal?.aborted === true ? 'interrupted' : (error as Error).message };
        }
      }),
    );
    const isScale = areScale(values);
    return { path, points, isScale, knee: isScale ? kneeOf(points) : -1, sloShare, interrupted: signal?.aborted === true };
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
