import { kvEventKind } from '@braess/protocol';
import { blocksRefused, type EngineBlocks } from '@braess/serving';

/** A prefix-caching pool in the plainest form (maps, linear searches): what an engine's blocks must do, independent of the real pool. */
export interface PrefixPool {
  capacityBlocks: number;
  blockTokens: number;
  freeBlocks: number;
  cached: Map<number, { refs: number; lastUse: number }>;
  clock: number;
  chains: Map<number, Float64Array | null>;
  held: Map<number, { shared: number; own: number }>;
  grown: number;
  wantsEvents: boolean;
  events: { kind: number; identity: number; parent: number }[];
}

const idle = (pool: PrefixPool): number => [...pool.cached.values()].filter((entry) => entry.refs === 0).length;

function take(pool: PrefixPool, blocks: number): void {
  while (pool.freeBlocks < blocks) {
    let victim = -1;
    let oldest = Number.POSITIVE_INFINITY;
    for (const [identity, entry] of pool.cached) {
      if (entry.refs > 0 || entry.lastUse >= oldest) continue;
      oldest = entry.lastUse;
      victim = identity;
    }
    if (victim < 0) throw new Error(`prefix pool: ${blocks} blocks wanted, ${pool.freeBlocks} free and none to evict`);
    pool.cached.delete(victim);
    note(pool, kvEventKind.removed, victim, 0);
    pool.freeBlocks++;
  }
  pool.freeBlocks -= blocks;
}

function note(pool: PrefixPool, kind: number, identity: number, parent: number): void {
  if (pool.wantsEvents) pool.events.push({ kind, identity, parent });
}

function commit(pool: PrefixPool, slot: number, tokens: number): void {
  const chain = pool.chains.get(slot) ?? null;
  const held = pool.held.get(slot);
  if (chain === null || held === undefined) return;
  const full = Math.min(chain.length, Math.floor(tokens / pool.blockTokens));
  for (; held.shared < full; held.shared++, held.own--) {
    const identity = chain[held.shared]!;
    const entry = pool.cached.get(identity);
    if (entry !== undefined) {
      entry.refs++;
      pool.freeBlocks++;
    } else {
      pool.cached.set(identity, { refs: 1, lastUse: 0 });
      note(pool, kvEventKind.stored, identity, held.shared === 0 ? 0 : chain[held.shared - 1]!);
    }
  }
}

function match(pool: PrefixPool, chain: Float64Array, limit: number): number {
  let found = 0;
  while (found < limit && pool.cached.has(chain[found]!)) found++;
  return found;
}

export const prefixBlocks: EngineBlocks<PrefixPool> = {
  createPool: (capacityBlocks, blockTokens, wantsEvents) => ({
    capacityBlocks,
    blockTokens,
    freeBlocks: capacityBlocks,
    cached: new Map(),
    clock: 0,
    chains: new Map(),
    held: new Map(),
    grown: 0,
    wantsEvents,
    events: [],
  }),
  open: (pool, slot, chain) => {
    if (pool.chains.has(slot)) throw new Error(`slot ${slot} opened twice`);
    pool.chains.set(slot, chain);
  },
  close: (pool, slot) => {
    if (!pool.chains.delete(slot)) throw new Error(`slot ${slot} closed without being open`);
    if (pool.held.has(slot)) throw new Error(`slot ${slot} closed with blocks held`);
  },
  clear: (pool) => {
    if (pool.held.size > 0 || pool.chains.size > 0) throw new Error('cleared with requests in it');
    pool.freeBlocks += pool.cached.size;
    pool.cached.clear();
    note(pool, kvEventKind.cleared, 0, 0);
  },
  free: (pool) => pool.freeBlocks,
  available: (pool) => pool.freeBlocks + idle(pool),
  admit: (pool, slot, tokens) => {
    const chain = pool.chains.get(slot) ?? null;
    const limit = chain === null ? 0 : Math.min(chain.length, Math.floor((tokens - 1) / pool.blockTokens));
    const found = chain === null ? 0 : match(pool, chain, limit);
    const needed = Math.ceil(tokens / pool.blockTokens) - found;
    let idleMatches = 0;
    for (let index = 0; index < found; index++) if (pool.cached.get(chain![index]!)!.refs === 0) idleMatches++;
    if (needed > pool.freeBlocks + idle(pool) - idleMatches) return blocksRefused;
    for (let index = 0; index < found; index++) pool.cached.get(chain![index]!)!.refs++;
    take(pool, needed);
    pool.held.set(slot, { shared: found, own: needed });
    return found * pool.blockTokens;
  },
  grow: (pool, blocks) => {
    take(pool, blocks);
    pool.grown += blocks;
  },
  computed: commit,
  release: (pool, slot, blocks, tokens) => {
    const held = pool.held.get(slot)!;
    const extra = blocks - held.shared - held.own;
    if (extra < 0) throw new Error(`slot ${slot} gives back ${blocks} blocks of ${held.shared + held.own}`);
    pool.grown -= extra;
    held.own += extra;
    commit(pool, slot, tokens);
    pool.freeBlocks += held.own;
    const chain = pool.chains.get(slot) ?? null;
    for (let index = held.shared - 1; index >= 0; index--) {
      const entry = pool.cached.get(chain![index]!)!;
      entry.refs--;
      entry.lastUse = ++pool.clock;
    }
    pool.held.delete(slot);
    if (
      pool.freeBlocks + pool.cached.size + [...pool.held.values()].reduce((sum, each) => sum + each.own, 0) + pool.grown !==
      pool.capacityBlocks
    )
      throw new Error('prefix pool: blocks are not conserved');
  },
  match: (pool, chain) => match(pool, chain, chain.length),
  pendingEvents: (pool) => pool.events.length,
  takeEvents: (pool) => {
    const rows = pool.events;
    pool.events = [];
    return {
      kinds: Uint8Array.from(rows, (row) => row.kind),
      identities: Float64Array.from(rows, (row) => row.identity),
      parents: Float64Array.from(rows, (row) => row.parent),
      blocks: Int32Array.from(rows, () => 1),
    };
  },
};
