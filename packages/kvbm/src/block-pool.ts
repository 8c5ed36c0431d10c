import { acquireNode, clearBlockCache, evictBlocks, findChild, releaseNode, removeNode, storeChild, storeNode } from './block-cache.js';
import {
  availableBlocks,
  type BlockPool,
  freeBlocks,
  SEQUENCE_ACTIVE,
  SEQUENCE_FREE,
  SEQUENCE_SUSPENDED,
  sequenceBlocks,
  widenSequences,
} from './block-pool-state.js';
import { KV_CLEARED, KV_STORED, type KvEventBuffer, pushKvEvent } from './kv-events.js';

/** Leading blocks of the chain that are in the cache, without any effect. The last token of a prompt is always computed: see `openSequence`. */
export function matchPrefix(pool: BlockPool, chain: Float64Array, chainLength: number): number {
  if (!pool.prefixCaching) return 0;
  let count = 0;
  for (let node = -1; count < chainLength; count++) {
    node = findChild(pool.cache, node, chain[count]!);
    if (node < 0) break;
  }
  return count;
}

/**
 * Starts a sequence of `promptTokens` tokens: takes the cached blocks of its prefix and allocates blocks for up to `chunkTokens` tokens more (Infinity: the whole
 * prompt; the first chunk of a chunked prefill otherwise), evicting as needed. At least the last token is left to compute, as an engine needs its logits.
 * Returns the sequence number, or -1 (nothing changed) when the blocks that are free or evictable do not suffice. `sequenceHitTokens` tells what was found.
 */
export function openSequence(
  pool: BlockPool,
  chain: Float64Array,
  chainLength: number,
  promptTokens: number,
  chunkTokens: number,
  events: KvEventBuffer | null,
): number {
  const limit = hitLimit(pool, chainLength, promptTokens);
  const found = scanPrefix(pool, chain, limit);
  const covered = Math.min(promptTokens, found * pool.blockTokens + chunkTokens);
  const needed = Math.ceil(covered / pool.blockTokens) - found;
  if (needed > availableBlocks(pool) - idleMatches(pool, found)) return -1;
  const sequence = takeSequence(pool);
  pool.tokens[sequence] = 0;
  pool.privates[sequence] = 0;
  activate(pool, sequence, limit, found);
  pool.hits[sequence] = found;
  extend(pool, sequence, chain, chainLength, covered, events);
  return sequence;
}

/**
 * Makes the sequence cover `totalTokens` tokens (more prefill, or output), evicting as needed; blocks that become full within the chain enter the cache
 * at once, and one that another sequence has stored meanwhile is shared. Returns false, with nothing changed, when there is no room: the caller preempts.
 */
export function growSequence(
  pool: BlockPool,
  sequence: number,
  chain: Float64Array,
  chainLength: number,
  totalTokens: number,
  events: KvEventBuffer | null,
): boolean {
  if (totalTokens <= pool.tokens[sequence]!) return true;
  const needed = Math.ceil(totalTokens / pool.blockTokens) - sequenceBlocks(pool, sequence);
  if (needed > availableBlocks(pool)) return false;
  extend(pool, sequence, chain, chainLength, totalTokens, events);
  return true;
}

/**
 * Gives identities to the blocks that the sequence covers within the chain. Only needed by a caller that passed a shorter chain to hide blocks until they are
 * there (computed, or brought from a tier): pass the chain up to the last block that may be found now.
 */
export function commitSequence(
  pool: BlockPool,
  sequence: number,
  chain: Float64Array,
  chainLength: number,
  events: KvEventBuffer | null,
): void {
  extend(pool, sequence, chain, chainLength, pool.tokens[sequence]!, events);
}

/** Evicts up to `count` unreferenced blocks ahead of need; returns how many. With Infinity: all, as a reset of the prefix cache. */
export function evictCached(pool: BlockPool, count: number, events: KvEventBuffer | null): number {
  const evicted = Math.min(count, pool.cache.evictableBlocks);
  evictBlocks(pool.cache, evicted, events);
  pool.evictedBlocks += evicted;
  return evicted;
}

