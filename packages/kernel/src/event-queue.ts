import { type EventSlab, slotLayout } from './event-slab.js';

const { cancelledTarget, slotWords, targetOffset } = slotLayout;

const insertionSortLimit = 24;
/** Buckets hold about one event each; more than so many come from one handler, or fall on one instant. */
const burstLimit = 6;
const minimumBuckets = 64;
const maximumBuckets = 1 << 21;
const sampleCount = 63;

/**
 * The event queue: a one-rung ladder. Far events lie unsorted in `far`; a rung spreads the near part of them over buckets of
 * about one event; the bucket in turn is sorted into `bottom`; events sent into the part already sorted go to a small heap.
 * Every step is O(1) on average and O(log n) at worst, also when all keys are equal (a bucket of n events is merge-sorted once).
 *
 * The bucket of a time is a monotone function of it, so rounding never changes the order.
 */
export class EventQueue {
  private readonly slab: EventSlab;

  private bottomSlots = new Int32Array(128);
  private bottomTimes = new Float64Array(128);
  private bottomHead = 0;
  private bottomCount = 0;

  private heapSlots = new Int32Array(256);
  private heapTimes = new Float64Array(256);
  private heapCount = 0;

  private bucketHeads = new Int32Array(minimumBuckets);
  private bucketCount = 0;
  private currentBucket = -1;
  private rungStart = 0;
  /** Events that came to their turn since the last rung was built, about, and where that began. */
  private passedCount = 0;
  private passedFromNs = 0;
  private bucketsPerNs = 0;

  private farSlots = new Int32Array(512);
  private farTimes = new Float64Array(512);
  private farCount = 0;

  private scratchSlots = new Int32Array(256);
  private scratchTimes = new Float64Array(256);
  private readonly sample = new Float64Array(sampleCount);

  constructor(slab: EventSlab) {
    this.slab = slab;
    // Once at birth, as the slab does, and why.
    this.growFar();
    this.growBottom();
  }

  push(slot: number): void {
    const time = this.slab.words[slot * slotWords] as number;
    const position = (time - this.rungStart) * this.bucketsPerNs;
    if (position >= this.bucketCount) {
      if (this.farCount === this.farSlots.length) this.growFar();
      this.farSlots[this.farCount] = slot;
      this.farTimes[this.farCount++] = time;
      return;
    }
    // Compared before it becomes an int32, which would wrap: a message from another shard may lie far before the rung.
    if (position < this.currentBucket + 1) {
      this.heapPush(slot, time);
      return;
    }
    const bucket = position | 0;
    this.slab.next[slot] = this.bucketHeads[bucket] as number;
    this.bucketHeads[bucket] = slot;
  }

  /** Takes the first event before `boundNs`, or returns -1. Cancelled events are freed on the way. */
  popBefore(boundNs: number): number {
    for (;;) {
      const slot = this.popAny(boundNs);
      if (slot < 0 || this.slab.integers[slot * (2 * slotWords) + targetOffset] !== cancelledTarget) return slot;
      this.slab.free(slot);
    }
  }

  /** Time of the first event, `Infinity` without one. */
  peekTimeNs(): number {
    for (;;) {
      const slot = this.peekAny();
      if (slot < 0) return Number.POSITIVE_INFINITY;
      if (this.slab.integers[slot * (2 * slotWords) + targetOffset] !== cancelledTarget) return this.slab.words[slot * slotWords] as number;
      this.popAny(Number.POSITIVE_INFINITY);
      this.slab.free(slot);
    }
  }

  /** Calls `visit` with every pending slot, in no order; events that it rejects are freed and leave the queue. */
  retain(keep: (slot: number) => boolean): void {
    const slots: number[] = [];
    this.forEach((slot) => {
      slots.push(slot);
    });
    this.clear();
    for (const slot of slots) {
      if (keep(slot)) this.push(slot);
      else this.slab.free(slot);
    }
  }

