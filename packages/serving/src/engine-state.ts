import { engineStatus } from '@braess/protocol';
import { columnMemory } from './column-memory.js';
import { createLevels, type LevelQueue } from './slot-queue.js';
import { createCurve, type DecodeCurve, type TimingModel } from './timing.js';
import { forgetLookups } from './timing-table.js';

/** Where a request stands in its engine. */
export const slotState = { free: 0, waiting: 1, reserved: 2, ready: 3, prefilling: 4, decoding: 5, held: 6 } as const;

/** What the engine is computing. */
export const passKind = { none: 0, stretch: 1, mixed: 2 } as const;

/** Limits of the scheduler; names after vLLM's options. */
export interface EngineRules {
  blockTokens: number;
  /** Most sequences in a pass (max_num_seqs). */
  maxSequences: number;
  /** Token budget of a pass (max_num_batched_tokens). */
  maxBatchedTokens: number;
  /** Most of it that goes to one prompt (long_prefill_token_threshold); default all. Several prompts are then in progress at a time. */
  maxChunkTokens?: number;
  /** Longest prompt plus output (max_model_len); outputs are cut to it. */
  maxModelTokens: number;
  /** Requests that may wait; one more is refused. */
  maxWaiting: number;
  capacityBlocks: number;
  /**
   * Waiting requests go by priority, larger first, and the least urgent running one is preempted, the last in among equals (vLLM's scheduling policy
   * `priority`, where smaller is more urgent). Otherwise first come first served, last in first out.
   */
  byPriority?: boolean;
  /** Report every output block when it is filled. */
  blockEvents: boolean;
  /** Grow at each pass boundary that evicts (a block that can be looked up, or any), so that it shows at its true time rather than when the engine is next looked at. */
  exactEvictions?: 'named' | 'any';
  /** Prefilled requests keep their place in `maxSequences` until their KV has been pulled. */
  holdsSlots?: boolean;
  /** Extra time of the first pass at each batch size (capturing a graph, compiling a kernel). */
  newBatchStallNs?: number;
  /** Prefill engines: prompts share no passes, each takes the time it would take alone. Such an engine is never in a pass, it wakes when a prompt ends. */
  independentPrompts?: boolean;
  /** Prefill engines: report when a prompt is begun. */
  tellsBegin?: boolean;
  /** Step every pass singly, and look at every request in it: the slow engine with the same results, for comparison. */
  stepwise: boolean;
  /** Wake at the end of every pass, for tokens that are told as they come. */
  wakesEachPass?: boolean;
}

/** Requests in columns; a slot is reused only after its last event was readable. */
export interface RequestTable {
  capacity: number;
  used: number;
  freeSlots: number[];
  state: Uint8Array;
  /** 1 when the KV arrives by transfer. */
  transferred: Uint8Array;
  cancelled: Uint8Array;
  id: Float64Array;
  /** Larger is more urgent; 0 for all unless the rules go by priority. */
  priority: Float64Array;
  promptTokens: Int32Array;
  outputTokens: Int32Array;
  /** Leading tokens the prefix cache held at first admission. */
  cachedTokens: Int32Array;
  /** Tokens whose KV must exist before the next output token: prompt, plus outputs to recompute. */
  targetTokens: Int32Array;
  /** KV tokens present; of a decoding request see `computedTokens`. */
  computed: Int32Array;
  /** Output tokens so far; of a decoding request see `generatedTokens`. */
  generated: Int32Array;
  /** Of a decoding request: KV tokens minus pass count, constant because each pass adds one token. */
  contextBase: Float64Array;
  /** Of a decoding request: the pass count at which its last token is out. */
  finishPass: Float64Array;
  submitNs: Float64Array;
  admittedNs: Float64Array;
  /** Kept at preemption, for the gap that spans it. */
  lastTokenNs: Float64Array;
  preemptions: Int32Array;
  /** When a prompt that is computed independently ends. */
  promptEndNs: Float64Array;
}

