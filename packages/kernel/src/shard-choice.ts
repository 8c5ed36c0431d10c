import { availableParallelism } from 'node:os';
import type { Model } from './model.js';
import { placeCells } from './placement.js';
import { nothing, type StretchReading } from './stretch-meter.js';

/** What `shards: 'auto'` chose, and why. */
export interface ShardChoice {
  readonly shards: number;
  readonly reason: string;
}

/**
 * Wall time of the first phase, on one shard, and of the trial; both are judged by their last third. The trial's threads are new to their code,
 * and while they keep every core busy the compiler takes most of a second to settle.
 */
const firstPhaseMs = 600;
const trialMs = 1200;
const settledShare = 2 / 3;
/**
 * Where windows are so full that many shards must win even if code that is not compiled yet took four times as long as it will, the first phase
 * ends after this. Its rate then says little of one shard, so that trial is judged by how many shards are at work at a time instead.
 */
const glanceMs = 200;
const coldFactor = 4;
const clearGain = 1.5;
/** Messages between shards are packed and unpacked, and events cost some per cent more while every core is busy: so many are needed to beat one alone. */
const leastBusyShards = 1.3;
/** What a round of synchronisation costs a shard beside its events: the barrier, a frame packed and one taken in. */
const roundMs = 0.002;
/** One shard waits for a pace or for input only; one that does so for this share of the time needs no help. */
const idleEnough = 0.1;
/** A predicted gain below this is not worth a trial: a trial that fails costs some tenths of a second. */
const gainWorthATrial = 1.05;
/** Expected maximum of n standard normal numbers, n = 0..8: how far the fullest of n windows exceeds the mean, in standard deviations. */
const expectedMaximum = [0, 0, 0.5642, 0.8463, 1.0294, 1.163, 1.2672, 1.3522, 1.4236];

/**
 * Chooses between one shard and as many as there are cores: starts on one, estimates from the lookahead whether windows could be worth it, tries
 * the larger count from a checkpoint, and keeps whichever ran more events a second. It looks at a run from outside, and breaks it only to change
 * the count.
 */
export class ShardChooser {
  readonly maximumShards: number;
  shards = 1;
  choice: ShardChoice | undefined;
  readonly #model: Model;
  #phase: 'glance' | 'first' | 'trial' = 'glance';
  /** Events a millisecond; undefined when a glance was enough. */
  #oneShardRate: number | undefined;
  /** Of the stretches of this phase that have ended (a run with checkpoints has many), and where its last third began. */
  #ended = nothing;
  #settled: StretchReading | undefined;

  constructor(model: Model) {
    this.#model = model;
    this.maximumShards = Math.max(1, Math.min(availableParallelism(), model.cellNames.length, 8));
    if (this.maximumShards === 1) this.#choose(1, availableParallelism() === 1 ? 'only one core' : 'only one cell');
  }

