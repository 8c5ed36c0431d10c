import { exponential } from '@braess/kernel';
import { EventQueue, EventSlab, slotLayout } from '@braess/kernel/internals';
import seedrandom from 'seedrandom';
import { CalendarQueue } from './calendar-queue.js';
import { FourAryHeap } from './four-ary-heap.js';
import type { SlotQueue } from './slot-queue.js';

const { senderOffset, slotWords, stepOffset, targetOffset } = slotLayout;

export const queueNames = ['kernel', 'four-ary-heap', 'calendar'] as const;
export type QueueName = (typeof queueNames)[number];

/** How far ahead of its own time an event puts the next one. */
export const loads = {
  /** Exponential, mean 1 ms. */
  exponential: (draw: () => number) => Math.floor(exponential(draw(), 1e6)),
  /** Uniform over 0 to 2 ms. */
  uniform: (draw: () => number) => Math.floor(draw() * 2e6),
  /** One in a hundred is a timer about 100 ms ahead, the rest exponential: half of what is pending is far away. */
  bimodal: (draw: () => number) => (draw() < 0.01 ? 1e8 + Math.floor(draw() * 1e7) : Math.floor(exponential(draw(), 1e6))),
  /** Everything at one instant, then everything at the next. */
  equal: () => 1_000_000,
  /** Four distinct distances, zero among them. */
  ties: (draw: () => number) => Math.floor(draw() * 4) * 500_000,
} satisfies Record<string, (draw: () => number) => number>;
export type LoadName = keyof typeof loads;
export const loadNames = Object.keys(loads) as LoadName[];

export interface HoldCase {
  readonly queue: QueueName;
  readonly load: LoadName;
  readonly pending: number;
  readonly operations: number;
  readonly seed: string;
}

export interface HoldResult {
  readonly nsPerEvent: number;
  /** Hash over the keys popped, in their order. */
  readonly hash: string;
}

const drawCount = 1 << 16;
const senderCount = 1 << 10;

export function createQueue(name: QueueName, slab: EventSlab): SlotQueue {
  if (name === 'kernel') return new EventQueue(slab);
  return name === 'calendar' ? new CalendarQueue(slab) : new FourAryHeap(slab);
}

/** The hold model: take the first event, put another in its place, again and again; a constant number is pending. */
export function runHold({ queue: name, load, pending, operations, seed }: HoldCase): HoldResult {
  const slab = new EventSlab(2 ** 30);
  const queue = createQueue(name, slab);
  const random = seedrandom.alea(`${seed}/${load}/${pending}`);
  // Distances are drawn beforehand, so that the loop holds little but the queue.
  const distancesNs = Float64Array.from({ length: drawCount }, () => loads[load](random));
  const senders = Int32Array.from({ length: drawCount }, () => Math.floor(random() * senderCount));
  let sequence = 0;
  const place = (timeNs: number, step: number): void => {
    const slot = slab.allocate();
    slab.words[slot * slotWords] = timeNs;
    slab.words[slot * slotWords + 1] = sequence;
    const integers = slab.integers;
    integers[slot * 2 * slotWords + stepOffset] = step;
    integers[slot * 2 * slotWords + senderOffset] = senders[sequence & (drawCount - 1)] as number;
    integers[slot * 2 * slotWords + targetOffset] = 0;
    sequence++;
    queue.push(slot);
  };
  let hash = 0x243f6a88;
  const hold = (count: number): void => {
    for (let done = 0; done < count; done++) {
      const slot = queue.popBefore(Number.POSITIVE_INFINITY);
      const timeNs = slab.words[slot * slotWords] as number;
      const step = slab.integers[slot * 2 * slotWords + stepOffset] as number;
      const popped = (slab.words[slot * slotWords + 1] as number) | 0;
      hash = Math.imul(hash ^ popped, 0x9e3779b1);
      hash ^= hash >>> 15;
      slab.free(slot);
      const distanceNs = distancesNs[sequence & (drawCount - 1)] as number;
      place(timeNs + distanceNs, distanceNs === 0 ? step + 1 : 0);
    }
  };
  for (let i = 0; i < pending; i++) place(distancesNs[i & (drawCount - 1)] as number, 0);
  hold(operations >> 2); // Into the steady state, and past the compiler.
  const begun = performance.now();
  hold(operations);
  const elapsedMs = performance.now() - begun;
  // What is left is hashed too: a queue that lost an event, or kept one twice, shows.
  for (let slot = queue.popBefore(Number.POSITIVE_INFINITY); slot >= 0; slot = queue.popBefore(Number.POSITIVE_INFINITY)) {
    hash = Math.imul(hash ^ ((slab.words[slot * slotWords + 1] as number) | 0), 0x9e3779b1);
    hash ^= hash >>> 15;
  }
  return { nsPerEvent: (elapsedMs * 1e6) / operations, hash: (hash >>> 0).toString(16).padStart(8, '0') };
}
