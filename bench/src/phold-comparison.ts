import { type RunResult, startRun } from '@braess/kernel';
import { measureBarrierMicroseconds } from './barrier.js';
import { workRoundsPerMicrosecond } from './calibrate.js';
import { BenchError, type BenchOptions, median, peakRssMb } from './measured.js';
import phold, { type PholdParameters } from './phold.js';
import { runPlainApart } from './plain-process.js';
import { runSteady } from './steady-run.js';

const pholdMeanDelayNs = 1_000_000;

export interface PholdOptions extends BenchOptions {
  readonly actors: number;
  /** Share of events that go to an actor drawn from all. */
  readonly remote: number;
  /** Share of the mean delay that is lookahead. */
  readonly lookahead: number;
  readonly shards: number | 'auto';
  readonly workMicroseconds: number;
  /** About how many events each run has, a third of them to warm up. */
  readonly events: number;
  readonly seed: string;
  readonly rounds?: number;
  /** Printed with a failure. */
  readonly replay?: string;
}

/** One round: the three engines one after the other. */
export interface PholdRound {
  readonly plainEventsPerSecond: number;
  readonly oneShardEventsPerSecond: number;
  readonly eventsPerSecond: number;
}

/** Medians over the rounds; ratios are taken inside a round. null where nothing was measured. */
export interface PholdResult {
  /** On the asked number of shards. */
  readonly eventsPerSecond: number | null;
  readonly plainEventsPerSecond: number | null;
  readonly speedupOverOneShard: number | null;
  /** Wall time of a round of synchronisation; null on one shard. */
  readonly barrierMicroseconds: number | null;
  readonly peakRssMb: number;
  readonly fingerprint: string | null;
  readonly oneShardEventsPerSecond: number | null;
  readonly oneShardOverPlain: number | null;
  readonly overPlain: number | null;
  readonly actors: number;
  readonly remote: number;
  readonly lookahead: number;
  readonly workMicroseconds: number;
  readonly workRoundsPerMicrosecond: number;
  /** Of each run, from time 0. */
  readonly events: number | null;
  readonly seed: string;
  readonly shards: number;
  /** Why `auto` chose this number of shards; null when it was given. */
  readonly choice: string | null;
  readonly rounds: readonly PholdRound[];
  /** True when it was ended early and holds what there was. */
  readonly interrupted: boolean;
}

/** PHOLD's parameters for these options, and when a run of so many events ends. */
export function pholdPlan(options: Pick<PholdOptions, 'actors' | 'remote' | 'lookahead' | 'events'>, workRounds: number) {
  const { actors, remote, lookahead, events } = options;
  const meanDelayNs = pholdMeanDelayNs;
  const lookaheadNs = Math.max(1, Math.round(lookahead * meanDelayNs));
  const parameters: PholdParameters = { actors, remote, meanDelayNs, lookaheadNs, workRounds };
  const untilNs = Math.ceil((events / actors) * meanDelayNs);
  return { parameters, untilNs, warmNs: Math.ceil(untilNs / 3) };
}

/**
 * PHOLD on the plain engine, on one shard and on `shards` shards: medians of interleaved runs.
 * @throws BenchError when the engines disagree on the fingerprint; KernelError when a run fails.
 */
export async function comparePhold(options: PholdOptions): Promise<PholdResult> {
  const { seed, signal, progress, rounds: roundCount = 3, workMicroseconds } = options;
  const perMicrosecond = workRoundsPerMicrosecond();
  const plan = pholdPlan(options, Math.round(workMicroseconds * perMicrosecond));
  const comparison = new Comparison(options, plan);
  const steps = 3 * roundCount + 2;
  let done = 0;
  const step = (name: string): void => progress?.(done++ / steps, name);
  let choice: string | null = null;
  let barrierMicroseconds: number | null = null;
  let interrupted = false;
  try {
    if (options.shards === 'auto') {
      step('auto chooses');
      choice = await comparison.choose();
    }
    const shards = options.shards === 'auto' ? Math.max(2, comparison.shards) : comparison.shards;
    step('barrier');
    if (shards > 1) barrierMicroseconds = await measureBarrierMicroseconds({ ...comparison.common, shards });
    for (let round = 1; round <= roundCount; round++) await comparison.round((name) => step(`round ${round}: ${name}`));
  } catch (error) {
    if (signal?.aborted !== true) throw error;
    interrupted = true;
  }
  const { rounds, shards } = comparison;
  const middle = (pick: (round: PholdRound) => number): number | null => (rounds.length === 0 ? null : median(rounds.map(pick)));
  return {
    eventsPerSecond: middle((round) => round.eventsPerSecond),
    plainEventsPerSecond: middle((round) => round.plainEventsPerSecond),
    speedupOverOneShard: middle((round) => round.eventsPerSecond / round.oneShardEventsPerSecond),
    barrierMicroseconds,
    peakRssMb: peakRssMb(),
    fingerprint: comparison.fingerprint ?? null,
    oneShardEventsPerSecond: middle((round) => round.oneShardEventsPerSecond),
    oneShardOverPlain: middle((round) => round.oneShardEventsPerSecond / round.plainEventsPerSecond),
    overPlain: middle((round) => round.eventsPerSecond / round.plainEventsPerSecond),
    actors: options.actors,
    remote: options.remote,
    lookahead: options.lookahead,
    workMicroseconds,
    workRoundsPerMicrosecond: perMicrosecond,
    events: comparison.events ?? null,
    seed,
    shards,
    choice,
    rounds,
    interrupted,
  };
}

