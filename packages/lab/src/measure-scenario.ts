import {
  clusterProgram,
  loadWorkload,
  planCluster,
  RunRecorder,
  readScenario,
  recorderFacts,
  type Scenario,
  seriesPeriodNs,
} from '@braess/cluster';
import { startRun } from '@braess/kernel';
import {
  addSegmentByTenant,
  addSegmentToSummary,
  createLatencyHistogram,
  createRunTables,
  createSummaryState,
  DECISION_KIND,
  finishSummary,
  OUTCOME,
  type RequestSegment,
  type RunSummary,
  type RunTables,
} from '@braess/telemetry';
import type { RequestTable } from '@braess/workload';
import { type MeasureWindow, measureWindows, type WindowMeasure } from './measure-windows.js';
import { type GpuHours, gpuHours, networkTierNames, runNames, summaryOptions } from './run-facts.js';
import { conservationFaults, endOf, firstOf } from './run-faults.js';

/** A run of which only numbers are wanted. */
export interface MeasureTask {
  /** Scenario file. */
  readonly file: string;
  /** Settings `path=value` over it. */
  readonly settings: readonly string[];
  /** Series to keep, by name; none by default. */
  readonly series?: readonly string[];
  /** Stretches to measure by themselves. */
  readonly windows?: readonly MeasureWindow[];
  /** The tenants' summaries count requests with at least so many output tokens (default 0). */
  readonly tenantOutputTokens?: number;
  /** Columns of the requests to keep; none by default. */
  readonly columns?: readonly RequestColumn[];
}

/** A column of numbers of the requests. */
export type RequestColumn = Exclude<keyof RequestSegment, 'rows'>;

/** Samples of one series, in order of time; `entity` is an actor's name, '' for the cluster. */
export interface MeasuredSeries {
  readonly timeNs: readonly number[];
  readonly entity: readonly string[];
  readonly value: readonly number[];
}

/** What a measured run comes to: small enough to hand from thread to thread. */
export interface Measurement {
  readonly summary: RunSummary;
  /** Completed requests after the warm-up whose KV moved, by network tier: same node, rack, pod, across pods, across zones. */
  readonly transfersByTier: readonly number[];
  /** The series asked for, by name; one that had no sample is missing. */
  readonly series: Readonly<Record<string, MeasuredSeries>>;
  /** The columns asked for, one value a completed request after the warm-up, in the order in which they ended. */
  readonly columns: Readonly<Partial<Record<RequestColumn, readonly number[]>>>;
  /** The same summary of each tenant's requests alone, where there are several tenants; ITL is that of all of them, whatever their output tokens. */
  readonly tenants: Readonly<Record<string, RunSummary>>;
  /** Time decisions were made without the network oracle, a frontend on average. */
  readonly oracleFallbackSeconds: number;
  readonly gpuHours: GpuHours;
  /** What planners and controllers did, in order of time. */
  readonly moves: readonly { readonly timeNs: number; readonly policy: string; readonly target: string; readonly note: string }[];
  /** One for each window of the task. */
  readonly windows: readonly WindowMeasure[];
  readonly fingerprint: string;
  readonly events: number;
}

/**
 * Runs a scenario on this thread and keeps its numbers only: no run folder, no series, no decisions. The same fingerprint as `runScenario`.
 * @throws ScenarioError, TraceError, KernelError; Error when requests do not add up.
 */
