import { type ActorKind, actorKind, type Context } from '@braess/kernel';
import {
  cancel as cancelMessage,
  changeRole as changeRoleMessage,
  decode,
  engineStatus,
  fetched,
  isDraining,
  kvComplete,
  kvLost,
  lookupAnswer,
  memberSpeed,
  outcome,
  type PromptBlocks,
  prefill,
  releaseKv,
  requestOfDispatch,
  setTelemetryLoss,
  startEngine as startEngineMessage,
  stopEngine as stopEngineMessage,
  transferEnded,
} from '@braess/protocol';
import {
  cancel,
  changeRole,
  killEngine,
  nextEventNs,
  releaseHeld,
  reportGaps,
  setSpeedFactor,
  settleEngine,
  startEngine,
  stopEngine,
} from '../engine.js';
import { liveRequests, passKind, slotState } from '../engine-state.js';
import { createEngineActorState, type EngineActorState, requestKind } from './engine-actor-state.js';
import { abandonKv, completeMove, endFetch, endMove } from './engine-kv.js';
import { sendEvents, tendEvents } from './engine-kv-events.js';
import type { EngineKindOptions, EngineSetup } from './engine-options.js';
import { closeSlot, failMove, runEngine, serves, submitRequest, takeEvents } from './engine-requests.js';
import {
  boundaryDelayNs,
  createScope,
  type EngineScope,
  emptyEvents,
  engineEventsDue,
  engineReport,
  engineTelemetry,
  engineWake,
  promiseQuiet,
  setWake,
  speechDelayNs,
  unknownDelay,
} from './engine-scope.js';
import { emitRecords, sendLoad, sendState, setPeriods, statusToTell } from './engine-telemetry.js';
import { failInquiries, giveUpInquiry, startInquiry, takeAnswer } from './inquiries.js';

const messages = {
  prefill,
  decode,
  cancel: cancelMessage,
  releaseKv,
  kvComplete,
  kvLost,
  transferEnded,
  lookupAnswer,
  fetched,
  memberSpeed,
  changeRole: changeRoleMessage,
  startEngine: startEngineMessage,
  stopEngine: stopEngineMessage,
  setTelemetryLoss,
  engineWake,
  engineReport,
  engineEventsDue,
  engineTelemetry,
};

/** The kind of an engine actor: its set-up is an `EngineSetup`, its state an `EngineActorState`. */
export type EngineKind = ActorKind<string, keyof typeof messages & string, EngineSetup>;

/**
 * The scheduler of a tensor-parallel group as an actor. Requests come by `prefill` (whole, or the prompt only) and `decode`; the sender gets the reports. It
 * wakes at its next event only, so passes that nobody sees cost nothing. Lazy and stepwise engines send the same messages at the same times.
 */
export function engineKind<Pool>(options: EngineKindOptions<Pool>): EngineKind {
  const scope = createScope(options);
  return actorKind({
    name: options.name ?? 'engine',
    messages,
    ...(options.sendsTo === undefined ? {} : { sendsTo: options.sendsTo }),
    state: (setup: EngineSetup) => createEngineActorState(options, setup),
    atEnd: (state) => [...heldAtEnd(state), ...checkEngineActor(options, state)],
    on: {
      ...requestHandlers(scope),
      ...kvHandlers(scope),
      ...statusHandlers(scope),
      engineWake(state, _message, context) {
        state.wakeAtNs = Number.POSITIVE_INFINITY;
        runEngine(scope, state, context);
        settle(scope, state, context, boundaryDelayNs(state, context.now));
      },
      engineReport(state, _message, context) {
        state.reportSet = false;
        catchUp(scope, state, context);
        settleEngine(state.engine, options.blocks, context.now);
        sendLoad(scope, state, context, speechDelayNs(state, context.now));
        keepUp(scope, state, context, unknownDelay);
      },
      engineEventsDue(state, _message, context) {
        state.eventsSet = false;
        catchUp(scope, state, context);
        settleEngine(state.engine, options.blocks, context.now);
        sendEvents(scope, state, context, speechDelayNs(state, context.now));
        settle(scope, state, context, unknownDelay);
      },
      engineTelemetry(state, _message, context) {
        state.telemetrySet = false;
        catchUp(scope, state, context);
        const events = emptyEvents();
        reportGaps(state.engine, options.blocks, context.now, events);
        takeEvents(scope, state, context, events, 0);
        emitRecords(scope, state, context);
        keepUp(scope, state, context, unknownDelay);
      },
    },
  }) as unknown as EngineKind;
}

