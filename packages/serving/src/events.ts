import type { DecodeCurve } from './timing.js';

/** What an engine lets the outside see. */
export const engineEvent = {
  /** KV blocks of a request whose KV is to be transferred in are reserved: the transfer may start. */
  reserved: 1,
  /** First output token; value = time of first admission in ns. */
  firstToken: 2,
  /** Last output token; the slot is free again. Value = output tokens. */
  finished: 3,
  /** Prefill done on a prefill engine; its blocks stay held until `releaseHeld`. Value = time of first admission in ns. */
  prefillDone: 4,
  /** Preempted, to be recomputed; value = output tokens so far. */
  preempted: 5,
  /** An output block was filled (when subscribed); value = index of the block in the request. */
  blockFilled: 6,
  /** Lost because the engine died. */
  failed: 7,
  /** Drained and switched, or started: ready in its role; slot is -1, value = role. */
  ready: 8,
  /** A token after a preemption; value = its gap in ns, as it is part of no stretch. */
  resumed: 9,
  /** A cancelled request that was running has left; its blocks and slot are free. */
  left: 10,
  /** A prefill engine begins a prompt (where the rules ask for it). */
  begun: 11,
} as const;

/** Events of one or more engines in typed columns, in order of time for each engine. Written by the engine, emptied by the caller. */
export interface EngineEvents {
  count: number;
  kind: Uint8Array;
  slot: Int32Array;
  request: Float64Array;
  timeNs: Float64Array;
  value: Float64Array;
  /** Stretches of equal batches: the ITL gaps of `sequences` sequences in passes from..to-1 of the curve. */
  stretches: number;
  stretchSequences: Int32Array;
  stretchFrom: Int32Array;
  stretchTo: Int32Array;
  stretchAnchorNs: Float64Array;
  stretchC0Ns: Float64Array;
  stretchC1Ns: Float64Array;
  stretchC2Ns: Float64Array;
}

/** Limit on events between two readings; a caller that lets more pile up has lost its way. */
export const maximumEvents = 1 << 22;

export function createEvents(capacity = 256): EngineEvents {
  return {
    count: 0,
    kind: new Uint8Array(capacity),
    slot: new Int32Array(capacity),
    request: new Float64Array(capacity),
    timeNs: new Float64Array(capacity),
    value: new Float64Array(capacity),
    stretches: 0,
    stretchSequences: new Int32Array(capacity),
    stretchFrom: new Int32Array(capacity),
    stretchTo: new Int32Array(capacity),
    stretchAnchorNs: new Float64Array(capacity),
    stretchC0Ns: new Float64Array(capacity),
    stretchC1Ns: new Float64Array(capacity),
    stretchC2Ns: new Float64Array(capacity),
  };
}

export function clearEvents(events: EngineEvents): void {
  events.count = 0;
  events.stretches = 0;
}

export function addEvent(events: EngineEvents, kind: number, slot: number, request: number, timeNs: number, value: number): void {
  const index = events.count;
  if (index === events.kind.length) growEvents(events);
  events.kind[index] = kind;
  events.slot[index] = slot;
  events.request[index] = request;
  events.timeNs[index] = timeNs;
  events.value[index] = value;
  events.count = index + 1;
}

export function addStretch(events: EngineEvents, sequences: number, from: number, to: number, anchorNs: number, curve: DecodeCurve): void {
  const index = events.stretches;
  if (index === events.stretchFrom.length) growStretches(events);
  events.stretchSequences[index] = sequences;
  events.stretchFrom[index] = from;
  events.stretchTo[index] = to;
  events.stretchAnchorNs[index] = anchorNs;
  events.stretchC0Ns[index] = curve.c0Ns;
  events.stretchC1Ns[index] = curve.c1Ns;
  events.stretchC2Ns[index] = curve.c2Ns;
  events.stretches = index + 1;
}

function growEvents(events: EngineEvents): void {
  const capacity = nextCapacity(events.kind.length);
  events.kind = copyInto(new Uint8Array(capacity), events.kind);
  events.slot = copyInto(new Int32Array(capacity), events.slot);
  events.request = copyInto(new Float64Array(capacity), events.request);
  events.timeNs = copyInto(new Float64Array(capacity), events.timeNs);
  events.value = copyInto(new Float64Array(capacity), events.value);
}

function growStretches(events: EngineEvents): void {
  const capacity = nextCapacity(events.stretchFrom.length);
  events.stretchSequences = copyInto(new Int32Array(capacity), events.stretchSequences);
  events.stretchFrom = copyInto(new Int32Array(capacity), events.stretchFrom);
  events.stretchTo = copyInto(new Int32Array(capacity), events.stretchTo);
  events.stretchAnchorNs = copyInto(new Float64Array(capacity), events.stretchAnchorNs);
  events.stretchC0Ns = copyInto(new Float64Array(capacity), events.stretchC0Ns);
  events.stretchC1Ns = copyInto(new Float64Array(capacity), events.stretchC1Ns);
  events.stretchC2Ns = copyInto(new Float64Array(capacity), events.stretchC2Ns);
}

function nextCapacity(capacity: number): number {
  if (capacity >= maximumEvents)
    throw new Error(`engine events: ${capacity} events are waiting, the limit is ${maximumEvents}; read and clear them more often`);
  return Math.max(16, capacity * 2);
}

function copyInto<T extends { set(source: ArrayLike<number>): void }>(target: T, source: ArrayLike<number>): T {
  target.set(source);
  return target;
}
