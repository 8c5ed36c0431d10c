import { widenFloat64, widenInt32 } from './columns.js';
import { type LruState, lruAcquired, lruReleased, lruRemoved } from './eviction/lru.js';
import { type CacheView, type EvictionPolicy, evictionParameters, evictionPolicy } from './eviction.js';
import { createIdentityTable, type IdentityTable, tableGet, tableInsert, tableRemove } from './identity-table.js';
import { KV_REMOVED, type KvEventBuffer, pushKvEvent } from './kv-events.js';

/**
 * The blocks of one place (an engine's HBM, a tier) that are known by identity or kept as extents, with references and eviction. Nodes are numbered
 * densely and their columns grow with use: a cache of a million blocks that holds three extents takes a few hundred bytes.
 */
export interface BlockCache extends CacheView {
  policyName: string;
  policyState: object;
  parameters: Record<string, number>;
  /** The default policy is called directly, the others by name. */
  isLru: boolean;
  capacityBlocks: number;
  /** Blocks in all nodes, and in those without a reference. */
  usedBlocks: number;
  evictableBlocks: number;
  /** Nodes in use, node numbers ever used, and the head of the list of free ones (linked through `parent`). */
  nodes: number;
  nodeLimit: number;
  freeNode: number;
  /** Blocks by identity, less those that `child` leads to. */
  table: IdentityTable;
  identity: Float64Array;
  parent: Int32Array;
  /**
   * One block behind this one in its chain, as node + 1, 0 for none: most blocks are followed by one other only, and are so found, stored and evicted
   * without the table, whose random places in memory cost more than all else.
   */
  child: Int32Array;
  /** How many further blocks follow this one: those are in the table. Not kept up once `hasOrphans`. */
  branches: Int32Array;
  /** A block went before one that follows it (never so with lru): what no `child` leads to may be in the table. */
  hasOrphans: boolean;
  depth: Int32Array;
  blocks: Int32Array;
  refs: Int32Array;
}

/** An empty cache of `capacityBlocks` blocks. Throws on an unknown policy or parameter and on a capacity that is no integer of 1 or more. */
export function createBlockCache(
  capacityBlocks: number,
  policyName: string = 'lru',
  policyParameters: Readonly<Record<string, number>> = {},
): BlockCache {
  if (!(Number.isInteger(capacityBlocks) && capacityBlocks >= 1 && capacityBlocks <= 0x7fffffff)) {
    throw new RangeError(`cache of ${capacityBlocks} blocks: the capacity must be an integer from 1 to 2147483647`);
  }
  const policy = evictionPolicy(policyName);
  const parameters = evictionParameters(policy, policyParameters);
  // No column of an empty cache is over 64 bytes then: those lie within V8's heap and cost no memory of their own elsewhere.
  const columns = 4;
  const cache: BlockCache = {
    policyName,
    policyState: policy.createState(capacityBlocks, columns, parameters),
    parameters,
    isLru: policyName === 'lru',
    capacityBlocks,
    usedBlocks: 0,
    evictableBlocks: 0,
    nodes: 0,
    nodeLimit: 0,
    freeNode: -1,
    table: createIdentityTable(),
    identity: new Float64Array(columns),
    parent: new Int32Array(columns),
    child: new Int32Array(columns),
    branches: new Int32Array(columns),
    hasOrphans: false,
    depth: new Int32Array(columns),
    blocks: new Int32Array(columns),
    refs: new Int32Array(columns),
  };
  widenColumns(cache); // Once at birth, as createBlockPool does, and why.
  return cache;
}

/** Node of the block with this identity, or -1, in a cache without chains: all its blocks came by `storeNode`. */
export function findNode(cache: BlockCache, identity: number): number {
  return tableGet(cache.table, cache.identity, identity);
}

/** Node of the block with this identity that follows the block of node `parent` (-1: the first of its chain), or -1. */
export function findChild(cache: BlockCache, parent: number, identity: number): number {
  if (parent >= 0) {
    const child = cache.child[parent]! - 1;
    if (child >= 0 && cache.identity[child] === identity) return child;
    if (cache.branches[parent] === 0 && !cache.hasOrphans) return -1;
  }
  return tableGet(cache.table, cache.identity, identity);
}

/** Blocks that nothing occupies. */
export function unusedBlocks(cache: BlockCache): number {
  return cache.capacityBlocks - cache.usedBlocks;
}

/**
 * Puts `blocks` blocks in, with one reference (`refs` 1) or none (0); the caller has made room. A positive identity can be looked up and stands for one
 * block; 0 or less is an extent. Returns the node.
 */
