import { widenFloat64, widenInt32 } from './columns.js';
import { createIdentityTable, type IdentityTable, tableGet, tableInsert, tableRemove, warmTable } from './identity-table.js';
import { KV_CLEARED, KV_REMOVED, KV_STORED, type KvEventBuffer } from './kv-events.js';

/** Workers an index can tell apart at most. */
export const MOST_WORKERS = 65_536;

/**
 * Which workers hold which block, as a router believes it from events that arrive late: block identity -> bitset over workers. As identities are chained
 * hashes, a block stands for its whole prefix and no tree is needed.
 */
export interface PrefixIndex {
  workers: number;
  /** 32-bit words of one block's bitset. */
  words: number;
  blockLimit: number;
  table: IdentityTable;
  /** By row; 0 where the row is free. */
  identities: Float64Array;
  /** Bitset of row r: holders[r * words] .. holders[r * words + words - 1]. */
  holders: Int32Array;
  rows: number;
  /** Free rows are linked through their first word; -1 ends the list. */
  freeRow: number;
  blocks: number;
  blocksOfWorker: Int32Array;
  /** Events that changed nothing, because the block was (not) known for the worker already, and blocks not taken for want of room. */
  idleEvents: number;
  droppedBlocks: number;
  /** Scratch of a look-up: words with workers left, and which of their workers. */
  liveWords: Int32Array;
  liveBits: Int32Array;
}

/** An empty index over workers 0..workers-1. At `blockLimit` distinct blocks further ones are dropped and counted. */
export function createPrefixIndex(workers: number, blockLimit: number = 1 << 24): PrefixIndex {
  if (!(Number.isInteger(workers) && workers >= 1 && workers <= MOST_WORKERS)) {
    throw new RangeError(
      `prefix index of ${workers} workers: must be an integer from 1 to ${MOST_WORKERS}; use one index for each pool of workers`,
    );
  }
  const words = (workers + 31) >>> 5;
  return {
    workers,
    words,
    blockLimit,
    table: createIdentityTable(),
    identities: new Float64Array(64),
    holders: new Int32Array(words * 64),
    rows: 0,
    freeRow: -1,
    blocks: 0,
    blocksOfWorker: new Int32Array(workers),
    idleEvents: 0,
    droppedBlocks: 0,
    liveWords: new Int32Array(words),
    liveBits: new Int32Array(words),
  };
}

/**
 * Number of leading blocks of the chain that each worker holds, written to `outCounts[worker]` (as long as there are workers; workers without any get 0).
 * Returns the most that any has. Time: blocks of the chain that someone holds x words with such workers, plus the workers hit.
 */
export function overlapBlocks(index: PrefixIndex, chain: Float64Array, chainLength: number, outCounts: Int32Array): number {
  outCounts.fill(0);
  const { table, identities, holders, words, liveWords, liveBits } = index;
  let row = chainLength > 0 ? tableGet(table, identities, chain[0]!) : -1;
  if (row < 0) return 0;
  let live = 0;
  for (let word = 0; word < words; word++) {
    const bits = holders[row * words + word]!;
    if (bits === 0) continue;
    liveWords[live] = word;
    liveBits[live++] = bits;
  }
  let depth = 1;
  for (; depth < chainLength; depth++) {
    row = tableGet(table, identities, chain[depth]!);
    if (row < 0) break;
    const base = row * words;
    let kept = 0;
    for (let place = 0; place < live; place++) {
      const word = liveWords[place]!;
      const before = liveBits[place]!;
      const bits = before & holders[base + word]!;
      if (bits !== before) writeCounts(outCounts, word, before & ~bits, depth);
      if (bits === 0) continue;
      liveWords[kept] = word;
      liveBits[kept++] = bits;
    }
    live = kept;
    if (live === 0) break;
  }
  if (live === 0) return depth;
  for (let place = 0; place < live; place++) writeCounts(outCounts, liveWords[place]!, liveBits[place]!, depth);
  return depth;
}

