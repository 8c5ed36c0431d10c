import { type BlockCache, createBlockCache } from './block-cache.js';
import { widenInt32, widenUint8 } from './columns.js';

/** State of a sequence number. */
export const SEQUENCE_FREE = 0;
export const SEQUENCE_ACTIVE = 1;
/** Preempted: it holds no block, but remembers its private blocks while they stay cached. */
export const SEQUENCE_SUSPENDED = 2;

/**
 * The paged KV blocks of one engine (G1, HBM): active (held by running sequences), cached (unreferenced, evictable) and free.
 *
 * A sequence holds a run of identified blocks, shared with whoever has the same prefix, then a run of private blocks that are only counted: those not
 * covered by its chain, and the partial last one. So a sequence without a chain costs a few integer operations however long it is. When released, its
 * full private blocks stay in the cache as one extent, in eviction order like any others, if prefix caching is on.
 *
 * The caller keeps each sequence's chain (identities of its full blocks, prompt first; output too when a later turn may look it up) and passes it to each call.
 */
export interface BlockPool {
  cache: BlockCache;
  capacityBlocks: number;
  blockTokens: number;
  prefixCaching: boolean;
  /** Private blocks of all active sequences. */
  privateBlocks: number;
  activeSequences: number;
  suspendedSequences: number;
  sequenceLimit: number;
  /** Sequence numbers ever used; free ones are linked through `tails`. */
  sequences: number;
  freeSequence: number;
  states: Uint8Array;
  /** Node of the last identified block, -1 for none. While suspended: the extent of its private blocks. */
  tails: Int32Array;
  /** Identified blocks held (while suspended: held before), private blocks held, tokens covered, blocks found in the cache at the start. */
  identified: Int32Array;
  privates: Int32Array;
  tokens: Int32Array;
  hits: Int32Array;
  /** Nodes found by the last match; scratch. */
  matched: Int32Array;
  /** Totals since the start, for hit rates: blocks asked for, found, evicted. */
  askedBlocks: number;
  foundBlocks: number;
  evictedBlocks: number;
}

/** Size and policy of a pool; without a policy LRU. */
export interface BlockPoolOptions {
  capacityBlocks: number;
  /** Tokens a block holds, 16 or 64 in practice. */
  blockTokens: number;
  prefixCaching?: boolean;
  policy?: string;
  policyParameters?: Readonly<Record<string, number>>;
  /** Sequences that may be active or suspended at once. */
  sequenceLimit?: number;
}

export function createBlockPool(options: BlockPoolOptions): BlockPool {
  const { capacityBlocks, blockTokens } = options;
  if (!(Number.isInteger(blockTokens) && blockTokens >= 1)) {
    throw new RangeError(`block of ${blockTokens} tokens: must be an integer of 1 or more`);
  }
  const rows = 8;
  const pool: BlockPool = {
    cache: createBlockCache(capacityBlocks, options.policy, options.policyParameters),
    capacityBlocks,
    blockTokens,
    prefixCaching: options.prefixCaching ?? true,
    privateBlocks: 0,
    activeSequences: 0,
    suspendedSequences: 0,
    sequenceLimit: options.sequenceLimit ?? 1 << 20,
    sequences: 0,
    freeSequence: -1,
    states: new Uint8Array(rows),
    tails: new Int32Array(rows),
    identified: new Int32Array(rows),
    privates: new Int32Array(rows),
    tokens: new Int32Array(rows),
    hits: new Int32Array(rows),
    matched: new Int32Array(rows),
    askedBlocks: 0,
    foundBlocks: 0,
    evictedBlocks: 0,
  };
  // Once at birth: V8 takes a column for constant until it is first replaced, and then throws the code that did away.
  widenSequences(pool);
  return pool;
}

export function widenSequences(pool: BlockPool): void {
  if (pool.sequences >= pool.sequenceLimit) {
    throw new RangeError(
      `block pool: ${pool.sequences} sequences at a limit of ${pool.sequenceLimit}; release some or raise sequenceLimit`,
    );
  }
  const rows = pool.states.length * 2;
  pool.states = widenUint8(pool.states, rows);
  pool.tails = widenInt32(pool.tails, rows);
  pool.identified = widenInt32(pool.identified, rows);
  pool.privates = widenInt32(pool.privates, rows);
  pool.tokens = widenInt32(pool.tokens, rows);
  pool.hits = widenInt32(pool.hits, rows);
}

/** Blocks that nothing occupies. */
export function freeBlocks(pool: BlockPool): number {
  return pool.capacityBlocks - pool.cache.usedBlocks - pool.privateBlocks;
}

/** Blocks without a reference that are still in the cache. */
export function cachedBlocks(pool: BlockPool): number {
  return pool.cache.evictableBlocks;
}

/** Blocks that an admission may use: free ones and evictable ones. */
export function availableBlocks(pool: BlockPool): number {
  return pool.capacityBlocks - activeBlocks(pool);
}

/** Blocks that running sequences hold; one that several share counts once. */
export function activeBlocks(pool: BlockPool): number {
  return pool.cache.usedBlocks - pool.cache.evictableBlocks + pool.privateBlocks;
}

/** Tokens whose KV the sequence found in the cache when it was opened or resumed. */
export function sequenceHitTokens(pool: BlockPool, sequence: number): number {
  return pool.hits[sequence]! * pool.blockTokens;
}

/** Tokens the sequence's blocks cover. */
export function sequenceTokens(pool: BlockPool, sequence: number): number {
  return pool.tokens[sequence]!;
}

/** Blocks the sequence holds. */
export function sequenceBlocks(pool: BlockPool, sequence: number): number {
  return pool.identified[sequence]! + pool.privates[sequence]!;
}