export function storeNode(cache: BlockCache, identity: number, parent: number, depth: number, blocks: number, refs: number): number {
  const node = fillNode(cache, identity, parent, depth, blocks, refs);
  if (identity > 0) enterTable(cache, identity, parent, node);
  return node;
}

/** The same for a block of a chain, with one reference, behind the node `parent` (-1: first) that `findChild` did not find it behind. */
export function storeChild(cache: BlockCache, identity: number, parent: number, depth: number): number {
  const node = fillNode(cache, identity, parent, depth, 1, 1);
  if (parent >= 0 && cache.child[parent] === 0) cache.child[parent] = node + 1;
  else enterTable(cache, identity, parent, node);
  return node;
}

function enterTable(cache: BlockCache, identity: number, parent: number, node: number): void {
  tableInsert(cache.table, identity, node);
  if (parent >= 0 && !cache.hasOrphans) cache.branches[parent]!++;
}

/** Makes a block unknown, and what follows it an orphan. */
function leaveTable(cache: BlockCache, node: number): void {
  const { child, branches } = cache;
  const parent = cache.parent[node]!;
  if (parent >= 0 && child[parent] === node + 1) child[parent] = 0;
  else {
    tableRemove(cache.table, node);
    if (parent >= 0 && !cache.hasOrphans) branches[parent]!--;
  }
  const next = child[node]! - 1;
  if (next < 0 && branches[node] === 0) return;
  cache.hasOrphans = true;
  branches[node] = 0;
  if (next < 0) return;
  child[node] = 0;
  tableInsert(cache.table, cache.identity[next]!, next);
}

function fillNode(cache: BlockCache, identity: number, parent: number, depth: number, blocks: number, refs: number): number {
  const node = takeNode(cache);
  cache.identity[node] = identity;
  cache.parent[node] = parent;
  cache.depth[node] = depth;
  cache.blocks[node] = blocks;
  cache.refs[node] = refs;
  cache.usedBlocks += blocks;
  if (refs === 0) cache.evictableBlocks += blocks;
  if (cache.isLru) {
    if (refs === 0) lruReleased(cache.policyState as LruState, cache, node);
    return node;
  }
  const policy = policyOf(cache);
  policy.stored(cache.policyState, cache, node);
  if (refs === 0) policy.released(cache.policyState, cache, node);
  return node;
}

export function acquireNode(cache: BlockCache, node: number): void {
  if (++cache.refs[node]! === 1) cache.evictableBlocks -= cache.blocks[node]!;
  if (cache.isLru) lruAcquired(cache.policyState as LruState, cache, node);
  else policyOf(cache).acquired(cache.policyState, cache, node);
}

export function releaseNode(cache: BlockCache, node: number): void {
  const refs = --cache.refs[node]!;
  if (refs > 0) return;
  if (refs < 0) throw new Error(`cache: block ${cache.identity[node]} was released more often than acquired`);
  cache.evictableBlocks += cache.blocks[node]!;
  if (cache.isLru) lruReleased(cache.policyState as LruState, cache, node);
  else policyOf(cache).released(cache.policyState, cache, node);
}

/** Takes a node out that is not evicted but dropped or taken back. */
export function removeNode(cache: BlockCache, node: number): void {
  if (cache.isLru) lruRemoved(cache.policyState as LruState, cache, node);
  else policyOf(cache).removed(cache.policyState, cache, node);
  const blocks = cache.blocks[node]!;
  cache.usedBlocks -= blocks;
  if (cache.refs[node] === 0) cache.evictableBlocks -= blocks;
  if (cache.identity[node]! > 0) leaveTable(cache, node);
  cache.identity[node] = 0;
  cache.blocks[node] = 0;
  cache.refs[node] = 0;
  cache.parent[node] = cache.freeNode;
  cache.freeNode = node;
  cache.nodes--;
}

