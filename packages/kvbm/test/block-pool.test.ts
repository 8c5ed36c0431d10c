/**
 * Goal: the pool does what a plain pool of block objects does, for every policy. Method: random sequences over a small tree of prefixes, run in step through the
 * pool and through an independent implementation (naive-pool.ts), comparing admissions, hits, counts and each evicted block in order.
 */
import {
  activeBlocks,
  anonymousLead,
  type BlockPool,
  cachedBlocks,
  chainIdentity,
  checkBlockPool,
  clearBlockPool,
  commitSequence,
  createBlockPool,
  createKvEventBuffer,
  evictCached,
  evictionPolicyNames,
  freeBlocks,
  growSequence,
  KV_CLEARED,
  KV_REMOVED,
  KV_STORED,
  matchPrefix,
  openSequence,
  releaseSequence,
  resumeSequence,
  sequenceHitTokens,
  sequenceTokens,
  suspendSequence,
} from '@braess/kvbm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { NaivePool, type Sequence } from './naive-pool.js';

const BLOCK_TOKENS = 4;
const EMPTY = new Float64Array(0);

/** One path through a binary tree of contents: few distinct prefixes, so that random requests share them. */
function chainOf(path: number, length: number): { names: string[]; identities: Float64Array } {
  const names: string[] = [];
  const identities = new Float64Array(length);
  let name = '';
  for (let index = 0; index < length; index++) {
    const content = (path >> index) & 1;
    name += content;
    names.push(name);
    identities[index] = chainIdentity(index === 0 ? 0 : identities[index - 1]!, content);
  }
  return { names, identities };
}

interface Pair {
  number: number;
  naive: Sequence;
  names: string[];
  identities: Float64Array;
  suspended: boolean;
}

