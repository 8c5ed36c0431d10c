/** Requests that wait for an engine, lowest key first, among equal keys in order of arrival: a binary heap of slots. Plain data. */
export interface WaitingQueue {
  count: number;
  limit: number;
  /** Arrivals so far; breaks ties. */
  arrivals: number;
  /** Of them those that came since the queue was last decided on together. */
  gathered: number;
  slots: Int32Array;
  keys: Float64Array;
  order: Float64Array;
}

export function createWaitingQueue(limit: number): WaitingQueue {
  return { count: 0, limit, arrivals: 0, gathered: 0, slots: new Int32Array(16), keys: new Float64Array(16), order: new Float64Array(16) };
}

/** One that was taken out of the queue, with its turn. */
export interface Waiting {
  readonly slot: number;
  readonly key: number;
  readonly order: number;
}

/** Adds a slot; false when the queue is at its limit. `places[slot]` is kept up to date so that any slot can be removed in O(log n). */
export function pushWaiting(queue: WaitingQueue, places: Int32Array, slot: number, key: number): boolean {
  if (queue.count >= queue.limit) return false;
  putBack(queue, places, { slot, key, order: queue.arrivals++ });
  queue.gathered++;
  return true;
}

/** Takes out the one that is next. */
export function takeFirst(queue: WaitingQueue, places: Int32Array): Waiting | undefined {
  if (queue.count === 0) return undefined;
  const first = { slot: queue.slots[0]!, key: queue.keys[0]!, order: queue.order[0]! };
  removeWaiting(queue, places, first.slot);
  return first;
}

/** Puts back one that was taken out: it keeps its turn. */
export function putBack(queue: WaitingQueue, places: Int32Array, { slot, key, order }: Waiting): void {
  if (queue.count === queue.slots.length) widen(queue);
  const place = queue.count++;
  queue.slots[place] = slot;
  queue.keys[place] = key;
  queue.order[place] = order;
  places[slot] = place;
  rise(queue, places, place);
}

/** The slot that is next, -1 when empty. */
export function firstWaiting(queue: WaitingQueue): number {
  return queue.count === 0 ? -1 : queue.slots[0]!;
}

export function removeWaiting(queue: WaitingQueue, places: Int32Array, slot: number): void {
  const place = places[slot]!;
  const last = --queue.count;
  places[slot] = -1;
  if (place === last) return;
  move(queue, places, last, place);
  sink(queue, places, place);
  rise(queue, places, place);
}

function before(queue: WaitingQueue, a: number, b: number): boolean {
  const difference = queue.keys[a]! - queue.keys[b]!;
  return difference < 0 || (difference === 0 && queue.order[a]! < queue.order[b]!);
}

function rise(queue: WaitingQueue, places: Int32Array, from: number): void {
  let place = from;
  while (place > 0) {
    const parent = (place - 1) >> 1;
    if (!before(queue, place, parent)) return;
    swap(queue, places, place, parent);
    place = parent;
  }
}

function sink(queue: WaitingQueue, places: Int32Array, from: number): void {
  let place = from;
  for (;;) {
    let least = place;
    for (let child = 2 * place + 1; child <= 2 * place + 2; child++) if (child < queue.count && before(queue, child, least)) least = child;
    if (least === place) return;
    swap(queue, places, place, least);
    place = least;
  }
}

function move(queue: WaitingQueue, places: Int32Array, from: number, to: number): void {
  const slot = queue.slots[from]!;
  queue.slots[to] = slot;
  queue.keys[to] = queue.keys[from]!;
  queue.order[to] = queue.order[from]!;
  places[slot] = to;
}

function swap(queue: WaitingQueue, places: Int32Array, a: number, b: number): void {
  const slot = queue.slots[a]!;
  const key = queue.keys[a]!;
  const order = queue.order[a]!;
  move(queue, places, b, a);
  queue.slots[b] = slot;
  queue.keys[b] = key;
  queue.order[b] = order;
  places[slot] = b;
}

function widen(queue: WaitingQueue): void {
  const { slots, keys, order } = queue;
  const length = slots.length * 2;
  queue.slots = new Int32Array(length);
  queue.slots.set(slots);
  queue.keys = new Float64Array(length);
  queue.keys.set(keys);
  queue.order = new Float64Array(length);
  queue.order.set(order);
}