/** Ends a sequence: its full blocks stay in the cache (tail first in eviction order), the partial one becomes free. Also ends a suspended one. */
export function releaseSequence(pool: BlockPool, sequence: number, events: KvEventBuffer | null): void {
  if (pool.states[sequence] === SEQUENCE_SUSPENDED) {
    const extent = ownExtent(pool, sequence);
    // The blocks stay until they are evicted; only their owner is gone.
    if (extent >= 0) pool.cache.identity[extent] = 0;
    pool.suspendedSequences--;
  } else {
    letGo(pool, sequence, 0, events);
  }
  pool.states[sequence] = SEQUENCE_FREE;
  pool.tails[sequence] = pool.freeSequence;
  pool.freeSequence = sequence;
}

/** Preempts: gives up all blocks as `releaseSequence` does, but keeps the number, so that `resumeSequence` finds private blocks not yet evicted. */
export function suspendSequence(pool: BlockPool, sequence: number, events: KvEventBuffer | null): void {
  pool.tails[sequence] = letGo(pool, sequence, -(sequence + 1), events);
  pool.states[sequence] = SEQUENCE_SUSPENDED;
  pool.suspendedSequences++;
}

/**
 * Starts a suspended sequence again with `targetTokens` tokens to cover (prompt and output so far), like `openSequence`; its own private blocks that are
 * still cached are hits too. Returns false, with nothing changed, when there is no room.
 */
export function resumeSequence(
  pool: BlockPool,
  sequence: number,
  chain: Float64Array,
  chainLength: number,
  targetTokens: number,
  chunkTokens: number,
  events: KvEventBuffer | null,
): boolean {
  const limit = hitLimit(pool, chainLength, targetTokens);
  const found = scanPrefix(pool, chain, limit);
  const extent = found === pool.identified[sequence] ? ownExtent(pool, sequence) : -1;
  const cached = extent < 0 ? 0 : pool.cache.blocks[extent]!;
  const kept = Math.min(cached, Math.max(0, Math.floor((targetTokens - 1) / pool.blockTokens) - found));
  const covered = Math.min(targetTokens, (found + kept) * pool.blockTokens + chunkTokens);
  const needed = Math.ceil(covered / pool.blockTokens) - found - kept;
  if (needed > availableBlocks(pool) - idleMatches(pool, found) - kept) return false;
  const stale = extent < 0 ? ownExtent(pool, sequence) : -1;
  if (stale >= 0) pool.cache.identity[stale] = 0;
  pool.states[sequence] = SEQUENCE_ACTIVE;
  pool.activeSequences++;
  pool.suspendedSequences--;
  activate(pool, sequence, limit, found);
  if (extent >= 0) takeBack(pool, extent);
  pool.privates[sequence] = kept;
  pool.privateBlocks += kept;
  pool.hits[sequence] = found + kept;
  pool.tokens[sequence] = (found + kept) * pool.blockTokens;
  extend(pool, sequence, chain, chainLength, covered, events);
  return true;
}

/** Loses everything, as when the engine dies or restarts: all sequence numbers become invalid. */
export function clearBlockPool(pool: BlockPool, events: KvEventBuffer | null): void {
  clearBlockCache(pool.cache);
  pool.privateBlocks = 0;
  pool.activeSequences = 0;
  pool.suspendedSequences = 0;
  pool.sequences = 0;
  pool.freeSequence = -1;
  pool.states.fill(SEQUENCE_FREE);
  if (events !== null) pushKvEvent(events, KV_CLEARED, 0, 0, 0);
}

function hitLimit(pool: BlockPool, chainLength: number, tokens: number): number {
  return pool.prefixCaching ? Math.min(chainLength, Math.max(0, Math.floor((tokens - 1) / pool.blockTokens))) : 0;
}

/** Writes the nodes of the cached prefix to `pool.matched`; returns how many. */
function scanPrefix(pool: BlockPool, chain: Float64Array, limit: number): number {
  if (pool.matched.length < limit) pool.matched = new Int32Array(limit * 2);
  const { matched, cache } = pool;
  let count = 0;
  for (let node = -1; count < limit; count++) {
    node = findChild(cache, node, chain[count]!);
    if (node < 0) break;
    matched[count] = node;
  }
  return count;
}

/** How many of the matched blocks nobody holds: they stop being available when taken. */
function idleMatches(pool: BlockPool, found: number): number {
  const { matched } = pool;
  const { refs } = pool.cache;
  let idle = 0;
  // References only fall along a chain: whoever holds a block holds all before it.
  for (let index = found - 1; index >= 0 && refs[matched[index]!] === 0; index--) idle++;
  return idle;
}

