import { message } from '@braess/kernel';
import {
  cancel,
  decode,
  dispatchNumber,
  engineRole,
  engineStatus,
  isDraining,
  isMoving,
  kvLost,
  outcome,
  prefill,
  REASON,
} from '@braess/protocol';
import { siteOf } from '../oracle/site.js';
import { chargeDecode, chargePrefill, chargeTransfer, noteLoadChange, release } from './account.js';
import { decodeQueueOf, waitingRequests } from './decode-queues.js';
import { dropEarly } from './early-decode.js';
import { fairTag, noteServed } from './fair-order.js';
import { allBusy, engineMoves, noEngine, route, tokensToCompute } from './routing.js';
import { settle } from './settle.js';
import { allCharges, beginAttempt, charge, forgetProgress, slotStage } from './slots.js';
import type { FrontendContext, FrontendDesk, FrontendState } from './state.js';
import { standsStill } from './stillness.js';
import { firstWaiting, pushWaiting, putBack, removeWaiting, takeFirst, type Waiting, type WaitingQueue } from './waiting-queue.js';

/** frontend -> itself: decide on the decodes that wait, if nothing was decided since. */
export const decodeDue = message('decodeDue', ['turn']);

/** Sends a request to its first engine, or lets it wait, or rejects it. */
export function placeFirst(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number): void {
  state.slots.stage[slot] = slotStage.waitingFirst;
  // Nobody overtakes those who wait already, unless the queue's own order says so.
  const engine = state.firstQueue.count > 0 ? allBusy : route(desk, state, context, slot, false);
  if (engine >= 0) dispatchFirst(desk, state, context, slot, engine);
  else waitOrReject(desk, state, context, slot, engine, false);
}

/** Sends a prefilled request to a decode engine, or lets it wait: its KV stays held at the prefill engine. */
export function placeDecode(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number): void {
  state.slots.stage[slot] = slotStage.waitingDecode;
  const together = desk.settings.decodeRouter.policy.joint !== undefined;
  const engine = together || decodeQueueOf(desk, state, slot).count > 0 ? allBusy : route(desk, state, context, slot, true);
  if (engine >= 0) dispatchDecode(desk, state, context, slot, engine);
  else waitOrReject(desk, state, context, slot, engine, true);
}

/** The prompt is being computed: a decode engine may fetch its KV layer by layer. Where none is free now, one is looked for when it is computed. */
export function placeEarly(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number): void {
  // Nobody overtakes those who wait, and joint decisions are made of whole prompts.
  if (desk.settings.decodeRouter.policy.joint !== undefined || decodeQueueOf(desk, state, slot).count > 0) return;
  const engine = route(desk, state, context, slot, true);
  if (engine < 0) return;
  state.slots.early[slot] = 1;
  dispatchDecode(desk, state, context, slot, engine);
}

function waitOrReject(
  desk: FrontendDesk,
  state: FrontendState,
  context: FrontendContext,
  slot: number,
  why: number,
  decoding: boolean,
): void {
  const { slots, counters } = state;
  if (why === noEngine && !engineMoves(state)) {
    rejectPlaced(desk, state, context, slot, slots.avoidEngine[slot]! >= 0 ? REASON.queueFull : REASON.noWorker);
    return;
  }
  const queue = decoding ? decodeQueueOf(desk, state, slot) : state.firstQueue;
  const key = decoding ? decodeKey(desk, state, slot) : firstKey(desk, state, slot);
  if (!pushWaiting(queue, slots.heapPlace, slot, key)) {
    rejectPlaced(desk, state, context, slot, REASON.queueFull);
    return;
  }
  counters.mostWaiting = Math.max(counters.mostWaiting, waitingRequests(state));
  if (decoding) armDecode(desk, state, context, queue);
}

/** What a request of the first queue is sorted by, lowest first. */
function firstKey(desk: FrontendDesk, state: FrontendState, slot: number): number {
  const { slots } = state;
  const { order } = desk.settings.queue;
  if (order === 'wspt') return tokensToCompute(desk, state, slot) / (1 + Math.max(0, slots.priority[slot]!));
  return order === 'fair' ? fairTag(state.fairOrder, slots.tenant[slot]!, tokensToCompute(desk, state, slot)) : 0;
}

/** Where priorities decide on tiers they decide on turns, too. */
function decodeKey(desk: FrontendDesk, state: FrontendState, slot: number): number {
  return desk.settings.decodeStage.nearPriority === undefined ? 0 : -state.slots.priority[slot]!;
}

