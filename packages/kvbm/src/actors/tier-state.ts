import type { TimerId } from '@braess/kernel';
import type { BlockList } from '@braess/protocol';
import { checkBlockCache } from '../block-pool-check.js';
import { createFairPipe, type FairPipe, transfersUnderWay } from '../fair-pipe.js';
import { createKvEventBuffer, type KvEventBuffer } from '../kv-events.js';
import { createTierStore, type TierStore } from '../tier-store.js';
import type { TierKindOptions, TierSetup } from './tier-options.js';

/** A transfer under way or waiting for room: blocks on their way down, or up for a question. */
export interface TierTransfer {
  up: boolean;
  /** Who sent the blocks, or asked for them. */
  actor: number;
  question: number;
  blocks: number;
  bytes: number;
  /** Those that are named, on their way down; null for none. */
  named: BlockList | null;
}

/** State of a tier actor: plain data. */
export interface TierState {
  store: TierStore;
  /** Up and down, or one for both; none where bytes go through the fabric. */
  pipes: FairPipe[];
  workers: Int32Array;
  below: number;
  /** What the store evicted or stored during one message. */
  events: KvEventBuffer;
  /** Nodes pinned for a question (question * 2^20 + actor). */
  pins: Map<number, Int32Array>;
  transfers: Map<number, TierTransfer>;
  /** Numbers of transfers that found the pipe full, in order. */
  waiting: number[];
  transferCount: number;
  /** Share of its bandwidth that is there now; 0: it is out. */
  speed: number;
  /** Questions whose pins, and transfers through the fabric that, it lost by being out. */
  lostPins: Set<number>;
  lostTransfers: Set<number>;
  wakeTimer: TimerId;
  wakeAtNs: number;
  seriesSet: boolean;
  pinnedBlocks: number;
  descendingBlocks: number;
  totals: TierTotals;
  recorded: TierTotals;
}

/** Counts since the run began: blocks offered from above and those dropped, asked for and found, transfers, and what the store did. */
export interface TierTotals {
  offeredBlocks: number;
  droppedBlocks: number;
  askedBlocks: number;
  foundBlocks: number;
  fetchedBlocks: number;
  failedTransfers: number;
  movedBytes: number;
  storedBlocks: number;
  evictedBlocks: number;
  filteredBlocks: number;
  refusedBlocks: number;
}

export function createTierState(options: TierKindOptions, setup: TierSetup): TierState {
  const workers = Int32Array.from(setup.workers ?? [], (worker) => worker.id);
  const pipes: FairPipe[] = [];
  if ('device' in options.through) {
    const { pipe, duplex } = options.through.device;
    // A few transfers for each worker are under way; the rest waits here.
    const pipeOptions = { transferLimit: 256, ...pipe, workers: workers.length + 1 };
    pipes.push(createFairPipe(pipeOptions));
    if (duplex) pipes.push(createFairPipe(pipeOptions));
  }
  return {
    store: createTierStore({ name: `G${options.tier}`, ...options.store }),
    pipes,
    workers,
    below: setup.below?.id ?? -1,
    events: createKvEventBuffer(),
    pins: new Map(),
    transfers: new Map(),
    waiting: [],
    transferCount: 0,
    speed: 1,
    lostPins: new Set(),
    lostTransfers: new Set(),
    wakeTimer: -1,
    wakeAtNs: Number.POSITIVE_INFINITY,
    seriesSet: false,
    pinnedBlocks: 0,
    descendingBlocks: 0,
    totals: createTotals(),
    recorded: createTotals(),
  };
}

function createTotals(): TierTotals {
  return {
    offeredBlocks: 0,
    droppedBlocks: 0,
    askedBlocks: 0,
    foundBlocks: 0,
    fetchedBlocks: 0,
    failedTransfers: 0,
    movedBytes: 0,
    storedBlocks: 0,
    evictedBlocks: 0,
    filteredBlocks: 0,
    refusedBlocks: 0,
  };
}

/** Checks blocks, pins and transfers of a tier; what is wrong, one sentence each. Takes time in proportion to the tier. */
export function checkTierState(state: TierState): string[] {
  const faults = checkBlockCache(state.store.cache).map((fault) => `${state.store.name}: ${fault}`);
  let pinned = 0;
  for (const nodes of state.pins.values()) pinned += nodes.length;
  if (pinned !== state.pinnedBlocks) faults.push(`${state.store.name}: ${pinned} blocks pinned, counted ${state.pinnedBlocks}`);
  const held = state.store.cache.usedBlocks - state.store.cache.evictableBlocks;
  if (held > pinned) faults.push(`${state.store.name}: ${held} blocks are held, but only ${pinned} pinned for questions`);
  let descending = 0;
  for (const transfer of state.transfers.values()) if (!transfer.up) descending += transfer.blocks;
  if (descending !== state.descendingBlocks)
    faults.push(`${state.store.name}: ${descending} blocks on their way down, counted ${state.descendingBlocks}`);
  const inPipes = state.pipes.reduce((sum, pipe) => sum + transfersUnderWay(pipe), 0) + state.waiting.length;
  if (state.pipes.length > 0 && inPipes !== state.transfers.size)
    faults.push(`${state.store.name}: ${inPipes} transfers in the pipes or waiting, ${state.transfers.size} under way`);
  return faults;
}
