/** Goal: tiers keep what they should. Method: small cases by hand, and a plain LRU. */
import {
  checkBlockCache,
  clearTierStore,
  createBlockPool,
  createKvEventBuffer,
  createOffloadList,
  createTierStore,
  evictionPolicyNames,
  KV_REMOVED,
  listOffloads,
  matchTier,
  openSequence,
  pinTierBlock,
  releaseSequence,
  storeAllInTier,
  storeAnonymous,
  storeInTier,
  type TierStore,
  tierHolds,
  unpinTierBlock,
} from '@braess/kvbm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const tierOf = (identities: number[], capacityBlocks = 64): TierStore => {
  const store = createTierStore({ name: 'G2', capacityBlocks });
  for (const identity of identities) storeInTier(store, identity, 0, null);
  return store;
};

/** Those of the blocks 1 to 160 that the tier holds. */
const heldOf = (store: TierStore): string =>
  Array.from({ length: 160 }, (_, index) => index + 1)
    .filter((identity) => tierHolds(store, identity))
    .join(' ');

describe('tier store', () => {
  it('keeps the most recently stored blocks, as a plain list does, with every policy conserving blocks', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...evictionPolicyNames()),
        fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 200, size: 'max' }),
        (policy, offers) => {
          const store = createTierStore({ name: 'G2', capacityBlocks: 10, policy });
          let list: number[] = [];
          for (const identity of offers) {
            expect(storeInTier(store, identity, identity - 1, null)).toBe(true);
            list = [...list.filter((other) => other !== identity), identity].slice(-10);
            expect(tierHolds(store, identity)).toBe(true);
            expect(checkBlockCache(store.cache)).toEqual([]);
            expect(store.storedBlocks - store.evictedBlocks).toBe(store.cache.usedBlocks);
          }
          if (policy === 'lru')
            for (let identity = 1; identity <= 30; identity++) expect(tierHolds(store, identity)).toBe(list.includes(identity));
        },
      ),
      { numRuns: 200, seed: 3 },
    );
  });

  it('keeps of whole lists what it keeps of their blocks one by one, in the same order of eviction, also with pins and blocks named twice', () => {
    const identity = fc.integer({ min: 1, max: 160 });
    const lists = fc.array(fc.array(identity, { minLength: 1, maxLength: 150, size: 'max' }), { minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(lists, fc.array(identity, { maxLength: 30 }), (offers, pinned) => {
        const [whole, single] = [tierOf([], 80), tierOf([], 80)];
        for (const [number, list] of offers.entries()) {
          const identities = Float64Array.from(list);
          storeAllInTier(whole, identities, new Float64Array(list.length), null);
          for (const one of list) storeInTier(single, one, 0, null);
          expect(checkBlockCache(whole.cache)).toEqual([]);
          expect(heldOf(whole)).toBe(heldOf(single));
          expect(whole.storedBlocks - whole.evictedBlocks).toBe(whole.cache.usedBlocks);
          if (number === 0) for (const one of pinned) for (const store of [whole, single]) pinTierBlock(store, one);
        }
        // What goes, one after another, as more comes.
        for (let next = 1000; next < 1080; next++) {
          for (const store of [whole, single]) storeInTier(store, next, 0, null);
          expect(heldOf(whole)).toBe(heldOf(single));
        }
      }),
      { numRuns: 60, seed: 4 },
    );
  });

  it('never evicts what a transfer reads, and counts a refusal when nothing else is left', () => {
    const store = tierOf([1, 2], 2);
    const pins = [pinTierBlock(store, 1), pinTierBlock(store, 2)];
    expect(storeInTier(store, 3, 0, null)).toBe(false);
    expect(store.refusedBlocks).toBe(1);
    unpinTierBlock(store, pins[0]!);
    expect(storeInTier(store, 3, 0, null)).toBe(true);
    expect([1, 2, 3].map((identity) => tierHolds(store, identity))).toEqual([false, true, true]);
    expect(pinTierBlock(store, 1)).toBe(-1);
  });

  it('is filled write-through by what HBM stores and on eviction by what it evicts, anonymous blocks included', () => {
    const pool = createBlockPool({ capacityBlocks: 6, blockTokens: 4 });
    const events = createKvEventBuffer();
    const chain = Float64Array.of(101, 102, 103);
    releaseSequence(pool, openSequence(pool, chain, 3, 21, 21, events), events);
    const list = createOffloadList();
    const through = tierOf([]);
    listOffloads(through, events, 0, 'write-through', list);
    expect([...list.identities.subarray(0, list.length)]).toEqual([101, 102, 103]);
    expect([...list.parents.subarray(0, list.length)]).toEqual([0, 101, 102]);
    expect(list.anonymousBlocks).toBe(2);
    const from = events.length;
    openSequence(pool, new Float64Array(0), 0, 20, 20, events);
    listOffloads(tierOf([103]), events, from, 'on-eviction', list);
    expect([[...list.identities.subarray(0, list.length)], list.anonymousBlocks]).toEqual([[102], 2]);
  });

  it('lets a block into a filtered tier at its second offer', () => {
    const store = createTierStore({ name: 'G3', capacityBlocks: 8, minimumFrequency: 2 });
    const events = createKvEventBuffer();
    const upper = tierOf([], 1);
    const list = createOffloadList();
    const wanted: number[][] = [];
    for (const identity of [1, 2, 1, 3, 2]) {
      const from = events.length;
      storeInTier(upper, identity, 0, events);
      listOffloads(store, events, from, 'on-eviction', list);
      wanted.push([...list.identities.subarray(0, list.length)]);
    }
    expect(wanted).toEqual([[], [], [], [1], []]);
    // Blocks 1, 2 and 3 were each offered once too early.
    expect(store.filteredBlocks).toBe(3);
  });

  it('holds anonymous blocks as capacity only', () => {
    const store = tierOf([1, 2, 3], 4);
    const events = createKvEventBuffer();
    expect(storeAnonymous(store, 3, events)).toBe(true);
    expect([...events.identities.subarray(0, 2)]).toEqual([1, 2]);
    expect([events.kinds[0], store.cache.usedBlocks]).toEqual([KV_REMOVED, 4]);
    expect(storeAnonymous(store, 900, null)).toBe(true);
    expect([store.cache.usedBlocks, tierHolds(store, 3)]).toEqual([4, false]);
    clearTierStore(store, events);
    expect([store.cache.usedBlocks, checkBlockCache(store.cache)]).toEqual([0, []]);
  });

  it('matches without a gap', () => {
    expect(matchTier(tierOf([5, 6, 8]), Float64Array.of(4, 5, 6, 7, 8), 1, 5)).toBe(2);
  });
});
