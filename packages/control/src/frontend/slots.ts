import type { PromptBlocks } from '@braess/protocol';

/** Where a request stands at its frontend. */
export const slotStage = { free: 0, waitingFirst: 1, prefill: 2, waitingDecode: 3, decode: 4, aggregated: 5 } as const;

/** What a request weighs in the account of its engines. */
export const charge = { prefillTokens: 1, prefillEngine: 2, decodeEngine: 4, transfer: 8, placement: 16 } as const;
export const allCharges = charge.prefillTokens | charge.prefillEngine | charge.decodeEngine | charge.transfer | charge.placement;

/** Requests in flight in columns; slots are reused, so the table is as large as the most ever in flight. Times in ns, -1 for never; engines by number, -1 for none. */
export interface RequestSlots {
  capacity: number;
  used: number;
  freeSlots: number[];
  request: Float64Array;
  /** What engines know it by, see `dispatchNumber`; of its first stage and what follows that. */
  dispatch: Float64Array;
  client: Int32Array;
  stage: Uint8Array;
  charges: Uint8Array;
  attempts: Uint8Array;
  /** Of them those that an engine's change of role ended: they are nobody's failure. */
  displaced: Uint8Array;
  preemptions: Int32Array;
  inputTokens: Int32Array;
  outputTokens: Int32Array;
  tenant: Int32Array;
  priority: Float64Array;
  deadlineNs: Float64Array;
  deadlineTimer: Float64Array;
  prefillEngine: Int32Array;
  decodeEngine: Int32Array;
  /** 1 while a decode engine is asked for KV whose prompt is still computed. */
  early: Uint8Array;
  /** The engine of its stage that last refused it: another is asked first. */
  avoidEngine: Int32Array;
  chargedTokens: Float64Array;
  /** Tier of its KV transfer while that or its placement is charged. */
  transferTier: Int8Array;
  /** What its oracle said the transfer of the whole KV would take, ns, NaN unknown, and how much of it whatever the size. */
  predictedNs: Float64Array;
  predictedWayNs: Float64Array;
  arrivalNs: Float64Array;
  queuedNs: Float64Array;
  prefillStartNs: Float64Array;
  prefillEndNs: Float64Array;
  transferStartNs: Float64Array;
  transferEndNs: Float64Array;
  firstTokenNs: Float64Array;
  transferBytes: Float64Array;
  networkTier: Int32Array;
  generatedTokens: Int32Array;
  /** Tokens found in tier t (G1..G4) at hitTokens[4 * slot + t]. */
  hitTokens: Int32Array;
  /** The wait for those of G2..G4, and their bytes. */
  tierFetchNs: Float64Array;
  tierFetchBytes: Float64Array;
  /** Place in the waiting queue, -1 outside. */
  heapPlace: Int32Array;
  /** What identifies the blocks of each prompt. */
  chains: PromptBlocks[];
}

/** Grown once at birth: V8 takes a column for constant until it is first replaced, and then throws the code that did away. */
export function grownSlots(capacity: number): RequestSlots {
  const slots = createSlots(capacity);
  growSlots(slots);
  return slots;
}

