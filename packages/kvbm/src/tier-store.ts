import {
  acquireNode,
  type BlockCache,
  clearBlockCache,
  createBlockCache,
  evictBlocks,
  findNode,
  releaseNode,
  storeNode,
  unusedBlocks,
} from './block-cache.js';
import { widenFloat64 } from './columns.js';
import type { LruState } from './eviction/lru.js';
import { warmTable } from './identity-table.js';
import { KV_CLEARED, KV_REMOVED, KV_STORED, type KvEventBuffer, pushKvEvent } from './kv-events.js';
import { createRecentIdentities, noteIdentity, type RecentIdentities } from './recent-identities.js';

/** When a block of the tier above is copied down: as soon as it is stored there, or when it is evicted there. */
export type OffloadMode = 'write-through' | 'on-eviction';

/** A capacity-limited store of blocks below HBM: host DRAM (G2), NVMe (G3) or network storage (G4). It holds identities, not bytes. */
export interface TierStore {
  name: string;
  cache: BlockCache;
  /** A block is wanted from this many offers on. */
  minimumFrequency: number;
  /** Offers of late, when minimumFrequency is over 1. */
  offers: RecentIdentities | null;
  filteredBlocks: number;
  /** Blocks not stored because all room was held by transfers. */
  refusedBlocks: number;
  storedBlocks: number;
  evictedBlocks: number;
}

/** Size, policy and filter of a tier; without a policy LRU, without a filter every offer is stored. */
export interface TierStoreOptions {
  name: string;
  capacityBlocks: number;
  policy?: string;
  policyParameters?: Readonly<Record<string, number>>;
  minimumFrequency?: number;
  /** Identities whose offers are remembered; by default four times the capacity. */
  offerMemory?: number;
}

export function createTierStore(options: TierStoreOptions): TierStore {
  const minimumFrequency = options.minimumFrequency ?? 1;
  if (!(Number.isInteger(minimumFrequency) && minimumFrequency >= 1)) {
    throw new RangeError(`tier ${options.name}: minimumFrequency of ${minimumFrequency} must be an integer of 1 or more`);
  }
  return {
    name: options.name,
    cache: createBlockCache(options.capacityBlocks, options.policy, options.policyParameters),
    minimumFrequency,
    offers: minimumFrequency > 1 ? createRecentIdentities(options.offerMemory ?? options.capacityBlocks * 4) : null,
    filteredBlocks: 0,
    refusedBlocks: 0,
    storedBlocks: 0,
    evictedBlocks: 0,
  };
}

export function tierHolds(store: TierStore, identity: number): boolean {
  return findNode(store.cache, identity) >= 0;
}

/** Blocks of the chain from `from` on, without a gap, that the tier holds. No effect on eviction order. */
export function matchTier(store: TierStore, chain: Float64Array, from: number, chainLength: number): number {
  let index = from;
  while (index < chainLength && findNode(store.cache, chain[index]!) >= 0) index++;
  return index - from;
}

/** Which blocks to copy down, in order, and how many that nobody can look up (they fill the pipe and the tier all the same). */
export interface OffloadList {
  length: number;
  identities: Float64Array;
  parents: Float64Array;
  anonymousBlocks: number;
}

export function createOffloadList(): OffloadList {
  return { length: 0, identities: new Float64Array(64), parents: new Float64Array(64), anonymousBlocks: 0 };
}

/**
 * Reads the events of the tier above from row `from` on and lists in `out` what this tier wants of it: blocks it does not hold and that were offered often
 * enough. A frequency filter never wants anonymous blocks, for each is offered once. The caller transfers them, then calls `storeInTier`.
 */
export function listOffloads(store: TierStore, events: KvEventBuffer, from: number, mode: OffloadMode, out: OffloadList): void {
  out.length = 0;
  out.anonymousBlocks = 0;
  const kind = mode === 'write-through' ? KV_STORED : KV_REMOVED;
  for (let row = from; row < events.length; row++) {
    if (events.kinds[row] !== kind) continue;
    const identity = events.identities[row]!;
    if (identity > 0) listBlock(store, identity, events.parents[row]!, out);
    else if (store.offers === null) out.anonymousBlocks += events.blocks[row]!;
    else store.filteredBlocks += events.blocks[row]!;
  }
}

function listBlock(store: TierStore, identity: number, parent: number, out: OffloadList): void {
  if (!wants(store, identity)) return;
  if (out.length === out.identities.length) {
    out.identities = widenFloat64(out.identities, out.length * 2);
    out.parents = widenFloat64(out.parents, out.length * 2);
  }
  out.identities[out.length] = identity;
  out.parents[out.length++] = parent;
}

/**
 * Puts a block in, unreferenced, evicting as needed; one that is there already counts as used again. `parentIdentity` may be 0 when unknown. Returns false,
 * and counts a refusal, when transfers hold all blocks.
 */
export function storeInTier(store: TierStore, identity: number, parentIdentity: number, events: KvEventBuffer | null): boolean {
  const { cache } = store;
  const known = findNode(cache, identity);
  if (known >= 0) {
    touch(cache, known);
    return true;
  }
  if (!makeRoom(store, 1, events)) return false;
  storeNew(store, identity, parentIdentity, events);
  return true;
}

