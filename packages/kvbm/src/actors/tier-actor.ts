import { type ActorId, type ActorKind, actorKind, type Context, message } from '@braess/kernel';
import {
  type BlockList,
  fetch,
  fetched,
  lookup,
  lookupAnswer,
  offload,
  offloadFew,
  setTierSpeed,
  startTransfer as startFabricTransfer,
  transferEnded,
} from '@braess/protocol';
import { advance, emptyPipe, nextCompletionNs, nextStepNs, offeredBytesPerSecond, setPipeSpeed, startTransfer } from '../fair-pipe.js';
import { clearKvEvents, KV_REMOVED, KV_STORED } from '../kv-events.js';
import { clearTierStore, matchTier, pinTierBlock, storeAllInTier, storeAnonymous, unpinTierBlock, wantedOf } from '../tier-store.js';
import type { TierKindOptions, TierSetup } from './tier-options.js';
import { tierCounts, tierLoad } from './tier-records.js';
import { createTierState, type TierState, type TierTotals, type TierTransfer } from './tier-state.js';

const tierWake = message('tierWake');
const tierSeries = message('tierSeries');

const messages = { offload, offloadFew, lookup, fetch, transferEnded, setTierSpeed, tierWake, tierSeries };

/** The kind of a tier actor: its set-up is a `TierSetup`, its state a `TierState`. */
export type TierKind = ActorKind<string, keyof typeof messages & string, TierSetup>;

/** Actors in the key of a question; ids are below it. */
const actorLimit = 2 ** 20;

/**
 * A tier below HBM as an actor: G2 and G3 of a server, whose transfers share a device, or G4, whose bytes go through the fabric. Blocks are stored when their
 * bytes have arrived, are pinned from the answer to a look-up until they are fetched or let go, and go on to the tier below by its offload mode.
 */
export function tierKind(options: TierKindOptions): TierKind {
  if (!(options.blockBytes > 0 && Number.isInteger(options.blockBytes)))
    throw new RangeError(`tier g${options.tier}: blockBytes is ${options.blockBytes}; must be a whole number of 1 or more`);
  const scratch: Scratch = { done: new Float64Array(0) };
  return actorKind({
    name: options.name ?? `g${options.tier}`,
    messages,
    ...(options.sendsTo === undefined ? {} : { sendsTo: options.sendsTo }),
    state: (setup: TierSetup) => createTierState(options, setup),
    atEnd: ({ transfers, pins }) => [
      ...(transfers.size > 0 ? [`${transfers.size} transfers are still under way at the end`] : []),
      ...(pins.size > 0 ? [`blocks are still pinned for ${pins.size} questions at the end`] : []),
    ],
    on: {
      offload(state, view, context) {
        runPipes(options, state, context, scratch);
        takeOffload(options, state, context, view.sender, view.blocks, view.body);
        settle(options, state, context);
      },
      offloadFew(state, view, context) {
        runPipes(options, state, context, scratch);
        const named = view.block0 === 0 ? null : listOf(view.block0, view.block1, view.block2, view.block3);
        takeOffload(options, state, context, view.sender, view.blocks, named);
        settle(options, state, context);
      },
      lookup(state, view, context) {
        runPipes(options, state, context, scratch);
        const { question, from, sender } = view;
        const held = pinPrefix(state, question * actorLimit + sender, view.body.chain, from);
        const estimateNs = held === 0 ? 0 : estimate(options, state, sender, held);
        context.send(sender as ActorId, lookupAnswer, options.answerDelayNs, question, options.tier, held, estimateNs);
        settle(options, state, context);
      },
      fetch(state, { question, blocks, transferBytes, sender }, context) {
        runPipes(options, state, context, scratch);
        const key = question * actorLimit + sender;
        if (state.lostPins.delete(key)) {
          if (blocks > 0) context.send(sender as ActorId, fetched, options.answerDelayNs, question, options.tier, 0);
        } else if (blocks === 0) unpin(state, key);
        else if (state.pins.has(key)) begin(options, state, context, upTransfer(sender, question, blocks, Math.ceil(transferBytes)));
        else throw new Error(`tier g${options.tier}: fetch for question ${question} of actor ${sender}, which holds no block; ask first`);
        settle(options, state, context);
      },
      transferEnded(state, { transfer, status }, context) {
        const ended = state.transfers.get(transfer);
        // Of a transfer that was lost while the tier was out there is nothing more to say.
        if (ended === undefined && !state.lostTransfers.delete(transfer))
          throw new Error(`tier g${options.tier}: transfer ${transfer} ended, which is not under way`);
        if (ended !== undefined) end(options, state, context, transfer, ended, status === 0);
        settle(options, state, context);
      },
      setTierSpeed(state, { factor }, context) {
        runPipes(options, state, context, scratch);
        if (factor === 0) goOut(options, state, context);
        else for (const pipe of state.pipes) setPipeSpeed(pipe, factor, context.now);
        state.speed = factor;
        settle(options, state, context);
      },
      tierWake(state, _view, context) {
        state.wakeAtNs = Number.POSITIVE_INFINITY;
        runPipes(options, state, context, scratch);
        settle(options, state, context);
      },
      tierSeries(state, _view, context) {
        state.seriesSet = false;
        emitSeries(options, state, context);
        settle(options, state, context);
      },
    },
  }) as unknown as TierKind;
}

