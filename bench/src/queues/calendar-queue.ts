import { type EventSlab, slotLayout } from '@braess/kernel/internals';
import type { SlotQueue } from './slot-queue.js';

const { cancelledTarget, slotWords, targetOffset } = slotLayout;

const minimumDays = 16;
/** Days further ahead than this share one day; its heap keeps them in order, and reaching it rebuilds the calendar. */
const lastDay = 2 ** 30;
const sampleCount = 63;

/**
 * A calendar queue (R. Brown, 1988) with a small binary heap a bucket: as many buckets as events, a bucket holding the same day of every
 * year. The day of a time is a monotone function of it, so rounding never changes the order.
 */
export class CalendarQueue implements SlotQueue {
  readonly #slab: EventSlab;
  #buckets: number[][] = emptyBuckets(minimumDays);
  #count = 0;
  #baseNs = 0;
  #daysPerNs = 1e-6;
  #today = 0;

  constructor(slab: EventSlab) {
    this.#slab = slab;
  }

  push(slot: number): void {
    if (this.#count > 2 * this.#buckets.length) this.#rebuild();
    this.#place(slot);
  }

  popBefore(boundNs: number): number {
    for (;;) {
      const bucket = this.#firstBucket();
      if (bucket === undefined || !(this.#timeOf(bucket[0] as number) < boundNs)) return -1;
      const slot = this.#heapPop(bucket);
      this.#count--;
      if (this.#count < this.#buckets.length >> 2 && this.#buckets.length > minimumDays) this.#rebuild();
      if (this.#slab.integers[slot * 2 * slotWords + targetOffset] !== cancelledTarget) return slot;
      this.#slab.free(slot);
    }
  }

  #place(slot: number): void {
    const day = this.#dayOf(this.#timeOf(slot));
    if (day < this.#today) this.#today = day;
    this.#heapPush(this.#buckets[day & (this.#buckets.length - 1)] as number[], slot);
    this.#count++;
  }

  /** The bucket whose first event is the first of all. */
  #firstBucket(): number[] | undefined {
    if (this.#count === 0) return undefined;
    const buckets = this.#buckets;
    const mask = buckets.length - 1;
    for (let looked = 0; looked < buckets.length; looked++) {
      const bucket = buckets[this.#today & mask] as number[];
      if (bucket.length > 0 && this.#dayOf(this.#timeOf(bucket[0] as number)) <= this.#today) {
        if (this.#today < lastDay) return bucket;
        break;
      }
      this.#today++;
    }
    // A year without an event: the calendar no longer fits what is pending.
    this.#rebuild();
    return this.#bucketOfDay();
  }

  #bucketOfDay(): number[] {
    return this.#buckets[this.#today & (this.#buckets.length - 1)] as number[];
  }

  #rebuild(): void {
    const slots = this.#buckets.flat();
    let minimum = Number.POSITIVE_INFINITY;
    for (const slot of slots) minimum = Math.min(minimum, this.#timeOf(slot));
    const days = Math.max(minimumDays, 2 ** Math.ceil(Math.log2(Math.max(1, slots.length))));
    this.#buckets = emptyBuckets(days);
    this.#baseNs = slots.length === 0 ? 0 : minimum;
    this.#daysPerNs = 1 / this.#dayNs(slots);
    this.#today = 0;
    this.#count = 0;
    for (const slot of slots) this.#place(slot);
  }

  /** About two events a day over the nearer half of what is pending (far timers must not widen the days of all). */
  #dayNs(slots: readonly number[]): number {
    const taken = Math.min(sampleCount, slots.length);
    const sample = Float64Array.from({ length: taken }, (_, i) => this.#timeOf(slots[Math.floor((i * slots.length) / taken)] as number));
    sample.sort();
    const spread = (sample[taken >> 1] ?? 0) - this.#baseNs;
    return Math.max(1, (4 * spread) / Math.max(1, slots.length));
  }

  #dayOf(timeNs: number): number {
    const day = (timeNs - this.#baseNs) * this.#daysPerNs;
    return day < lastDay ? Math.floor(day) : lastDay;
  }

  #timeOf(slot: number): number {
    return this.#slab.words[slot * slotWords] as number;
  }

  #isBefore(a: number, b: number): boolean {
    const timeA = this.#timeOf(a);
    const timeB = this.#timeOf(b);
    return timeA === timeB ? this.#slab.tieBefore(a, b) : timeA < timeB;
  }

  #heapPush(heap: number[], slot: number): void {
    let at = heap.length;
    heap.push(slot);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.#isBefore(slot, heap[parent] as number)) break;
      heap[at] = heap[parent] as number;
      at = parent;
    }
    heap[at] = slot;
  }

  #heapPop(heap: number[]): number {
    const first = heap[0] as number;
    const last = heap.pop() as number;
    const count = heap.length;
    if (count === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= count) break;
      if (child + 1 < count && this.#isBefore(heap[child + 1] as number, heap[child] as number)) child++;
      if (!this.#isBefore(heap[child] as number, last)) break;
      heap[at] = heap[child] as number;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function emptyBuckets(count: number): number[][] {
  return Array.from({ length: count }, () => []);
}
