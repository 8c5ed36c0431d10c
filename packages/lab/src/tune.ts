import { dirname, resolve } from 'node:path';
import { readScenario, type Scenario, traceSetting } from '@braess/cluster';
import type { ScenarioSummary } from './run-scenario.js';
import type { RunsProgress } from './runs-progress.js';
import { sweepScenario } from './sweep.js';

/** What a search makes least: mean or P99 of TTFT, or the share of requests that miss their SLO. */
export type TuneAim = 'ttft-mean' | 'ttft-p99' | 'slo-missed';

/** What is searched, on which sample, towards what. */
export interface TuneOptions {
  readonly file: string;
  readonly settings?: readonly string[];
  /** A trace other than the measured one: of a trace another seed makes no other sample. */
  readonly trace?: string;
  /** Values of each parameter of the decode policy; every combination is run. Default: those of `defaultGrids`. */
  readonly grid?: Readonly<Record<string, readonly number[]>>;
  readonly aim: TuneAim;
  /** Requests of the slice. */
  readonly requests: number;
  /** Seed of the slice; a generated workload with another seed is another sample. */
  readonly seed: string;
  readonly out: string;
  readonly parallel?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: RunsProgress) => void;
}

/** One combination of weights, and what its run came to. */
export interface TunePoint {
  readonly parameters: Readonly<Record<string, number>>;
  /** What the aim came to, null where the run failed, lost requests or measured none. */
  readonly value: number | null;
  readonly ttftMeanMs: number | null;
  readonly ttftP99Ms: number | null;
  readonly sloAttainment: number | null;
  /** Why there is no value; null where there is one. */
  readonly error: string | null;
}

/** All points of a search, in the order of the grid, and the one with the least value. */
export interface Tuning {
  readonly policy: string;
  readonly aim: TuneAim;
  readonly requests: number;
  readonly seed: string;
  readonly points: readonly TunePoint[];
  readonly best: TunePoint | null;
  readonly interrupted: boolean;
}

/** Grids of the policies with weights. Only ratios count, so one weight stays 1. */
export const defaultGrids: Readonly<Record<string, Readonly<Record<string, readonly number[]>>>> = {
  cla: { cacheWeight: [1], loadWeight: [0, 0.5, 1, 2, 5, 10, 20] },
  weighted: { alpha: [1], beta: [0, 0.01, 0.1, 1], gamma: [0, 0.3, 1, 3] },
};

/**
 * Searches the weights of a scenario's decode policy on a slice that is not measured: the same scenario with another seed, cut after so many requests.
 * @throws RangeError when the policy has no grid and none is given, the slice would be the measured one, or the warm-up outlasts the slice in every run.
 */
export async function tuneScenario(options: TuneOptions): Promise<Tuning> {
  const { file, aim, requests, seed, out, signal, onProgress, parallel } = options;
  const settings = [...(options.settings ?? []), ...(options.trace === undefined ? [] : [traceSetting(options.trace)])];
  const { scenario } = readScenario(file, settings);
  checkSample(options);
  const { policy } = scenario.router.decode ?? scenario.router;
  const path = scenario.router.decode === undefined ? 'router.parameters' : 'router.decode.parameters';
  const fixed = (scenario.router.decode ?? scenario.router).parameters;
  const grid = options.grid ?? defaultGrids[policy];
  if (grid === undefined)
    throw new RangeError(
      `policy '${policy}' has no grid of its own (${Object.keys(defaultGrids).join(', ')} have); give one with --grid name=a,b,c`,
    );
  if (aim === 'slo-missed' && scenario.workload.slo === undefined)
    throw new RangeError('the aim slo-missed needs workload.slo in the scenario; give one, or aim at ttft-mean');
  const combinations = combine(grid);
  const [sweep] = await sweepScenario({
    file,
    settings: [...settings, `seed=${JSON.stringify(seed)}`, `workload.requests=${requests}`, 'telemetry.seriesSeconds=0'],
    axes: [{ path, values: combinations.map((parameters) => JSON.stringify({ ...fixed, ...parameters })) }],
    out,
    ...(parallel === undefined ? {} : { parallel }),
    ...(signal === undefined ? {} : { signal }),
    ...(onProgress === undefined ? {} : { onProgress }),
  });
  const { interrupted } = sweep!;
  const runs = sweep!.points.map(({ runs }) => runs[0]!);
  const points = runs.map(({ summary, error }, index) => pointOf(combinations[index]!, summary, error, aim, scenario));
  const ran = runs.flatMap(({ summary }) => (summary === null ? [] : [summary]));
  if (ran.length === points.length && ran.every(endedInWarmup)) throw new RangeError(warmupFault(scenario, requests, ran));
  const valid = points.filter(({ value }) => value !== null);
  const best = valid.length === 0 ? null : valid.reduce((low, point) => (point.value! < low.value! ? point : low));
  return { policy, aim, requests, seed, points, best, interrupted };
}