function dispatchFirst(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number, engine: number): void {
  const { slots, engines } = state;
  const { engineDelayNs } = desk.settings;
  const aggregated = engines.role[engine] === engineRole.aggregated;
  chargePrefill(desk, state, slot, engine, desk.view.overlapBlocks[engine]!);
  slots.prefillEngine[slot] = engine;
  slots.stage[slot] = aggregated ? slotStage.aggregated : slotStage.prefill;
  slots.queuedNs[slot] = context.now + engineDelayNs;
  slots.dispatch[slot] = dispatchNumber(slots.request[slot]!, state.recalled);
  context.sendBody(
    engines.actors[engine]!,
    prefill,
    engineDelayNs,
    slots.chains[slot],
    slots.dispatch[slot]!,
    slots.inputTokens[slot]!,
    slots.outputTokens[slot]!,
    slots.priority[slot]!,
    aggregated ? 1 : 0,
  );
  noteLoadChange(desk, state, context);
}

export function dispatchDecode(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number, engine: number): void {
  const { slots, engines } = state;
  chargeDecode(desk, state, slot, engine);
  chargeTransfer(state, slot, transferTier(desk, state, slot, engine));
  const early = slots.early[slot]!;
  slots.decodeEngine[slot] = engine;
  // A transfer that waits for its prompt says nothing about the network.
  slots.predictedNs[slot] = desk.view.network === null || early === 1 ? Number.NaN : desk.network.transferNsOf(engine);
  slots.predictedWayNs[slot] = desk.view.network === null ? 0 : desk.network.latencyNsOf(engine);
  if (early === 0) slots.stage[slot] = slotStage.decode;
  context.sendBody(
    engines.actors[engine]!,
    decode,
    desk.settings.engineDelayNs,
    slots.chains[slot],
    slots.dispatch[slot]!,
    slots.inputTokens[slot]!,
    slots.outputTokens[slot]!,
    engines.actors[slots.prefillEngine[slot]!]!,
    slots.priority[slot]!,
    early,
  );
  noteLoadChange(desk, state, context);
}

/** Network distance that the router was told, else what the topology says. */
function transferTier(desk: FrontendDesk, state: FrontendState, slot: number, engine: number): number {
  const told = desk.view.network === null ? -1 : desk.network.tierOf(engine);
  if (told >= 0) return told;
  return siteOf(desk.settings.site, state.engines.count).tierBetween(state.slots.prefillEngine[slot]!, engine);
}

/** Engines have come free or come back: whoever waits goes, in the order of the queues. */
export function drainQueues(desk: FrontendDesk, state: FrontendState, context: FrontendContext): void {
  if (desk.settings.decodeRouter.policy.joint !== undefined) armDecode(desk, state, context);
  else {
    drain(desk, state, context, state.decodeQueue, true);
    drain(desk, state, context, state.longQueue, true);
    armDecode(desk, state, context);
  }
  freeDraining(desk, state, context);
  drain(desk, state, context, state.firstQueue, false);
}

function drain(desk: FrontendDesk, state: FrontendState, context: FrontendContext, queue: WaitingQueue, decoding: boolean): void {
  const { heapPlace, avoidEngine } = state.slots;
  let aside: Waiting[] | undefined;
  for (let slot = firstWaiting(queue); slot >= 0; slot = firstWaiting(queue)) {
    const overtakes = aside !== undefined;
    const engine = overtakes && !holdsUpDrain(state, slot) ? noEngine : route(desk, state, context, slot, decoding);
    if (engine === allBusy) break;
    if (engine === noEngine && engineMoves(state)) {
      // It waits for another engine than the one that refused it. That other one may drain, held up by KV of those behind it: only these go first.
      if (!overtakes && (!decoding || avoidEngine[slot]! < 0)) break;
      aside ??= [];
      aside.push(takeFirst(queue, heapPlace) as Waiting);
      continue;
    }
    if (!decoding) noteServed(state.fairOrder, queue.keys[0]!);
    removeWaiting(queue, heapPlace, slot);
    if (engine === noEngine) rejectPlaced(desk, state, context, slot, REASON.noWorker);
    else if (decoding) dispatchDecode(desk, state, context, slot, engine);
    else dispatchFirst(desk, state, context, slot, engine);
  }
  if (aside !== undefined) for (const waiting of aside) putBack(queue, heapPlace, waiting);
}

