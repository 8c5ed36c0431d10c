import { widenFloat64, widenInt32 } from '../columns.js';

/** Binary min-heap of nodes ordered by (key, stamp), with the position of each node, so that any node can be taken out in O(log n). */
export interface NodeHeap {
  size: number;
  order: Int32Array;
  /** Position of each node in `order`, -1 when it is not in the heap. */
  position: Int32Array;
  key: Float64Array;
  stamp: Float64Array;
}

export function createNodeHeap(nodes: number): NodeHeap {
  return {
    size: 0,
    order: new Int32Array(nodes),
    position: new Int32Array(nodes).fill(-1),
    key: new Float64Array(nodes),
    stamp: new Float64Array(nodes),
  };
}

export function reserveNodeHeap(heap: NodeHeap, nodes: number): void {
  heap.order = widenInt32(heap.order, nodes);
  heap.position = widenInt32(heap.position, nodes, -1);
  heap.key = widenFloat64(heap.key, nodes);
  heap.stamp = widenFloat64(heap.stamp, nodes);
}

/** The node with the least (key, stamp), or -1. */
export function heapTop(heap: NodeHeap): number {
  return heap.size === 0 ? -1 : heap.order[0]!;
}

export function heapPush(heap: NodeHeap, node: number, key: number, stamp: number): void {
  heap.key[node] = key;
  heap.stamp[node] = stamp;
  const place = heap.size++;
  heap.order[place] = node;
  heap.position[node] = place;
  siftUp(heap, place);
}

/** Takes the node out if it is in the heap. */
export function heapRemove(heap: NodeHeap, node: number): void {
  const place = heap.position[node]!;
  if (place < 0) return;
  heap.position[node] = -1;
  const last = heap.order[--heap.size]!;
  if (last === node) return;
  heap.order[place] = last;
  heap.position[last] = place;
  siftUp(heap, place);
  siftDown(heap, heap.position[last]!);
}

function before(heap: NodeHeap, a: number, b: number): boolean {
  const difference = heap.key[a]! - heap.key[b]!;
  return difference < 0 || (difference === 0 && heap.stamp[a]! < heap.stamp[b]!);
}

function siftUp(heap: NodeHeap, start: number): void {
  const node = heap.order[start]!;
  let place = start;
  while (place > 0) {
    const above = (place - 1) >> 1;
    const other = heap.order[above]!;
    if (!before(heap, node, other)) break;
    heap.order[place] = other;
    heap.position[other] = place;
    place = above;
  }
  heap.order[place] = node;
  heap.position[node] = place;
}

function siftDown(heap: NodeHeap, start: number): void {
  const node = heap.order[start]!;
  let place = start;
  for (;;) {
    let below = place * 2 + 1;
    if (below >= heap.size) break;
    if (below + 1 < heap.size && before(heap, heap.order[below + 1]!, heap.order[below]!)) below++;
    const other = heap.order[below]!;
    if (!before(heap, other, node)) break;
    heap.order[place] = other;
    heap.position[other] = place;
    place = below;
  }
  heap.order[place] = node;
  heap.position[node] = place;
}
