import { widenInt32 } from '../columns.js';
import type { BuiltInEvictionPolicy, CacheView } from '../eviction.js';

/**
 * Least recently used: the block that lost its last reference longest ago goes first. A sequence releases its tail first, so a prefix outlives what
 * follows it. All operations are O(1) on an intrusive doubly linked list of the unreferenced nodes.
 */
export interface LruState {
  /** Neighbours towards the recent and the old end; -1 at the ends. */
  next: Int32Array;
  previous: Int32Array;
  oldest: number;
  newest: number;
}

function lruStored(_state: LruState, _view: CacheView, _node: number): void {}

export function lruReleased(state: LruState, _view: CacheView, node: number): void {
  const newest = state.newest;
  state.previous[node] = newest;
  state.next[node] = -1;
  if (newest < 0) state.oldest = node;
  else state.next[newest] = node;
  state.newest = node;
}

export function lruAcquired(state: LruState, view: CacheView, node: number): void {
  if (view.refs[node] === 1) unlink(state, node);
}

export function lruRemoved(state: LruState, view: CacheView, node: number): void {
  if (view.refs[node] === 0) unlink(state, node);
}

function lruVictim(state: LruState): number {
  return state.oldest;
}

function unlink(state: LruState, node: number): void {
  const next = state.next[node]!;
  const previous = state.previous[node]!;
  if (previous < 0) state.oldest = next;
  else state.next[previous] = next;
  if (next < 0) state.newest = previous;
  else state.previous[next] = previous;
}

export const lruPolicy: BuiltInEvictionPolicy<LruState> = {
  name: 'lru',
  description: 'The block that lost its last reference longest ago.',
  parameters: {},
  createState: (_capacityBlocks, nodes) => ({ next: new Int32Array(nodes), previous: new Int32Array(nodes), oldest: -1, newest: -1 }),
  reserve(state, nodes) {
    state.next = widenInt32(state.next, nodes);
    state.previous = widenInt32(state.previous, nodes);
  },
  stored: lruStored,
  acquired: lruAcquired,
  released: lruReleased,
  removed: lruRemoved,
  victim: lruVictim,
};