/** The engine that computed its prompt drains, and is held up until its KV is fetched. */
function holdsUpDrain({ slots, engines }: FrontendState, slot: number): boolean {
  return isDraining(engines.status[slots.prefillEngine[slot]!]!);
}

/**
 * Makes sure that waiting decodes are decided on together, or looked at again where time alone may let them go. With the newcomer to `joined` a joint policy's
 * group may be full: then at once.
 */
export function armDecode(desk: FrontendDesk, state: FrontendState, context: FrontendContext, joined?: WaitingQueue): void {
  const { decodeRouter, decodeStage } = desk.settings;
  const joint = decodeRouter.policy.joint?.(state.decodeParameters ?? decodeRouter.parameters);
  if (state.decodeQueue.count + state.longQueue.count === 0 || (joint === undefined && !decodeStage.retries)) return;
  const full = joint !== undefined && joined?.gathered === joint.together;
  if (state.decodeArmed && !full) return;
  // Asked again and again, a policy that takes no engine would keep the run alive for ever.
  if (standsStill(state.decodeStill, state.counters, context.now)) return;
  state.decodeArmed = true;
  const delayNs = full ? 0 : (joint?.windowNs ?? decodeStage.retryNs);
  context.send(context.self, decodeDue, delayNs, ++state.decodeTurn);
}

/**
 * An engine that drains holds KV until it is fetched. Where no engine is left to fetch it, and none comes but those that wait for just that, engine and
 * request would wait for each other for ever: such requests start over, those whose KV is elsewhere wait for what the engines turn into. Of requests
 * of other frontends an engine itself tells, once it has nothing left but such KV: of several, the one of the lowest number is freed first.
 */
function freeDraining(desk: FrontendDesk, state: FrontendState, context: FrontendContext): void {
  const { slots, engines, decodeCandidates, decodeCount } = state;
  if (decodeCount > 1 || state.decodeQueue.count + state.longQueue.count === 0) return;
  const held: number[][] = [];
  for (let slot = 0; slot < slots.used; slot++) {
    const engine = slots.prefillEngine[slot]!;
    if (slots.stage[slot] !== slotStage.waitingDecode || !isDraining(engines.status[engine]!)) continue;
    if (decodeCount === 0 || decodeCandidates[0] === slots.avoidEngine[slot]) (held[engine] ??= []).push(slot);
  }
  let comes = Number.POSITIVE_INFINITY;
  for (let engine = 0; engine < engines.count; engine++) {
    if (!isMoving(engines.status[engine]!) || held[engine] !== undefined) continue;
    if (engines.status[engine] !== engineStatus.drainingHeld) return;
    comes = Math.min(comes, engine);
  }
  const first = held.findIndex((slotsThere) => slotsThere !== undefined);
  if (first < 0 || first > comes) return;
  for (const slot of held[first]!) startOver(desk, state, context, slot);
}

/** Forgets what was computed and begins again with the first stage, because engines changed their roles. */
function startOver(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number): void {
  const { slots, counters } = state;
  if (slots.heapPlace[slot]! >= 0) removeWaiting(decodeQueueOf(desk, state, slot), slots.heapPlace, slot);
  cancelAt(desk, state, context, slot, slots.prefillEngine[slot]!);
  if (!beginAttempt(slots, slot, desk.settings.maxAttempts, true)) {
    settle(desk, state, context, slot, outcome.rejected, REASON.noWorker);
    return;
  }
  release(desk, state, slot, allCharges);
  forgetProgress(slots, slot);
  counters.retries++;
  placeFirst(desk, state, context, slot);
}

/**
 * Rejects a request that no engine works on; KV that a prefill engine holds for it is let go. Where no decode engine is left and only aggregated ones
 * serve, it starts over there.
 */
export function rejectPlaced(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number, reason: number): void {
  const { slots, firstCount, firstStageHasPrefill } = state;
  if (slots.stage[slot] === slotStage.waitingDecode) {
    if (reason === REASON.noWorker && firstCount > 0 && !firstStageHasPrefill) {
      startOver(desk, state, context, slot);
      return;
    }
    cancelAt(desk, state, context, slot, slots.prefillEngine[slot]!);
  }
  settle(desk, state, context, slot, outcome.rejected, reason);
}

