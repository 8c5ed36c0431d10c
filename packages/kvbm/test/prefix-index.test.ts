/** Goal: the router's index answers as a trie with a set of workers at each node does. Method: random late events and look-ups on both. */
import {
  applyKvEvents,
  chainIdentity,
  createKvEventBuffer,
  createPrefixIndex,
  indexedBlocks,
  insertBlock,
  KV_CLEARED,
  KV_REMOVED,
  KV_STORED,
  overlapBlocks,
  pushKvEvent,
} from '@braess/kvbm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

interface TrieNode {
  holders: Set<number>;
  children: Map<number, TrieNode>;
}

const emptyNode = (): TrieNode => ({ holders: new Set(), children: new Map() });

function nodeAt(root: TrieNode, path: number[]): TrieNode {
  let node = root;
  for (const content of path) {
    let child = node.children.get(content);
    if (!child) node.children.set(content, (child = emptyNode()));
    node = child;
  }
  return node;
}

function trieOverlap(root: TrieNode, path: number[], worker: number): number {
  let node: TrieNode | undefined = root;
  let count = 0;
  for (const content of path) {
    node = node.children.get(content);
    if (!node?.holders.has(worker)) break;
    count++;
  }
  return count;
}

function clearTrie(node: TrieNode, worker: number): void {
  node.holders.delete(worker);
  for (const child of node.children.values()) clearTrie(child, worker);
}

function trieBlocks(node: TrieNode, worker: number): number {
  let count = node.holders.has(worker) ? 1 : 0;
  for (const child of node.children.values()) count += trieBlocks(child, worker);
  return count;
}

const identitiesOf = (path: number[]): Float64Array => {
  const out = new Float64Array(path.length);
  path.forEach((content, index) => {
    out[index] = chainIdentity(index === 0 ? 0 : out[index - 1]!, content);
  });
  return out;
};

const path = fc.array(fc.nat(2), { minLength: 1, maxLength: 7 });

describe('prefix index', () => {
  it.each([1, 6, 32, 33, 70, 5120])('answers as a trie does for %d workers', (workers) => {
    const worker = fc.oneof(fc.nat(Math.min(5, workers - 1)), fc.nat(workers - 1));
    const event = fc.record({ kind: fc.constantFrom(KV_STORED, KV_STORED, KV_STORED, KV_STORED, KV_REMOVED, KV_CLEARED), worker, path });
    fc.assert(
      fc.property(fc.array(event, { maxLength: 80, size: 'max' }), fc.array(path, { minLength: 1, maxLength: 8 }), (events, asked) => {
        const index = createPrefixIndex(workers);
        const root = emptyNode();
        const buffer = createKvEventBuffer();
        for (const one of events) {
          const chain = identitiesOf(one.path);
          buffer.length = 0;
          // A stored event brings its whole path, a removed one only its end, so that gaps in the middle arise as with real evictions.
          if (one.kind === KV_STORED) for (const identity of chain) pushKvEvent(buffer, KV_STORED, identity, 0, 1);
          else pushKvEvent(buffer, one.kind, one.kind === KV_REMOVED ? chain.at(-1)! : 0, 0, 1);
          pushKvEvent(buffer, KV_STORED, 0, 0, 9);
          applyKvEvents(index, one.worker, buffer);
          if (one.kind === KV_STORED)
            for (let end = 1; end <= one.path.length; end++) nodeAt(root, one.path.slice(0, end)).holders.add(one.worker);
          else if (one.kind === KV_REMOVED) nodeAt(root, one.path).holders.delete(one.worker);
          else clearTrie(root, one.worker);
        }
        const counts = new Int32Array(workers).fill(99);
        const involved = [...new Set(events.map((one) => one.worker))];
        for (const one of asked) {
          const most = overlapBlocks(index, identitiesOf(one), one.length, counts);
          const expected = involved.map((number) => trieOverlap(root, one, number));
          expect(involved.map((number) => counts[number])).toEqual(expected);
          expect(most).toBe(Math.max(0, ...expected));
          expect(counts.filter((count) => count > 0).length).toBe(expected.filter((count) => count > 0).length);
        }
        for (const number of involved) expect(indexedBlocks(index, number)).toBe(trieBlocks(root, number));
      }),
      { numRuns: 60, seed: 11 },
    );
  });

  it('holds nothing after all was removed, and reuses its rows', () => {
    const index = createPrefixIndex(40);
    const buffer = createKvEventBuffer();
    for (let round = 0; round < 3; round++) {
      for (const kind of [KV_STORED, KV_REMOVED]) {
        buffer.length = 0;
        for (let identity = 1; identity <= 500; identity++) pushKvEvent(buffer, kind, identity, 0, 1);
        applyKvEvents(index, 39, buffer);
      }
    }
    expect([index.blocks, index.table.count, index.rows, index.idleEvents]).toEqual([0, 0, 500, 0]);
  });

  it('counts repeated and unknown events, and blocks over its limit', () => {
    const index = createPrefixIndex(2, 3);
    for (const identity of [1, 2, 3, 4, 1]) insertBlock(index, 0, identity);
    expect([index.blocks, index.droppedBlocks, index.idleEvents]).toEqual([3, 1, 1]);
    const buffer = createKvEventBuffer();
    pushKvEvent(buffer, KV_REMOVED, 77, 0, 1);
    applyKvEvents(index, 1, buffer);
    expect(index.idleEvents).toBe(2);
  });

  it('refuses workers and events it cannot mean', () => {
    expect(() => createPrefixIndex(65_537)).toThrow(/65537 workers/);
    const index = createPrefixIndex(2);
    const buffer = createKvEventBuffer(1);
    pushKvEvent(buffer, 9, 5, 0, 1);
    expect(() => pushKvEvent(buffer, 1, 5, 0, 1)).toThrow(/limit of 1/);
    expect(() => applyKvEvents(index, 2, buffer)).toThrow(/worker 2 is not in 0..1/);
    expect(() => applyKvEvents(index, 0, buffer)).toThrow(/event kind 9 of worker 0/);
  });
});
