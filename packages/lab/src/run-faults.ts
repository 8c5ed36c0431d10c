import type { ReadScenario, RunRecorder, Scenario } from '@braess/cluster';
import type { FolderSummary } from '@braess/telemetry';

/** How a run came to its end. */
export interface RunEnd {
  /** Nothing was left to do, though an end may have been set: the run is as long as its last outcome. */
  readonly endedByItself: boolean;
  /** No end was set, and none came from outside: every request of the workload must be accounted for. */
  readonly untilNothingHappens: boolean;
}

export function endOf({ untilSeconds }: Scenario, stopped: boolean, inFlight: number): RunEnd {
  const untilNothingHappens = !stopped && untilSeconds === undefined;
  return { endedByItself: untilNothingHappens || (!stopped && inFlight === 0), untilNothingHappens };
}

/** Submitted = completed + rejected + failed + in flight, three ways: as records counted them, as rows were written, and as the workload has them. */
export function conservationFaults(
  recorder: Pick<RunRecorder, 'counts' | 'mayAbandon'>,
  summary: Pick<FolderSummary, 'submitted' | 'completed' | 'rejected' | 'failed' | 'inFlight'>,
  requests: number,
  untilNothingHappens: boolean,
): string[] {
  const { counts } = recorder;
  const faults: string[] = [];
  const sum = counts.completed + counts.rejected + counts.failed + counts.inFlight;
  if (counts.submitted !== sum) {
    faults.push(
      `${counts.submitted} requests submitted, but ${counts.completed} completed + ${counts.rejected} rejected + ${counts.failed} failed + ${counts.inFlight} in flight = ${sum}`,
    );
  }
  for (const name of ['submitted', 'completed', 'rejected', 'failed', 'inFlight'] as const) {
    if (summary[name] !== counts[name])
      faults.push(`${counts[name]} requests ${name} by the records, ${summary[name]} by the rows written`);
  }
  if (untilNothingHappens && counts.inFlight > 0)
    faults.push(`the run ended by itself with ${counts.inFlight} requests in flight: they wait for ever`);
  const missing = recorder.mayAbandon ? counts.submitted > requests : counts.submitted !== requests;
  if (untilNothingHappens && missing) {
    faults.push(`the run ended by itself after ${counts.submitted} of ${requests} requests were submitted`);
  }
  return faults;
}

/** The first `most` of them, and how many more there are. */
export function firstOf(sentences: readonly string[], most: number, what: string): string[] {
  return sentences.length <= most ? [...sentences] : [...sentences.slice(0, most), `... and ${sentences.length - most} more ${what}`];
}

/** A client policy may leave requests out, and so may sessions after a failure. Phases have an end: what they leave is meant. */
export function unsentWarnings({ workload: { client } }: ReadScenario['scenario'], submitted: number, requests: number): string[] {
  const meant = client.kind === 'closed-loop' && client.phases !== undefined;
  return meant || submitted >= requests ? [] : [`${requests - submitted} of the ${requests} requests of the workload were never sent`];
}

/** A closed loop that had taken every request before its end: from then on fewer were in flight than it says. */
export function drainedWarnings({ workload: { client }, untilSeconds }: Scenario, summary: FolderSummary, requests: number): string[] {
  if (client.kind !== 'closed-loop') return [];
  const phasesSeconds = client.phases?.reduce((sum, { seconds }) => sum + seconds, 0);
  const endSeconds = Math.min(untilSeconds ?? Number.POSITIVE_INFINITY, phasesSeconds ?? Number.POSITIVE_INFINITY);
  if (endSeconds === Number.POSITIVE_INFINITY || summary.submitted < requests || summary.simulatedSeconds >= endSeconds) return [];
  return [
    `the closed loop had sent all ${requests} requests of the workload and was idle from ${summary.simulatedSeconds.toFixed(1)} s on, before its end at ${endSeconds} s: raise workload.requests`,
  ];
}

/** A cell never parts: shards beyond their number have nothing to do, and are not started. */
export function shardWarnings(asked: number | 'auto', used: number): string[] {
  if (asked === 'auto' || used >= asked) return [];
  return [
    `${asked} shards were asked for, ${used} ran: the cluster has ${used} cells (servers, switches, control plane), which never part`,
  ];
}

/** A warm-up that leaves nothing to measure. */
export function warmupWarnings({ warmupSeconds }: Scenario, { completed, ttftMs }: FolderSummary): string[] {
  if (warmupSeconds === 0 || completed === 0 || ttftMs !== null) return [];
  return [`no request that completed arrived after the warm-up of ${warmupSeconds} s: there are no latencies, rates or hit rates`];
}
