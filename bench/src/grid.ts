import { type RunResult, startRun } from '@braess/kernel';
import { workRoundsPerMicrosecond } from './calibrate.js';
import { BenchError, type BenchOptions } from './measured.js';
import phold, { type PholdParameters } from './phold.js';
import { pholdPlan } from './phold-comparison.js';

export interface GridRow {
  readonly actors: number;
  readonly lookahead: number;
  readonly workMicroseconds: number;
  /** Of one shard and auto, and of two shards where that run was let go on to its end. */
  readonly fingerprint: string;
  readonly twoShardsStopped: boolean;
  /** Events a second of the whole run, its start included for all alike: for `auto` that holds what its trials cost. */
  readonly oneShardEventsPerSecond: number;
  readonly twoShardsEventsPerSecond: number;
  readonly autoEventsPerSecond: number;
  readonly choice: string;
  /** `auto` over the better of the two fixed counts. */
  readonly autoOverBetter: number;
  readonly withinTenPercent: boolean;
}

export interface GridResult {
  readonly seed: string;
  readonly rows: readonly GridRow[];
  readonly autoWithinTenPercent: number;
  readonly interrupted: boolean;
}

export interface GridOptions extends BenchOptions {
  readonly seed: string;
  /** About how many events a run has without extra work; with it, correspondingly fewer. */
  readonly events: number;
  readonly actors?: readonly number[];
  readonly lookaheads?: readonly number[];
  readonly workMicroseconds?: readonly number[];
  /** A run on two shards is stopped after this wall time: where windows are empty it would take minutes, and its rate is known long before. */
  readonly twoShardsLimitMs?: number;
}

/** About what an event costs without extra work, for runs of about equal length. */
const bareEventMicroseconds = 0.25;

/**
 * PHOLD over actors, lookahead and work: one shard, two shards, and what `auto` makes of it.
 * @throws BenchError when they disagree on the fingerprint.
 */
export async function measureGrid(options: GridOptions): Promise<GridResult> {
  const { seed, events, signal, progress } = options;
  const { actors = [64, 1024, 65_536], lookaheads = [0.01, 0.1, 0.5], workMicroseconds = [0, 1] } = options;
  const { twoShardsLimitMs = 5000 } = options;
  const perMicrosecond = workRoundsPerMicrosecond();
  const places = actors.flatMap((count) => lookaheads.flatMap((share) => workMicroseconds.map((work) => ({ count, share, work }))));
  const rows: GridRow[] = [];
  for (const [index, { count, share, work }] of places.entries()) {
    progress?.(index / places.length, `${count} actors, lookahead ${share}, ${work} us of work`);
    const scaled = (events * bareEventMicroseconds) / (bareEventMicroseconds + work);
    const plan = pholdPlan({ actors: count, remote: 0.25, lookahead: share, events: scaled }, Math.round(work * perMicrosecond));
    const one = await runOnce(plan.parameters, plan.untilNs, seed, 1, signal);
    const two = one && (await runOnce(plan.parameters, plan.untilNs, seed, 2, signal, twoShardsLimitMs));
    const auto = two && (await runOnce(plan.parameters, plan.untilNs, seed, 'auto', signal));
    if (one === undefined || two === undefined || auto === undefined) break;
    rows.push(rowOf(count, share, work, seed, one, two, auto));
  }
  const within = rows.filter((row) => row.withinTenPercent).length;
  return { seed, rows, autoWithinTenPercent: within, interrupted: signal?.aborted === true };
}

function rowOf(
  actors: number,
  lookahead: number,
  workMicroseconds: number,
  seed: string,
  one: RunResult,
  two: RunResult,
  auto: RunResult,
): GridRow {
  if ((!two.stopped && two.fingerprint !== one.fingerprint) || auto.fingerprint !== one.fingerprint) {
    throw new BenchError(
      `PHOLD of ${actors} actors, lookahead ${lookahead}, ${workMicroseconds} us of work, seed '${seed}': fingerprint ${one.fingerprint} on one shard, ${two.fingerprint} on two, ${auto.fingerprint} on auto`,
    );
  }
  const rateOf = (result: RunResult): number => (result.eventCount * 1000) / result.loopMs;
  const autoOverBetter = rateOf(auto) / Math.max(rateOf(one), rateOf(two));
  return {
    actors,
    lookahead,
    workMicroseconds,
    fingerprint: one.fingerprint,
    twoShardsStopped: two.stopped,
    oneShardEventsPerSecond: rateOf(one),
    twoShardsEventsPerSecond: rateOf(two),
    autoEventsPerSecond: rateOf(auto),
    choice: auto.choice === undefined ? 'the run was over before a choice was due' : `${auto.choice.shards}: ${auto.choice.reason}`,
    autoOverBetter,
    withinTenPercent: autoOverBetter >= 0.9,
  };
}

/** undefined when the whole bench was stopped meanwhile. */
async function runOnce(
  parameters: PholdParameters,
  untilNs: number,
  seed: string,
  shards: number | 'auto',
  signal: AbortSignal | undefined,
  limitMs?: number,
): Promise<RunResult | undefined> {
  if (signal?.aborted) return undefined;
  const run = startRun(phold, parameters, { seed, shards, untilNs });
  const stop = (): void => run.stop();
  signal?.addEventListener('abort', stop, { once: true });
  const limit = limitMs === undefined ? undefined : setTimeout(stop, limitMs);
  try {
    const result = await run.result;
    return signal?.aborted ? undefined : result;
  } finally {
    clearTimeout(limit);
    signal?.removeEventListener('abort', stop);
  }
}
