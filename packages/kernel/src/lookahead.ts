import { KernelError } from './errors.js';
import { checkNs } from './time.js';

/**
 * The least delay between cells: by rule from cell class to cell class, and by sparse links from cell to cell (a link overrides the rule).
 * There is never a cells x cells table.
 */
export class LookaheadRules {
  readonly classNames: readonly string[];
  /** classes x classes; NaN where nothing is declared. */
  readonly byClass: Float64Array;
  /** Key fromCell * cellCount + toCell. */
  readonly links: ReadonlyMap<number, number>;
  readonly #cellCount: number;

  constructor(classNames: readonly string[], byClass: Float64Array, links: ReadonlyMap<number, number>, cellCount: number) {
    this.classNames = classNames;
    this.byClass = byClass;
    this.links = links;
    this.#cellCount = cellCount;
  }

  /** The least delay from one cell to another in ns, NaN when undeclared. */
  between(fromCell: number, toCell: number, classOfCell: Int32Array): number {
    if (this.links.size > 0) {
      const link = this.links.get(fromCell * this.#cellCount + toCell);
      if (link !== undefined) return link;
    }
    return this.byClass[(classOfCell[fromCell] as number) * this.classNames.length + (classOfCell[toCell] as number)] as number;
  }

  /** Cheapest direct delay from any cell of one shard to any of another: shards x shards, Infinity where nothing can pass. */
  betweenShards(shardOfCell: Int32Array, classOfCell: Int32Array, shardCount: number): Float64Array {
    const classCount = this.classNames.length;
    const present = new Uint8Array(shardCount * classCount);
    for (let cell = 0; cell < shardOfCell.length; cell++) {
      present[(shardOfCell[cell] as number) * classCount + (classOfCell[cell] as number)] = 1;
    }
    const direct = new Float64Array(shardCount * shardCount).fill(Number.POSITIVE_INFINITY);
    const lower = (from: number, to: number, delayNs: number): void => {
      const at = from * shardCount + to;
      if (from !== to && delayNs < (direct[at] as number)) direct[at] = delayNs;
    };
    for (let from = 0; from < shardCount; from++) {
      for (let to = 0; to < shardCount; to++) {
        for (let a = 0; a < classCount; a++) {
          if (present[from * classCount + a] === 0) continue;
          for (let b = 0; b < classCount; b++) {
            if (present[to * classCount + b] === 1) lower(from, to, this.byClass[a * classCount + b] as number);
          }
        }
      }
    }
    for (const [key, delayNs] of this.links) {
      lower(shardOfCell[Math.floor(key / this.#cellCount)] as number, shardOfCell[key % this.#cellCount] as number, delayNs);
    }
    return direct;
  }
}

/** Checks a declared lookahead: at least 1 ns, whole. */
export function checkLookahead(what: string, delayNs: number): void {
  checkNs(what, delayNs);
  if (delayNs < 1)
    throw new KernelError('bad-model', `${what} is ${delayNs} ns; between cells at least 1 ns is needed (inside a cell 0 is allowed)`);
}