function createSlots(capacity: number): RequestSlots {
  return {
    capacity,
    used: 0,
    freeSlots: [],
    request: new Float64Array(capacity),
    dispatch: new Float64Array(capacity),
    client: new Int32Array(capacity),
    stage: new Uint8Array(capacity),
    charges: new Uint8Array(capacity),
    attempts: new Uint8Array(capacity),
    displaced: new Uint8Array(capacity),
    preemptions: new Int32Array(capacity),
    inputTokens: new Int32Array(capacity),
    outputTokens: new Int32Array(capacity),
    tenant: new Int32Array(capacity),
    priority: new Float64Array(capacity),
    deadlineNs: new Float64Array(capacity),
    deadlineTimer: new Float64Array(capacity),
    prefillEngine: new Int32Array(capacity),
    decodeEngine: new Int32Array(capacity),
    early: new Uint8Array(capacity),
    avoidEngine: new Int32Array(capacity),
    chargedTokens: new Float64Array(capacity),
    transferTier: new Int8Array(capacity),
    predictedNs: new Float64Array(capacity),
    predictedWayNs: new Float64Array(capacity),
    arrivalNs: new Float64Array(capacity),
    queuedNs: new Float64Array(capacity),
    prefillStartNs: new Float64Array(capacity),
    prefillEndNs: new Float64Array(capacity),
    transferStartNs: new Float64Array(capacity),
    transferEndNs: new Float64Array(capacity),
    firstTokenNs: new Float64Array(capacity),
    transferBytes: new Float64Array(capacity),
    networkTier: new Int32Array(capacity),
    generatedTokens: new Int32Array(capacity),
    hitTokens: new Int32Array(4 * capacity),
    tierFetchNs: new Float64Array(capacity),
    tierFetchBytes: new Float64Array(capacity),
    heapPlace: new Int32Array(capacity),
    chains: [],
  };
}

/** A free slot with nothing known of its request. */
export function takeSlot(slots: RequestSlots): number {
  let slot = slots.freeSlots.pop() ?? -1;
  if (slot < 0) {
    if (slots.used === slots.capacity) growSlots(slots);
    slot = slots.used++;
  }
  slots.charges[slot] = 0;
  slots.attempts[slot] = 1;
  slots.displaced[slot] = 0;
  slots.deadlineTimer[slot] = -1;
  slots.avoidEngine[slot] = -1;
  slots.heapPlace[slot] = -1;
  forgetProgress(slots, slot);
  return slot;
}

/** As many attempts as are counted. */
const countedAttempts = 255;

/** Begins a further attempt of `most`; false where none is left. One that an engine's change of role makes necessary is not counted among them. */
export function beginAttempt({ attempts, displaced }: RequestSlots, slot: number, most: number, displacing: boolean): boolean {
  if (attempts[slot] === countedAttempts) return false;
  if (displacing) displaced[slot]!++;
  else if (attempts[slot]! - displaced[slot]! >= most) return false;
  attempts[slot]!++;
  return true;
}

/** Back to before the first dispatch: what a lost attempt reached says nothing about the next one. */
export function forgetProgress(slots: RequestSlots, slot: number): void {
  slots.prefillEngine[slot] = -1;
  slots.decodeEngine[slot] = -1;
  slots.early[slot] = 0;
  slots.preemptions[slot] = 0;
  slots.queuedNs[slot] = -1;
  slots.prefillStartNs[slot] = -1;
  slots.prefillEndNs[slot] = -1;
  slots.transferStartNs[slot] = -1;
  slots.transferEndNs[slot] = -1;
  slots.firstTokenNs[slot] = -1;
  slots.transferBytes[slot] = 0;
  slots.predictedNs[slot] = Number.NaN;
  slots.predictedWayNs[slot] = 0;
  slots.networkTier[slot] = -1;
  slots.generatedTokens[slot] = 0;
  slots.hitTokens.fill(0, 4 * slot, 4 * slot + 4);
  slots.tierFetchNs[slot] = 0;
  slots.tierFetchBytes[slot] = 0;
}

export function freeSlot(slots: RequestSlots, slot: number): void {
  slots.stage[slot] = slotStage.free;
  slots.chains[slot] = undefined;
  slots.freeSlots.push(slot);
}

/** Slots of requests in flight, ascending. */
export function slotsInFlight({ used, stage }: RequestSlots): number[] {
  return Array.from({ length: used }, (_, slot) => slot).filter((slot) => stage[slot] !== slotStage.free);
}

function growSlots(slots: RequestSlots): void {
  const larger = createSlots(slots.capacity * 2);
  for (const key of Object.keys(larger) as (keyof RequestSlots)[]) {
    const column = larger[key];
    if (typeof column !== 'number' && !Array.isArray(column)) column.set(slots[key] as never);
  }
  Object.assign(slots, { ...larger, used: slots.used, freeSlots: slots.freeSlots, chains: slots.chains });
}