  forEach(visit: (slot: number) => void): void {
    for (let i = this.bottomHead; i < this.bottomCount; i++) visit(this.bottomSlots[i] as number);
    for (let i = 0; i < this.heapCount; i++) visit(this.heapSlots[i] as number);
    for (let bucket = this.currentBucket + 1; bucket < this.bucketCount; bucket++) {
      for (let slot = this.bucketHeads[bucket] as number; slot >= 0; slot = this.slab.next[slot] as number) visit(slot);
    }
    for (let i = 0; i < this.farCount; i++) visit(this.farSlots[i] as number);
  }

  private clear(): void {
    this.bottomHead = 0;
    this.bottomCount = 0;
    this.heapCount = 0;
    this.bucketCount = 0;
    this.currentBucket = -1;
    this.rungStart = 0;
    this.bucketsPerNs = 0;
    this.farCount = 0;
  }

  private popAny(boundNs: number): number {
    for (;;) {
      if (this.bottomHead < this.bottomCount) {
        if (this.heapCount > 0 && this.heapIsFirst()) return this.heapPop(boundNs);
        if (!((this.bottomTimes[this.bottomHead] as number) < boundNs)) return -1;
        return this.bottomSlots[this.bottomHead++] as number;
      }
      if (this.heapCount > 0) return this.heapPop(boundNs);
      if (!this.refill()) return -1;
    }
  }

  private peekAny(): number {
    for (;;) {
      if (this.bottomHead < this.bottomCount) {
        return this.heapCount > 0 && this.heapIsFirst() ? (this.heapSlots[0] as number) : (this.bottomSlots[this.bottomHead] as number);
      }
      if (this.heapCount > 0) return this.heapSlots[0] as number;
      if (!this.refill()) return -1;
    }
  }

  private heapIsFirst(): boolean {
    const heapTime = this.heapTimes[0] as number;
    const bottomTime = this.bottomTimes[this.bottomHead] as number;
    if (heapTime !== bottomTime) return heapTime < bottomTime;
    return this.slab.tieBefore(this.heapSlots[0] as number, this.bottomSlots[this.bottomHead] as number);
  }

  /** Sorts the next bucket that has events into the bottom; false when nothing is pending. */
  private refill(): boolean {
    for (;;) {
      const heads = this.bucketHeads;
      const count = this.bucketCount;
      let bucket = this.currentBucket + 1;
      while (bucket < count && heads[bucket] === -1) bucket++;
      if (bucket < count) {
        this.currentBucket = bucket;
        this.drainBucket(heads[bucket] as number);
        return true;
      }
      this.currentBucket = count - 1;
      if (this.farCount === 0) return false;
      if (this.farCount <= insertionSortLimit) {
        this.takeNearer();
        return true;
      }
      this.spreadFar();
    }
  }

  /** A handful of far events needs no rung: its nearer half is sorted straight into the bottom, and ends the rung. */
  private takeNearer(): void {
    const count = this.farCount;
    const times = this.bottomTimes;
    for (let i = 0; i < count; i++) {
      this.bottomSlots[i] = this.farSlots[i] as number;
      times[i] = this.farTimes[i] as number;
    }
    this.insertionSortBottom(0, count);
    let taken = (count + 1) >> 1;
    const endTime = times[taken - 1] as number;
    while (taken < count && times[taken] === endTime) taken++;
    for (let i = taken; i < count; i++) {
      this.farSlots[i - taken] = this.bottomSlots[i] as number;
      this.farTimes[i - taken] = times[i] as number;
    }
    this.farCount = count - taken;
    this.bottomHead = 0;
    this.bottomCount = taken;
    this.passedCount += taken;
    // One bucket that is already being drained: what comes up to its end goes to the heap, what comes later is far.
    this.rungStart = endTime;
    this.bucketsPerNs = 1;
    this.bucketCount = 1;
    this.currentBucket = 0;
  }

