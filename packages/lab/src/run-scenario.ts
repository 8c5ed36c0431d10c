import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import { performance } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import {
  type ClusterPlan,
  clusterProgram,
  loadWorkload,
  planCluster,
  type ReadScenario,
  RunRecorder,
  readScenario,
  recorderFacts,
  scenarioWarnings,
  seriesPeriodNs,
  whoWaitsAtTheEnd,
} from '@braess/cluster';
import {
  type Pace,
  type PacingReport,
  type PreparedThreads,
  prepareThreads,
  type Run,
  RunObserver,
  type RunResult,
  type StallReport,
  startRun,
} from '@braess/kernel';
import { closeRunFolder, type FolderSummary, flushRunFolder, makeFreeFolder, openRunFolder, type RunFolder } from '@braess/telemetry';
import type { RequestTable } from '@braess/workload';
import { type GpuHours, gpuHours, runNames, summaryOptions } from './run-facts.js';
import { conservationFaults, drainedWarnings, endOf, firstOf, shardWarnings, unsentWarnings, warmupWarnings } from './run-faults.js';
import { countWindows, type WindowCounts } from './window-bound.js';

/** What is run, how, and who is told meanwhile. */
export interface RunScenarioOptions {
  /** Scenario file. */
  readonly file: string;
  /** Settings `path=value` over it. */
  readonly settings?: readonly string[];
  readonly shards?: number | 'auto';
  readonly pace?: Pace;
  /** Run folder; default the next free runs/<name>-<number>. */
  readonly out?: string;
  /** Ends the run early; what there is gets written. */
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: RunProgress) => void;
  /** Told when the run has begun: its folder is there, and `signal` ends it with what there is. */
  readonly onStarted?: () => void;
  /** Told of a handler that has not returned for a second: a policy of somebody's own that loops, perhaps. */
  readonly onStall?: (stall: StallReport) => void;
  /** Send every message through the codec: proves that actors share nothing. */
  readonly strict?: boolean;
  /** 'memory' runs on this thread. */
  readonly transport?: 'threads' | 'memory' | 'bridged';
  /** Begin with the workload, and the count of wall time, only when the threads have started: for measurements. */
  readonly threadsFirst?: boolean;
  /** Told, at the end, how events fell into windows; collecting that costs time. */
  readonly onWindows?: (counts: WindowCounts) => void;
  /** Command that repeats the run; printed with failures. */
  readonly replay?: string;
}

/** How far a run is. */
export interface RunProgress {
  readonly simulatedSeconds: number;
  /** Requests ended, of all there are. */
  readonly ended: number;
  readonly requests: number;
  readonly eventsPerSecond: number;
  readonly remainingSeconds: number | undefined;
}

/** What `braess run --json` prints. */
export interface ScenarioSummary extends FolderSummary {
  readonly name: string;
  readonly seed: string;
  readonly folder: string;
  /** Simulated time at which the run stopped by --until or Ctrl-C rather than by itself. */
  readonly stopped: boolean;
  readonly shards: number;
  readonly recordFingerprint: string;
  /** Wall time of the event loop alone. */
  readonly loopSeconds: number;
  readonly windows: number;
  readonly pacing: PacingReport | null;
  /** Time with requests in flight that a frontend (the mean of them) did without its oracle. */
  readonly oracleFallbackSeconds: number;
  readonly gpuHours: GpuHours;
  /** What does not add up; empty when every request is accounted for. */
  readonly faults: readonly string[];
  /** What makes results doubtful, such as lookups outside a timing table. */
  readonly warnings: readonly string[];
  /** What the price-of-anarchy actor found; null without one. */
  readonly poa: PoaSummary | null;
  /** Requests rejected or failed, or left over at the end of a run that ended by itself. */
  readonly lost: number;
  /** Requests that were rejected or failed, by the reason that the requests table gives. */
  readonly lostReasons: Readonly<Record<string, number>>;
}

/**
 * Bytecode that the compiler copies into one function, 920 by default. A short run spends more time compiling than running: with less
 * copied, j64 takes an eighth less processor time in all, and a long run no more.
 */
const inliningLimit = '--max-inlined-bytecode-size-cumulative=300';

/**
 * Runs a scenario on worker threads (also one shard) and writes its run folder. Wall time counts from the first byte of the trace to the closed
 * Parquet files. @throws ScenarioError, TraceError, KernelError; a failed run leaves a folder of status `failed`.
 */