/** Notes that `worker` holds the block. */
export function insertBlock(index: PrefixIndex, worker: number, identity: number): void {
  let row = tableGet(index.table, index.identities, identity);
  if (row < 0) {
    if (index.blocks >= index.blockLimit) {
      index.droppedBlocks++;
      return;
    }
    row = takeRow(index);
    index.identities[row] = identity;
    tableInsert(index.table, identity, row);
  }
  const place = row * index.words + (worker >>> 5);
  const bit = 1 << (worker & 31);
  const bits = index.holders[place]!;
  if ((bits & bit) !== 0) {
    index.idleEvents++;
    return;
  }
  index.holders[place] = bits | bit;
  index.blocksOfWorker[worker]!++;
}

/** Notes that `worker` no longer holds the block. */
export function removeBlock(index: PrefixIndex, worker: number, identity: number): void {
  const row = tableGet(index.table, index.identities, identity);
  const place = row * index.words + (worker >>> 5);
  const bit = 1 << (worker & 31);
  if (row < 0 || (index.holders[place]! & bit) === 0) {
    index.idleEvents++;
    return;
  }
  index.holders[place]! &= ~bit;
  index.blocksOfWorker[worker]!--;
  if (isRowEmpty(index, row)) {
    tableRemove(index.table, row);
    freeRow(index, row);
  }
}

/** Forgets all blocks of a worker; looks at every block of the index. */
export function clearWorker(index: PrefixIndex, worker: number): void {
  const bit = 1 << (worker & 31);
  for (let row = 0; row < index.rows; row++) {
    const identity = index.identities[row]!;
    if (identity !== 0 && (index.holders[row * index.words + (worker >>> 5)]! & bit) !== 0) removeBlock(index, worker, identity);
  }
}

/** Applies one worker's events from row `from` on. Blocks without an identity are of no use to a router and passed over. */
export function applyKvEvents(index: PrefixIndex, worker: number, events: KvEventBuffer, from: number = 0): void {
  if (!(worker >= 0 && worker < index.workers)) throw new RangeError(`prefix index: worker ${worker} is not in 0..${index.workers - 1}`);
  for (let row = from; row < events.length; row++) {
    if (((row - from) & 63) === 0) warmTable(index.table, events.identities, row, Math.min(row + 64, events.length));
    const kind = events.kinds[row];
    const identity = events.identities[row]!;
    if (kind === KV_CLEARED) clearWorker(index, worker);
    else if (identity <= 0) continue;
    else if (kind === KV_STORED) insertBlock(index, worker, identity);
    else if (kind === KV_REMOVED) removeBlock(index, worker, identity);
    else
      throw new RangeError(`prefix index: KV event kind ${kind} of worker ${worker} is unknown; use KV_STORED, KV_REMOVED or KV_CLEARED`);
  }
}

/** Blocks the index believes `worker` to hold. */
export function indexedBlocks(index: PrefixIndex, worker: number): number {
  return index.blocksOfWorker[worker]!;
}

function writeCounts(outCounts: Int32Array, word: number, bits: number, count: number): void {
  let left = bits;
  while (left !== 0) {
    const bit = 31 - Math.clz32(left);
    outCounts[(word << 5) + bit] = count;
    left &= ~(1 << bit);
  }
}

function isRowEmpty(index: PrefixIndex, row: number): boolean {
  const base = row * index.words;
  for (let word = 0; word < index.words; word++) {
    if (index.holders[base + word] !== 0) return false;
  }
  return true;
}

function takeRow(index: PrefixIndex): number {
  index.blocks++;
  const free = index.freeRow;
  if (free >= 0) {
    index.freeRow = index.holders[free * index.words]!;
    index.holders[free * index.words] = 0;
    return free;
  }
  if (index.rows === index.identities.length) {
    index.holders = widenInt32(index.holders, index.holders.length * 2);
    index.identities = widenFloat64(index.identities, index.identities.length * 2);
  }
  return index.rows++;
}

function freeRow(index: PrefixIndex, row: number): void {
  index.identities[row] = 0;
  index.holders[row * index.words] = index.freeRow;
  index.freeRow = row;
  index.blocks--;
}
