import { exponential } from '@braess/kernel';
import seedrandom from 'seedrandom';
import { actorName, type PholdParameters, spinWork } from './phold.js';

/** A message as the plain engine holds it: one object an event. */
interface PlainMessage {
  timeNs: number;
  sender: number;
  sequence: number;
  target: number;
}

export interface PlainResult {
  readonly events: number;
  readonly fingerprint: string;
  /** Events and wall time from `warmNs` on. */
  readonly steadyEvents: number;
  readonly steadyMs: number;
}

/**
 * PHOLD as one would write it without a kernel: a binary heap of message objects and the handler written into the loop. It knows no cells,
 * lookahead, kinds or shards. It has the draws, the order and the fingerprint of the kernel's PHOLD, written a second time, independently.
 */
export function runPlainPhold(parameters: PholdParameters, seed: string, untilNs: number, warmNs = 0): PlainResult {
  const { actors, remote, lookaheadNs, meanDelayNs, workRounds } = parameters;
  const exponentialMeanNs = meanDelayNs - lookaheadNs;
  const s0 = new Float64Array(actors);
  const s1 = new Float64Array(actors);
  const s2 = new Float64Array(actors);
  const carry = new Float64Array(actors);
  const sequences = new Float64Array(actors);
  const lanesA = new Int32Array(actors).fill(0x243f6a88);
  const lanesB = new Int32Array(actors).fill(0x13198a2e);
  const work = new Int32Array(actors);
  for (let actor = 0; actor < actors; actor++) {
    const state = seedrandom.alea(`${seed}/${actorName(actor)}/draws`, { state: true }).state() as seedrandom.State.Alea;
    s0[actor] = state.s0;
    s1[actor] = state.s1;
    s2[actor] = state.s2;
    carry[actor] = state.c;
  }
  const draw = (actor: number): number => {
    const t = 2091639 * (s0[actor] as number) + (carry[actor] as number) * 2.3283064365386963e-10;
    s0[actor] = s1[actor] as number;
    s1[actor] = s2[actor] as number;
    const whole = t | 0;
    carry[actor] = whole;
    return (s2[actor] = t - whole);
  };
  const timeWords = new Float64Array(1);
  const timeHalves = new Int32Array(timeWords.buffer);
  const fold = (actor: number, nameHash: number, sender: number, timeNs: number): void => {
    timeWords[0] = timeNs;
    let a = lanesA[actor] as number;
    let b = lanesB[actor] as number;
    for (let index = 0; index < 3; index++) {
      const word = index < 2 ? (timeHalves[index] as number) : nameHash ^ Math.imul(sender, 0x01000193);
      const mixed = Math.imul(a ^ word, 0x9e3779b1);
      a = mixed ^ (mixed >>> 15);
      b = (Math.imul((b << 5) | (b >>> 27), 0x85ebca6b) + word) | 0;
    }
    lanesA[actor] = a;
    lanesB[actor] = b;
  };
  const heap: PlainMessage[] = [];
  const startHash = textHash('start');
  const eventHash = textHash('event');
  for (let actor = 0; actor < actors; actor++) {
    fold(actor, startHash, actor, 0);
    const delayNs = lookaheadNs + Math.floor(exponential(draw(actor), exponentialMeanNs));
    heapPush(heap, { timeNs: delayNs, sender: actor, sequence: 1, target: actor });
    sequences[actor] = 2; // The kernel's start message was number 0.
  }
  let events = actors;
  const runBefore = (boundNs: number): void => {
    while (heap.length > 0 && (heap[0] as PlainMessage).timeNs < boundNs) {
      const message = heapPop(heap);
      const actor = message.target;
      events++;
      fold(actor, eventHash, message.sender, message.timeNs);
      if (workRounds > 0) work[actor] = spinWork(work[actor] as number, workRounds);
      const target = draw(actor) < remote ? Math.floor(draw(actor) * actors) : actor;
      const delayNs = lookaheadNs + Math.floor(exponential(draw(actor), exponentialMeanNs));
      const sequence = sequences[actor] as number;
      sequences[actor] = sequence + 1;
      heapPush(heap, { timeNs: message.timeNs + delayNs, sender: actor, sequence, target });
    }
  };
  runBefore(warmNs);
  const warmEvents = events;
  const begun = performance.now();
  runBefore(untilNs);
  const steadyMs = performance.now() - begun;
  return { events, steadyEvents: events - warmEvents, steadyMs, fingerprint: digest(lanesA, lanesB) };
}

/** Order: time, sender, sequence number (PHOLD has no zero delays, so every step is 0). */
function isBefore(a: PlainMessage, b: PlainMessage): boolean {
  if (a.timeNs !== b.timeNs) return a.timeNs < b.timeNs;
  if (a.sender !== b.sender) return a.sender < b.sender;
  return a.sequence < b.sequence;
}

function heapPush(heap: PlainMessage[], message: PlainMessage): void {
  let at = heap.length;
  heap.push(message);
  while (at > 0) {
    const parent = (at - 1) >> 1;
    const above = heap[parent] as PlainMessage;
    if (!isBefore(message, above)) break;
    heap[at] = above;
    at = parent;
  }
  heap[at] = message;
}

function heapPop(heap: PlainMessage[]): PlainMessage {
  const first = heap[0] as PlainMessage;
  const last = heap.pop() as PlainMessage;
  const count = heap.length;
  if (count === 0) return first;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= count) break;
    if (child + 1 < count && isBefore(heap[child + 1] as PlainMessage, heap[child] as PlainMessage)) child++;
    const below = heap[child] as PlainMessage;
    if (!isBefore(below, last)) break;
    heap[at] = below;
    at = child;
  }
  heap[at] = last;
  return first;
}

function textHash(text: string): number {
  let a = 0x243f6a88;
  let b = 0x13198a2e;
  const words = [text.length, ...[...text].map((letter) => letter.charCodeAt(0))];
  for (const word of words) {
    const mixed = Math.imul(a ^ word, 0x9e3779b1);
    a = mixed ^ (mixed >>> 15);
    b = (Math.imul((b << 5) | (b >>> 27), 0x85ebca6b) + word) | 0;
  }
  return a ^ b;
}

function digest(lanesA: Int32Array, lanesB: Int32Array): string {
  let a = 0x243f6a88;
  let b = 0x13198a2e;
  for (let index = 0; index < 2 * lanesA.length; index++) {
    const word = (index % 2 === 0 ? lanesA[index >> 1] : lanesB[index >> 1]) as number;
    const mixed = Math.imul(a ^ word, 0x9e3779b1);
    a = mixed ^ (mixed >>> 15);
    b = (Math.imul((b << 5) | (b >>> 27), 0x85ebca6b) + word) | 0;
  }
  return [a, b].map((lane) => (lane >>> 0).toString(16).padStart(8, '0')).join('');
}