  private drainBucket(head: number): void {
    const { words, next } = this.slab;
    let count = 0;
    for (let slot = head; slot >= 0; slot = next[slot] as number) {
      if (count === this.bottomSlots.length) this.growBottom();
      this.bottomSlots[count] = slot;
      this.bottomTimes[count++] = words[slot * slotWords] as number;
    }
    this.bottomHead = 0;
    this.bottomCount = count;
    this.passedCount += count;
    if (count <= burstLimit) {
      if (count > 1) this.insertionSortBottom(0, count);
    } else this.sortBurst(count);
  }

  /** A bucket is a stack: in the order they came, messages that one handler sent for one instant are sorted already. */
  private sortBurst(count: number): void {
    const slots = this.bottomSlots;
    const times = this.bottomTimes;
    for (let low = 0, high = count - 1; low < high; low++, high--) {
      const slot = slots[low] as number;
      const time = times[low] as number;
      slots[low] = slots[high] as number;
      times[low] = times[high] as number;
      slots[high] = slot;
      times[high] = time;
    }
    if (count <= insertionSortLimit) this.insertionSortBottom(0, count);
    else if (!this.bottomIsSorted()) this.mergeSortBottom();
  }

  private bottomIsSorted(): boolean {
    for (let at = 1; at < this.bottomCount; at++) if (!this.notAfter(at - 1, at)) return false;
    return true;
  }

  /** Builds a rung over the nearer half of the far events; what lies behind it stays far. */
  private spreadFar(): void {
    const count = this.farCount;
    const slots = this.farSlots;
    const times = this.farTimes;
    let minimum = Number.POSITIVE_INFINITY;
    for (let i = 0; i < count; i++) {
      const time = times[i] as number;
      if (time < minimum) minimum = time;
    }
    const spanNs = 2 * this.typicalSpreadNs(minimum);
    const buckets = this.bucketsFor(count, spanNs, minimum - this.passedFromNs);
    if (this.bucketHeads.length < buckets) this.bucketHeads = new Int32Array(buckets);
    this.bucketHeads.fill(-1, 0, buckets);
    this.rungStart = minimum;
    this.bucketsPerNs = buckets / Math.max(buckets, spanNs);
    this.passedCount = 0;
    this.passedFromNs = minimum;
    this.bucketCount = buckets;
    this.currentBucket = -1;
    const next = this.slab.next;
    let kept = 0;
    for (let i = 0; i < count; i++) {
      const time = times[i] as number;
      const slot = slots[i] as number;
      const position = (time - minimum) * this.bucketsPerNs;
      if (position >= buckets) {
        slots[kept] = slot;
        times[kept++] = time;
      } else {
        const bucket = position | 0;
        next[slot] = this.bucketHeads[bucket] as number;
        this.bucketHeads[bucket] = slot;
      }
    }
    this.farCount = kept;
  }

  /**
   * A bucket for each event: of those pending, or, where most messages are sent and received within the rung, of as many as the last rung had in
   * such a time (at most four times as many as it had: they have to be looked through).
   */
  private bucketsFor(count: number, spanNs: number, lastSpanNs: number): number {
    const expected = lastSpanNs > 0 ? Math.min(4 * this.passedCount, (this.passedCount * spanNs) / lastSpanNs) : 0;
    return Math.min(maximumBuckets, Math.max(minimumBuckets, 2 ** Math.ceil(Math.log2(Math.max(count, expected / 2)))));
  }

  /** Distance from the first far event to the median one (a few far timers must not stretch the buckets of all). */
  private typicalSpreadNs(minimum: number): number {
    const count = this.farCount;
    const taken = Math.min(sampleCount, count);
    const sample = this.sample.subarray(0, taken);
    for (let i = 0; i < taken; i++) sample[i] = this.farTimes[Math.floor((i * count) / taken)] as number;
    sample.sort();
    for (let i = taken >> 1; i < taken; i++) {
      const spread = (sample[i] as number) - minimum;
      if (spread > 0) return spread;
    }
    return 0;
  }

