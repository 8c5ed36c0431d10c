import { availableParallelism } from 'node:os';
import type { Model } from './model.js';
import { placeCells } from './placement.js';
import type { SegmentResult } from './segment.js';

/** What `shards: 'auto'` chose, and why. */
export interface ShardChoice {
  readonly shards: number;
  readonly reason: string;
}

/**
 * Wall time of the first stretch on one shard, and of the trial; both are judged by their last third. The trial's threads are new to their code,
 * and while they keep every core busy the compiler takes most of a second to settle.
 */
const firstStretchMs = 600;
const trialMs = 1200;
/** What a round of synchronisation costs a shard beside its events: the barrier, a frame packed and one taken in. */
const roundMs = 0.002;
/** A predicted gain below this is not worth a trial: a trial that fails costs some tenths of a second. */
const gainWorthATrial = 1.05;
/** Expected maximum of n standard normal numbers, n = 0..8: how far the fullest of n windows exceeds the mean, in standard deviations. */
const expectedMaximum = [0, 0, 0.5642, 0.8463, 1.0294, 1.163, 1.2672, 1.3522, 1.4236];

/**
 * Chooses between one shard and as many as there are cores: starts on one, estimates from the lookahead whether windows could be worth it, tries
 * the larger count from a checkpoint, and keeps whichever ran more events a second.
 */
export class ShardChooser {
  readonly maximumShards: number;
  shards = 1;
  budgetMs: number = firstStretchMs;
  choice: ShardChoice | undefined;
  readonly #model: Model;
  #phase: 'first' | 'trial' | 'chosen' = 'first';
  #oneShardRate = 0;

  constructor(model: Model) {
    this.#model = model;
    this.maximumShards = Math.max(1, Math.min(availableParallelism(), model.cellNames.length, 8));
    if (this.maximumShards === 1) this.#choose(1, availableParallelism() === 1 ? 'only one core' : 'only one cell');
  }

  /** Takes in a finished stretch that began at `fromNs`, and plans the next. */
  note(done: SegmentResult, fromNs: number): void {
    if (this.#phase === 'chosen') return;
    const rate = done.eventRate;
    if (!(rate > 0)) return; // Nothing measured (one instant filled the stretch): the phase is repeated.
    if (this.#phase === 'first') {
      this.#oneShardRate = rate;
      const perWindow = this.#eventsPerWindow(done, fromNs);
      const gain = predictedGain(this.maximumShards, perWindow, 1000 / rate);
      if (gain < gainWorthATrial) {
        const window = `a window would hold about ${perWindow.toFixed(1)} events a shard of ${(1e6 / rate).toFixed(2)} us`;
        this.#choose(1, `${window}: ${this.maximumShards} shards would run at ${gain.toFixed(2)} of one`);
        return;
      }
      this.#phase = 'trial';
      this.shards = this.maximumShards;
      this.budgetMs = trialMs;
      return;
    }
    const gain = rate / this.#oneShardRate;
    if (gain > 1) this.#choose(this.maximumShards, `${gain.toFixed(2)} times one shard in a trial`);
    else this.#choose(1, `${this.maximumShards} shards ran at ${gain.toFixed(2)} of one in a trial`);
  }

  #choose(shards: number, reason: string): void {
    this.#phase = 'chosen';
    this.shards = shards;
    this.budgetMs = Number.POSITIVE_INFINITY;
    this.choice = { shards, reason };
  }

  /** Events a shard per window, were each window as long as the least lookahead between two shards. */
  #eventsPerWindow(done: SegmentResult, fromNs: number): number {
    const shardOfCell = placeCells(this.#model, this.maximumShards);
    const direct = this.#model.lookahead.betweenShards(shardOfCell, this.#model.classOfCell, this.maximumShards);
    const leastNs = Math.min(...direct);
    if (leastNs === Number.POSITIVE_INFINITY) return Number.POSITIVE_INFINITY;
    return (done.stretchEvents * leastNs) / Math.max(1, done.stoppedNs - fromNs) / this.maximumShards;
  }
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