export async function runScenario(options: RunScenarioOptions): Promise<ScenarioSummary> {
  setFlagsFromString(inliningLimit);
  const read = readScenario(options.file, options.settings);
  const plan = planCluster(read);
  const { out } = options;
  const { shards = 1, transport = 'threads' } = options;
  // More threads than cores would load the program slower than a run that has first seen how many of them can work.
  const startsEarly = transport === 'threads' && shards !== 'auto' && shards <= Math.max(2, availableParallelism());
  const threads = startsEarly ? prepareThreads(clusterProgram, shards) : undefined;
  try {
    if (options.threadsFirst === true) await threads?.ready;
    const startedMs = performance.now();
    // The threads start and load the program meanwhile.
    const workload = await loadWorkload(read);
    const { table } = workload;
    const source = { file: resolve(options.file), settings: options.settings ?? [] };
    return await runLoaded({ read, plan, table, out, startedMs, threads, source, warnings: scenarioWarnings(plan, workload) }, options);
  } finally {
    await threads?.destroy();
  }
}

interface Loaded {
  readonly read: ReadScenario;
  readonly plan: ClusterPlan;
  readonly table: RequestTable;
  /** Run folder, if it was named. */
  readonly out: string | undefined;
  readonly startedMs: number;
  readonly threads: PreparedThreads | undefined;
  /** What is doubtful before anything has run. */
  readonly warnings: readonly string[];
  readonly source: { readonly file: string; readonly settings: readonly string[] };
}

async function runLoaded(loaded: Loaded, options: RunScenarioOptions): Promise<ScenarioSummary> {
  const { read, plan, table } = loaded;
  const { scenario } = read;
  const { shards = 1, pace = 'max', strict = false, transport = 'threads', replay } = options;
  const seriesNs = seriesPeriodNs(scenario, table);
  const observer = new RunObserver();
  let recorder: RunRecorder | undefined;
  const run = startRun(
    clusterProgram,
    { plan, table, seriesNs, alone: shards === 1 },
    {
      seed: scenario.seed,
      shards,
      pace,
      strict,
      transport,
      observer,
      ...(loaded.threads === undefined ? {} : { threads: loaded.threads }),
      ...(scenario.untilSeconds === undefined ? {} : { untilNs: Math.round(scenario.untilSeconds * 1e9) }),
      ...(replay === undefined ? {} : { replay }),
      sink: { writeColumns: (batch) => recorder?.writeColumns(batch) },
    },
  );
  const folder = openFolder(loaded, run.model.actorNames);
  // Before the run's first record: those come in later turns of the event loop.
  recorder = new RunRecorder({
    tables: folder,
    flush: () => flushRunFolder(folder),
    seriesNs,
    ...recorderFacts(plan, table, run.model.actorNames),
  });
  options.onStarted?.();
  if (options.onStall !== undefined) observer.on('stalled', options.onStall);
  if (options.onProgress !== undefined) followProgress(observer, recorder, loaded, options.onProgress);
  const windows = options.onWindows === undefined ? undefined : countWindows(observer);
  const result = await awaitRun(run, folder, recorder, options.signal);
  if (windows !== undefined) options.onWindows?.(windows.read());
  const summary = finish(loaded, folder, recorder, result, seriesNs);
  return { ...summary, warnings: [...shardWarnings(shards, result.shards), ...summary.warnings] };
}

function openFolder(loaded: Loaded, actorNames: readonly string[]): RunFolder {
  const { read, plan, table, out } = loaded;
  const { scenario } = read;
  // A name is a text of any kind; the folder stays below runs/.
  const name = scenario.name.replaceAll(/[^\p{L}\p{N}._-]+/gu, '-');
  return openRunFolder({
    folder: out ?? makeFreeFolder(join('runs', name)),
    scenario,
    seed: String(scenario.seed),
    versions: { braess: version, node: process.versions.node },
    source: loaded.source,
    engines: plan.engines.map(({ name }) => name),
    gpus: plan.engines.flatMap(({ gpuNames }) => gpuNames),
    names: runNames(table, actorNames),
    summary: summaryOptions(scenario, table),
  });
}

const { version } = createRequire(import.meta.url)('../package.json') as { version: string };