  private insertionSortBottom(from: number, to: number): void {
    const slots = this.bottomSlots;
    const times = this.bottomTimes;
    for (let i = from + 1; i < to; i++) {
      const slot = slots[i] as number;
      const time = times[i] as number;
      let j = i - 1;
      while (j >= from && ((times[j] as number) > time || (times[j] === time && this.slab.tieBefore(slot, slots[j] as number)))) {
        slots[j + 1] = slots[j] as number;
        times[j + 1] = times[j] as number;
        j--;
      }
      slots[j + 1] = slot;
      times[j + 1] = time;
    }
  }

  private mergeSortBottom(): void {
    const count = this.bottomCount;
    for (let from = 0; from < count; from += insertionSortLimit) this.insertionSortBottom(from, Math.min(count, from + insertionSortLimit));
    if (this.scratchSlots.length < this.bottomSlots.length) {
      this.scratchSlots = new Int32Array(this.bottomSlots.length);
      this.scratchTimes = new Float64Array(this.bottomSlots.length);
    }
    for (let width = insertionSortLimit; width < count; width *= 2) {
      for (let from = 0; from < count; from += 2 * width)
        this.merge(from, Math.min(count, from + width), Math.min(count, from + 2 * width));
      const slots = this.bottomSlots;
      const times = this.bottomTimes;
      this.bottomSlots = this.scratchSlots;
      this.bottomTimes = this.scratchTimes;
      this.scratchSlots = slots;
      this.scratchTimes = times;
    }
  }

  private merge(from: number, middle: number, to: number): void {
    const slots = this.bottomSlots;
    const times = this.bottomTimes;
    let left = from;
    let right = middle;
    for (let out = from; out < to; out++) {
      const takeLeft = right >= to || (left < middle && this.notAfter(left, right));
      const source = takeLeft ? left++ : right++;
      this.scratchSlots[out] = slots[source] as number;
      this.scratchTimes[out] = times[source] as number;
    }
  }

  private notAfter(left: number, right: number): boolean {
    const leftTime = this.bottomTimes[left] as number;
    const rightTime = this.bottomTimes[right] as number;
    if (leftTime !== rightTime) return leftTime < rightTime;
    return !this.slab.tieBefore(this.bottomSlots[right] as number, this.bottomSlots[left] as number);
  }

  private heapPush(slot: number, time: number): void {
    this.passedCount++;
    if (this.heapCount === this.heapSlots.length) {
      this.heapSlots = doubledSlots(this.heapSlots);
      this.heapTimes = doubledTimes(this.heapTimes);
    }
    const slots = this.heapSlots;
    const times = this.heapTimes;
    let at = this.heapCount++;
    while (at > 0) {
      const parent = (at - 1) >> 2;
      const parentTime = times[parent] as number;
      if (parentTime < time || (parentTime === time && !this.slab.tieBefore(slot, slots[parent] as number))) break;
      slots[at] = slots[parent] as number;
      times[at] = parentTime;
      at = parent;
    }
    slots[at] = slot;
    times[at] = time;
  }

  private heapPop(boundNs: number): number {
    const slots = this.heapSlots;
    const times = this.heapTimes;
    if (!((times[0] as number) < boundNs)) return -1;
    const first = slots[0] as number;
    const count = --this.heapCount;
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
        if (childTime < bestTime || (childTime === bestTime && this.slab.tieBefore(slots[child] as number, slots[best] as number))) {
          best = child;
          bestTime = childTime;
        }
      }
      if (time < bestTime || (time === bestTime && !this.slab.tieBefore(slots[best] as number, slot))) break;
      slots[at] = slots[best] as number;
      times[at] = bestTime;
      at = best;
    }
    slots[at] = slot;
    times[at] = time;
    return first;
  }

  private growFar(): void {
    this.farSlots = doubledSlots(this.farSlots);
    this.farTimes = doubledTimes(this.farTimes);
  }

  private growBottom(): void {
    this.bottomSlots = doubledSlots(this.bottomSlots);
    this.bottomTimes = doubledTimes(this.bottomTimes);
  }
}

function doubledSlots(slots: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(slots.length * 2);
  grown.set(slots);
  return grown;
}

function doubledTimes(times: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> {
  const grown = new Float64Array(times.length * 2);
  grown.set(times);
  return grown;
}