/** Numbers of ended transfers; reused by all tiers of a kind within one handler. */
interface Scratch {
  done: Float64Array;
}

/** The blocks up to the first 0, of which no parents are known. */
function listOf(block0: number, block1: number, block2: number, block3: number): BlockList {
  const count = block1 === 0 ? 1 : block2 === 0 ? 2 : block3 === 0 ? 3 : 4;
  const identities = new Float64Array(count);
  identities[0] = block0;
  if (count > 1) identities[1] = block1;
  if (count > 2) identities[2] = block2;
  if (count > 3) identities[3] = block3;
  return { identities, parents: new Float64Array(count) };
}

/** Takes in what the tier wants of the blocks offered: those it lacks and that were offered often enough. */
function takeOffload(
  options: TierKindOptions,
  state: TierState,
  context: Context,
  sender: number,
  blocks: number,
  named: BlockList | null,
): void {
  const { store, totals } = state;
  totals.offeredBlocks += blocks;
  if (state.speed === 0) {
    totals.droppedBlocks += blocks;
    return;
  }
  // In place: the columns are this tier's own.
  const wanted = named === null ? 0 : wantedOf(store, named.identities, named.parents);
  let anonymous = blocks - (named === null ? 0 : named.identities.length);
  // Nobody offers those twice, so a frequency filter never wants them.
  if (store.offers !== null) {
    store.filteredBlocks += anonymous;
    anonymous = 0;
  }
  const taken = wanted + anonymous;
  if (taken === 0) return;
  const limit = options.offloadLimitBlocks ?? store.cache.capacityBlocks;
  if (state.descendingBlocks + taken > limit) {
    totals.droppedBlocks += taken;
    return;
  }
  state.descendingBlocks += taken;
  begin(options, state, context, {
    up: false,
    actor: sender,
    question: -1,
    blocks: taken,
    bytes: taken * options.blockBytes,
    named: named === null || wanted === 0 ? null : firstOf(named, wanted),
  });
}

function firstOf(list: BlockList, count: number): BlockList {
  if (count === list.identities.length) return list;
  return { identities: list.identities.slice(0, count), parents: list.parents.slice(0, count) };
}

/** Pins the leading blocks of the chain from `from` on that are here; how many. */
function pinPrefix(state: TierState, key: number, chain: Float64Array, from: number): number {
  const { store, totals } = state;
  const held = state.speed === 0 ? 0 : matchTier(store, chain, from, chain.length);
  totals.askedBlocks += chain.length - from;
  totals.foundBlocks += held;
  if (held === 0) return 0;
  const nodes = new Int32Array(held);
  for (let index = 0; index < held; index++) nodes[index] = pinTierBlock(store, chain[from + index]!);
  state.pins.set(key, nodes);
  state.pinnedBlocks += held;
  return held;
}

