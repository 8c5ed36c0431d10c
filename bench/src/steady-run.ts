import { combineLanes, KernelError, type Model, modelOf, type Program } from '@braess/kernel';
import {
  packCheckpoint,
  resolveLimits,
  Segment,
  type SegmentPlan,
  type SegmentResult,
  ShardPool,
  Watchdog,
} from '@braess/kernel/internals';

export interface SteadyOptions {
  readonly seed: string;
  readonly shards: number;
  /** Printed with a failure. */
  readonly replay?: string;
  readonly signal?: AbortSignal;
}

export interface SteadyResult {
  readonly fingerprint: string;
  /** Events from time 0 on. */
  readonly events: number;
  /** Events, rounds and loop time of the measured stretch alone. */
  readonly steadyEvents: number;
  readonly steadyRounds: number;
  readonly steadyMs: number;
}

/**
 * Runs a program on fresh shard threads in two stretches, the second from a checkpoint of the first on the same threads: what is measured has its
 * code compiled and its random streams seeded. `run` does the same between checkpoints, but reports the sum.
 * @param untilNs where the second stretch ends, once the first is known.
 */
export async function runSteady<Parameters>(
  program: Program<Parameters>,
  parameters: Parameters,
  warmNs: number,
  untilNs: (warm: SegmentResult) => number,
  options: SteadyOptions,
): Promise<SteadyResult> {
  const { shards, seed, replay, signal } = options;
  const model = modelOf(program, parameters);
  const pool = new ShardPool(shards);
  try {
    const warm = await runStretch(planOf(program, parameters, model, options, warmNs, undefined), pool, signal);
    const from = packCheckpoint(warm.snapshot as NonNullable<typeof warm.snapshot>, model, seed).bytes;
    const steady = await runStretch(planOf(program, parameters, model, options, untilNs(warm), from), pool, signal);
    return {
      fingerprint: combineLanes(steady.lanes),
      events: steady.eventCount,
      steadyEvents: steady.stretchEvents,
      steadyRounds: steady.rounds,
      steadyMs: steady.loopMs,
    };
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw error instanceof KernelError ? error.at(replay === undefined ? { seed } : { seed, replay }) : error;
  } finally {
    await pool.destroy();
  }
}

async function runStretch(plan: SegmentPlan, pool: ShardPool, signal: AbortSignal | undefined): Promise<SegmentResult> {
  signal?.throwIfAborted();
  const segment = new Segment(plan, pool, { onReport: () => undefined });
  const stop = (): void => segment.abort();
  signal?.addEventListener('abort', stop, { once: true });
  const watchdog = new Watchdog(segment, plan, { progress: () => undefined, stalled: () => undefined });
  try {
    return await segment.result;
  } finally {
    watchdog.close();
    signal?.removeEventListener('abort', stop);
  }
}

function planOf<Parameters>(
  program: Program<Parameters>,
  parameters: Parameters,
  model: Model,
  { seed, shards }: SteadyOptions,
  untilNs: number,
  from: Uint8Array | undefined,
): SegmentPlan {
  return {
    model,
    module: program.module as string,
    parameters,
    seed,
    shards,
    transport: 'threads',
    bridgeDelayMs: 0,
    strict: false,
    limits: resolveLimits(),
    ringBytes: resolveLimits().ringBytes,
    keepRecords: false,
    untilNs,
    from,
    snapshot: from === undefined ? 'at its end' : 'never',
    pace: undefined,
    pacers: undefined,
    live: false,
    traced: undefined,
    reportWindows: false,
    guards: true,
    inputs: [],
  };
}