/** One engine: scheduler, requests, the pass in progress, KV pool, timing. Plain data. */
export interface EngineState<Pool> {
  role: number;
  nextRole: number;
  /** Of `engineStatus`; `drainingHeld` is only told, see `statusToTell`. */
  status: number;
  statusUntilNs: number;
  roleChangeNs: number;
  /** It drains to be off, not to change its role. */
  stopping: boolean;
  rules: EngineRules;
  timing: TimingModel;
  pool: Pool;
  /** Speed of the slowest GPU of the group, 1 = nominal; a change holds from the next pass. */
  speedFactor: number;
  nextSpeedFactor: number;
  requests: RequestTable;
  waiting: LevelQueue;
  ready: LevelQueue;
  running: Int32Array;
  runningCount: number;
  /** Prefilled requests whose KV has not been pulled. */
  heldCount: number;
  /** 1 for batch sizes that have had a pass; only kept where a new one costs time. */
  seenBatches: Uint8Array;
  decodeCount: number;
  /** KV tokens of all decoding requests at `passCount`. */
  decodeTokens: number;
  /** Decoding requests by the residue of the pass count at which they need a new block. */
  blockResidues: Int32Array;
  cancelCount: number;
  /** No decoding request finishes before this pass count; may be early after one left otherwise. */
  nextFinishPass: number;
  passCount: number;
  passKind: number;
  anchorNs: number;
  curve: DecodeCurve;
  passesDone: number;
  /** Passes after the anchor at whose end the scheduler must look again. */
  passesLimit: number;
  reportedPasses: number;
  mixedEndNs: number;
  /** Decoding requests in the mixed pass. */
  mixedDecodes: number;
  chunkSlots: Int32Array;
  chunkTokens: Int32Array;
  chunkCount: number;
  /** When an idle engine looks again; infinite when nothing is due. */
  wakeNs: number;
  /** Counters for reports. */
  passes: number;
  preemptionCount: number;
  busyNs: number;
  /** Passes that deaths cut short, which `busyNs` lacks. */
  cutShortNs: number;
  /** What `busyNs` has more than once: each of the prompts that are computed side by side, less the time that they take together. */
  repeatedNs: number;
  /** Since when prompts are computed independently without a break, -1 while none is. */
  promptsSinceNs: number;
  prefillTokensDone: number;
}

/**
 * Rows that an engine is born with. Columns of up to 64 bytes lie within V8's heap and cost no memory of their own elsewhere: of 10,000 engines most hold a
 * handful of requests, so nothing of an engine is larger until it has to be.
 */
export const fewRows = 8;

export interface EngineOptions<Pool> {
  role: number;
  rules: EngineRules;
  timing: TimingModel;
  pool: Pool;
}

/** An active, idle engine. Throws with the rule, its value and its limit when rules contradict each other. */
export function createEngine<Pool>(options: EngineOptions<Pool>): EngineState<Pool> {
  const { rules } = options;
  for (const key of ['blockTokens', 'maxSequences', 'maxBatchedTokens', 'maxModelTokens', 'maxWaiting', 'capacityBlocks'] as const) {
    if (!Number.isSafeInteger(rules[key]) || rules[key] < 1)
      throw new Error(`engine rules: ${key} is ${rules[key]}; must be a positive integer`);
  }
  if (rules.maxBatchedTokens < rules.maxSequences) {
    throw new Error(
      `engine rules: maxBatchedTokens ${rules.maxBatchedTokens} is below maxSequences ${rules.maxSequences}; a pass must have room for one token of each`,
    );
  }
  const { maxChunkTokens = rules.maxBatchedTokens } = rules;
  if (!Number.isSafeInteger(maxChunkTokens) || maxChunkTokens < 1 || maxChunkTokens > rules.maxBatchedTokens)
    throw new Error(
      `engine rules: maxChunkTokens is ${maxChunkTokens}; must be an integer from 1 to maxBatchedTokens ${rules.maxBatchedTokens}`,
    );
  const timing = structuredClone(options.timing);
  if (timing.kind === 'table') forgetLookups(timing);
  const engine: EngineState<Pool> = {
    role: options.role,
    nextRole: options.role,
    status: engineStatus.active,
    statusUntilNs: 0,
    roleChangeNs: 0,
    stopping: false,
    rules: { ...rules },
    // Engines share nothing, so that each can be checkpointed by itself (a table counts its lookups in place).
    timing,
    pool: options.pool,
    speedFactor: 1,
    nextSpeedFactor: 1,
    requests: createRequestTable(fewRows),
    waiting: createLevels(),
    ready: createLevels(),
    running: new Int32Array(fewRows),
    runningCount: 0,
    heldCount: 0,
    seenBatches: new Uint8Array((rules.newBatchStallNs ?? 0) > 0 ? rules.maxSequences + 1 : 0),
    decodeCount: 0,
    decodeTokens: 0,
    blockResidues: new Int32Array(rules.blockTokens),
    cancelCount: 0,
    nextFinishPass: Number.POSITIVE_INFINITY,
    passCount: 0,
    passKind: passKind.none,
    anchorNs: 0,
    curve: createCurve(),
    passesDone: 0,
    passesLimit: 0,
    reportedPasses: 0,
    mixedEndNs: 0,
    mixedDecodes: 0,
    chunkSlots: new Int32Array(fewRows),
    chunkTokens: new Int32Array(fewRows),
    chunkCount: 0,
    wakeNs: Number.POSITIVE_INFINITY,
    passes: 0,
    preemptionCount: 0,
    busyNs: 0,
    cutShortNs: 0,
    repeatedNs: 0,
    promptsSinceNs: -1,
    prefillTokensDone: 0,
  };
  // Once at birth, for what is said of request tables.
  widenRunning(engine);
  widenChunks(engine);
  return engine;
}

