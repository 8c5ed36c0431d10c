import { KernelError } from '@braess/kernel';
import {
  anonymousLead,
  availableBlocks,
  type BlockPool,
  clearBlockPool,
  clearKvEvents,
  commitSequence,
  createBlockPool,
  createKvEventBuffer,
  evictCached,
  freeBlocks,
  KV_REMOVED,
  type KvEventBuffer,
  matchPrefix,
  openSequence,
  releaseSequence,
  sequenceBlocks,
  sequenceHitTokens,
} from '@braess/kvbm';
import { type KvEventColumns, requestOfDispatch } from '@braess/protocol';
import { blocksRefused, type EngineBlocks } from '@braess/serving';
import type { CachePolicy } from './own-evictions.js';

/** The KV blocks of one engine: kvbm's pool with what the scheduler's slots mean to it. Plain data. */
export interface EnginePool {
  readonly pool: BlockPool;
  readonly events: KvEventBuffer | null;
  /** Sequence of the pool by slot, -1 while it holds no blocks. */
  sequenceOf: Int32Array;
  readonly chains: (Float64Array | null)[];
  /** Number of the request in each slot, for errors. */
  readonly requests: number[];
}

/** How the engines of a group keep and tell of their blocks. */
export interface EngineBlocksOptions {
  readonly prefixCaching: boolean;
  /** Most blocks that stay while no request holds them. */
  readonly cacheBlocks: number;
  readonly eviction: CachePolicy;
  /** Leave blocks that nobody can look up out of the KV events: only tiers below want them. */
  readonly namedEventsOnly: boolean;
}

/**
 * Backs the scheduler's block accounting by kvbm's pool. A prompt's blocks can be found by others only once they are computed. Blocks that
 * decoding takes are booked for the engine as a whole, as the scheduler asks for them, and given to their sequence when it ends: until then
 * they are private, so nobody can tell the difference. Those that a chain goes on to name can be found from then on.
 */
