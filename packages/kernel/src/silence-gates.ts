import type { Model } from './model.js';

/** More (actor, cell) pairs than this between two shards are not tracked: the static lookahead alone then bounds the window. */
const pairLimit = 1 << 18;

/**
 * For each other shard, the time before which no message of this shard can arrive there: the least promise over all pairs (actor here that may
 * send there, cell there). A pair without a promise counts as 0, so a gate opens only when every possible sender has promised.
 */
export class SilenceGates {
  /** Earliest possible arrival at each shard by promises alone; 0 where they say nothing. */
  readonly untilNs: Float64Array;
  readonly #trees: (MinimumTree | undefined)[];
  readonly #shardOfCell: Int32Array;
  readonly #cellCount: number;

  constructor(model: Model, shard: number, shardCount: number, shardOfCell: Int32Array) {
    this.untilNs = new Float64Array(shardCount);
    this.#shardOfCell = shardOfCell;
    this.#cellCount = model.cellNames.length;
    this.#trees = Array.from({ length: shardCount }, (_, to) => (to === shard ? undefined : buildTree(model, shard, to, shardOfCell)));
  }

  /** Notes a promise; `key` is actor * cellCount + cell. */
  raise(key: number, untilNs: number): void {
    const to = this.#shardOfCell[key % this.#cellCount] as number;
    const tree = this.#trees[to];
    if (tree !== undefined) this.untilNs[to] = tree.raise(key, untilNs);
  }
}

/** True when promises can matter at all: some kind says where it sends. */
export function modelHasPromises(model: Model): boolean {
  return model.kinds.some((kind) => kind.sendsTo !== undefined);
}

function buildTree(model: Model, shard: number, to: number, shardOfCell: Int32Array): MinimumTree | undefined {
  const { classNames } = model.lookahead;
  const cellsThere = [...shardOfCell.keys()].filter((cell) => shardOfCell[cell] === to);
  const keys: number[] = [];
  for (let actor = 0; actor < model.actorNames.length; actor++) {
    const cell = model.cellOfActor[actor] as number;
    if (shardOfCell[cell] !== shard) continue;
    const sendsTo = (model.kinds[model.kindOfActor[actor] as number] as Model['kinds'][number]).sendsTo;
    for (const destination of cellsThere) {
      if (sendsTo !== undefined && !sendsTo.includes(classNames[model.classOfCell[destination] as number] as string)) continue;
      if (Number.isNaN(model.lookahead.between(cell, destination, model.classOfCell))) continue;
      // An actor that does not say where it sends might send to any of them at any time: nothing to track.
      if (sendsTo === undefined || keys.length === pairLimit) return undefined;
      keys.push(actor * model.cellNames.length + destination);
    }
  }
  return keys.length === 0 ? undefined : new MinimumTree(keys);
}

/** Minimum over leaves that only rise. */
class MinimumTree {
  readonly #leafOf: Map<number, number>;
  readonly #nodes: Float64Array;
  readonly #size: number;

  constructor(keys: readonly number[]) {
    this.#size = 2 ** Math.ceil(Math.log2(Math.max(1, keys.length)));
    this.#nodes = new Float64Array(2 * this.#size).fill(Number.POSITIVE_INFINITY);
    this.#leafOf = new Map(keys.map((key, index) => [key, this.#size + index]));
    for (const leaf of this.#leafOf.values()) this.#nodes[leaf] = 0;
    for (let node = this.#size - 1; node > 0; node--) this.#nodes[node] = this.#least(node);
  }

  raise(key: number, value: number): number {
    let node = this.#leafOf.get(key);
    if (node !== undefined) {
      this.#nodes[node] = value;
      for (node >>= 1; node > 0; node >>= 1) {
        const least = this.#least(node);
        if (this.#nodes[node] === least) break;
        this.#nodes[node] = least;
      }
    }
    return this.#nodes[1] as number;
  }

  #least(node: number): number {
    return Math.min(this.#nodes[2 * node] as number, this.#nodes[2 * node + 1] as number);
  }
}
