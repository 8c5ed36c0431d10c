import { availableParallelism } from 'node:os';
import type { Model } from './model.js';
import { placeCells } from './placement.js';
import type { SegmentResult } from './segment.js';

/** What `shards: 'auto'` chose, and why. */
export interface ShardChoice {
  readonly shards: number;
  readonly reason: string;
}

/** Wall time of the first stretch on one shard, and of each trial. Long enough for the compiler to have settled. */
const firstStretchMs = 400;
const trialMs = 400;
/** Windows below this many events a shard are not worth a round of synchronisation. */
const eventsPerWindowWorthIt = 10;

/**
 * Chooses between one shard and as many as there are cores: starts on one, estimates from the lookahead whether windows could be worth it, tries
 * the larger count from a checkpoint, and keeps whichever simulated more time a second.
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
      if (perWindow < eventsPerWindowWorthIt) {
        this.#choose(1, `a window would hold about ${perWindow.toFixed(1)} events a shard, under ${eventsPerWindowWorthIt}`);
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
