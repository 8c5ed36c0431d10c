import type { ActorId, Context } from '@braess/kernel';
import {
  answerBegun,
  engineRole,
  finished,
  firstToken,
  outcome,
  prefillBegun,
  prefilled,
  refused,
  requestOfDispatch,
  tierHits,
} from '@braess/protocol';
import { advance, submit } from '../engine.js';
import { type EngineState, generatedTokens, nextSlot, passKind, slotState } from '../engine-state.js';
import { type EngineEvents, engineEvent } from '../events.js';
import { type EngineActorState, engineRefusal, openRow, requestKind } from './engine-actor-state.js';
import { abandonKv, bringKv } from './engine-kv.js';
import { boundaryDelayNs, type EngineScope, emptyEvents, speechDelayNs } from './engine-scope.js';
import { dropOldGaps, takeStretches } from './engine-telemetry.js';
import { longestGapSince, noteGap } from './gap-log.js';
import { clearPost, postToken, sendPost } from './token-post.js';

/** Runs the engine up to now and tells what is to be seen. */
export function runEngine<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context): void {
  const events = emptyEvents();
  advance(state.engine, scope.options.blocks, context.now, events);
  takeEvents(scope, state, context, events, boundaryDelayNs(state, context.now));
  if (state.streamingCount > 0) tellTokens(scope, state, context);
}

/** Submits a request to the scheduler; reports a refusal to its frontend. Returns its slot, or the refusal. */
export function submitRequest<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  request: number,
  frontend: number,
  kind: number,
  inputTokens: number,
  outputTokens: number,
  priority: number,
  prefillEngine: number,
  chain: Float64Array | null,
  arrivalNs: number,
  awaitsKv: boolean,
): number {
  const { engine, columns } = state;
  const { blocks } = scope.options;
  const slot = serves(engine, kind)
    ? submit(
        engine,
        blocks,
        { id: nextSlot(engine.requests), promptTokens: inputTokens, outputTokens, priority, transferred: awaitsKv },
        context.now,
      )
    : engineRefusal.wrongRole;
  if (slot < 0) {
    state.totals.refusedRequests++;
    refuse(scope, state, context, frontend, request, kind, slot);
    return slot;
  }
  blocks.open(engine.pool, slot, chain, request);
  openRow(columns, engine.requests.capacity, slot, request, frontend, kind, prefillEngine, arrivalNs);
  state.slots.set(request, slot);
  state.totals.acceptedRequests++;
  if (kind !== requestKind.decodeOnly) {
    columns.queued[slot] = 1;
    state.queuedTokens += inputTokens;
  }
  if (kind !== requestKind.prefillOnly && scope.options.streams?.(requestOfDispatch(request)) === true) {
    columns.streaming[slot] = 1;
    state.streamingCount++;
    engine.rules.wakesEachPass = true;
  }
  return slot;
}

/** Whether an engine in its present role serves a kind of request. */
export function serves<Pool>(engine: EngineState<Pool>, kind: number): boolean {
  return (engine.role === engineRole.prefill) === (kind === requestKind.prefillOnly);
}

function refuse<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  frontend: number,
  request: number,
  stage: number,
  reason: number,
): void {
  const delayNs = scope.options.controlDelayNs + speechDelayNs(state, context.now);
  context.send(frontend as ActorId, refused, delayNs, request, reason, stage);
}

/** Tells what the events of one advance show; `extraNs` is the time until the engine may speak. */
export function takeEvents<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  events: EngineEvents,
  extraNs: number,
): void {
  // Gaps first: those up to now belong to the requests that end now.
  if (events.stretches > 0) takeStretches(scope, state, context, events);
  for (let index = 0; index < events.count; index++) {
    const slot = events.slot[index]!;
    const value = events.value[index]!;
    switch (events.kind[index]) {
      case engineEvent.firstToken:
        tellFirstToken(scope, state, context, slot, value, extraNs);
        break;
      case engineEvent.finished:
        tellFinished(scope, state, context, slot, extraNs);
        break;
      case engineEvent.prefillDone:
        tellPrefilled(scope, state, context, slot, value, extraNs);
        break;
      case engineEvent.begun:
        tellBegun(scope, state, context, slot, extraNs);
        break;
      case engineEvent.reserved:
        bringKv(scope, state, context, slot, value);
        break;
      case engineEvent.preempted:
        foldGaps(state, slot);
        endGaps(scope, state, slot);
        // Its last token came at this boundary, and it no longer runs.
        if (state.columns.streaming[slot] === 1) tellToken(scope, state, context, slot, value);
        break;
      case engineEvent.resumed:
        resume(scope, state, slot, value);
        break;
      case engineEvent.failed:
        fail(scope, state, context, slot, extraNs);
        break;
      case engineEvent.left:
        state.totals.leftRequests++;
        closeSlot(scope, state, slot);
        break;
    }
  }
  if (events.stretches > 0) dropOldGaps(state);
}