function cancelAt(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number, engine: number): void {
  state.recalled++;
  context.send(state.engines.actors[engine]!, cancel, desk.settings.engineDelayNs, state.slots.dispatch[slot]!);
}

/** Ends a request that the client gave up or that is out of time: the engine that has it is told. */
export function abandon(
  desk: FrontendDesk,
  state: FrontendState,
  context: FrontendContext,
  slot: number,
  ended: number,
  reason: number,
): void {
  const { slots } = state;
  const stage = slots.stage[slot];
  dropEarly(desk, state, context, slot, true);
  if (stage === slotStage.decode) cancelAt(desk, state, context, slot, slots.decodeEngine[slot]!);
  // In the decode stage, too: word by way of the decode engine may come after the request's next attempt.
  if (stage !== slotStage.waitingFirst) cancelAt(desk, state, context, slot, slots.prefillEngine[slot]!);
  settle(desk, state, context, slot, ended, reason);
}

/** The engine that had the request died, or its KV was lost on the way: the request starts over elsewhere, or fails for that reason. */
export function loseAttempt(desk: FrontendDesk, state: FrontendState, context: FrontendContext, slot: number, reason: number): void {
  const { slots, counters } = state;
  const { maxAttempts, onEngineDeath } = desk.settings;
  dropEarly(desk, state, context, slot, true);
  // The prefill engine may still hold the KV that nobody will fetch now.
  if (slots.stage[slot] === slotStage.decode) cancelAt(desk, state, context, slot, slots.prefillEngine[slot]!);
  if (onEngineDeath === 'fail' || !beginAttempt(slots, slot, maxAttempts, false)) {
    settle(desk, state, context, slot, outcome.failed, reason);
    return;
  }
  if (slots.stage[slot] === slotStage.waitingDecode) removeWaiting(decodeQueueOf(desk, state, slot), slots.heapPlace, slot);
  release(desk, state, slot, allCharges);
  forgetProgress(slots, slot);
  counters.retries++;
  placeFirst(desk, state, context, slot);
}

/** All requests of an engine that died. */
export function loseEngine(desk: FrontendDesk, state: FrontendState, context: FrontendContext, engine: number): void {
  const { slots } = state;
  // A request that starts over keeps its slot, now at another engine, so one pass sees each once.
  for (let slot = 0; slot < slots.used; slot++) {
    const stage = slots.stage[slot];
    // Its prefill goes on; another decode engine will be asked at its end.
    if (stage === slotStage.prefill && slots.early[slot] === 1 && slots.decodeEngine[slot] === engine)
      dropEarly(desk, state, context, slot, false);
    // Its KV can be fetched no more; the decode engine knows whether it has arrived.
    if (stage === slotStage.decode && slots.prefillEngine[slot] === engine && slots.transferEndNs[slot]! < 0)
      context.send(state.engines.actors[slots.decodeEngine[slot]!]!, kvLost, desk.settings.engineDelayNs, slots.dispatch[slot]!);
    const holder = stage === slotStage.decode ? slots.decodeEngine[slot] : slots.prefillEngine[slot];
    if (stage !== slotStage.free && stage !== slotStage.waitingFirst && holder === engine)
      loseAttempt(desk, state, context, slot, REASON.workerLost);
  }
}

/** An engine refused the request: another is asked, until the attempts are used up. */
export function refuseAttempt(
  desk: FrontendDesk,
  state: FrontendState,
  context: FrontendContext,
  slot: number,
  engine: number,
  reason: number,
): void {
  const { slots, counters } = state;
  const { maxAttempts, permanentRefusals, movedRefusals } = desk.settings;
  const decoding = slots.stage[slot] === slotStage.decode;
  const [permanent, moved] = [permanentRefusals.includes(reason), movedRefusals.includes(reason)];
  release(
    desk,
    state,
    slot,
    decoding ? charge.decodeEngine | charge.transfer | charge.placement : charge.prefillTokens | charge.prefillEngine,
  );
  if (decoding) slots.stage[slot] = slotStage.waitingDecode;
  if (permanent || !beginAttempt(slots, slot, maxAttempts, moved)) {
    rejectPlaced(desk, state, context, slot, permanent ? REASON.tooLong : REASON.queueFull);
    return;
  }
  // One that moves has told so before, and may be back in time.
  if (!moved) slots.avoidEngine[slot] = engine;
  counters.retries++;
  if (decoding) placeDecode(desk, state, context, slot);
  else placeFirst(desk, state, context, slot);
}