class Comparison {
  shards: number;
  readonly rounds: PholdRound[] = [];
  fingerprint: string | undefined;
  events: number | undefined;
  readonly common: { readonly seed: string; readonly replay?: string; readonly signal?: AbortSignal };
  readonly #plan: ReturnType<typeof pholdPlan>;

  constructor(options: PholdOptions, plan: ReturnType<typeof pholdPlan>) {
    const { seed, replay, signal } = options;
    this.shards = options.shards === 'auto' ? 1 : options.shards;
    this.common = { seed, ...(replay === undefined ? {} : { replay }), ...(signal === undefined ? {} : { signal }) };
    this.#plan = plan;
  }

  /** Lets the kernel choose the number of shards on one run of its own; returns its reason. */
  async choose(): Promise<string> {
    const { parameters, untilNs } = this.#plan;
    const result = await runPublic(parameters, untilNs, this.common);
    this.#check('auto', result.fingerprint, result.eventCount);
    this.shards = result.choice?.shards ?? 1;
    return result.choice?.reason ?? 'the run was over before a choice was due';
  }

  async round(step: (name: string) => void): Promise<void> {
    const { parameters, untilNs, warmNs } = this.#plan;
    const { seed, signal } = this.common;
    step('plain engine');
    const plain = await runPlainApart({ parameters, seed, untilNs, warmNs }, signal);
    this.#check('the plain engine', plain.fingerprint, plain.events);
    step('one shard');
    const one = await this.#kernelRate(1);
    step(`${this.shards} shards`);
    const many = this.shards === 1 ? one : await this.#kernelRate(this.shards);
    this.rounds.push({
      plainEventsPerSecond: (plain.steadyEvents * 1000) / plain.steadyMs,
      oneShardEventsPerSecond: one,
      eventsPerSecond: many,
    });
  }

  async #kernelRate(shards: number): Promise<number> {
    const { parameters, untilNs, warmNs } = this.#plan;
    const result = await runSteady(phold, parameters, warmNs, () => untilNs, { ...this.common, shards });
    this.#check(`the kernel on ${shards} shard${shards === 1 ? '' : 's'}`, result.fingerprint, result.events);
    return (result.steadyEvents * 1000) / result.steadyMs;
  }

  #check(engine: string, fingerprint: string, events: number): void {
    this.fingerprint ??= fingerprint;
    this.events ??= events;
    requireAgreement({ fingerprint: this.fingerprint, events: this.events }, { engine, fingerprint, events }, this.common);
  }
}

/** @throws BenchError when an engine's run differs from the first engine's. */
export function requireAgreement(
  first: { readonly fingerprint: string; readonly events: number },
  next: { readonly engine: string; readonly fingerprint: string; readonly events: number },
  { seed, replay }: { readonly seed: string; readonly replay?: string },
): void {
  if (next.fingerprint === first.fingerprint && next.events === first.events) return;
  throw new BenchError(
    `PHOLD gave fingerprint ${first.fingerprint} over ${first.events} events at first, but ${next.fingerprint} over ${next.events} on ${next.engine}, seed '${seed}': the engines must agree${replay === undefined ? '' : `\n  replay: ${replay}`}`,
  );
}

async function runPublic(parameters: PholdParameters, untilNs: number, common: Comparison['common']): Promise<RunResult> {
  const { seed, replay, signal } = common;
  signal?.throwIfAborted();
  const run = startRun(phold, parameters, { seed, shards: 'auto', untilNs, ...(replay === undefined ? {} : { replay }) });
  const stop = (): void => run.stop();
  signal?.addEventListener('abort', stop, { once: true });
  try {
    const result = await run.result;
    signal?.throwIfAborted();
    return result;
  } finally {
    signal?.removeEventListener('abort', stop);
  }
}
