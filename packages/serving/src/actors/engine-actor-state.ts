import type { TimerId } from '@braess/kernel';
import { engineStatus } from '@braess/protocol';
import { columnMemory } from '../column-memory.js';
import { submitRefusal } from '../engine.js';
import { createEngine, type EngineState, fewRows } from '../engine-state.js';
import type { EngineKindOptions, EngineSetup } from './engine-options.js';
import { createGapLog, type GapLog } from './gap-log.js';
import type { Inquiry } from './onboarding.js';

/** Why an engine refused a request: the codes of the scheduler, and a request that its role does not serve. */
export const engineRefusal = { ...submitRefusal, wrongRole: -6 } as const;

/** What a request asks of its engine. */
export const requestKind = { whole: 0, prefillOnly: 1, decodeOnly: 2 } as const;

/** What the actor knows of each request beyond the scheduler's table, by slot. */
export interface RequestColumns {
  capacity: number;
  request: Float64Array;
  frontend: Int32Array;
  /** A value of `requestKind`. */
  kind: Uint8Array;
  streaming: Uint8Array;
  /** Tokens told to a streaming client. */
  toldTokens: Int32Array;
  prefillEngine: Int32Array;
  arrivalNs: Float64Array;
  longestGapNs: Float64Array;
  /** Clock of the gap log at its last token that began a run of gaps. */
  gapsSince: Float64Array;
  /** Number of the transfer under way, -1 for none. */
  transfer: Float64Array;
  /** Parts that it was begun with (their numbers follow that of the first), and those that have not ended. */
  transferParts: Int32Array;
  partsLeft: Int32Array;
  /** 1 while the prompt is still computed elsewhere: the last layer has not been asked for. */
  incomplete: Uint8Array;
  /** Bytes that a transfer begun before leaves for then. */
  lastLayerBytes: Float64Array;
  transferStartNs: Float64Array;
  transferEndNs: Float64Array;
  transferBytes: Float64Array;
  networkTier: Int8Array;
  /** 1 while the prompt counts in `queuedTokens`. */
  queued: Uint8Array;
  /** Tokens found in each tier below HBM. */
  tierTokens: [Float64Array, Float64Array, Float64Array];
  /** Time that their fetch took, and the bytes that came. */
  fetchNs: Float64Array;
  fetchBytes: Float64Array;
  /** The answer of the tiers that the request was submitted with, -1 for none. */
  inquiry: Float64Array;
}

/** State of an engine actor: plain data. */
export interface EngineActorState<Pool> {
  engine: EngineState<Pool>;
  columns: RequestColumns;
  /** Slot of each live request that is not on its way out. */
  slots: Map<number, number>;
  /** Speed of each GPU of the group. */
  memberSpeeds: Float64Array;
  gpus: Int32Array;
  tiers: Int32Array;
  inquiries: Map<number, Inquiry>;
  inquiryCount: number;
  transferCount: number;
  /** The timer at the engine's next event; Infinity when none is set. */
  wakeTimer: TimerId;
  wakeAtNs: number;
  /** End of the pass that a death cut short: silence until then was promised. */
  silentUntilNs: number;
  /** When it last had a message other than its own periodic ones. */
  touchedNs: number;
  reportSet: boolean;
  eventsSet: boolean;
  telemetrySet: boolean;
  telemetryLost: boolean;
  kvSequence: number;
  reportedRole: number;
  reportedStatus: number;
  /** Prompt tokens of requests that are not through prefill. */
  queuedTokens: number;
  streamingCount: number;
  gaps: GapLog;
  /** Totals since the start, and what the last record of them said. */
  totals: EngineTotals;
  recorded: EngineTotals;
  /** Lookups outside its timing table that were told. */
  toldLookups: number;
}

export interface EngineTotals {
  atNs: number;
  acceptedRequests: number;
  refusedRequests: number;
  finishedRequests: number;
  failedRequests: number;
  leftRequests: number;
  /** Computed by decode passes. */
  decodeTokens: number;
  /** Those and the ones that prompts end with. */
  outputTokens: number;
  prefillTokens: number;
  hitTokens: number;
  transferBytes: number;
  /** Time of the passes that are over. */
  busyNs: number;
  /** Time with work: the same and the pass in progress so far and those that a death cut short; of prompts side by side once. */
  workNs: number;
  passes: number;
  /** Of the pass in progress: what is done of it, and of its tokens. */
  passShare: number;
  passTokens: number;
  preemptions: number;
  flopNs: number;
  bandwidthNs: number;
}