/** The tier fails: what moves is lost, nothing is held for anybody; a device loses what it has. */
function goOut(options: TierKindOptions, state: TierState, context: Context): void {
  for (const pipe of state.pipes) emptyPipe(pipe, context.now);
  state.waiting = [];
  for (const [number, transfer] of [...state.transfers]) {
    if (state.pipes.length === 0) state.lostTransfers.add(number);
    end(options, state, context, number, transfer, false);
  }
  for (const key of [...state.pins.keys()]) {
    unpin(state, key);
    state.lostPins.add(key);
  }
  if (state.pipes.length > 0) clearTierStore(state.store, null);
}

function unpin(state: TierState, key: number): void {
  const nodes = state.pins.get(key);
  if (nodes === undefined) return;
  // Last first, so that the leaf is the first to be evicted.
  for (let index = nodes.length - 1; index >= 0; index--) unpinTierBlock(state.store, nodes[index]!);
  state.pinnedBlocks -= nodes.length;
  state.pins.delete(key);
}

/** Time a fetch of `blocks` blocks would take if nothing else changed: latency, bytes, and half a poll until it is noticed. */
function estimate(options: TierKindOptions, state: TierState, sender: number, blocks: number): number {
  const bytes = blocks * options.blockBytes;
  if ('fabric' in options.through) {
    const { latencyNs, delayNs, estimateBytesPerSecond } = options.through.fabric;
    return Math.ceil(latencyNs + 2 * delayNs + (bytes / estimateBytesPerSecond) * 1e9 + options.answerDelayNs);
  }
  const pipe = state.pipes[0]!;
  return Math.ceil(pipe.latencyNs + (bytes / offeredBytesPerSecond(pipe, workerOf(state, sender))) * 1e9 + pipe.pollPeriodNs / 2);
}

function upTransfer(actor: number, question: number, blocks: number, bytes: number): TierTransfer {
  return { up: true, actor, question, blocks, bytes, named: null };
}

function begin(options: TierKindOptions, state: TierState, context: Context, transfer: TierTransfer): void {
  const number = state.transferCount++;
  state.transfers.set(number, transfer);
  if ('fabric' in options.through) {
    const { actor, endpointOf, delayNs, latencyNs, nodeOf } = options.through.fabric;
    const here = nodeOf(context.self);
    const there = nodeOf(transfer.actor);
    const [source, destination] = transfer.up ? [here, there] : [there, here];
    const to = (endpointOf?.(source) ?? actor.id) as ActorId;
    context.send(to, startFabricTransfer, delayNs + latencyNs, number, source, destination, transfer.bytes, 1);
  } else if (!enterPipe(state, number, transfer, context.now)) state.waiting.push(number);
}

function enterPipe(state: TierState, number: number, transfer: TierTransfer, nowNs: number): boolean {
  const pipe = state.pipes[transfer.up ? 0 : state.pipes.length - 1]!;
  return startTransfer(pipe, number, workerOf(state, transfer.actor), transfer.bytes, nowNs);
}

function workerOf(state: TierState, actor: number): number {
  const worker = state.workers.indexOf(actor);
  return worker < 0 ? state.workers.length : worker;
}

/** Ends what has been moved by now, and lets waiting transfers in. */
function runPipes(options: TierKindOptions, state: TierState, context: Context, scratch: Scratch): void {
  let ended = 0;
  for (const pipe of state.pipes) {
    if (nextStepNs(pipe) > context.now) continue;
    if (scratch.done.length < pipe.transferLimit) scratch.done = new Float64Array(pipe.transferLimit);
    const count = advance(pipe, context.now, scratch.done);
    for (let index = 0; index < count; index++) {
      const number = scratch.done[index]!;
      end(options, state, context, number, state.transfers.get(number) as TierTransfer, true);
    }
    ended += count;
  }
  if (ended === 0 || state.waiting.length === 0) return;
  // A full pipe holds up its own direction only.
  state.waiting = state.waiting.filter((number) => !enterPipe(state, number, state.transfers.get(number) as TierTransfer, context.now));
}

