import { widenInt32, widenUint8 } from '../columns.js';
import type { BuiltInEvictionPolicy, CacheView } from '../eviction.js';
import { createRecentIdentities, forgetIdentity, noteIdentity, type RecentIdentities } from '../recent-identities.js';

const SMALL = 1;
const MAIN = 2;
/** Hits are counted up to 3 (two bits), as in the paper. */
const MOST_HITS = 3;

/**
 * S3-FIFO (Yang, Zhang, Qiu, Yue, Vinayak: FIFO queues are all you need for cache eviction, SOSP 2023): a small queue of a tenth of the cache filters
 * blocks that are used once; those hit more than once move to the main queue, the others leave a ghost that sends them to the main queue when they
 * return. Here a block may be referenced when it comes up for eviction: it then goes to the head of its queue again.
 */
interface S3FifoState {
  /** Neighbours towards the newer and the older end, per node. */
  newer: Int32Array;
  older: Int32Array;
  queue: Uint8Array;
  hits: Uint8Array;
  /** Per queue (index SMALL or MAIN). */
  oldest: number[];
  newest: number[];
  blocks: number[];
  evictableNodes: number[];
  smallBlocks: number;
  ghosts: RecentIdentities;
}

export const s3FifoPolicy: BuiltInEvictionPolicy<S3FifoState> = {
  name: 's3-fifo',
  description: 'Blocks used once leave early through a small queue; those hit more than once move to the main one.',
  parameters: { smallShare: 0.1 },
  createState(capacityBlocks, nodes, parameters) {
    const smallBlocks = Math.max(1, Math.floor(capacityBlocks * (parameters.smallShare ?? 0)));
    return {
      newer: new Int32Array(nodes),
      older: new Int32Array(nodes),
      queue: new Uint8Array(nodes),
      hits: new Uint8Array(nodes),
      oldest: [-1, -1, -1],
      newest: [-1, -1, -1],
      blocks: [0, 0, 0],
      evictableNodes: [0, 0, 0],
      smallBlocks,
      ghosts: createRecentIdentities(capacityBlocks - smallBlocks),
    };
  },
  reserve(state, nodes) {
    state.newer = widenInt32(state.newer, nodes);
    state.older = widenInt32(state.older, nodes);
    state.queue = widenUint8(state.queue, nodes);
    state.hits = widenUint8(state.hits, nodes);
  },
  stored(state, view, node) {
    state.hits[node] = 0;
    const identity = view.identity[node]!;
    const returning = identity > 0 && forgetIdentity(state.ghosts, identity);
    enqueue(state, view, node, returning ? MAIN : SMALL);
  },
  acquired(state, view, node) {
    if (state.hits[node]! < MOST_HITS) state.hits[node]!++;
    if (view.refs[node] === 1) state.evictableNodes[state.queue[node]!]!--;
  },
  released(state, _view, node) {
    state.evictableNodes[state.queue[node]!]!++;
  },
  removed(state, view, node) {
    const queue = state.queue[node]!;
    if (view.refs[node] === 0) state.evictableNodes[queue]!--;
    dequeue(state, view, node);
    const identity = view.identity[node]!;
    if (queue === SMALL && identity > 0) noteIdentity(state.ghosts, identity);
  },
  victim(state, view) {
    for (;;) {
      const queue = queueToEvict(state);
      if (queue === 0) return -1;
      const node = queue === SMALL ? smallVictim(state, view) : mainVictim(state, view);
      if (node >= 0) return node;
    }
  },
  shrunk(state, _view, node, blocks) {
    state.blocks[state.queue[node]!]! -= blocks;
  },
};

function queueToEvict(state: S3FifoState): number {
  const small = state.evictableNodes[SMALL]! > 0;
  const main = state.evictableNodes[MAIN]! > 0;
  if (small && (state.blocks[SMALL]! >= state.smallBlocks || !main)) return SMALL;
  return main ? MAIN : 0;
}

/** The oldest of the small queue when it may go; else moves it on and returns -1. */
function smallVictim(state: S3FifoState, view: CacheView): number {
  const node = state.oldest[SMALL]!;
  if (state.hits[node]! > 1) {
    const evictable = view.refs[node] === 0 ? 1 : 0;
    dequeue(state, view, node);
    state.hits[node] = 0;
    enqueue(state, view, node, MAIN);
    state.evictableNodes[SMALL]! -= evictable;
    state.evictableNodes[MAIN]! += evictable;
    return -1;
  }
  return unlessReferenced(state, view, node, SMALL);
}

function mainVictim(state: S3FifoState, view: CacheView): number {
  const node = state.oldest[MAIN]!;
  if (state.hits[node]! > 0) {
    state.hits[node]!--;
    dequeue(state, view, node);
    enqueue(state, view, node, MAIN);
    return -1;
  }
  return unlessReferenced(state, view, node, MAIN);
}

function unlessReferenced(state: S3FifoState, view: CacheView, node: number, queue: number): number {
  if (view.refs[node] === 0) return node;
  dequeue(state, view, node);
  enqueue(state, view, node, queue);
  return -1;
}

function enqueue(state: S3FifoState, view: CacheView, node: number, queue: number): void {
  const newest = state.newest[queue]!;
  state.queue[node] = queue;
  state.older[node] = newest;
  state.newer[node] = -1;
  if (newest < 0) state.oldest[queue] = node;
  else state.newer[newest] = node;
  state.newest[queue] = node;
  state.blocks[queue]! += view.blocks[node]!;
}

function dequeue(state: S3FifoState, view: CacheView, node: number): void {
  const queue = state.queue[node]!;
  const newer = state.newer[node]!;
  const older = state.older[node]!;
  if (older < 0) state.oldest[queue] = newer;
  else state.newer[older] = newer;
  if (newer < 0) state.newest[queue] = older;
  else state.older[newer] = older;
  state.blocks[queue]! -= view.blocks[node]!;
}