function tellFirstToken<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  slot: number,
  startNs: number,
  extraNs: number,
): void {
  const { columns } = state;
  beginGaps(scope, state, slot);
  columns.toldTokens[slot] = 1;
  leaveQueue(state, slot);
  const delayNs = scope.options.controlDelayNs + extraNs;
  state.totals.outputTokens++;
  if (columns.kind[slot] !== requestKind.decodeOnly) {
    const hit = tellTierHits(state, context, slot, delayNs);
    const prompt = state.engine.requests.promptTokens[slot]!;
    const to = columns.frontend[slot] as ActorId;
    context.send(to, answerBegun, delayNs, columns.request[slot]!, startNs, context.now, hit, prompt - hit);
    return;
  }
  state.totals.decodeTokens++;
  context.send(
    columns.frontend[slot] as ActorId,
    firstToken,
    delayNs,
    columns.request[slot]!,
    context.now,
    columns.transferStartNs[slot]!,
    columns.transferEndNs[slot]!,
    columns.transferBytes[slot]!,
    columns.networkTier[slot]!,
  );
}

/** The first layer is there a share of the first pass from now; the message leaves then. */
function tellBegun<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, slot: number, extraNs: number): void {
  const { engine, columns } = state;
  const { controlDelayNs, overlapLayers = 1 } = scope.options;
  const endNs = engine.passKind === passKind.mixed ? engine.mixedEndNs : engine.requests.promptEndNs[slot]!;
  const layerNs = Math.ceil((endNs - context.now) / overlapLayers);
  context.send(columns.frontend[slot] as ActorId, prefillBegun, controlDelayNs + extraNs + layerNs, columns.request[slot]!);
}

/** Tells what came from lower tiers, and how long that took, ahead of the message that closes the account of the prompt; returns the tokens found anywhere. */
function tellTierHits<Pool>(state: EngineActorState<Pool>, context: Context, slot: number, delayNs: number): number {
  const { columns } = state;
  const [g2, g3, g4] = columns.tierTokens;
  const lower = g2[slot]! + g3[slot]! + g4[slot]!;
  const [fetchNs, fetchBytes] = [columns.fetchNs[slot]!, columns.fetchBytes[slot]!];
  if (lower > 0 || fetchNs > 0) {
    const to = columns.frontend[slot] as ActorId;
    context.send(to, tierHits, delayNs, columns.request[slot]!, g2[slot]!, g3[slot]!, g4[slot]!, fetchNs, fetchBytes);
  }
  return state.engine.requests.cachedTokens[slot]! + lower;
}

function tellPrefilled<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  slot: number,
  startNs: number,
  extraNs: number,
): void {
  const { columns, engine, totals } = state;
  const prompt = engine.requests.promptTokens[slot]!;
  const delayNs = scope.options.controlDelayNs + extraNs;
  const hit = tellTierHits(state, context, slot, delayNs);
  leaveQueue(state, slot);
  totals.hitTokens += hit;
  const to = columns.frontend[slot] as ActorId;
  const request = columns.request[slot]!;
  context.send(to, prefilled, delayNs, request, startNs, context.now, hit, prompt - hit);
}

function tellFinished<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  slot: number,
  extraNs: number,
): void {
  foldGaps(state, slot);
  state.totals.finishedRequests++;
  if (state.columns.kind[slot] === requestKind.whole) state.totals.hitTokens += foundTokens(state, slot);
  sendFinished(scope, state, context, slot, outcome.completed, extraNs);
  closeSlot(scope, state, slot);
}

function sendFinished<Pool>(
  scope: EngineScope<Pool>,
  state: EngineActorState<Pool>,
  context: Context,
  slot: number,
  result: number,
  extraNs: number,
): void {
  const { columns, engine } = state;
  const table = engine.requests;
  context.send(
    columns.frontend[slot] as ActorId,
    finished,
    scope.options.controlDelayNs + extraNs,
    columns.request[slot]!,
    result,
    result === outcome.completed ? context.now : -1,
    table.generated[slot]!,
    columns.longestGapNs[slot]!,
    table.preemptions[slot]!,
  );
}

/** Prompt tokens found in HBM and the tiers. */
function foundTokens<Pool>(state: EngineActorState<Pool>, slot: number): number {
  const [g2, g3, g4] = state.columns.tierTokens;
  return state.engine.requests.cachedTokens[slot]! + g2[slot]! + g3[slot]! + g4[slot]!;
}