function end(options: TierKindOptions, state: TierState, context: Context, number: number, transfer: TierTransfer, arrived: boolean): void {
  const { totals, store, events } = state;
  state.transfers.delete(number);
  if (arrived) totals.movedBytes += transfer.bytes;
  else totals.failedTransfers++;
  if (transfer.up) {
    unpin(state, transfer.question * actorLimit + transfer.actor);
    const blocks = arrived ? transfer.blocks : 0;
    totals.fetchedBlocks += blocks;
    context.send(transfer.actor as ActorId, fetched, options.answerDelayNs, transfer.question, options.tier, blocks);
    return;
  }
  state.descendingBlocks -= transfer.blocks;
  if (!arrived) return;
  const kept = state.below >= 0 ? events : null;
  const { named } = transfer;
  if (named !== null) storeAllInTier(store, named.identities, named.parents, kept);
  const anonymous = transfer.blocks - (named === null ? 0 : named.identities.length);
  if (anonymous > 0) storeAnonymous(store, anonymous, kept);
}

/** After a message: what was stored or evicted goes down, timers follow. */
function settle(options: TierKindOptions, state: TierState, context: Context): void {
  if (state.events.length > 0) sendDown(options, state, context);
  let nextNs = Number.POSITIVE_INFINITY;
  for (const pipe of state.pipes) nextNs = Math.min(nextNs, nextCompletionNs(pipe));
  if (nextNs !== state.wakeAtNs) {
    if (state.wakeAtNs !== Number.POSITIVE_INFINITY) context.cancelTimer(state.wakeTimer);
    state.wakeAtNs = nextNs;
    if (nextNs !== Number.POSITIVE_INFINITY) state.wakeTimer = context.timer(tierWake, nextNs - context.now);
  }
  if (options.series === undefined || state.seriesSet || (state.transfers.size === 0 && state.pins.size === 0)) return;
  state.seriesSet = true;
  const { periodNs } = options.series;
  context.timer(tierSeries, periodNs - (context.now % periodNs));
}

function sendDown(options: TierKindOptions, state: TierState, context: Context): void {
  const { events } = state;
  const kind = options.offload === 'write-through' ? KV_STORED : KV_REMOVED;
  let named = 0;
  let blocks = 0;
  for (let row = 0; row < events.length; row++) {
    if (events.kinds[row] !== kind) continue;
    blocks += events.blocks[row]!;
    if (events.identities[row]! > 0) named++;
  }
  const list = { identities: new Float64Array(named), parents: new Float64Array(named) };
  for (let row = 0, at = 0; at < named; row++) {
    if (events.kinds[row] !== kind || events.identities[row]! <= 0) continue;
    list.identities[at] = events.identities[row]!;
    list.parents[at++] = events.parents[row]!;
  }
  clearKvEvents(events);
  if (blocks > 0) context.sendBody(state.below as ActorId, offload, options.belowDelayNs ?? 0, list, blocks, blocks * options.blockBytes);
}

function emitSeries(options: TierKindOptions, state: TierState, context: Context): void {
  const { store, totals, recorded } = state;
  totals.storedBlocks = store.storedBlocks;
  totals.evictedBlocks = store.evictedBlocks;
  totals.filteredBlocks = store.filteredBlocks;
  totals.refusedBlocks = store.refusedBlocks + totals.droppedBlocks;
  const since = (key: keyof TierTotals): number => totals[key] - recorded[key];
  const { usedBlocks, capacityBlocks } = store.cache;
  context.emit(tierLoad, options.tier, usedBlocks, capacityBlocks, state.pinnedBlocks, state.transfers.size, since('movedBytes'));
  context.emit(
    tierCounts,
    since('storedBlocks'),
    since('evictedBlocks'),
    since('filteredBlocks'),
    since('refusedBlocks'),
    since('askedBlocks'),
    since('foundBlocks'),
  );
  Object.assign(recorded, totals);
}