export function poolBlocks(options: EngineBlocksOptions): EngineBlocks<EnginePool> {
  const { prefixCaching, cacheBlocks, eviction, namedEventsOnly } = options;
  return {
    createPool: (capacityBlocks, blockTokens, wantsEvents) => ({
      pool: createBlockPool({
        capacityBlocks,
        blockTokens,
        prefixCaching,
        ...eviction,
      }),
      events: wantsEvents && prefixCaching ? createKvEventBuffer(undefined, namedEventsOnly) : null,
      sequenceOf: new Int32Array(16).fill(-1),
      chains: [],
      requests: [],
    }),
    open(state, slot, chain, request) {
      if (slot >= state.sequenceOf.length) widen(state, slot);
      state.sequenceOf[slot] = -1;
      state.chains[slot] = chain;
      state.requests[slot] = requestOfDispatch(request);
    },
    available: (state) => availableBlocks(state.pool),
    free: (state) => freeBlocks(state.pool),
    anonymousLead: (state, limit) => anonymousLead(state.pool.cache, limit),
    admit(state, slot, tokens) {
      const { pool } = state;
      const chain = state.chains[slot] ?? nothing;
      // Behind what is found the chain is hidden until it is computed.
      const found = chain.length === 0 ? 0 : matchPrefix(pool, chain, chain.length);
      let sequence: number;
      try {
        sequence = openSequence(pool, chain, found, tokens, Number.POSITIVE_INFINITY, state.events);
      } catch (error) {
        throw during(error, `to admit request ${state.requests[slot]}`);
      }
      if (sequence < 0) return blocksRefused;
      state.sequenceOf[slot] = sequence;
      return sequenceHitTokens(pool, sequence);
    },
    grow(state, blocks) {
      const { pool } = state;
      const short = blocks - freeBlocks(pool);
      try {
        if (short > 0) evictCached(pool, short, state.events);
      } catch (error) {
        throw during(error, `for ${blocks} more blocks of the running requests`);
      }
      if (blocks > freeBlocks(pool))
        throw new Error(`KV pool: growth by ${blocks} blocks with ${freeBlocks(pool)} free of ${pool.capacityBlocks}`);
      pool.privateBlocks += blocks;
    },
    computed(state, slot, tokens) {
      const chain = state.chains[slot];
      if (chain === null || chain === undefined) return;
      const { pool } = state;
      const sequence = state.sequenceOf[slot] as number;
      const full = Math.min(chain.length, Math.floor(tokens / pool.blockTokens));
      try {
        if (full > (pool.identified[sequence] as number)) commitSequence(pool, sequence, chain, full, state.events);
      } catch (error) {
        throw during(error, `to keep the blocks of request ${state.requests[slot]}`);
      }
    },
    release(state, slot, blocks, tokens) {
      const { pool } = state;
      const sequence = state.sequenceOf[slot] as number;
      const grown = blocks - sequenceBlocks(pool, sequence);
      if (grown > 0) {
        pool.privates[sequence] = (pool.privates[sequence] as number) + grown;
        pool.tokens[sequence] = tokens;
      }
      try {
        keepAnswer(state, slot, sequence, tokens);
        releaseSequence(pool, sequence, state.events);
        const beyond = pool.cache.evictableBlocks - cacheBlocks;
        if (beyond > 0) evictCached(pool, beyond, state.events);
      } catch (error) {
        throw during(error, `to release the blocks of request ${state.requests[slot]}`);
      }
      state.sequenceOf[slot] = -1;
    },
    close(state, slot) {
      state.chains[slot] = null;
    },
    clear: (state) => clearBlockPool(state.pool, state.events),
    match: (state, chain) => matchPrefix(state.pool, chain, chain.length),
    pendingEvents: (state) => state.events?.length ?? 0,
    takeEvents(state): KvEventColumns {
      const events = state.events as KvEventBuffer;
      const { length } = events;
      // One piece of memory for the four columns: there are many small batches.
      const memory = new ArrayBuffer(length * 21);
      const taken = {
        kinds: new Uint8Array(memory, length * 20, length),
        identities: new Float64Array(memory, 0, length),
        parents: new Float64Array(memory, length * 8, length),
        blocks: new Int32Array(memory, length * 16, length),
      };
      taken.kinds.set(events.kinds.subarray(0, length));
      taken.identities.set(events.identities.subarray(0, length));
      taken.parents.set(events.parents.subarray(0, length));
      taken.blocks.set(events.blocks.subarray(0, length));
      clearKvEvents(events);
      return taken;
    },
    takeRemovals({ events }, named) {
      if (events === null) return 0;
      const { kinds, identities, blocks, length } = events;
      let removed = 0;
      let count = 0;
      for (let row = 0; row < length; row++) {
        const identity = identities[row] as number;
        if (kinds[row] !== KV_REMOVED || (identity > 0 && count === named.length)) return -1;
        removed += blocks[row] as number;
        if (identity > 0) named[count++] = identity;
      }
      clearKvEvents(events);
      named.fill(0, count);
      return removed;
    },
  };
}

/** What decoding has filled of the blocks behind the prompt, as far as the chain goes: the session's next prompt will ask for them. */
function keepAnswer({ pool, chains, events }: EnginePool, slot: number, sequence: number, tokens: number): void {
  const chain = chains[slot];
  if (chain === null || chain === undefined) return;
  const full = Math.min(chain.length, Math.floor(tokens / pool.blockTokens));
  if (full <= (pool.identified[sequence] as number)) return;
  pool.tokens[sequence] = Math.max(pool.tokens[sequence] as number, tokens);
  commitSequence(pool, sequence, chain, full, events);
}

const nothing = new Float64Array(0);

/** An eviction policy's error with what it was asked for: the pool knows the request, the policy does not. */
function during(error: unknown, what: string): KernelError {
  const reason = error instanceof KernelError ? error.reason : error instanceof Error ? error.message : String(error);
  const named = new KernelError('handler-failed', `${reason} (${what})`, {}, error);
  if (error instanceof Error && error.stack !== undefined) named.stack = error.stack.replace(error.message, named.message);
  return named;
}

function widen(state: EnginePool, slot: number): void {
  const wider = new Int32Array(Math.max(slot + 1, state.sequenceOf.length * 2)).fill(-1);
  wider.set(state.sequenceOf);
  state.sequenceOf = wider;
}