type State<Pool> = EngineActorState<Pool>;
type Body = { readonly body: PromptBlocks };
type Fields<Name extends string> = { readonly [Field in Name]: number };

function requestHandlers<Pool>(scope: EngineScope<Pool>) {
  return {
    prefill(
      state: State<Pool>,
      message: Body & Fields<'sender' | 'request' | 'inputTokens' | 'outputTokens' | 'priority' | 'decodeHere'>,
      context: Context,
    ): void {
      catchUp(scope, state, context);
      const { request, sender, inputTokens, outputTokens, priority } = message;
      const chain = message.body ?? null;
      expectNew(state, request);
      const kind = message.decodeHere === 1 ? requestKind.whole : requestKind.prefillOnly;
      const asked =
        state.tiers.length > 0 &&
        chain !== null &&
        startInquiry(scope, state, context, request, sender, kind, inputTokens, outputTokens, priority, chain);
      if (!asked)
        submitRequest(scope, state, context, request, sender, kind, inputTokens, outputTokens, priority, -1, chain, context.now, false);
      settle(scope, state, context, unknownDelay);
    },
    decode(
      state: State<Pool>,
      message: Body & Fields<'sender' | 'request' | 'inputTokens' | 'outputTokens' | 'prefillEngine' | 'priority' | 'incomplete'>,
      context: Context,
    ): void {
      catchUp(scope, state, context);
      const { request, sender, inputTokens, outputTokens, prefillEngine, priority } = message;
      const kind = requestKind.decodeOnly;
      // An engine may be asked to decode what it prefilled itself; that it refuses, for it can serve in one role only.
      if (serves(state.engine, kind)) expectNew(state, request);
      const slot = submitRequest(
        scope,
        state,
        context,
        request,
        sender,
        kind,
        inputTokens,
        outputTokens,
        priority,
        prefillEngine,
        message.body ?? null,
        context.now,
        true,
      );
      if (slot >= 0) state.columns.incomplete[slot] = message.incomplete;
      settle(scope, state, context, unknownDelay);
    },
    cancel(state: State<Pool>, message: Fields<'request'>, context: Context): void {
      catchUp(scope, state, context);
      const slot = state.slots.get(message.request);
      const extraNs = speechDelayNs(state, context.now);
      if (slot !== undefined && slot < 0) giveUpInquiry(state, -1 - slot);
      else if (slot !== undefined) {
        state.slots.delete(message.request);
        abandonKv(scope, state, context, slot, extraNs);
        if (cancel(state.engine, scope.options.blocks, slot, context.now)) {
          state.totals.leftRequests++;
          closeSlot(scope, state, slot);
        }
      }
      settle(scope, state, context, extraNs);
    },
  };
}

