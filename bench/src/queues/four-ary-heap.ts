import { type EventSlab, slotLayout } from '@braess/kernel/internals';
import type { SlotQueue } from './slot-queue.js';

const { cancelledTarget, slotWords, targetOffset } = slotLayout;

/** All pending events in one 4-ary heap: times beside slots in typed arrays, ties read from the slab. */
export class FourAryHeap implements SlotQueue {
  readonly #slab: EventSlab;
  #slots = new Int32Array(1024);
  #times = new Float64Array(1024);
  #count = 0;

  constructor(slab: EventSlab) {
    this.#slab = slab;
  }

  push(slot: number): void {
    if (this.#count === this.#slots.length) this.#grow();
    const slots = this.#slots;
    const times = this.#times;
    const time = this.#slab.words[slot * slotWords] as number;
    let at = this.#count++;
    while (at > 0) {
      const parent = (at - 1) >> 2;
      const parentTime = times[parent] as number;
      if (parentTime < time || (parentTime === time && !this.#slab.tieBefore(slot, slots[parent] as number))) break;
      slots[at] = slots[parent] as number;
      times[at] = parentTime;
      at = parent;
    }
    slots[at] = slot;
    times[at] = time;
  }

  popBefore(boundNs: number): number {
    while (this.#count > 0 && (this.#times[0] as number) < boundNs) {
      const slot = this.#popFirst();
      if (this.#slab.integers[slot * 2 * slotWords + targetOffset] !== cancelledTarget) return slot;
      this.#slab.free(slot);
    }
    return -1;
  }

  #popFirst(): number {
    const slots = this.#slots;
    const times = this.#times;
    const slab = this.#slab;
    const first = slots[0] as number;
    const count = --this.#count;
    const slot = slots[count] as number;
    const time = times[count] as number;
    let at = 0;
    for (;;) {
      const firstChild = 4 * at + 1;
      if (firstChild >= count) break;
      let best = firstChild;
      let bestTime = times[firstChild] as number;
      const end = Math.min(firstChild + 4, count);
      for (let child = firstChild + 1; child < end; child++) {
        const childTime = times[child] as number;
        if (childTime < bestTime || (childTime === bestTime && slab.tieBefore(slots[child] as number, slots[best] as number))) {
          best = child;
          bestTime = childTime;
        }
      }
      if (time < bestTime || (time === bestTime && !slab.tieBefore(slots[best] as number, slot))) break;
      slots[at] = slots[best] as number;
      times[at] = bestTime;
      at = best;
    }
    slots[at] = slot;
    times[at] = time;
    return first;
  }

  #grow(): void {
    const slots = new Int32Array(this.#slots.length * 2);
    const times = new Float64Array(this.#times.length * 2);
    slots.set(this.#slots);
    times.set(this.#times);
    this.#slots = slots;
    this.#times = times;
  }
}
