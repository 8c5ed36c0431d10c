import { type EventSlab, slotLayout } from './event-slab.js';

const { senderOffset, slotWords } = slotLayout;

const empty = -1;

/** Finds a pending timer's slot by its owner and sequence number: open addressing over slots, the keys being the slab's own. */
export class TimerTable {
  private readonly slab: EventSlab;
  private slots = new Int32Array(32).fill(empty);
  private count = 0;

  constructor(slab: EventSlab) {
    this.slab = slab;
    this.grow(); // Once at birth, as the slab does, and why.
  }

  add(slot: number): void {
    if (2 * (this.count + 1) > this.slots.length) this.grow();
    this.place(slot);
    this.count++;
  }

  /** Removes a timer and returns its slot, -1 when it is not pending. */
  remove(owner: number, sequence: number): number {
    const mask = this.slots.length - 1;
    let at = home(owner, sequence, mask);
    for (;;) {
      const slot = this.slots[at] as number;
      if (slot === empty) return empty;
      if (this.ownerOf(slot) === owner && this.sequenceOf(slot) === sequence) {
        this.close(at, mask);
        this.count--;
        return slot;
      }
      at = (at + 1) & mask;
    }
  }

  /** Fills the hole at `at` by moving later entries of its run back, so lookups never meet tombstones. */
  private close(at: number, mask: number): void {
    let hole = at;
    let next = (at + 1) & mask;
    for (;;) {
      const slot = this.slots[next] as number;
      if (slot === empty) break;
      const wanted = home(this.ownerOf(slot), this.sequenceOf(slot), mask);
      if (((next - wanted) & mask) >= ((next - hole) & mask)) {
        this.slots[hole] = slot;
        hole = next;
      }
      next = (next + 1) & mask;
    }
    this.slots[hole] = empty;
  }

  private place(slot: number): void {
    const mask = this.slots.length - 1;
    let at = home(this.ownerOf(slot), this.sequenceOf(slot), mask);
    while (this.slots[at] !== empty) at = (at + 1) & mask;
    this.slots[at] = slot;
  }

  private grow(): void {
    const old = this.slots;
    this.slots = new Int32Array(old.length * 2).fill(empty);
    for (const slot of old) if (slot !== empty) this.place(slot);
  }

  private ownerOf(slot: number): number {
    return this.slab.integers[slot * (2 * slotWords) + senderOffset] as number;
  }

  private sequenceOf(slot: number): number {
    return this.slab.words[slot * slotWords + 1] as number;
  }
}

function home(owner: number, sequence: number, mask: number): number {
  const mixed = Math.imul(owner, 0x9e3779b1) ^ Math.imul(sequence | 0, 0x85ebca6b);
  return (mixed ^ (mixed >>> 15)) & mask;
}