async function awaitRun(run: Run, folder: RunFolder, recorder: RunRecorder, signal: AbortSignal | undefined): Promise<RunResult> {
  const stop = (): void => run.stop();
  if (signal?.aborted === true) stop();
  signal?.addEventListener('abort', stop, { once: true });
  try {
    return await run.result;
  } catch (error) {
    // What there is can still be looked at.
    recorder.finish();
    const facts = { fingerprint: '', wallSeconds: 0, events: 0, peakRssMb: peakRssMb() };
    closeRunFolder(folder, recorder.itl, facts, { status: 'failed' });
    throw error;
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}

function finish(loaded: Loaded, folder: RunFolder, recorder: RunRecorder, result: RunResult, seriesNs: number): ScenarioSummary {
  const { read, plan, table, startedMs } = loaded;
  recorder.finish();
  const { endedByItself, untilNothingHappens } = endOf(read.scenario, result.stopped, recorder.counts.inFlight);
  const summary = closeRunFolder(
    folder,
    recorder.itl,
    // Called once the files are closed.
    () => ({
      fingerprint: result.fingerprint,
      events: result.eventCount,
      wallSeconds: (performance.now() - startedMs) / 1e3,
      peakRssMb: peakRssMb(),
      oracleFallbackSeconds: recorder.oracleFallbackNs / 1e9 / read.scenario.router.frontends,
    }),
    {
      status: result.stopped ? 'interrupted' : 'complete',
      simulatedNs: endedByItself ? recorder.lastNs : result.stoppedNs,
      itlOfTenants: recorder.itlOfTenants,
    },
  );
  const faults = conservationFaults(recorder, summary, table.requestCount, untilNothingHappens);
  if (untilNothingHappens && recorder.counts.inFlight > 0)
    faults.push(...firstOf(whoWaitsAtTheEnd(plan, table, seriesNs, read.scenario.seed), 10, 'requests that wait'));
  // What engines and fabric have of requests in flight is no fault of its own.
  else faults.push(...firstOf(result.endFaults, 10, 'leftovers'));
  return {
    name: read.scenario.name,
    folder: folder.folder,
    ...summary,
    seed: result.seed,
    stopped: !endedByItself,
    shards: result.shards,
    recordFingerprint: result.recordFingerprint,
    loopSeconds: result.loopMs / 1e3,
    windows: result.rounds,
    pacing: result.pacing ?? null,
    oracleFallbackSeconds: summary.oracleFallbackSeconds ?? 0,
    gpuHours: gpuHours(recorder, summary.simulatedSeconds),
    faults,
    warnings: [
      ...loaded.warnings,
      ...recorder.warnings(),
      ...warmupWarnings(read.scenario, summary),
      ...drainedWarnings(read.scenario, summary, table.requestCount),
      ...(untilNothingHappens ? unsentWarnings(read.scenario, recorder.counts.submitted, table.requestCount) : []),
    ],
    poa: read.scenario.telemetry.poa === undefined ? null : poaSummary(recorder.poa),
    lost: summary.rejected + summary.failed + (endedByItself ? summary.inFlight : 0),
    lostReasons: recorder.lostReasons(),
  };
}

/** PoA-hat over a whole run: sum of realised latencies / sum of best assignments, over all snapshots that had a value. */
export interface PoaSummary {
  readonly value: number | null;
  readonly snapshots: number;
  /** How long before the TTFT objective first broke PoA-hat left its calm level, seconds; null: it did not before, or nothing broke. */
  readonly leadSeconds: number | null;
  /** When the objective first broke, seconds; null: never, or there is none. */
  readonly brokenSeconds: number | null;
}

function poaSummary({ snapshots, lead }: RunRecorder['poa']): PoaSummary {
  const defined = snapshots.filter(({ denominatorSeconds }) => denominatorSeconds > 0);
  const sum = (of: (sample: (typeof defined)[number]) => number): number => defined.reduce((total, sample) => total + of(sample), 0);
  return {
    value:
      defined.length === 0 ? null : sum(({ numeratorSeconds }) => numeratorSeconds) / sum(({ denominatorSeconds }) => denominatorSeconds),
    snapshots: defined.length,
    leadSeconds: lead === null || lead.alarmNs < 0 ? null : (lead.brokenNs - lead.alarmNs) / 1e9,
    brokenSeconds: lead === null ? null : lead.brokenNs / 1e9,
  };
}

function followProgress(observer: RunObserver, recorder: RunRecorder, loaded: Loaded, onProgress: (progress: RunProgress) => void): void {
  const { table, read } = loaded;
  const requests = table.requestCount;
  const lastNs = Math.min(
    requests === 0 ? 0 : (table.arrivalNs[requests - 1] as number),
    read.scenario.untilSeconds === undefined ? Number.POSITIVE_INFINITY : read.scenario.untilSeconds * 1e9,
  );
  observer.on('progress', ({ nowNs, eventsPerSecond, wallMs }) => {
    const { completed, rejected, failed } = recorder.counts;
    const share = lastNs > 0 ? Math.min(1, nowNs / lastNs) : 0;
    onProgress({
      simulatedSeconds: nowNs / 1e9,
      ended: completed + rejected + failed,
      requests,
      eventsPerSecond,
      remainingSeconds: share > 0 ? (wallMs * (1 - share)) / share / 1e3 : undefined,
    });
  });
}

/** Most memory the process ever had resident, MB (10^6 bytes). */
export function peakRssMb(): number {
  return (process.resourceUsage().maxRSS * 1024) / 1e6;
}
