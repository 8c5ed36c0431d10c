/** Goal: tiers keep what they should and the onboard plan is the best cut. Method: small cases by hand, a plain LRU, and exhaustive search over all cuts. */
import {
  checkBlockCache,
  clearTierStore,
  createBlockPool,
  createKvEventBuffer,
  createOffloadList,
  createOnboardPlan,
  createTierStore,
  evictionPolicyNames,
  KV_REMOVED,
  listOffloads,
  matchTier,
  openSequence,
  pinTierBlock,
  planOnboard,
  releaseSequence,
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

describe('onboard plan', () => {
  const question = { blockTokens: 16, blockBytes: 1000, pollDelayNs: 0, fromBlock: 0 };

  it('brings nothing when computing is cheaper, all when bringing is', () => {
    const sources = [{ store: tierOf([1, 2, 3]), bytesPerSecond: 1e9, latencyNs: 500 }];
    const asked = { ...question, chain: Float64Array.of(1, 2, 3, 4), chainLength: 4, promptTokens: 70 };
    const slow = planOnboard(asked, sources, (start, end) => (end - start) * 100, createOnboardPlan());
    // 3 blocks: 500 + 3 x 1,000 ns against 48 tokens x 100 ns.
    expect([slow.toBlock, slow.transferNs, slow.prefillNs, slow.recomputeNs, slow.blocksPerSource]).toEqual([3, 3500, 2200, 7000, [3]]);
    expect(planOnboard(asked, sources, (start, end) => (end - start) * 60, slow).toBlock).toBe(0);
    expect(slow.blocksPerSource).toEqual([0]);
    expect(planOnboard({ ...asked, pollDelayNs: 2000 }, sources, (start, end) => (end - start) * 100, slow).toBlock).toBe(0);
  });

  it('leaves the last token to compute', () => {
    const sources = [{ store: tierOf([1, 2]), bytesPerSecond: 1e12, latencyNs: 0 }];
    const asked = { ...question, chain: Float64Array.of(1, 2), chainLength: 2, promptTokens: 32 };
    expect(planOnboard(asked, sources, (start, end) => (end - start) * 1000, createOnboardPlan()).toBlock).toBe(1);
  });

  it('plans over more blocks than it has room for at first', () => {
    const identities = Array.from({ length: 300 }, (_, index) => index + 1);
    const sources = [{ store: tierOf(identities, 300), bytesPerSecond: 1e12, latencyNs: 0 }];
    const asked = { ...question, chain: Float64Array.from(identities), chainLength: 300, promptTokens: 4900 };
    const plan = planOnboard(asked, sources, (start, end) => (end - start) * 100, createOnboardPlan());
    expect([plan.toBlock, plan.blocksPerSource]).toEqual([300, [300]]);
  });

  it('finds the best cut of all', () => {
    const holder = fc.constantFrom(0, 1, 2, 3);
    const speed = fc.record({ bytesPerSecond: fc.constantFrom(1e8, 1e9, 1e10), latencyNs: fc.nat(9000) });
    fc.assert(
      fc.property(
        fc.array(holder, { minLength: 1, maxLength: 90, size: 'max' }),
        fc.array(speed, { minLength: 3, maxLength: 3 }),
        fc.nat(40),
        fc.nat(4),
        (holders, speeds, weight, fromBlock) => {
          const chain = Float64Array.from(holders, (_, index) => index + 1);
          const stores = [0, 1, 2].map((tier) =>
            tierOf(
              holders.flatMap((at, index) => (at === tier ? [index + 1] : [])),
              99,
            ),
          );
          const sources = stores.map((store, tier) => ({ store, ...speeds[tier]! }));
          const promptTokens = holders.length * 16 + 3;
          const prefillNs = (start: number, end: number) => (end - start) * 50 + Math.floor((weight * (end * end - start * start)) / 100);
          const asked = { ...question, chain, chainLength: chain.length, promptTokens, fromBlock, pollDelayNs: 77 };
          const plan = planOnboard(asked, sources, prefillNs, createOnboardPlan());
          let least = prefillNs(fromBlock * 16, promptTokens);
          for (let end = fromBlock + 1; end <= chain.length && holders[end - 1] !== 3; end++) {
            const taken = [0, 1, 2].map((tier) => holders.slice(fromBlock, end).filter((at) => at === tier).length);
            const times = taken.map((count, tier) =>
              count ? speeds[tier]!.latencyNs + (count * 1000 * 1e9) / speeds[tier]!.bytesPerSecond : 0,
            );
            least = Math.min(least, Math.ceil(77 + Math.max(...times)) + prefillNs(end * 16, promptTokens));
          }
          expect(plan.transferNs + plan.prefillNs).toBe(least);
          expect(plan.blocksPerSource.reduce((sum, count) => sum + count, 0)).toBe(plan.toBlock - fromBlock);
          for (let block = fromBlock; block < plan.toBlock; block++) expect(plan.sourceOf[block - fromBlock]).toBe(holders[block]);
        },
      ),
      { numRuns: 200, seed: 4 },
    );
  });
});
