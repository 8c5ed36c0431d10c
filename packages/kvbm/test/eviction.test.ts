/** Goal: a policy of the user's own plugs in like the built-in ones, and a wrong one is named. Method: a copy of lru, a new policy, and broken ones. */
import {
  acquireNode,
  type BlockCache,
  createBlockCache,
  createKvEventBuffer,
  type EvictionPolicy,
  evictBlocks,
  evictionPolicy,
  evictionPolicyNames,
  findNode,
  registerEvictionPolicy,
  releaseNode,
  storeNode,
} from '@braess/kvbm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

interface StackState {
  stack: number[];
  skipped: number;
}

/** Most recently released first: the opposite of lru. */
const mruPolicy: EvictionPolicy<StackState> = {
  name: 'test-mru',
  parameters: { skip: 0 },
  createState: (_capacityBlocks, _nodes, parameters) => ({ stack: [], skipped: parameters.skip ?? 0 }),
  reserve() {},
  stored() {},
  acquired(state, _view, node) {
    state.stack = state.stack.filter((other) => other !== node);
  },
  released(state, _view, node) {
    state.stack.push(node);
  },
  removed(state, _view, node) {
    state.stack = state.stack.filter((other) => other !== node);
  },
  victim: (state) => state.stack.at(-1 - state.skipped) ?? -1,
};

function fill(cache: BlockCache, identities: number[]): void {
  for (const identity of identities) storeNode(cache, identity, -1, 0, 1, 0);
}

function evicted(cache: BlockCache, count: number): number[] {
  const events = createKvEventBuffer();
  evictBlocks(cache, count, events);
  return [...events.identities.subarray(0, events.length)];
}

describe('eviction policies', () => {
  it('are known by name', () => {
    expect(evictionPolicyNames().slice(0, 6)).toEqual(['lru', 'fifo', 'lfu', 's3-fifo', 'cost-aware', 'lineage']);
    expect(() => evictionPolicy('none')).toThrow(/'none': unknown; use one of lru/);
  });

  it('can be the user’s own, with parameters', () => {
    registerEvictionPolicy(mruPolicy);
    registerEvictionPolicy(mruPolicy);
    const cache = createBlockCache(8, 'test-mru');
    fill(cache, [1, 2, 3]);
    expect(evicted(cache, 2)).toEqual([3, 2]);
    const skipping = createBlockCache(8, 'test-mru', { skip: 1 });
    fill(skipping, [1, 2, 3]);
    expect(evicted(skipping, 1)).toEqual([2]);
    expect(() => createBlockCache(8, 'test-mru', { skip: Number.NaN })).toThrow(/skip = NaN must be a finite number/);
    expect(() => registerEvictionPolicy({ ...mruPolicy })).toThrow(/'test-mru': the name is taken/);
  });

  it('give the same with lru called directly and through the interface', () => {
    registerEvictionPolicy({ ...evictionPolicy('lru'), name: 'test-lru-by-interface' });
    const step = fc.tuple(fc.constantFrom('use', 'use', 'hold', 'free', 'evict'), fc.integer({ min: 1, max: 40 }));
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
        const caches = ['lru', 'test-lru-by-interface'].map((name) => createBlockCache(30, name));
        for (const [action, identity] of steps) {
          const outcomes = caches.map((cache) => {
            const node = findNode(cache, identity);
            if (action === 'evict') return cache.evictableBlocks > 0 ? evicted(cache, 1) : [];
            if (node < 0) {
              if (action === 'use' && cache.usedBlocks < 30) storeNode(cache, identity, -1, 0, 1, 0);
            } else if (action === 'use') {
              acquireNode(cache, node);
              releaseNode(cache, node);
            } else if (action === 'hold' && cache.refs[node] === 0) acquireNode(cache, node);
            else if (action === 'free' && cache.refs[node] === 1) releaseNode(cache, node);
            return [cache.usedBlocks, cache.evictableBlocks];
          });
          expect(outcomes[1]).toEqual(outcomes[0]);
        }
        expect(caches[1]!.policyState).toEqual(caches[0]!.policyState);
      }),
      { numRuns: 100, seed: 2 },
    );
  });

  it.each([
    ['nothing', -1],
    ['a node out of range', 99],
    ['a fraction', 0.5],
    ['a referenced node', 1],
  ])('are stopped by name when they choose %s', (_what, wrong) => {
    const name = `test-wrong-${wrong}`;
    registerEvictionPolicy({ ...mruPolicy, name, victim: () => wrong });
    const cache = createBlockCache(8, name);
    fill(cache, [1, 2]);
    acquireNode(cache, findNode(cache, 2));
    expect(() => evicted(cache, 1)).toThrow(new RegExp(`'${name}': victim\\(\\) gave ${wrong}`));
  });

  it('are not asked for more than is evictable, nor blocks released twice', () => {
    const cache = createBlockCache(8);
    fill(cache, [1]);
    expect(() => evicted(cache, 2)).toThrow(/cannot evict 2, only 1 are unreferenced/);
    expect(() => releaseNode(cache, findNode(cache, 1))).toThrow(/block 1 was released more often than acquired/);
  });

  it('keep a hot block through a scan: s3-fifo does, lru does not', () => {
    const survives = (name: string): boolean => {
      const cache = createBlockCache(20, name);
      fill(cache, [1]);
      for (let hit = 0; hit < 3; hit++) {
        acquireNode(cache, findNode(cache, 1));
        releaseNode(cache, findNode(cache, 1));
      }
      for (let identity = 100; identity < 200; identity++) {
        if (cache.usedBlocks === 20) evictBlocks(cache, 1, null);
        fill(cache, [identity]);
      }
      return findNode(cache, 1) >= 0;
    };
    expect(['lru', 'fifo', 'lfu', 's3-fifo'].map(survives)).toEqual([false, false, true, true]);
  });
});
