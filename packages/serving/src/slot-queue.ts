/** A double-ended queue of request slots in a ring. */
interface SlotQueue {
  slots: Int32Array;
  head: number;
  count: number;
}

function createQueue(capacity = 16): SlotQueue {
  return { slots: new Int32Array(capacity), head: 0, count: 0 };
}

function pushBack(queue: SlotQueue, slot: number): void {
  if (queue.count === queue.slots.length) growQueue(queue);
  queue.slots[(queue.head + queue.count) % queue.slots.length] = slot;
  queue.count++;
}

function pushFront(queue: SlotQueue, slot: number): void {
  if (queue.count === queue.slots.length) growQueue(queue);
  queue.head = (queue.head + queue.slots.length - 1) % queue.slots.length;
  queue.slots[queue.head] = slot;
  queue.count++;
}

/** The first slot, or -1. */
function frontOf(queue: SlotQueue): number {
  return queue.count === 0 ? -1 : queue.slots[queue.head]!;
}

function popFront(queue: SlotQueue): number {
  const slot = frontOf(queue);
  if (slot >= 0) {
    queue.head = (queue.head + 1) % queue.slots.length;
    queue.count--;
  }
  return slot;
}

/** Removes a slot wherever it stands and keeps the order of the rest; false when it is not there. */
function removeSlot(queue: SlotQueue, slot: number): boolean {
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

/** Queues of one priority each, most urgent first: whoever comes first within the most urgent is the front. */
export interface LevelQueue {
  count: number;
  /** Descending; a level stays when it is empty. */
  priorities: number[];
  levels: SlotQueue[];
}

export function createLevels(): LevelQueue {
  return { count: 0, priorities: [], levels: [] };
}

/** Behind those of its priority. */
export function enqueue(queue: LevelQueue, priority: number, slot: number): void {
  pushBack(levelOf(queue, priority), slot);
  queue.count++;
}

/** In front of those of its priority. */
export function enqueueFirst(queue: LevelQueue, priority: number, slot: number): void {
  pushFront(levelOf(queue, priority), slot);
  queue.count++;
}

/** The slot whose turn it is, or -1. */
export function nextOf(queue: LevelQueue): number {
  if (queue.count === 0) return -1;
  let level = 0;
  while (queue.levels[level]!.count === 0) level++;
  return frontOf(queue.levels[level]!);
}

/** Takes the slot whose turn it is, or -1. */
export function dequeue(queue: LevelQueue): number {
  if (queue.count === 0) return -1;
  let level = 0;
  while (queue.levels[level]!.count === 0) level++;
  queue.count--;
  return popFront(queue.levels[level]!);
}

/** Removes a slot wherever it stands among those of its priority. */
export function withdraw(queue: LevelQueue, priority: number, slot: number): void {
  if (removeSlot(levelOf(queue, priority), slot)) queue.count--;
}

export function emptyLevels(queue: LevelQueue): void {
  for (const level of queue.levels) level.count = 0;
  queue.count = 0;
}

function levelOf(queue: LevelQueue, priority: number): SlotQueue {
  const { priorities, levels } = queue;
  let place = 0;
  while (place < priorities.length && priorities[place]! > priority) place++;
  if (priorities[place] !== priority) {
    priorities.splice(place, 0, priority);
    levels.splice(place, 0, createQueue());
  }
  return levels[place]!;
}

function growQueue(queue: SlotQueue): void {
  const slots = new Int32Array(queue.slots.length * 2);
  for (let i = 0; i < queue.count; i++) slots[i] = queue.slots[(queue.head + i) % queue.slots.length]!;
  queue.slots = slots;
  queue.head = 0;
}
