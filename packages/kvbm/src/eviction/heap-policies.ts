import { widenFloat64, widenInt32 } from '../columns.js';
import type { BuiltInEvictionPolicy, CacheView } from '../eviction.js';
import { createNodeHeap, heapPush, heapRemove, heapTop, type NodeHeap, reserveNodeHeap } from './node-heap.js';

/** State of the policies that keep the evictable nodes in a heap; the columns a policy does not use stay zero. */
interface HeapState {
  heap: NodeHeap;
  /** Counts releases and insertions: the tie-breaker, and the age of fifo and lineage. */
  clock: number;
  /** Stamp at which each node was stored. */
  storedAt: Float64Array;
  /** Stamp at which each node was last released. */
  releasedAt: Float64Array;
  /** References ever taken, the first included. */
  frequency: Int32Array;
  /** Nodes in the cache whose parent this node is. */
  children: Int32Array;
  /** Ageing level of cost-aware: the priority of the last block evicted. */
  level: number;
  costPerDepth: number;
}

function createState(_capacityBlocks: number, nodes: number, parameters: Readonly<Record<string, number>>): HeapState {
  return {
    heap: createNodeHeap(nodes),
    clock: 0,
    storedAt: new Float64Array(nodes),
    releasedAt: new Float64Array(nodes),
    frequency: new Int32Array(nodes),
    children: new Int32Array(nodes),
    level: 0,
    costPerDepth: parameters.costPerDepth ?? 0,
  };
}

function reserve(state: HeapState, nodes: number): void {
  reserveNodeHeap(state.heap, nodes);
  state.storedAt = widenFloat64(state.storedAt, nodes);
  state.releasedAt = widenFloat64(state.releasedAt, nodes);
  state.frequency = widenInt32(state.frequency, nodes);
  state.children = widenInt32(state.children, nodes);
}

function stored(state: HeapState, _view: CacheView, node: number): void {
  state.storedAt[node] = ++state.clock;
  state.frequency[node] = 1;
}

function acquired(state: HeapState, _view: CacheView, node: number): void {
  state.frequency[node]!++;
  heapRemove(state.heap, node);
}

function removed(state: HeapState, _view: CacheView, node: number): void {
  heapRemove(state.heap, node);
}

function victim(state: HeapState): number {
  return heapTop(state.heap);
}

/** First in, first out: the block stored longest ago, however often it was hit since. An extent counts as stored when its sequence releases it. */
export const fifoPolicy: BuiltInEvictionPolicy<HeapState> = {
  name: 'fifo',
  description: 'The block stored longest ago, however often it was hit since.',
  parameters: {},
  createState,
  reserve,
  stored,
  acquired,
  released: (state, _view, node) => heapPush(state.heap, node, state.storedAt[node]!, 0),
  removed,
  victim,
};

/** Least frequently used: fewest references since it was stored; ties by the oldest release. */
export const lfuPolicy: BuiltInEvictionPolicy<HeapState> = {
  name: 'lfu',
  description: 'The block with the fewest references since it was stored.',
  parameters: {},
  createState,
  reserve,
  stored,
  acquired,
  released: (state, _view, node) => heapPush(state.heap, node, state.frequency[node]!, ++state.clock),
  removed,
  victim,
};

/**
 * Leaf first: only blocks without a child in the cache are candidates, so no cached block is ever cut off from its prefix; among the leaves the oldest
 * release goes first. In a tier that is filled on eviction (children arrive before parents) the links are unknown and this is plain lru.
 */
export const lineagePolicy: BuiltInEvictionPolicy<HeapState> = {
  name: 'lineage',
  description: 'Leaves first, so that no block is cut off from its prefix; among them the oldest release.',
  parameters: {},
  createState,
  reserve,
  stored: storedAsChild,
  acquired,
  released(state, _view, node) {
    state.releasedAt[node] = ++state.clock;
    if (state.children[node] === 0) pushByAge(state, node);
  },
  removed(state, view, node) {
    heapRemove(state.heap, node);
    const parent = leafLeft(state, view, node);
    if (parent >= 0) pushByAge(state, parent);
  },
  victim,
};

/**
 * Least worth first, among leaves: worth = level + references x cost of computing the block again, where level is the worth of the last block evicted, so
 * that old worth fades (GreedyDual-Size-Frequency: Cherkasova, HP Labs report HPL-98-69, 1998; all blocks have one size here). The cost of a block
 * grows with its depth, for attention reads all blocks before it: 1 + costPerDepth x depth. Default: for Llama-3.1-8B (32 layers of width 4,096) a
 * token costs 2 x 8e9 FLOPs in the weights and 4 x 32 x 4,096 for each token before it, 16 of them a block: 8.4e6 / 1.6e10 = 0.0005 a block.
 */
export const costAwarePolicy: BuiltInEvictionPolicy<HeapState> = {
  name: 'cost-aware',
  description: 'The block worth least: references times the cost of computing it again, fading with age; leaves first.',
  parameters: { costPerDepth: 0.0005 },
  createState,
  reserve,
  stored: storedAsChild,
  acquired,
  released(state, view, node) {
    state.releasedAt[node] = ++state.clock;
    // The worth is fixed at the release, also for a block that becomes a leaf later.
    state.heap.key[node] = state.level + state.frequency[node]! * (1 + state.costPerDepth * view.depth[node]!);
    if (state.children[node] === 0) pushByWorth(state, node);
  },
  removed(state, view, node) {
    if (heapTop(state.heap) === node) state.level = Math.max(state.level, state.heap.key[node]!);
    heapRemove(state.heap, node);
    const parent = leafLeft(state, view, node);
    if (parent >= 0) pushByWorth(state, parent);
  },
  victim,
  shrunk(state, _view, node) {
    state.level = Math.max(state.level, state.heap.key[node]!);
  },
};

function pushByAge(state: HeapState, node: number): void {
  heapPush(state.heap, node, state.releasedAt[node]!, 0);
}

function pushByWorth(state: HeapState, node: number): void {
  heapPush(state.heap, node, state.heap.key[node]!, state.releasedAt[node]!);
}

function storedAsChild(state: HeapState, view: CacheView, node: number): void {
  stored(state, view, node);
  state.children[node] = 0;
  const parent = view.parent[node]!;
  if (parent < 0) return;
  state.children[parent]!++;
  heapRemove(state.heap, parent);
}

/** Counts the leaf off its parent; returns the parent when it has become an evictable leaf, else -1. */
function leafLeft(state: HeapState, view: CacheView, node: number): number {
  const parent = view.parent[node]!;
  if (parent < 0 || --state.children[parent]! > 0) return -1;
  return view.refs[parent] === 0 ? parent : -1;
}
