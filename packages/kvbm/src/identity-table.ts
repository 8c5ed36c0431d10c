/**
 * Map from block identity to a small integer: open addressing with linear probing on one typed array, deletion by backward shift (no tombstones, so
 * look-ups stay short however many blocks come and go). Keys must be positive; those that agree in their low 32 bits share a slot, others are spread
 * by Fibonacci hashing (Knuth, The Art of Computer Programming 3, section 6.4), for numbers in a row would make one long run that deletion walks.
 */
export interface IdentityTable {
  /** Slot s: identity at 2s (0 where empty), value at 2s + 1. Side by side, so that a look-up costs one cache miss, not two. */
  slots: Float64Array;
  /** Twice the number of slots (a power of two) minus two: masks a doubled slot number. */
  mask: number;
  /** 32 minus the binary logarithm of the number of slots. */
  shift: number;
  count: number;
}

/** 2^32 divided by the golden ratio, made odd. */
const GOLDEN = 0x9e3779b1;

export function createIdentityTable(expectedKeys: number = 8): IdentityTable {
  let count = 16;
  while (count < expectedKeys * 2) count *= 2;
  return { slots: new Float64Array(count * 2), mask: count * 2 - 2, shift: Math.clz32(count) + 1, count: 0 };
}

/** Value of `identity`, or -1. */
export function tableGet(table: IdentityTable, identity: number): number {
  const { slots, mask, shift } = table;
  let slot = (Math.imul(identity, GOLDEN) >>> shift) << 1;
  for (;;) {
    const key = slots[slot]!;
    if (key === identity) return slots[slot + 1]! | 0;
    if (key === 0) return -1;
    slot = (slot + 2) & mask;
  }
}

/** Where `warmTable` leaves what it read, so that no compiler takes its loads for dead. */
const read = new Float64Array(1);

/**
 * Reads the slots where look-ups of identities[from..to-1] begin, all at once: the reads do not wait for each other, while changes of a table
 * larger than the processor's nearer caches one by one would wait for memory each time. Changes nothing.
 */
export function warmTable(table: IdentityTable, identities: Float64Array, from: number, to: number): void {
  const { slots, shift } = table;
  let sum = 0;
  for (let index = from; index < to; index++) sum += slots[(Math.imul(identities[index]!, GOLDEN) >>> shift) << 1]!;
  read[0] = sum;
}

export function tableSet(table: IdentityTable, identity: number, value: number): void {
  if (table.count * 4 >= table.mask) growTable(table);
  const { slots, mask, shift } = table;
  let slot = (Math.imul(identity, GOLDEN) >>> shift) << 1;
  for (;;) {
    const key = slots[slot]!;
    if (key === 0) break;
    if (key === identity) {
      slots[slot + 1] = value;
      return;
    }
    slot = (slot + 2) & mask;
  }
  slots[slot] = identity;
  slots[slot + 1] = value;
  table.count++;
}

/** Removes `identity`; returns its value, or -1 when it was not there. */
export function tableDelete(table: IdentityTable, identity: number): number {
  const { slots, mask, shift } = table;
  let hole = (Math.imul(identity, GOLDEN) >>> shift) << 1;
  for (;;) {
    const key = slots[hole]!;
    if (key === identity) break;
    if (key === 0) return -1;
    hole = (hole + 2) & mask;
  }
  const value = slots[hole + 1]! | 0;
  let slot = hole;
  for (;;) {
    slot = (slot + 2) & mask;
    const key = slots[slot]!;
    if (key === 0) break;
    // A key may fill the hole only when the hole is not before its home slot.
    if (((slot - ((Math.imul(key, GOLDEN) >>> shift) << 1)) & mask) >= ((slot - hole) & mask)) {
      slots[hole] = key;
      slots[hole + 1] = slots[slot + 1]!;
      hole = slot;
    }
  }
  slots[hole] = 0;
  table.count--;
  return value;
}

function growTable(table: IdentityTable): void {
  const { slots } = table;
  const wider = new Float64Array(slots.length * 2);
  const mask = wider.length - 2;
  const shift = table.shift - 1;
  for (let slot = 0; slot < slots.length; slot += 2) {
    const key = slots[slot]!;
    if (key === 0) continue;
    let target = (Math.imul(key, GOLDEN) >>> shift) << 1;
    while (wider[target] !== 0) target = (target + 2) & mask;
    wider[target] = key;
    wider[target + 1] = slots[slot + 1]!;
  }
  table.slots = wider;
  table.mask = mask;
  table.shift = shift;
}