/** Folds the gaps since its first token (or last restart) into the longest gap of a request. */
function foldGaps<Pool>(state: EngineActorState<Pool>, slot: number): void {
  const { columns } = state;
  const gap = longestGapSince(state.gaps, columns.gapsSince[slot]!);
  if (gap > columns.longestGapNs[slot]!) columns.longestGapNs[slot] = gap;
}

/** The first token after a preemption: its gap spans the recomputation. */
function resume<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, slot: number, gapNs: number): void {
  const { columns } = state;
  if (gapNs > columns.longestGapNs[slot]!) columns.longestGapNs[slot] = gapNs;
  beginGaps(scope, state, slot);
  state.totals.decodeTokens++;
  state.totals.outputTokens++;
  if (scope.options.telemetry?.gaps === true) noteGap(state.gaps, gapNs, tenantOf(scope, state, slot));
}

/** From here on a request has the gaps of the engine's stretches. */
function beginGaps<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, slot: number): void {
  const { columns, gaps } = state;
  columns.gapsSince[slot] = gaps.clock;
  if (gaps.tenants !== null) gaps.tenants.sequences[tenantOf(scope, state, slot)]!++;
}

/** It has them no more, if it had. */
function endGaps<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, slot: number): void {
  const { columns, gaps } = state;
  if (gaps.tenants !== null && columns.gapsSince[slot] !== Number.POSITIVE_INFINITY)
    gaps.tenants.sequences[tenantOf(scope, state, slot)]!--;
  columns.gapsSince[slot] = Number.POSITIVE_INFINITY;
}

/** The tenant of a request, 0 where tenants are not told apart. */
function tenantOf<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, slot: number): number {
  return scope.options.telemetry?.tenants?.of(requestOfDispatch(state.columns.request[slot]!)) ?? 0;
}

function leaveQueue<Pool>(state: EngineActorState<Pool>, slot: number): void {
  if (state.columns.queued[slot] === 0) return;
  state.columns.queued[slot] = 0;
  state.queuedTokens -= state.engine.requests.promptTokens[slot]!;
}

/** Forgets a request that has left the scheduler. */
export function closeSlot<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, slot: number): void {
  const { columns, engine } = state;
  const request = columns.request[slot]!;
  scope.options.blocks.close(engine.pool, slot);
  if (state.slots.get(request) === slot) state.slots.delete(request);
  leaveQueue(state, slot);
  endGaps(scope, state, slot);
  columns.transfer[slot] = -1;
  columns.inquiry[slot] = -1;
  if (columns.streaming[slot] === 0) return;
  columns.streaming[slot] = 0;
  state.streamingCount--;
  if (state.streamingCount === 0) engine.rules.wakesEachPass = false;
}

/** The engine died under a request. */
function fail<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, slot: number, extraNs: number): void {
  abandonKv(scope, state, context, slot, extraNs);
  // A cancelled one has nobody to tell.
  if (state.slots.get(state.columns.request[slot]!) === slot) {
    foldGaps(state, slot);
    state.totals.failedRequests++;
    sendFinished(scope, state, context, slot, outcome.failed, extraNs);
  } else state.totals.leftRequests++;
  closeSlot(scope, state, slot);
}

/** Reports a request whose KV will not come, with the outcome that says why; it has left the scheduler. */
export function failMove<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, slot: number, why: number): void {
  state.totals.failedRequests++;
  sendFinished(scope, state, context, slot, why, speechDelayNs(state, context.now));
  closeSlot(scope, state, slot);
}

/** The frontends hear of each token of each streaming request; the last comes with `finished`. */
function tellTokens<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context): void {
  const { columns, engine } = state;
  const delayNs = scope.options.controlDelayNs + boundaryDelayNs(state, context.now);
  clearPost();
  for (let index = 0; index < engine.runningCount; index++) {
    const slot = engine.running[index]!;
    if (columns.streaming[slot] === 0 || engine.requests.state[slot] !== slotState.decoding) continue;
    const count = generatedTokens(engine, slot);
    for (let told = columns.toldTokens[slot]!; told < count; told++)
      postToken(context, columns.frontend[slot]!, delayNs, columns.request[slot]!);
    if (count > columns.toldTokens[slot]!) columns.toldTokens[slot] = count;
  }
  sendPost(context, delayNs);
}

/** The last token of a request before it was preempted. */
function tellToken<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, slot: number, count: number): void {
  const { columns } = state;
  if (count <= columns.toldTokens[slot]!) return;
  columns.toldTokens[slot] = count;
  const delayNs = scope.options.controlDelayNs + boundaryDelayNs(state, context.now);
  clearPost();
  postToken(context, columns.frontend[slot]!, delayNs, columns.request[slot]!);
  sendPost(context, delayNs);
}