/** @throws RangeError where the sample is what is to be measured. */
function checkSample({ file, seed, settings, trace }: TuneOptions): void {
  const { seed: measured, workload } = readScenario(file, settings ?? []).scenario;
  if (workload.source.kind !== 'trace' && trace === undefined && String(measured) === seed)
    throw new RangeError(`seed '${seed}' is that of the run to be measured; tune on another one: --seed S`);
  if (workload.source.kind === 'trace' && (trace === undefined || resolve(trace) === resolve(dirname(file), workload.source.file)))
    throw new RangeError('the workload is a trace, whose first requests are those to be measured; tune on another one: --trace FILE');
}

function combine(grid: Readonly<Record<string, readonly number[]>>): Record<string, number>[] {
  return Object.entries(grid).reduce<Record<string, number>[]>(
    (all, [name, values]) => all.flatMap((before) => values.map((value) => ({ ...before, [name]: value }))),
    [{}],
  );
}

/** Whether everything arrived before the warm-up was over, so that nothing of it is measured. */
const endedInWarmup = ({ lost, ttftMs }: ScenarioSummary): boolean => lost === 0 && ttftMs === null;

function warmupFault({ warmupSeconds, workload }: Scenario, requests: number, ran: readonly ScenarioSummary[]): string {
  const seconds = Math.max(...ran.map(({ simulatedSeconds }) => simulatedSeconds));
  const all = workload.requests;
  const share =
    all === undefined || all <= requests ? '' : ` (${(warmupSeconds * requests) / all} is the share that it is of ${all} requests)`;
  return `the warm-up of ${warmupSeconds} s outlasts the arrivals of the sample's ${requests} requests, the last of which ended by ${seconds.toFixed(1)} s: nothing is measured; take more with --requests, or --set warmupSeconds${share}`;
}

function pointOf(
  parameters: Record<string, number>,
  summary: ScenarioSummary | null,
  failure: string | null,
  aim: TuneAim,
  { warmupSeconds }: Scenario,
): TunePoint {
  const ttft = summary?.ttftMs ?? null;
  const sloAttainment = summary?.sloAttainment ?? null;
  const values: Record<TuneAim, number | null> = {
    'ttft-mean': ttft?.mean ?? null,
    'ttft-p99': ttft?.p99 ?? null,
    'slo-missed': sloAttainment === null ? null : 1 - sloAttainment,
  };
  // Latencies of completed requests alone would praise a policy that loses the slow ones.
  const value = summary === null || summary.lost > 0 ? null : values[aim];
  const error = failure ?? (value === null && summary !== null ? withoutValue(summary, warmupSeconds) : null);
  return { parameters, value, ttftMeanMs: ttft?.mean ?? null, ttftP99Ms: ttft?.p99 ?? null, sloAttainment, error };
}

function withoutValue({ lost, submitted }: ScenarioSummary, warmupSeconds: number): string {
  return lost > 0
    ? `lost ${lost} of ${submitted} requests`
    : `none of ${submitted} requests arrived after the warm-up of ${warmupSeconds} s`;
}
