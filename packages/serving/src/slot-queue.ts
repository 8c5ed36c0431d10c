/** A double-ended queue of request slots in a ring. */
export interface SlotQueue {
  slots: Int32Array;
  head: number;
  count: number;
}

export function createQueue(capacity = 16): SlotQueue {
  return { slots: new Int32Array(capacity), head: 0, count: 0 };
}

export function pushBack(queue: SlotQueue, slot: number): void {
  if (queue.count === queue.slots.length) growQueue(queue);
  queue.slots[(queue.head + queue.count) % queue.slots.length] = slot;
  queue.count++;
}

export function pushFront(queue: SlotQueue, slot: number): void {
  if (queue.count === queue.slots.length) growQueue(queue);
  queue.head = (queue.head + queue.slots.length - 1) % queue.slots.length;
  queue.slots[queue.head] = slot;
  queue.count++;
}

/** The first slot, or -1. */
export function frontOf(queue: SlotQueue): number {
  return queue.count === 0 ? -1 : queue.slots[queue.head]!;
}

export function popFront(queue: SlotQueue): number {
  const slot = frontOf(queue);
  if (slot >= 0) {
    queue.head = (queue.head + 1) % queue.slots.length;
    queue.count--;
  }
  return slot;
}

/** Removes a slot wherever it stands and keeps the order of the rest; false when it is not there. */
export function removeSlot(queue: SlotQueue, slot: number): boolean {
  const size = queue.slots.length;
  let kept = 0;
  for (let i = 0; i < queue.count; i++) {
    const other = queue.slots[(queue.head + i) % size]!;
    if (other !== slot) queue.slots[(queue.head + kept++) % size] = other;
  }
  const found = kept < queue.count;
  queue.count = kept;
  return found;
}

function growQueue(queue: SlotQueue): void {
  const slots = new Int32Array(queue.slots.length * 2);
  for (let i = 0; i < queue.count; i++) slots[i] = queue.slots[(queue.head + i) % queue.slots.length]!;
  queue.slots = slots;
  queue.head = 0;
}