function kvHandlers<Pool>(scope: EngineScope<Pool>) {
  return {
    releaseKv(state: State<Pool>, message: Fields<'request'>, context: Context): void {
      catchUp(scope, state, context);
      const slot = state.slots.get(message.request);
      // Not so when the request was cancelled here, or lost, meanwhile; nor does word of an attempt that was given up concern the next one.
      if (
        slot !== undefined &&
        slot >= 0 &&
        state.engine.requests.state[slot] === slotState.held &&
        state.columns.arrivalNs[slot]! <= context.now - scope.options.serverDelayNs
      ) {
        releaseHeld(state.engine, scope.options.blocks, slot, context.now);
        state.totals.finishedRequests++;
        closeSlot(scope, state, slot);
      }
      settle(scope, state, context, unknownDelay);
    },
    kvComplete(state: State<Pool>, message: Fields<'request'>, context: Context): void {
      catchUp(scope, state, context);
      const slot = state.slots.get(message.request);
      // Not so when it was lost or given up here meanwhile.
      if (slot !== undefined && slot >= 0) completeMove(scope, state, context, slot);
      settle(scope, state, context, unknownDelay);
    },
    kvLost(state: State<Pool>, message: Fields<'request'>, context: Context): void {
      catchUp(scope, state, context);
      const slot = state.slots.get(message.request);
      if (slot !== undefined && slot >= 0 && state.columns.transferEndNs[slot]! < 0) {
        abandonKv(scope, state, context, slot, speechDelayNs(state, context.now));
        cancel(state.engine, scope.options.blocks, slot, context.now);
        failMove(scope, state, context, slot, outcome.failed);
      }
      settle(scope, state, context, unknownDelay);
    },
    transferEnded(
      state: State<Pool>,
      message: Fields<'transfer' | 'status' | 'startNs' | 'movedBytes' | 'networkTier'>,
      context: Context,
    ): void {
      catchUp(scope, state, context);
      const { transfer, status, startNs, movedBytes, networkTier } = message;
      const lost = endMove(scope, state, context, transfer, status, startNs, movedBytes, networkTier);
      if (lost >= 0) {
        cancel(state.engine, scope.options.blocks, lost, context.now);
        failMove(scope, state, context, lost, outcome.transferLost);
      }
      settle(scope, state, context, unknownDelay);
    },
    lookupAnswer(state: State<Pool>, message: Fields<'question' | 'held' | 'estimateNs'>, context: Context): void {
      catchUp(scope, state, context);
      takeAnswer(scope, state, context, message.question, message.held, message.estimateNs);
      settle(scope, state, context, unknownDelay);
    },
    fetched(state: State<Pool>, message: Fields<'question' | 'blocks'>, context: Context): void {
      catchUp(scope, state, context);
      const inquiry = state.inquiries.get(message.question);
      if (inquiry !== undefined) endFetch(scope, state, context, message.question, inquiry, message.blocks);
      settle(scope, state, context, unknownDelay);
    },
  };
}

function statusHandlers<Pool>(scope: EngineScope<Pool>) {
  const restartNs = scope.options.restartNs ?? 60e9;
  return {
    memberSpeed(state: State<Pool>, message: Fields<'member' | 'factor'>, context: Context): void {
      catchUp(scope, state, context);
      const { member, factor } = message;
      if (!(member >= 0 && member < state.memberSpeeds.length))
        throw new Error(`engine: speed of member ${member}; the group has ${state.memberSpeeds.length}`);
      state.memberSpeeds[member] = factor;
      const slowest = Math.min(...state.memberSpeeds);
      const extraNs = speechDelayNs(state, context.now);
      const { status } = state.engine;
      if (slowest > 0) {
        if (status === engineStatus.dead) startEngine(state.engine, state.engine.nextRole, context.now, restartNs);
        setSpeedFactor(state.engine, scope.options.blocks, slowest, context.now);
      } else if (status !== engineStatus.dead && status !== engineStatus.off) die(scope, state, context, extraNs);
      settle(scope, state, context, extraNs);
    },
    changeRole(state: State<Pool>, message: Fields<'role' | 'switchNs'>, context: Context): void {
      catchUp(scope, state, context);
      const { engine } = state;
      // A planner that acts on an old view may ask twice, or ask a dead engine.
      if (engine.status === engineStatus.active && engine.role !== message.role)
        changeRole(engine, scope.options.blocks, message.role, context.now, message.switchNs);
      settle(scope, state, context, unknownDelay);
    },
    startEngine(state: State<Pool>, message: Fields<'role' | 'startNs'>, context: Context): void {
      catchUp(scope, state, context);
      const { engine } = state;
      if (engine.status === engineStatus.dead || engine.status === engineStatus.off) {
        if (Math.min(...state.memberSpeeds) > 0) startEngine(engine, message.role, context.now, message.startNs);
        else {
          // Wanted, but broken: it starts when its GPU is back.
          engine.status = engineStatus.dead;
          engine.nextRole = message.role;
        }
      }
      settle(scope, state, context, unknownDelay);
    },
    stopEngine(state: State<Pool>, _message: object, context: Context): void {
      catchUp(scope, state, context);
      if (state.engine.status === engineStatus.active) stopEngine(state.engine, scope.options.blocks, context.now);
      settle(scope, state, context, unknownDelay);
    },
    setTelemetryLoss(state: State<Pool>, message: Fields<'lost'>, _context: Context): void {
      state.telemetryLost = message.lost === 1;
    },
  };
}