/** Puts in a block that is not there; room is the caller's to make. */
function storeNew(store: TierStore, identity: number, parentIdentity: number, events: KvEventBuffer | null): void {
  const { cache } = store;
  // lru never looks at parents, so the default is spared a look-up for each block.
  const parent = parentIdentity > 0 && !cache.isLru ? findNode(cache, parentIdentity) : -1;
  storeNode(cache, identity, parent, parent < 0 ? 0 : cache.depth[parent]! + 1, 1, 0);
  store.storedBlocks++;
  if (events !== null) pushKvEvent(events, KV_STORED, identity, parentIdentity, 1);
}

/** Blocks looked up ahead of their turn. */
const aheadBlocks = 64;
const leaving = new Float64Array(aheadBlocks);

/** `storeInTier` for a list, in order; refusals are counted. Faster than one by one where the tier is larger than the processor's caches. */
export function storeAllInTier(store: TierStore, identities: Float64Array, parents: Float64Array, events: KvEventBuffer | null): void {
  for (let from = 0; from < identities.length; from += aheadBlocks) {
    const end = Math.min(from + aheadBlocks, identities.length);
    lookAhead(store, identities, from, end);
    if (canEvictAfter(store, end - from)) storeRun(store, identities, parents, from, end, events);
    else for (let row = from; row < end; row++) storeInTier(store, identities[row]!, parents[row]!, events);
  }
}

/** With lru the last blocks used stay, whether others go before each one that comes or after all of them. */
function canEvictAfter({ cache }: TierStore, blocks: number): boolean {
  return cache.isLru && unusedBlocks(cache) + cache.evictableBlocks >= blocks;
}

function storeRun(
  store: TierStore,
  identities: Float64Array,
  parents: Float64Array,
  from: number,
  end: number,
  events: KvEventBuffer | null,
): void {
  const { cache } = store;
  for (let row = from; row < end; row++) {
    const identity = identities[row]!;
    const known = findNode(cache, identity);
    if (known >= 0) touch(cache, known);
    else storeNew(store, identity, parents[row]!, events);
  }
  const excess = -unusedBlocks(cache);
  if (excess <= 0) return;
  evictBlocks(cache, excess, events);
  store.evictedBlocks += excess;
}

/** Brings the table's places of the next blocks of a list, and of those that may go for them, near the processor. Changes nothing. */
function lookAhead(store: TierStore, identities: Float64Array, from: number, end: number): void {
  const { cache } = store;
  warmTable(cache.table, identities, from, end);
  if (!cache.isLru || unusedBlocks(cache) >= end - from) return;
  const { oldest, next } = cache.policyState as LruState;
  let listed = 0;
  for (let node = oldest; node >= 0 && listed < end - from; node = next[node]!) leaving[listed++] = cache.identity[node]!;
  warmTable(cache.table, leaving, 0, listed);
}

/** Keeps of a list, in place and in order, the blocks that the tier wants: those it does not hold and that were offered often enough; returns how many. */
export function wantedOf(store: TierStore, identities: Float64Array, parents: Float64Array): number {
  let wanted = 0;
  for (let row = 0; row < identities.length; row++) {
    if (row % aheadBlocks === 0) warmTable(store.cache.table, identities, row, Math.min(row + aheadBlocks, identities.length));
    if (!wants(store, identities[row]!)) continue;
    identities[wanted] = identities[row]!;
    parents[wanted++] = parents[row]!;
  }
  return wanted;
}

function wants(store: TierStore, identity: number): boolean {
  if (tierHolds(store, identity)) return false;
  if (store.offers === null || noteIdentity(store.offers, identity) >= store.minimumFrequency) return true;
  store.filteredBlocks++;
  return false;
}

/** Puts in `blocks` blocks that nobody can look up; at most the tier's capacity of them. Returns false when transfers hold the room. */
export function storeAnonymous(store: TierStore, blocks: number, events: KvEventBuffer | null): boolean {
  const kept = Math.min(blocks, store.cache.capacityBlocks);
  if (kept === 0) return true;
  if (!makeRoom(store, kept, events)) return false;
  storeNode(store.cache, 0, -1, 0, kept, 0);
  store.storedBlocks += kept;
  if (events !== null) pushKvEvent(events, KV_STORED, 0, 0, kept);
  return true;
}

/** Holds a block while it is read, so that it cannot be evicted; returns its node for `unpinTierBlock`, or -1 when the tier does not hold it. */
export function pinTierBlock(store: TierStore, identity: number): number {
  const node = findNode(store.cache, identity);
  if (node >= 0) acquireNode(store.cache, node);
  return node;
}

export function unpinTierBlock(store: TierStore, node: number): void {
  releaseNode(store.cache, node);
}

/** Loses everything, also what is pinned: pins from before must not be released afterwards. */
export function clearTierStore(store: TierStore, events: KvEventBuffer | null): void {
  clearBlockCache(store.cache);
  if (events !== null) pushKvEvent(events, KV_CLEARED, 0, 0, 0);
}

function touch(cache: BlockCache, node: number): void {
  acquireNode(cache, node);
  releaseNode(cache, node);
}

function makeRoom(store: TierStore, blocks: number, events: KvEventBuffer | null): boolean {
  const { cache } = store;
  const short = blocks - unusedBlocks(cache);
  if (short > cache.evictableBlocks) {
    store.refusedBlocks += blocks;
    return false;
  }
  if (short > 0) {
    evictBlocks(cache, short, events);
    store.evictedBlocks += short;
  }
  return true;
}