/** Evicts `count` blocks as the policy says, reporting them in order to `events` (runs of anonymous blocks in one row). Throws when fewer are evictable or the policy names a wrong node. */
export function evictBlocks(cache: BlockCache, count: number, events: KvEventBuffer | null): void {
  if (count > cache.evictableBlocks) {
    throw new RangeError(`cache of ${cache.capacityBlocks} blocks: cannot evict ${count}, only ${cache.evictableBlocks} are unreferenced`);
  }
  if (cache.isLru) {
    evictOldest(cache, cache.policyState as LruState, count, events);
    return;
  }
  let left = count;
  let anonymous = 0;
  while (left > 0) {
    const node = checkedVictim(cache);
    const held = cache.blocks[node]!;
    // Asked again for each block: s3-fifo may turn to its other queue in the middle of an extent.
    const taken = 1;
    const identity = cache.identity[node]!;
    if (identity <= 0) anonymous += taken;
    else if (events !== null) {
      if (anonymous > 0) pushKvEvent(events, KV_REMOVED, 0, 0, anonymous);
      anonymous = 0;
      pushKvEvent(events, KV_REMOVED, identity, 0, 1);
    }
    if (taken === held) removeNode(cache, node);
    else shrinkNode(cache, node, taken);
    left -= taken;
  }
  if (anonymous > 0 && events !== null) pushKvEvent(events, KV_REMOVED, 0, 0, anonymous);
}

/** `evictBlocks` for the default policy: a run off the old end of its list. */
function evictOldest(cache: BlockCache, lru: LruState, count: number, events: KvEventBuffer | null): void {
  const { identity: identities, blocks, parent } = cache;
  let left = count;
  let anonymous = 0;
  let node = lru.oldest;
  while (left > 0) {
    const held = blocks[node]!;
    const identity = identities[node]!;
    if (identity <= 0) anonymous += Math.min(left, held);
    else {
      if (events !== null) {
        if (anonymous > 0) pushKvEvent(events, KV_REMOVED, 0, 0, anonymous);
        pushKvEvent(events, KV_REMOVED, identity, 0, 1);
      }
      anonymous = 0;
      leaveTable(cache, node);
    }
    if (held > left) {
      blocks[node] = held - left;
      break;
    }
    left -= held;
    identities[node] = 0;
    blocks[node] = 0;
    parent[node] = cache.freeNode;
    cache.freeNode = node;
    cache.nodes--;
    node = lru.next[node]!;
  }
  cache.usedBlocks -= count;
  cache.evictableBlocks -= count;
  lru.oldest = node;
  if (node >= 0) lru.previous[node] = -1;
  else lru.newest = -1;
  if (anonymous > 0 && events !== null) pushKvEvent(events, KV_REMOVED, 0, 0, anonymous);
}

/** Blocks that are evicted before the first that can be looked up, counted up to `limit`. Only the default policy says; others 0. */
export function anonymousLead(cache: BlockCache, limit: number): number {
  if (!cache.isLru) return 0;
  const { oldest, next } = cache.policyState as LruState;
  let lead = 0;
  for (let node = oldest; node >= 0 && lead < limit && cache.identity[node]! <= 0; node = next[node]!) lead += cache.blocks[node]!;
  return Math.min(lead, limit);
}

/** Drops everything, references or not. */
export function clearBlockCache(cache: BlockCache): void {
  Object.assign(cache, createBlockCache(cache.capacityBlocks, cache.policyName, cache.parameters));
}

function shrinkNode(cache: BlockCache, node: number, taken: number): void {
  cache.blocks[node]! -= taken;
  cache.usedBlocks -= taken;
  cache.evictableBlocks -= taken;
  if (!cache.isLru) policyOf(cache).shrunk?.(cache.policyState, cache, node, taken);
}

function checkedVictim(cache: BlockCache): number {
  const node = policyOf(cache).victim(cache.policyState, cache);
  if (!(Number.isInteger(node) && node >= 0 && node < cache.nodeLimit && cache.blocks[node]! > 0 && cache.refs[node] === 0)) {
    throw new Error(
      `eviction policy '${cache.policyName}': victim() gave ${node}; it must give a node in the cache with no reference (${cache.evictableBlocks} blocks are evictable)`,
    );
  }
  return node;
}

function policyOf(cache: BlockCache): EvictionPolicy {
  return evictionPolicy(cache.policyName);
}

function takeNode(cache: BlockCache): number {
  cache.nodes++;
  const free = cache.freeNode;
  if (free >= 0) {
    cache.freeNode = cache.parent[free]!;
    return free;
  }
  if (cache.nodeLimit === cache.refs.length) widenColumns(cache);
  return cache.nodeLimit++;
}

function widenColumns(cache: BlockCache): void {
  const columns = cache.refs.length * 2;
  cache.identity = widenFloat64(cache.identity, columns);
  cache.parent = widenInt32(cache.parent, columns);
  cache.child = widenInt32(cache.child, columns);
  cache.branches = widenInt32(cache.branches, columns);
  cache.depth = widenInt32(cache.depth, columns);
  cache.blocks = widenInt32(cache.blocks, columns);
  cache.refs = widenInt32(cache.refs, columns);
  policyOf(cache).reserve(cache.policyState, columns);
}