function activate(pool: BlockPool, sequence: number, asked: number, found: number): void {
  const { matched, cache } = pool;
  let tail = -1;
  for (let index = 0; index < found; index++) {
    const node = matched[index]!;
    acquireNode(cache, node);
    // The block before may have been evicted and stored again under another node since.
    cache.parent[node] = tail;
    tail = node;
  }
  pool.tails[sequence] = tail;
  pool.identified[sequence] = found;
  pool.askedBlocks += asked;
  pool.foundBlocks += found;
}

function extend(
  pool: BlockPool,
  sequence: number,
  chain: Float64Array,
  chainLength: number,
  totalTokens: number,
  events: KvEventBuffer | null,
): void {
  const needed = Math.ceil(totalTokens / pool.blockTokens) - sequenceBlocks(pool, sequence);
  if (needed > 0) {
    const short = needed - freeBlocks(pool);
    if (short > 0) {
      evictBlocks(pool.cache, short, events);
      pool.evictedBlocks += short;
    }
    pool.privates[sequence]! += needed;
    pool.privateBlocks += needed;
  }
  if (totalTokens > pool.tokens[sequence]!) pool.tokens[sequence] = totalTokens;
  if (chainLength === 0 || !pool.prefixCaching) return;
  const full = Math.min(chainLength, Math.floor(totalTokens / pool.blockTokens));
  for (let index = pool.identified[sequence]!; index < full; index++) commitBlock(pool, sequence, chain[index]!, index, events);
}

/** A private block has become full and gets its identity; if the cache has that block already, it is shared and the private one is free again. */
function commitBlock(pool: BlockPool, sequence: number, identity: number, depth: number, events: KvEventBuffer | null): void {
  const { cache } = pool;
  const tail = pool.tails[sequence]!;
  let node = findChild(cache, tail, identity);
  pool.privates[sequence]!--;
  pool.privateBlocks--;
  if (node >= 0) {
    acquireNode(cache, node);
    cache.parent[node] = tail;
  } else {
    node = storeChild(cache, identity, tail, depth);
    if (events !== null) pushKvEvent(events, KV_STORED, identity, tail < 0 ? 0 : cache.identity[tail]!, 1);
  }
  pool.tails[sequence] = node;
  pool.identified[sequence]!++;
}

/** Gives up the blocks of an active sequence; returns the extent of its full private blocks, or -1. */
function letGo(pool: BlockPool, sequence: number, extentIdentity: number, events: KvEventBuffer | null): number {
  const { cache } = pool;
  const identified = pool.identified[sequence]!;
  pool.privateBlocks -= pool.privates[sequence]!;
  pool.privates[sequence] = 0;
  pool.activeSequences--;
  const full = pool.prefixCaching ? Math.floor(pool.tokens[sequence]! / pool.blockTokens) - identified : 0;
  let node = pool.tails[sequence]!;
  let extent = -1;
  if (full > 0) {
    extent = storeNode(cache, extentIdentity, node, identified, full, 0);
    if (events !== null) pushKvEvent(events, KV_STORED, 0, 0, full);
  }
  while (node >= 0) {
    const parent = cache.parent[node]!;
    releaseNode(cache, node);
    node = parent;
  }
  return extent;
}

/** The extent a suspended sequence left, if anything of it is still cached. */
function ownExtent(pool: BlockPool, sequence: number): number {
  const extent = pool.tails[sequence]!;
  return extent >= 0 && pool.cache.identity[extent] === -(sequence + 1) ? extent : -1;
}

function takeBack(pool: BlockPool, extent: number): void {
  // Referenced first, so that no policy mistakes this for an eviction.
  acquireNode(pool.cache, extent);
  removeNode(pool.cache, extent);
}

function takeSequence(pool: BlockPool): number {
  let sequence = pool.freeSequence;
  if (sequence >= 0) pool.freeSequence = pool.tails[sequence]!;
  else {
    if (pool.sequences === pool.states.length) widenSequences(pool);
    sequence = pool.sequences++;
  }
  pool.states[sequence] = SEQUENCE_ACTIVE;
  pool.activeSequences++;
  return sequence;
}
