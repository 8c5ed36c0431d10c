import type { FlowAllocator } from './flow-state.js';

/** Binary heap over the slots of an allocator, ordered by completion time, then by order of start. */

export function insertCompletion(allocator: FlowAllocator, slot: number): void {
  allocator.heap[allocator.heapSize] = slot;
  allocator.heapPlace[slot] = allocator.heapSize;
  siftUp(allocator, allocator.heapSize++);
}

export function removeCompletion(allocator: FlowAllocator, slot: number): void {
  const place = allocator.heapPlace[slot]!;
  const last = allocator.heap[--allocator.heapSize]!;
  if (last === slot) return;
  allocator.heap[place] = last;
  allocator.heapPlace[last] = place;
  siftUp(allocator, place);
  siftDown(allocator, allocator.heapPlace[last]!);
}

export function updateCompletion(allocator: FlowAllocator, slot: number, completionNs: number): void {
  const before = allocator.completionNs[slot]!;
  if (before === completionNs) return;
  allocator.completionNs[slot] = completionNs;
  if (completionNs < before) siftUp(allocator, allocator.heapPlace[slot]!);
  else siftDown(allocator, allocator.heapPlace[slot]!);
}

function isBefore(allocator: FlowAllocator, a: number, b: number): boolean {
  const difference = allocator.completionNs[a]! - allocator.completionNs[b]!;
  // Infinity - Infinity is NaN, which falls through to the order of start.
  return difference < 0 || (!(difference > 0) && allocator.sequence[a]! < allocator.sequence[b]!);
}

function siftUp(allocator: FlowAllocator, from: number): void {
  const { heap, heapPlace } = allocator;
  const slot = heap[from]!;
  let place = from;
  while (place > 0) {
    const parent = (place - 1) >> 1;
    const other = heap[parent]!;
    if (!isBefore(allocator, slot, other)) break;
    heap[place] = other;
    heapPlace[other] = place;
    place = parent;
  }
  heap[place] = slot;
  heapPlace[slot] = place;
}

function siftDown(allocator: FlowAllocator, from: number): void {
  const { heap, heapPlace, heapSize } = allocator;
  const slot = heap[from]!;
  let place = from;
  for (;;) {
    let child = 2 * place + 1;
    if (child >= heapSize) break;
    if (child + 1 < heapSize && isBefore(allocator, heap[child + 1]!, heap[child]!)) child++;
    const other = heap[child]!;
    if (!isBefore(allocator, other, slot)) break;
    heap[place] = other;
    heapPlace[other] = place;
    place = child;
  }
  heap[place] = slot;
  heapPlace[slot] = place;
}
