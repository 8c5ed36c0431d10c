/**
 * Slot by request number: an open-addressed table with linear probing on the low 32 bits of the number, twice as many places as requests at the least. With a
 * Map, runs with streamed tokens, each of which looks up a slot, take 4 % longer. Plain data.
 */
export interface RequestIndex {
  size: number;
  /** Low 32 bits of the request at each place. */
  keys: Int32Array;
  /** Its slot, -1 where the place is free. */
  slots: Int32Array;
}

/** Multiplier of Fibonacci hashing, 2^32 over the golden ratio (Knuth, TAOCP 3, 6.4): successive numbers spread over all places. */
const spread = 0x9e3779b1;

/** Grown once at birth: V8 takes a column for constant until it is first replaced, and then throws the code that did away. */
export function createRequestIndex(places = 32): RequestIndex {
  const index = { size: 0, keys: new Int32Array(places), slots: new Int32Array(places).fill(-1) };
  grow(index);
  return index;
}

/** The slot of a request, or -1. Numbers of 2^32 and more stand for their low 32 bits. */
export function slotOfRequest(index: RequestIndex, request: number): number {
  const { keys, slots } = index;
  const key = request | 0;
  const mask = slots.length - 1;
  for (let place = Math.imul(key, spread) >>> 7; ; place++) {
    const slot = slots[place & mask]!;
    if (slot < 0 || keys[place & mask] === key) return slot;
  }
}

/** Notes the slot of a request that has none. */
export function addRequest(index: RequestIndex, request: number, slot: number): void {
  if (2 * (index.size + 1) > index.slots.length) grow(index);
  index.size++;
  put(index, request | 0, slot);
}

/** Forgets a request that is there; those behind it move up, so that no place has to be marked. */
export function removeRequest(index: RequestIndex, request: number): void {
  const { keys, slots } = index;
  const key = request | 0;
  const mask = slots.length - 1;
  let hole = Math.imul(key, spread) >>> 7;
  while (keys[hole & mask] !== key || slots[hole & mask]! < 0) hole++;
  index.size--;
  for (let place = hole + 1; slots[place & mask]! >= 0; place++) {
    const home = Math.imul(keys[place & mask]!, spread) >>> 7;
    // It may move to the hole unless it lies between the hole and its home.
    if (((place - home) & mask) < ((place - hole) & mask)) continue;
    keys[hole & mask] = keys[place & mask]!;
    slots[hole & mask] = slots[place & mask]!;
    hole = place;
  }
  slots[hole & mask] = -1;
}

function put({ keys, slots }: RequestIndex, key: number, slot: number): void {
  const mask = slots.length - 1;
  let place = Math.imul(key, spread) >>> 7;
  while (slots[place & mask]! >= 0) place++;
  keys[place & mask] = key;
  slots[place & mask] = slot;
}

function grow(index: RequestIndex): void {
  const { keys, slots } = index;
  index.keys = new Int32Array(2 * keys.length);
  index.slots = new Int32Array(2 * slots.length).fill(-1);
  for (let place = 0; place < slots.length; place++) if (slots[place]! >= 0) put(index, keys[place]!, slots[place]!);
}