export function createEngineActorState<Pool>(options: EngineKindOptions<Pool>, setup: EngineSetup): EngineActorState<Pool> {
  const wantsEvents = (options.kvEvents?.to.length ?? 0) > 0 || (setup.tiers?.length ?? 0) > 0;
  const heard =
    (options.kvEvents?.periodNs ?? 0) > 0 || options.blocks.free === undefined
      ? undefined
      : heardEvictions(options, setup.tiers?.length ?? 0);
  const rules = {
    ...options.rules,
    ...(heard === undefined ? {} : { exactEvictions: heard }),
    ...(options.overlapLayers === undefined ? {} : { tellsBegin: true }),
  };
  const engine = createEngine({
    role: setup.role,
    rules,
    timing: options.timing,
    pool: options.blocks.createPool(rules.capacityBlocks, rules.blockTokens, wantsEvents, (setup.tiers?.length ?? 0) > 0),
  });
  if (setup.started === false) engine.status = engineStatus.off;
  if (!(Number.isInteger(setup.members) && setup.members >= 1))
    throw new Error(`engine: ${setup.members} members; a group has one GPU or more`);
  return {
    engine,
    columns: createColumns(engine.requests.capacity),
    slots: new Map(),
    memberSpeeds: new Float64Array(setup.members).fill(1),
    gpus: Int32Array.from(setup.gpus ?? [], (gpu) => gpu.id),
    tiers: Int32Array.from(setup.tiers ?? [], (tier) => tier.id),
    inquiries: new Map(),
    inquiryCount: 0,
    transferCount: 0,
    wakeTimer: -1,
    wakeAtNs: Number.POSITIVE_INFINITY,
    silentUntilNs: 0,
    touchedNs: 0,
    reportSet: false,
    eventsSet: false,
    telemetrySet: false,
    telemetryLost: false,
    kvSequence: 0,
    reportedRole: engine.role,
    reportedStatus: engine.status,
    queuedTokens: 0,
    streamingCount: 0,
    gaps: createGapLog(options.telemetry?.gaps === true ? options.telemetry.tenants?.count : 0),
    totals: createTotals(),
    recorded: createTotals(),
    toldLookups: 0,
  };
}

/** Which evictions somebody hears of: a tier that takes what is evicted of all, routers of blocks that can be looked up. */
export function heardEvictions<Pool>({ kvEvents, tiers }: EngineKindOptions<Pool>, tierCount: number): 'named' | 'any' | undefined {
  if (tiers?.offload === 'on-eviction' && tierCount > 0) return 'any';
  return (kvEvents?.to.length ?? 0) > 0 ? 'named' : undefined;
}

function createTotals(): EngineTotals {
  return {
    atNs: 0,
    acceptedRequests: 0,
    refusedRequests: 0,
    finishedRequests: 0,
    failedRequests: 0,
    leftRequests: 0,
    decodeTokens: 0,
    outputTokens: 0,
    prefillTokens: 0,
    hitTokens: 0,
    transferBytes: 0,
    busyNs: 0,
    workNs: 0,
    passes: 0,
    passShare: 0,
    passTokens: 0,
    preemptions: 0,
    flopNs: 0,
    bandwidthNs: 0,
  };
}

/** Of 15 columns of 8 bytes, 5 of 4 and 5 of 1. */
const rowBytes = 15 * 8 + 5 * 4 + 5;

function createColumns(capacity: number): RequestColumns {
  const memory = columnMemory(capacity, rowBytes);
  return {
    capacity,
    request: memory.float64(),
    frontend: memory.int32(),
    kind: memory.uint8(),
    streaming: memory.uint8(),
    toldTokens: memory.int32(),
    prefillEngine: memory.int32(),
    arrivalNs: memory.float64(),
    longestGapNs: memory.float64(),
    gapsSince: memory.float64(),
    transfer: memory.float64(),
    transferParts: memory.int32(),
    partsLeft: memory.int32(),
    incomplete: memory.uint8(),
    lastLayerBytes: memory.float64(),
    transferStartNs: memory.float64(),
    transferEndNs: memory.float64(),
    transferBytes: memory.float64(),
    networkTier: memory.int8(),
    queued: memory.uint8(),
    tierTokens: [memory.float64(), memory.float64(), memory.float64()],
    fetchNs: memory.float64(),
    fetchBytes: memory.float64(),
    inquiry: memory.float64(),
  };
}

/** Starts the row of a slot, with room for as many as the scheduler has. */
export function openRow(
  columns: RequestColumns,
  capacity: number,
  slot: number,
  request: number,
  frontend: number,
  kind: number,
  prefillEngine: number,
  arrivalNs: number,
): void {
  if (columns.capacity < capacity) growColumns(columns, capacity);
  columns.request[slot] = request;
  columns.frontend[slot] = frontend;
  columns.kind[slot] = kind;
  columns.streaming[slot] = 0;
  columns.toldTokens[slot] = 0;
  columns.prefillEngine[slot] = prefillEngine;
  columns.arrivalNs[slot] = arrivalNs;
  columns.longestGapNs[slot] = 0;
  columns.gapsSince[slot] = Number.POSITIVE_INFINITY;
  columns.transfer[slot] = -1;
  columns.incomplete[slot] = 0;
  columns.transferStartNs[slot] = -1;
  columns.transferEndNs[slot] = -1;
  columns.transferBytes[slot] = 0;
  columns.networkTier[slot] = -1;
  columns.queued[slot] = 0;
  columns.inquiry[slot] = -1;
  columns.tierTokens[0][slot] = 0;
  columns.tierTokens[1][slot] = 0;
  columns.tierTokens[2][slot] = 0;
  columns.fetchNs[slot] = 0;
  columns.fetchBytes[slot] = 0;
}

function growColumns(columns: RequestColumns, capacity: number): void {
  const larger = createColumns(capacity);
  for (const key of Object.keys(larger) as (keyof RequestColumns)[]) {
    const column = larger[key];
    if (Array.isArray(column)) for (const [tier, values] of column.entries()) values.set(columns.tierTokens[tier]!);
    else if (typeof column !== 'number') column.set(columns[key] as never);
  }
  Object.assign(columns, larger);
}

// Before there are any, for what is said of request tables.
growColumns(createColumns(fewRows), 2 * fewRows);
