import { clusterProgram, loadWorkload, planCluster, RunRecorder, readScenario, recorderFacts } from '@braess/cluster';
import { startRun } from '@braess/kernel';
import {
  addSegmentToSummary,
  createRunTables,
  createSummaryState,
  finishSummary,
  OUTCOME,
  type RequestSegment,
  type RunSummary,
} from '@braess/telemetry';
import { conservationFaults, networkTierNames, runNames, summaryOptions } from './run-scenario.js';

/** A run of which only numbers are wanted. */
export interface MeasureTask {
  /** Scenario file. */
  readonly file: string;
  /** Settings `path=value` over it. */
  readonly settings: readonly string[];
}

/** What a measured run comes to: small enough to hand from thread to thread. */
export interface Measurement {
  readonly summary: RunSummary;
  /** Completed requests after the warm-up whose KV moved, by network tier: same node, rack, pod, across pods, across zones. */
  readonly transfersByTier: readonly number[];
  readonly fingerprint: string;
  readonly events: number;
}

/**
 * Runs a scenario on this thread and keeps its numbers only: no run folder, no series, no decisions. The same fingerprint as `runScenario`.
 * @throws ScenarioError, TraceError, KernelError; Error when requests do not add up.
 */
export async function measureScenario({ file, settings }: MeasureTask): Promise<Measurement> {
  const read = readScenario(file, [...settings, 'telemetry.decisionsEvery=0', 'telemetry.seriesSeconds=0']);
  const { scenario } = read;
  const plan = planCluster(read);
  const { table } = await loadWorkload(read);
  let recorder: RunRecorder | undefined;
  const run = startRun(
    clusterProgram,
    { plan, table, seriesNs: 0, alone: true },
    {
      seed: scenario.seed,
      transport: 'memory',
      ...(scenario.untilSeconds === undefined ? {} : { untilNs: Math.round(scenario.untilSeconds * 1e9) }),
      sink: { write: (records) => recorder?.write(records) },
    },
  );
  const tables = createRunTables(runNames(table, run.model.actorNames));
  // Before the run's first record: those come in later turns of the event loop.
  recorder = new RunRecorder({ tables, seriesNs: 0, ...recorderFacts(plan, run.model.actorNames) });
  const result = await run.result;
  recorder.finish();
  const state = createSummaryState(summaryOptions(scenario, table));
  for (const segment of tables.requests.segments) addSegmentToSummary(state, segment);
  const endedByItself = scenario.untilSeconds === undefined || recorder.counts.inFlight === 0;
  const summary = finishSummary(state, recorder.itl, endedByItself ? recorder.lastNs : result.stoppedNs);
  const faults = conservationFaults(recorder, summary, table.requestCount, endedByItself);
  if (faults.length > 0) throw new Error(`${file} (${settings.join(', ')}): ${faults.join('; ')}`);
  return {
    summary,
    transfersByTier: countTiers(tables.requests.segments, state.warmupNs),
    fingerprint: result.fingerprint,
    events: result.eventCount,
  };
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