/** Room for one more running request. */
export function widenRunning<Pool>(engine: EngineState<Pool>): void {
  engine.running = widened(engine.running);
}

/** Room for one more chunk of a mixed pass. */
export function widenChunks<Pool>(engine: EngineState<Pool>): void {
  engine.chunkSlots = widened(engine.chunkSlots);
  engine.chunkTokens = widened(engine.chunkTokens);
}

function widened(column: Int32Array): Int32Array {
  const wider = new Int32Array(2 * column.length);
  wider.set(column);
  return wider;
}

/** KV tokens of a request now. */
export function computedTokens<Pool>(engine: EngineState<Pool>, slot: number): number {
  const table = engine.requests;
  return table.state[slot] === slotState.decoding ? table.contextBase[slot]! + engine.passCount : table.computed[slot]!;
}

/** Output tokens of a request now. */
export function generatedTokens<Pool>(engine: EngineState<Pool>, slot: number): number {
  const table = engine.requests;
  if (table.state[slot] !== slotState.decoding) return table.generated[slot]!;
  return table.outputTokens[slot]! - (table.finishPass[slot]! - engine.passCount);
}

/** Blocks a request holds between passes, before growth for the next one. */
export function heldBlocks<Pool>(engine: EngineState<Pool>, slot: number): number {
  const table = engine.requests;
  const state = table.state[slot]!;
  if (state === slotState.free || state === slotState.waiting) return 0;
  const tokens = state === slotState.decoding ? computedTokens(engine, slot) : table.targetTokens[slot]!;
  return Math.ceil(tokens / engine.rules.blockTokens);
}

/** Of 8 columns of 8 bytes, 7 of 4 and 3 of 1. */
const requestRowBytes = 8 * 8 + 7 * 4 + 3;

function createRequestTable(capacity: number): RequestTable {
  const memory = columnMemory(capacity, requestRowBytes);
  return {
    capacity,
    used: 0,
    freeSlots: [],
    state: memory.uint8(),
    transferred: memory.uint8(),
    cancelled: memory.uint8(),
    id: memory.float64(),
    priority: memory.float64(),
    promptTokens: memory.int32(),
    outputTokens: memory.int32(),
    cachedTokens: memory.int32(),
    targetTokens: memory.int32(),
    computed: memory.int32(),
    generated: memory.int32(),
    contextBase: memory.float64(),
    finishPass: memory.float64(),
    submitNs: memory.float64(),
    admittedNs: memory.float64(),
    lastTokenNs: memory.float64(),
    preemptions: memory.int32(),
    promptEndNs: memory.float64(),
  };
}

/**
 * V8 takes a column for constant until that of any table is first replaced, and throws all code that did away then: that had better be before there is any.
 */
growRequestTable(createRequestTable(fewRows));

/** A free slot, its columns cleared. */
export function takeSlot(table: RequestTable): number {
  let slot = table.freeSlots.pop() ?? -1;
  if (slot < 0) {
    if (table.used === table.capacity) growRequestTable(table);
    slot = table.used++;
  }
  table.transferred[slot] = 0;
  table.cancelled[slot] = 0;
  table.cachedTokens[slot] = 0;
  table.computed[slot] = 0;
  table.generated[slot] = 0;
  table.admittedNs[slot] = -1;
  table.preemptions[slot] = 0;
  return slot;
}

/** The slot that the next `takeSlot` gives. */
export function nextSlot(table: RequestTable): number {
  return table.freeSlots.length > 0 ? table.freeSlots[table.freeSlots.length - 1]! : table.used;
}

export function freeSlot(table: RequestTable, slot: number): void {
  table.state[slot] = slotState.free;
  table.freeSlots.push(slot);
}

/** Requests in the engine, in whatever state. */
export function liveRequests(table: RequestTable): number {
  return table.used - table.freeSlots.length;
}

function growRequestTable(table: RequestTable): void {
  const larger = createRequestTable(table.capacity * 2);
  for (const key of Object.keys(larger) as (keyof RequestTable)[]) {
    const column = larger[key];
    if (typeof column !== 'number' && !Array.isArray(column)) column.set(table[key] as never);
  }
  Object.assign(table, { ...larger, used: table.used, freeSlots: table.freeSlots });
}