/** A GPU died: every request here fails, all KV is gone. */
function die<Pool>(scope: EngineScope<Pool>, state: State<Pool>, context: Context, extraNs: number): void {
  state.silentUntilNs = context.now + extraNs;
  const events = emptyEvents();
  killEngine(state.engine, scope.options.blocks, context.now, events);
  // Before the failures: whoever hears of those must not send the request back here.
  sendState(scope, state, context, extraNs);
  failInquiries(scope, state, context, extraNs);
  takeEvents(scope, state, context, events, extraNs);
  scope.options.blocks.clear(state.engine.pool);
}

/** Before a message: what was due is told first. An idle engine's wake is left to its timer, so that all messages of one instant come before it. */
function catchUp<Pool>(scope: EngineScope<Pool>, state: State<Pool>, context: Context): void {
  if (state.engine.passKind !== passKind.none && nextEventNs(state.engine) <= context.now) runEngine(scope, state, context);
}

/** After a message that is no periodic one of its own. */
function settle<Pool>(scope: EngineScope<Pool>, state: State<Pool>, context: Context, extraNs: number): void {
  state.touchedNs = context.now;
  keepUp(scope, state, context, extraNs);
}

/** Status, KV events, timers and promises follow what has changed. */
function keepUp<Pool>(scope: EngineScope<Pool>, state: State<Pool>, context: Context, extraNs: number): void {
  const { engine } = state;
  // Its GPUs are somebody else's now, and what they held is gone.
  if (engine.status === engineStatus.off && isDraining(state.reportedStatus)) scope.options.blocks.clear(engine.pool);
  if (statusToTell(state) !== state.reportedStatus || engine.role !== state.reportedRole)
    sendState(scope, state, context, extraNs === unknownDelay ? speechDelayNs(state, context.now) : extraNs);
  tendEvents(scope, state, context, extraNs);
  setPeriods(scope, state, context);
  setWake(state, context);
  promiseQuiet(scope, state, context);
}

function expectNew<Pool>(state: State<Pool>, request: number): void {
  if (state.slots.has(request))
    throw new Error(
      `engine: request ${requestOfDispatch(request)} came a second time while it is here; cancel it first or send it elsewhere`,
    );
}

/** What an engine still has where nothing happens any more, one sentence each: then nobody will take it. */
function heldAtEnd<Pool>({ engine, columns, inquiries }: State<Pool>): string[] {
  const faults: string[] = [];
  const { state, used } = engine.requests;
  for (let slot = 0; slot < used; slot++) {
    if (state[slot] === slotState.free) continue;
    const stage = Object.entries(slotState).find(([, code]) => code === state[slot])?.[0];
    const moves = (columns.transfer[slot] as number) >= 0 ? ', its KV is on the way' : '';
    faults.push(`request ${requestOfDispatch(columns.request[slot] as number)} is still here at the end (${stage}${moves})`);
  }
  if (inquiries.size > 0) faults.push(`${inquiries.size} lookups in KV tiers are still open at the end`);
  return faults;
}

/** Checks that every accepted request is accounted for, and every block free when none is left; what is wrong, one sentence each. */
export function checkEngineActor<Pool>(options: EngineKindOptions<Pool>, state: EngineActorState<Pool>): string[] {
  const { totals, engine } = state;
  const faults: string[] = [];
  const live = liveRequests(engine.requests);
  const over = totals.finishedRequests + totals.failedRequests + totals.leftRequests;
  if (totals.acceptedRequests !== over + live) faults.push(`${totals.acceptedRequests} requests accepted, ${over} over and ${live} here`);
  const available = options.blocks.available(engine.pool);
  if (live === 0 && available !== options.rules.capacityBlocks)
    faults.push(`${available} of ${options.rules.capacityBlocks} blocks available with no request left`);
  if (live === 0 && state.queuedTokens !== 0) faults.push(`${state.queuedTokens} prompt tokens queued with no request left`);
  return faults;
}
