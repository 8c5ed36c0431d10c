import { KernelError } from './errors.js';

/**
 * All pending events of a shard in two typed arrays. An event is a slot; slot s owns the doubles of `words` from s * slotWords:
 *   0 time ns | 1 sender's sequence number | 2 step, sender (two int32) | 3 target, kind and flags (two int32)
 * and its numeric fields are those of `fields` from s * fieldWords. The first are half a cache line: what orders and dispatches events stays
 * dense, and fields are touched only by messages that have some.
 */
const slotWords = 4;
const fieldWords = 6;

/** Positions of the int32 halves inside a slot's record (index = slot * 2 * slotWords + offset). */
const stepOffset = 4;
const senderOffset = 5;
const targetOffset = 6;
const kindOffset = 7;

/** The kind word: message number in the low bits, then flags. */
const kindMask = 0xffff;
const bodyFlag = 1 << 16;
const timerFlag = 1 << 17;

/** Target of a cancelled event: it stays where it is in the queue and is dropped when met. */
const cancelledTarget = -1;

/**
 * The layout for other modules: they take it apart into constants of their own (`const { slotWords } = slotLayout`), which the compiler folds;
 * an imported binding it would load anew at every use, several per cent of an event.
 */
export const slotLayout = {
  slotWords,
  fieldWords,
  stepOffset,
  senderOffset,
  targetOffset,
  kindOffset,
  kindMask,
  bodyFlag,
  timerFlag,
  cancelledTarget,
} as const;

/** Where the handler's message lies; views read through it, so growth of the slab inside a handler is safe. */
export interface EventCursor {
  words: Float64Array;
  integers: Int32Array;
  fields: Float64Array;
  /** First word of the slot in `words`, -1 outside a handler, and in `fields`. */
  base: number;
  fieldsBase: number;
  body: unknown;
}

export class EventSlab {
  words: Float64Array<ArrayBuffer>;
  integers: Int32Array<ArrayBuffer>;
  fields: Float64Array<ArrayBuffer>;
  fieldIntegers: Int32Array<ArrayBuffer>;
  /** Links of free slots, and of queue buckets. */
  next: Int32Array<ArrayBuffer>;
  /** Bodies by slot, and about how many bytes each holds; touched only where the body flag is set. */
  readonly bodies: unknown[] = [];
  private readonly bodySizes: number[] = [];
  private bodyBytes = 0;
  readonly cursor: EventCursor;
  liveCount = 0;
  private firstFree = -1;
  private unusedFrom = 0;
  capacity: number;
  private readonly maximumSlots: number;
  private readonly limitBytes: number;

  /** @param limitBytes greatest size of the slab, and of the bodies beside it; passing either throws a `limit` error. */
  constructor(limitBytes: number, wantedCapacity = 512) {
    this.limitBytes = limitBytes;
    this.maximumSlots = Math.max(1, Math.floor(limitBytes / ((slotWords + fieldWords) * 8 + 4)));
    const initialCapacity = Math.min(wantedCapacity, this.maximumSlots);
    this.capacity = initialCapacity;
    this.words = new Float64Array(initialCapacity * slotWords);
    this.integers = new Int32Array(this.words.buffer);
    this.fields = new Float64Array(initialCapacity * fieldWords);
    this.fieldIntegers = new Int32Array(this.fields.buffer);
    this.next = new Int32Array(initialCapacity);
    const { words, integers, fields } = this;
    this.cursor = { words, integers, fields, base: -1, fieldsBase: 0, body: undefined };
    // Once at birth: V8 takes the columns for constant until they are first replaced, and then throws the code that did away.
    if (2 * initialCapacity <= this.maximumSlots) this.grow();
  }

  allocate(): number {
    this.liveCount++;
    const slot = this.firstFree;
    if (slot >= 0) {
      this.firstFree = this.next[slot] as number;
      return slot;
    }
    if (this.unusedFrom === this.capacity) this.grow();
    return this.unusedFrom++;
  }

  free(slot: number): void {
    this.liveCount--;
    this.next[slot] = this.firstFree;
    this.firstFree = slot;
  }

  /** Keeps the body of a slot until `takeBody`. */
  keepBody(slot: number, body: unknown, bytes: number): void {
    if (this.bodyBytes + bytes > this.limitBytes) {
      throw new KernelError(
        'limit',
        `a body of about ${bytes} bytes passes the limit of ${this.limitBytes} bytes of pending bodies; raise limits.pendingBytes or send less`,
      );
    }
    this.bodyBytes += bytes;
    this.bodies[slot] = body;
    this.bodySizes[slot] = bytes;
  }

  takeBody(slot: number): unknown {
    const body = this.bodies[slot];
    this.bodies[slot] = undefined;
    this.bodyBytes -= this.bodySizes[slot] as number;
    return body;
  }

  /** True when the event of slot `a` lies before that of slot `b`, their times being equal: step, sender, sequence number. */
  tieBefore(a: number, b: number): boolean {
    const integers = this.integers;
    const baseA = a * (2 * slotWords);
    const baseB = b * (2 * slotWords);
    const stepA = integers[baseA + stepOffset] as number;
    const stepB = integers[baseB + stepOffset] as number;
    if (stepA !== stepB) return stepA < stepB;
    const senderA = integers[baseA + senderOffset] as number;
    const senderB = integers[baseB + senderOffset] as number;
    if (senderA !== senderB) return senderA < senderB;
    return (this.words[a * slotWords + 1] as number) < (this.words[b * slotWords + 1] as number);
  }

  private grow(): void {
    const capacity = Math.min(this.capacity * 2, this.maximumSlots);
    if (capacity <= this.capacity) {
      throw new KernelError('limit', `pending events fill their ${this.maximumSlots} slots; raise limits.pendingBytes or send less`);
    }
    const words = new Float64Array(capacity * slotWords);
    words.set(this.words);
    const fields = new Float64Array(capacity * fieldWords);
    fields.set(this.fields);
    const next = new Int32Array(capacity);
    next.set(this.next);
    this.words = words;
    this.integers = new Int32Array(words.buffer);
    this.fields = fields;
    this.fieldIntegers = new Int32Array(fields.buffer);
    this.next = next;
    this.cursor.words = words;
    this.cursor.integers = this.integers;
    this.cursor.fields = fields;
    this.capacity = capacity;
  }
}
