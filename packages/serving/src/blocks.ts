/**
 * What the scheduler needs of a KV block pool: plain functions over the pool's plain state, so that counting and a real prefix-caching pool
 * serve the same engine. Blocks available may only rise through `release` (or a call from outside, told to the engine by `blocksFreed`).
 */
export interface BlockAccounting<Pool> {
  /** Blocks that growth or admission could take now: free ones and unreferenced cached ones. */
  available(pool: Pool): number;
  /** Blocks that growth can take without evicting anything, at most `available`; needed where evictions are told at their true times. */
  free?(pool: Pool): number;
  /** Blocks that are evicted before the first that can be looked up, counted up to `limit`; optional, less is always true. */
  anonymousLead?(pool: Pool, limit: number): number;
  /**
   * Takes all blocks for `tokens` tokens of a request and returns how many leading tokens are already there (0 when none; the engine lowers it
   * to whole blocks below `tokens`), or {@link blocksRefused} and no change when they are not available.
   */
  admit(pool: Pool, requestId: number, tokens: number): number;
  /** Takes `blocks` more blocks for running requests. Called only with at most `available` blocks. */
  grow(pool: Pool, blocks: number): void;
  /** Told when the KV of the first `tokens` tokens of a request has been computed, so that a prefix cache may offer it; optional. */
  computed?(pool: Pool, requestId: number, tokens: number): void;
  /** Gives back all blocks of a request: the `blocks` it holds, `tokens` of KV in them. */
  release(pool: Pool, requestId: number, blocks: number, tokens: number): void;
}

/** Blocks that growth can take without an eviction that is heard of, counted up to `limit`: one of a block that can be looked up, or any. */
export function quietGrowth<Pool>(blocks: BlockAccounting<Pool>, pool: Pool, heard: 'named' | 'any', limit: number): number {
  const free = blocks.free?.(pool) ?? 0;
  return heard === 'any' || free >= limit ? free : free + (blocks.anonymousLead?.(pool, limit - free) ?? 0);
}

export const blocksRefused = -1;

/** A pool that only counts: no prefix cache, so never a credit. */
export interface CountingPool {
  blockTokens: number;
  capacityBlocks: number;
  freeBlocks: number;
}

export function createCountingPool(capacityBlocks: number, blockTokens: number): CountingPool {
  if (!Number.isSafeInteger(capacityBlocks) || capacityBlocks < 1)
    throw new Error(`KV capacity is ${capacityBlocks} blocks; must be a positive integer`);
  return { blockTokens, capacityBlocks, freeBlocks: capacityBlocks };
}

export const countingBlocks: BlockAccounting<CountingPool> = {
  available: (pool) => pool.freeBlocks,
  admit(pool, _requestId, tokens) {
    const blocks = Math.ceil(tokens / pool.blockTokens);
    if (blocks > pool.freeBlocks) return blocksRefused;
    pool.freeBlocks -= blocks;
    return 0;
  },
  grow(pool, blocks) {
    if (blocks > pool.freeBlocks)
      throw new Error(`KV pool: growth by ${blocks} blocks with ${pool.freeBlocks} free of ${pool.capacityBlocks}`);
    pool.freeBlocks -= blocks;
  },
  release(pool, requestId, blocks) {
    pool.freeBlocks += blocks;
    if (pool.freeBlocks > pool.capacityBlocks) {
      throw new Error(
        `KV pool: request ${requestId} gave back ${blocks} blocks, ${pool.freeBlocks} are free of only ${pool.capacityBlocks}`,
      );
    }
  },
};