const step = fc.record({
  action: fc.constantFrom('open', 'open', 'open', 'grow', 'grow', 'close', 'close', 'suspend', 'resume'),
  path: fc.nat(15),
  chainLength: fc.nat(6),
  tokens: fc.integer({ min: 1, max: 40 }),
  chunk: fc.constantFrom(3, 8, Number.POSITIVE_INFINITY),
  choice: fc.nat(1000),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

function runInStep(policy: string, capacityBlocks: number, steps: Step[]): void {
  const costPerDepth = 0.3;
  const policyParameters = policy === 'cost-aware' ? { costPerDepth } : {};
  const pool = createBlockPool({ capacityBlocks, blockTokens: BLOCK_TOKENS, policy, policyParameters });
  const naive = new NaivePool(capacityBlocks, BLOCK_TOKENS, policy, costPerDepth);
  const nameOf = new Map<number, string>();
  const events = createKvEventBuffer();
  const pairs: Pair[] = [];
  for (const one of steps) {
    act(pool, naive, pairs, one, nameOf, events);
    expect(checkBlockPool(pool)).toEqual([]);
    expect([activeBlocks(pool), cachedBlocks(pool), freeBlocks(pool)]).toEqual([naive.active, naive.idle, naive.free]);
    const removed: (string | null)[] = [];
    for (let row = 0; row < events.length; row++) {
      if (events.kinds[row] !== KV_REMOVED) continue;
      for (let count = 0; count < events.blocks[row]!; count++) removed.push(nameOf.get(events.identities[row]!) ?? null);
    }
    expect(removed).toEqual(naive.removed);
    if (one.choice % 4 === 0) checkLead(pool, policy);
  }
}

/** What is evicted before the first block with a name, against evicting all of a copy. */
function checkLead(pool: BlockPool, policy: string): void {
  const copy = structuredClone(pool);
  const events = createKvEventBuffer();
  evictCached(copy, Number.POSITIVE_INFINITY, events);
  let lead = 0;
  for (let row = 0; row < events.length && events.identities[row]! <= 0; row++) lead += events.blocks[row]!;
  for (const limit of [1, 3, 1000]) expect(anonymousLead(pool.cache, limit)).toBe(policy === 'lru' ? Math.min(limit, lead) : 0);
}

function act(
  pool: BlockPool,
  naive: NaivePool,
  pairs: Pair[],
  one: Step,
  nameOf: Map<number, string>,
  events: ReturnType<typeof createKvEventBuffer>,
): void {
  if (one.action === 'open') {
    const { names, identities } = chainOf(one.path, one.chainLength);
    names.forEach((name, index) => {
      nameOf.set(identities[index]!, name);
    });
    const number = openSequence(pool, identities, names.length, one.tokens, one.chunk, events);
    const other = naive.open(names, one.tokens, one.chunk);
    expect(number >= 0).toBe(other !== null);
    if (!other) return;
    expect(sequenceHitTokens(pool, number)).toBe(other.hits * BLOCK_TOKENS);
    pairs.push({ number, naive: other, names, identities, suspended: false });
    return;
  }
  const wanted = pairs.filter((pair) => one.action === 'close' || pair.suspended === (one.action === 'resume'));
  const pair = wanted[one.choice % Math.max(1, wanted.length)];
  if (!pair) return;
  const { number, names, identities } = pair;
  if (one.action === 'grow') {
    const tokens = pair.naive.tokens + (one.tokens % 9);
    expect(growSequence(pool, number, identities, names.length, tokens, events)).toBe(naive.grow(pair.naive, names, tokens));
    expect(sequenceTokens(pool, number)).toBe(pair.naive.tokens);
  } else if (one.action === 'close') {
    releaseSequence(pool, number, events);
    naive.close(pair.naive);
    pairs.splice(pairs.indexOf(pair), 1);
  } else if (one.action === 'suspend') {
    suspendSequence(pool, number, events);
    naive.suspend(pair.naive);
    pair.suspended = true;
  } else {
    const resumed = resumeSequence(pool, number, identities, names.length, one.tokens, one.chunk, events);
    expect(resumed).toBe(naive.resume(pair.naive, names, one.tokens, one.chunk));
    if (!resumed) return;
    expect(sequenceHitTokens(pool, number)).toBe(pair.naive.hits * BLOCK_TOKENS);
    pair.suspended = false;
  }
}

describe.each(evictionPolicyNames())('block pool with %s', (policy) => {
  it('does in step what a pool of block objects does', () => {
    fc.assert(
      fc.property(fc.integer({ min: 6, max: 40 }), fc.array(step, { minLength: 20, maxLength: 120, size: 'max' }), (capacity, steps) => {
        runInStep(policy, capacity, steps);
      }),
      { numRuns: 100, seed: 7, endOnFailure: true },
    );
  });
});

describe('block pool', () => {
  it('counts growth of a running sequence in the cache, so that the next turn of the session finds it', () => {
    const pool = createBlockPool({ capacityBlocks: 32, blockTokens: BLOCK_TOKENS });
    const { identities } = chainOf(0b1011, 8);
    const first = openSequence(pool, identities, 8, 16, Number.POSITIVE_INFINITY, null);
    for (let tokens = 17; tokens <= 32; tokens++) expect(growSequence(pool, first, identities, 8, tokens, null)).toBe(true);
    releaseSequence(pool, first, null);
    expect(matchPrefix(pool, identities, 8)).toBe(8);
    const second = openSequence(pool, identities, 8, 40, Number.POSITIVE_INFINITY, null);
    expect(sequenceHitTokens(pool, second)).toBe(32);
  });

  it('leaves the last token of a fully cached prompt to compute', () => {
    const pool = createBlockPool({ capacityBlocks: 32, blockTokens: BLOCK_TOKENS });
    const { identities } = chainOf(0, 4);
    releaseSequence(pool, openSequence(pool, identities, 4, 16, 16, null), null);
    expect(sequenceHitTokens(pool, openSequence(pool, identities, 4, 16, 16, null))).toBe(12);
  });

  it('refuses what does not fit and changes nothing', () => {
    const pool = createBlockPool({ capacityBlocks: 4, blockTokens: BLOCK_TOKENS });
    const held = openSequence(pool, EMPTY, 0, 9, Number.POSITIVE_INFINITY, null);
    const before = structuredClone(pool);
    expect(openSequence(pool, EMPTY, 0, 5, Number.POSITIVE_INFINITY, null)).toBe(-1);
    expect(growSequence(pool, held, EMPTY, 0, 17, null)).toBe(false);
    expect(pool).toEqual(before);
  });

  it('hides blocks behind a shorter chain until they are committed', () => {
    const pool = createBlockPool({ capacityBlocks: 32, blockTokens: BLOCK_TOKENS });
    const { identities } = chainOf(5, 4);
    const sequence = openSequence(pool, identities, 0, 18, 18, null);
    expect(matchPrefix(pool, identities, 4)).toBe(0);
    commitSequence(pool, sequence, identities, 3, null);
    expect(matchPrefix(pool, identities, 4)).toBe(3);
    commitSequence(pool, sequence, identities, 4, null);
    expect([matchPrefix(pool, identities, 4), activeBlocks(pool), checkBlockPool(pool)]).toEqual([4, 5, []]);
  });

  it('shares one copy when two sequences compute the same prefix at the same time', () => {
    const pool = createBlockPool({ capacityBlocks: 32, blockTokens: BLOCK_TOKENS });
    const { identities } = chainOf(5, 4);
    const pair = [0, 0].map(() => openSequence(pool, identities, 0, 17, 17, null));
    expect(activeBlocks(pool)).toBe(10);
    for (const sequence of pair) commitSequence(pool, sequence, identities, 4, null);
    expect([activeBlocks(pool), checkBlockPool(pool)]).toEqual([6, []]);
  });

  it('evicts ahead of need, as many as there are', () => {
    const pool = createBlockPool({ capacityBlocks: 8, blockTokens: BLOCK_TOKENS });
    releaseSequence(pool, openSequence(pool, chainOf(5, 3).identities, 3, 13, 13, null), null);
    expect([evictCached(pool, 2, null), matchPrefix(pool, chainOf(5, 3).identities, 3), freeBlocks(pool)]).toEqual([2, 1, 7]);
    expect([evictCached(pool, Number.POSITIVE_INFINITY, null), freeBlocks(pool), pool.evictedBlocks]).toEqual([1, 8, 3]);
  });

  it('frees everything at once without prefix caching', () => {
    const pool = createBlockPool({ capacityBlocks: 8, blockTokens: BLOCK_TOKENS, prefixCaching: false });
    const { identities } = chainOf(0, 4);
    releaseSequence(pool, openSequence(pool, identities, 4, 20, 20, null), null);
    expect([freeBlocks(pool), cachedBlocks(pool), matchPrefix(pool, identities, 4)]).toEqual([8, 0, 0]);
  });

  it('gives the same results after a restore by copy', () => {
    const pool = createBlockPool({ capacityBlocks: 12, blockTokens: BLOCK_TOKENS, policy: 's3-fifo' });
    for (let path = 0; path < 8; path++) releaseSequence(pool, openSequence(pool, chainOf(path, 5).identities, 5, 22, 22, null), null);
    const copy = structuredClone(pool);
    const [events, copyEvents] = [createKvEventBuffer(), createKvEventBuffer()];
    for (let path = 3; path < 16; path++) {
      const chain = chainOf(path, 5).identities;
      releaseSequence(pool, openSequence(pool, chain, 5, 22, 22, events), events);
      releaseSequence(copy, openSequence(copy, chain, 5, 22, 22, copyEvents), copyEvents);
    }
    expect(copy).toEqual(pool);
    expect(copyEvents).toEqual(events);
  });

  it('reports stored with the parent, and cleared', () => {
    const pool = createBlockPool({ capacityBlocks: 8, blockTokens: BLOCK_TOKENS });
    const { identities } = chainOf(1, 2);
    const events = createKvEventBuffer();
    openSequence(pool, identities, 2, 9, 9, events);
    clearBlockPool(pool, events);
    expect([...events.kinds.subarray(0, events.length)]).toEqual([KV_STORED, KV_STORED, KV_CLEARED]);
    expect([...events.identities.subarray(0, 2)]).toEqual([...identities]);
    expect([...events.parents.subarray(0, 2)]).toEqual([0, identities[0]]);
    expect([activeBlocks(pool), freeBlocks(pool), checkBlockPool(pool)]).toEqual([0, 8, []]);
  });

  it('names the broken invariant', () => {
    const pool = createBlockPool({ capacityBlocks: 8, blockTokens: BLOCK_TOKENS });
    openSequence(pool, chainOf(1, 2).identities, 2, 9, 9, null);
    pool.cache.refs[0] = 2;
    pool.privateBlocks = 3;
    expect(checkBlockPool(pool)).toEqual(['block pool: 1 private blocks, counted 3', 'block pool: node 0 has 2 references, 1 holders']);
  });

  it('throws at its limits with the fix', () => {
    expect(() => createBlockPool({ capacityBlocks: 0, blockTokens: 16 })).toThrow(/cache of 0 blocks/);
    expect(() => createBlockPool({ capacityBlocks: 8, blockTokens: 16, policy: 'lur' })).toThrow(/'lur': unknown; use one of lru, fifo/);
    expect(() => createBlockPool({ capacityBlocks: 8, blockTokens: 16, policyParameters: { k: 1 } })).toThrow(/unknown parameter 'k'/);
    const pool = createBlockPool({ capacityBlocks: 64, blockTokens: 16, sequenceLimit: 16 });
    for (let count = 0; count < 16; count++) openSequence(pool, EMPTY, 0, 1, 1, null);
    expect(() => openSequence(pool, EMPTY, 0, 1, 1, null)).toThrow(/16 sequences at a limit of 16/);
  });
});