  /** Takes in how far the running stretch is; true when it is to be stopped, for another count of shards. */
  look(stretch: StretchReading): boolean {
    if (this.choice !== undefined) return false;
    const shardsBefore = this.shards;
    const phase = sum(this.#ended, stretch);
    if (this.#phase === 'glance') this.#measure(phase, glanceMs, (measured) => this.#judgeAtAGlance(measured));
    if (this.#phase === 'first') this.#measure(phase, firstPhaseMs, (measured) => this.#judgeOneShard(measured));
    else if (this.#phase === 'trial') this.#measure(phase, trialMs, (measured) => this.#judgeTrial(measured));
    if (this.shards !== shardsBefore) this.#ended = nothing;
    return this.shards !== shardsBefore;
  }

  /** The stretch is over, for a reason of its own. A last look: stretches may be too short for any other. */
  endStretch(stretch: StretchReading): void {
    if (!this.look(stretch)) this.#ended = sum(this.#ended, stretch);
  }

  /**
   * Hands the last third of a phase on, once the phase has lasted `lengthMs`. One in which nothing ran goes on, and one on one shard that a single
   * instant fills (of many shards some may have nothing to do: how far they came says nothing).
   */
  #measure(phase: StretchReading, lengthMs: number, judge: (measured: StretchReading) => void): void {
    if (phase.elapsedMs < settledShare * lengthMs) return;
    this.#settled ??= phase;
    if (phase.elapsedMs < lengthMs) return;
    const measured = difference(phase, this.#settled);
    if (measured.events === 0 || (measured.spanNs === 0 && this.shards === 1)) return;
    this.#settled = undefined;
    judge(measured);
  }

  #judgeAtAGlance(measured: StretchReading): void {
    const eventMs = (measured.elapsedMs - measured.waitedMs) / measured.events / coldFactor;
    const isClear = predictedGain(this.maximumShards, this.#eventsPerWindow(measured), eventMs) >= clearGain;
    this.#phase = isClear ? 'trial' : 'first';
    if (isClear) this.shards = this.maximumShards;
  }

  #judgeOneShard(measured: StretchReading): void {
    const idleShare = measured.waitedMs / measured.elapsedMs;
    if (idleShare > idleEnough) {
      this.#choose(1, `one shard keeps up: it had nothing to do for ${(100 * idleShare).toFixed(0)} % of the time`);
      return;
    }
    const rate = measured.events / measured.elapsedMs;
    const perWindow = this.#eventsPerWindow(measured);
    const gain = predictedGain(this.maximumShards, perWindow, 1 / rate);
    if (gain >= gainWorthATrial) {
      this.#oneShardRate = rate;
      this.#phase = 'trial';
      this.shards = this.maximumShards;
      return;
    }
    const window = `a window would hold about ${perWindow.toFixed(1)} events a shard of ${(1000 / rate).toFixed(2)} us`;
    this.#choose(1, `${window}: ${this.maximumShards} shards would run at ${gain.toFixed(2)} of one`);
  }

  #judgeTrial(measured: StretchReading): void {
    if (this.#oneShardRate === undefined) {
      const busy = this.maximumShards - measured.waitedMs / measured.elapsedMs;
      const reason = `${busy.toFixed(2)} of ${this.maximumShards} shards were at work at a time in a trial`;
      this.#choose(busy >= leastBusyShards ? this.maximumShards : 1, reason);
      return;
    }
    const gain = measured.events / measured.elapsedMs / this.#oneShardRate;
    if (gain > 1) this.#choose(this.maximumShards, `${gain.toFixed(2)} times one shard in a trial`);
    else this.#choose(1, `${this.maximumShards} shards ran at ${gain.toFixed(2)} of one in a trial`);
  }

  #choose(shards: number, reason: string): void {
    this.shards = shards;
    this.choice = { shards, reason };
  }

  /** Events a shard per window, were each window as long as the least lookahead between two shards. */
  #eventsPerWindow({ events, spanNs }: StretchReading): number {
    const shardOfCell = placeCells(this.#model, this.maximumShards);
    const direct = this.#model.lookahead.betweenShards(shardOfCell, this.#model.classOfCell, this.maximumShards);
    const leastNs = Math.min(...direct);
    if (leastNs === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
    return (events * leastNs) / spanNs / this.maximumShards;
  }
}

function sum(a: StretchReading, b: StretchReading): StretchReading {
  return combine(a, b, 1);
}

function difference(a: StretchReading, b: StretchReading): StretchReading {
  return combine(a, b, -1);
}

function combine(a: StretchReading, b: StretchReading, sign: number): StretchReading {
  return {
    events: a.events + sign * b.events,
    elapsedMs: a.elapsedMs + sign * b.elapsedMs,
    waitedMs: a.waitedMs + sign * b.waitedMs,
    spanNs: a.spanNs + sign * b.spanNs,
  };
}

/**
 * How much faster `shards` shards run than one when a window holds `perWindow` events a shard of `eventMs` each: the shards wait for the one whose
 * window is fullest (the counts are about Poisson), and each round costs its synchronisation. Two shards alone: 2 / (1 + 1 / sqrt(pi m)).
 */
function predictedGain(shards: number, perWindow: number, eventMs: number): number {
  if (perWindow === Number.POSITIVE_INFINITY) return shards;
  const fullest = perWindow + (expectedMaximum[shards] as number) * Math.sqrt(perWindow);
  return (shards * perWindow * eventMs) / (fullest * eventMs + roundMs);
}