export async function measureScenario({
  file,
  settings,
  series = [],
  windows = [],
  tenantOutputTokens = 0,
  columns = [],
}: MeasureTask): Promise<Measurement> {
  const read = readScenario(file, [
    ...settings,
    'telemetry.decisionsEvery=0',
    ...(series.length === 0 ? ['telemetry.seriesSeconds=0'] : []),
  ]);
  const { scenario } = read;
  const plan = planCluster(read);
  const { table } = await loadWorkload(read);
  const seriesNs = series.length === 0 ? 0 : seriesPeriodNs(scenario, table);
  let recorder: RunRecorder | undefined;
  const run = startRun(
    clusterProgram,
    { plan, table, seriesNs, alone: true },
    {
      seed: scenario.seed,
      transport: 'memory',
      ...(scenario.untilSeconds === undefined ? {} : { untilNs: Math.round(scenario.untilSeconds * 1e9) }),
      sink: { writeColumns: (batch) => recorder?.writeColumns(batch) },
    },
  );
  const tables = createRunTables(runNames(table, run.model.actorNames));
  // Before the run's first record: those come in later turns of the event loop.
  recorder = new RunRecorder({ tables, seriesNs, ...recorderFacts(plan, table, run.model.actorNames) });
  const result = await run.result;
  recorder.finish();
  const state = createSummaryState(summaryOptions(scenario, table));
  for (const segment of tables.requests.segments) addSegmentToSummary(state, segment);
  const { endedByItself, untilNothingHappens } = endOf(scenario, result.stopped, recorder.counts.inFlight);
  const summary = finishSummary(state, recorder.itl, endedByItself ? recorder.lastNs : result.stoppedNs);
  const faults = conservationFaults(recorder, summary, table.requestCount, untilNothingHappens);
  if (recorder.counts.inFlight === 0) faults.push(...firstOf(result.endFaults, 10, 'leftovers'));
  if (faults.length > 0) throw new Error(`${file} (${settings.join(', ')}): ${faults.join('; ')}`);
  return {
    summary,
    series: seriesOf(tables, series),
    columns: columnsOf(tables.requests.segments, state.warmupNs, columns),
    tenants: tenantSummaries(scenario, table, tables, recorder, summary.simulatedSeconds, tenantOutputTokens),
    oracleFallbackSeconds: recorder.oracleFallbackNs / 1e9 / scenario.router.frontends,
    gpuHours: gpuHours(recorder, summary.simulatedSeconds),
    moves: movesOf(tables),
    transfersByTier: countTiers(tables.requests.segments, state.warmupNs),
    windows: measureWindows(tables, recorder.poa.snapshots, windows),
    fingerprint: result.fingerprint,
    events: result.eventCount,
  };
}

function columnsOf(segments: readonly RequestSegment[], warmupNs: number, wanted: readonly RequestColumn[]): Measurement['columns'] {
  const found: Partial<Record<RequestColumn, number[]>> = Object.fromEntries(wanted.map((name) => [name, []]));
  if (wanted.length === 0) return found;
  for (const segment of segments)
    for (let row = 0; row < segment.rows; row++)
      if (segment.outcome[row] === OUTCOME.completed && (segment.arrivalNs[row] as number) >= warmupNs)
        for (const name of wanted) found[name]?.push(segment[name][row] as number);
  return found;
}

function countTiers(segments: readonly RequestSegment[], warmupNs: number): number[] {
  const counts = networkTierNames.map(() => 0);
  for (const { rows, outcome, arrivalNs, networkTier } of segments) {
    for (let row = 0; row < rows; row++) {
      const tier = networkTier[row] as number;
      if (outcome[row] === OUTCOME.completed && (arrivalNs[row] as number) >= warmupNs && tier >= 0)
        counts[tier] = (counts[tier] as number) + 1;
    }
  }
  return counts;
}

function seriesOf({ series, names }: RunTables, wanted: readonly string[]): Record<string, MeasuredSeries> {
  const found: Record<string, { timeNs: number[]; entity: string[]; value: number[] }> = {};
  for (const { rows, timeNs, metricId, entityId, value } of series.segments) {
    for (let row = 0; row < rows; row++) {
      const name = names.metrics[metricId[row] as number] as string;
      if (!wanted.includes(name)) continue;
      found[name] ??= { timeNs: [], entity: [], value: [] };
      found[name].timeNs.push(timeNs[row] as number);
      found[name].entity.push(names.actors[entityId[row] as number] ?? '');
      found[name].value.push(value[row] as number);
    }
  }
  return found;
}

function movesOf({ decisions, names }: RunTables): Measurement['moves'] {
  const moves: Measurement['moves'][number][] = [];
  for (const segment of decisions.segments)
    for (let row = 0; row < segment.rows; row++) {
      if (segment.kind[row] !== DECISION_KIND.plan && segment.kind[row] !== DECISION_KIND.control) continue;
      moves.push({
        timeNs: segment.timeNs[row] as number,
        policy: names.policies[segment.policyId[row] as number] ?? '',
        target: names.actors[segment.candidateId[row] as number] ?? '',
        note: names.notes[segment.noteId[row] as number] ?? '',
      });
    }
  return moves;
}

function tenantSummaries(
  scenario: Scenario,
  table: RequestTable,
  tables: RunTables,
  recorder: RunRecorder,
  simulatedSeconds: number,
  leastOutputTokens: number,
): Record<string, RunSummary> {
  if (table.tenantNames.length < 2) return {};
  const states = table.tenantNames.map(() => createSummaryState(summaryOptions(scenario, table)));
  for (const segment of tables.requests.segments) addSegmentByTenant(states, segment, leastOutputTokens);
  const summaries = states.map((state, tenant) =>
    finishSummary(state, recorder.itlOfTenants[tenant] ?? createLatencyHistogram(), simulatedSeconds * 1e9),
  );
  return Object.fromEntries(table.tenantNames.map((name, tenant) => [name, summaries[tenant] as RunSummary]));
}
