import { type ActorKind, actorKind, KernelError, type MessageView, message } from '@braess/kernel';
import {
  answerBegun,
  cancel,
  engineState,
  engineStatus,
  finished,
  firstToken,
  kvArrived,
  kvEvents,
  kvRemoved,
  loadReport,
  oracleKnowledge,
  outcome,
  type PromptBlocks,
  prefillBegun,
  prefilled,
  REASON,
  refused,
  scrape,
  setRouterParameters,
  setTelemetryLoss,
  submit,
  tierHits,
  tokens,
} from '@braess/protocol';
import { release, replicaLoad, sendReplicaLoad, syncDue, takeReplicaLoad } from './account.js';
import { assignmentsDue, sendAssignments } from './assignments.js';
import { completeEarly, dropEarly, earlySlot, slotOfDispatch } from './early-decode.js';
import { type EngineColumns, engineOf, takeLoadReport } from './engines.js';
import { mayEnter } from './entrance.js';
import { decideWaiting } from './joint.js';
import { takeKvEvents, takeKvRemoved } from './kv-reports.js';
import { type FrontendOptions, frontendSettings } from './options.js';
import { judgeOracle, takeKnowledge, watchOracle } from './oracle-watch.js';
import {
  abandon,
  decodeDue,
  drainQueues,
  loseAttempt,
  loseEngine,
  placeDecode,
  placeEarly,
  placeFirst,
  refuseAttempt,
} from './placement.js';
import { addRequest, slotOfRequest } from './request-index.js';
import { requestArrived } from './request-records.js';
import { recordInFlight, settle } from './settle.js';
import { charge, slotStage, takeSlot } from './slots.js';
import {
  createDesk,
  createFrontendState,
  type FrontendContext,
  type FrontendDesk,
  type FrontendSetup,
  type FrontendState,
  frontendStreams,
  listCandidates,
  ownParameters,
} from './state.js';
import { answerScrape, watchArrival, watchFirstToken } from './watch.js';

/** frontend -> itself: the run is about to be cut. */
const endDue = message('endDue', []);

/** frontend -> itself: the request's client no longer waits. */
const deadlinePassed = message('deadlinePassed', ['request']);

const messages = {
  submit,
  cancel,
  prefillBegun,
  prefilled,
  answerBegun,
  tierHits,
  firstToken,
  kvArrived,
  tokens,
  finished,
  refused,
  kvEvents,
  kvRemoved,
  loadReport,
  oracleKnowledge,
  decodeDue,
  engineState,
  setTelemetryLoss,
  replicaLoad,
  syncDue,
  assignmentsDue,
  deadlinePassed,
  endDue,
  scrape,
  setRouterParameters,
};

/** The actor kind of a frontend. */
export type FrontendKind = ActorKind<'frontend', keyof typeof messages, FrontendSetup | undefined>;

/**
 * The frontend with its router inside, as in NVIDIA Dynamo: takes requests from clients, places them on engines by its own, late view of them, and
 * answers the clients. One kind serves all replicas of a cluster; each replica has a state of its own and so a partial view.
 * @throws KernelError `bad-option` for an option outside its limits.
 */
export function createFrontendKind(options: FrontendOptions): FrontendKind {
  const settings = frontendSettings(options);
  const desk = createDesk(settings);
  return actorKind({
    name: 'frontend',
    messages,
    streams: frontendStreams,
    state: (setup: FrontendSetup | undefined) => createFrontendState(settings, setup),
    on: {
      ...clientHandlers(desk),
      ...progressHandlers(desk),
      ...endHandlers(desk),
      ...viewHandlers(desk),
      ...decisionHandlers(desk),
    },
  });
}

type Handlers<Name extends keyof typeof messages> = {
  readonly [Each in Name]: (state: FrontendState, view: MessageView<(typeof messages)[Each]>, context: FrontendContext) => void;
};

/** What clients send, and how long they wait. */
function clientHandlers(desk: FrontendDesk): Handlers<'submit' | 'cancel' | 'deadlinePassed'> {
  const { settings } = desk;
  return {
    submit: (state, view, context) => {
      const slot = takeRequest(state, view, context);
      const { counters } = state;
      counters.submitted++;
      if (state.endTimer < 0 && settings.endNs < Number.POSITIVE_INFINITY)
        state.endTimer = context.timer(endDue, Math.max(0, settings.endNs - 1 - context.now));
      watchArrival(settings, state, context);
      watchOracle(desk, state, context);
      context.emit(requestArrived, view.request, view.tenant, view.inputTokens, view.priority);
      if (state.slotOf.size > settings.maxInFlight) settle(desk, state, context, slot, outcome.rejected, REASON.queueFull);
      else if (settings.admission !== undefined && !mayEnter(desk, state, context, slot))
        settle(desk, state, context, slot, outcome.rejected, REASON.admission);
      else placeFirst(desk, state, context, slot);
    },
    cancel: (state, view, context) => {
      const slot = slotOfRequest(state.slotOf, view.request);
      if (slot < 0) {
        state.counters.strayReports++; // It ended while the cancel was on its way.
        return;
      }
      abandon(desk, state, context, slot, outcome.cancelled, REASON.cancelled);
      drainQueues(desk, state, context);
    },
    deadlinePassed: (state, view, context) => {
      const slot = slotOfRequest(state.slotOf, view.request);
      state.slots.deadlineTimer[slot] = -1;
      abandon(desk, state, context, slot, outcome.timedOut, REASON.timeout);
      drainQueues(desk, state, context);
    },
  };
}

/** How far engines are with a request. */
function progressHandlers(
  desk: FrontendDesk,
): Handlers<'prefillBegun' | 'prefilled' | 'answerBegun' | 'tierHits' | 'firstToken' | 'kvArrived' | 'tokens'> {
  const { settings } = desk;
  return {
    prefillBegun: (state, view, context) => {
      const slot = slotAt(state, view.request, view.sender);
      if (slot >= 0 && state.slots.early[slot] === 0) placeEarly(desk, state, context, slot);
    },
    prefilled: (state, view, context) => {
      const slot = slotAt(state, view.request, view.sender);
      if (slot < 0) return;
      notePrefilled(state, slot, view.startNs, view.endNs, view.hitTokens);
      const { slots } = state;
      slots.avoidEngine[slot] = -1;
      if (settings.firstTokenAt === 'prefill') noteFirstToken(settings, state, context, slot, view.endNs);
      release(desk, state, slot, charge.prefillTokens | charge.prefillEngine);
      if (!completeEarly(desk, state, context, slot)) placeDecode(desk, state, context, slot);
      drainQueues(desk, state, context);
    },
    answerBegun: (state, view, context) => {
      const slot = slotAt(state, view.request, view.sender);
      if (slot < 0) return;
      notePrefilled(state, slot, view.startNs, view.atNs, view.hitTokens);
      noteFirstToken(settings, state, context, slot, view.atNs);
      release(desk, state, slot, charge.prefillTokens);
      drainQueues(desk, state, context);
    },
    tierHits: (state, view) => {
      const slot = slotAt(state, view.request, view.sender);
      if (slot < 0) return;
      const { slots } = state;
      const hits = 4 * slot;
      slots.hitTokens[hits + 1] = view.hitTokensG2;
      slots.hitTokens[hits + 2] = view.hitTokensG3;
      slots.hitTokens[hits + 3] = view.hitTokensG4;
      slots.tierFetchNs[slot] = view.fetchNs;
      slots.tierFetchBytes[slot] = view.fetchBytes;
    },
    firstToken: (state, view, context) => {
      const slot = slotAt(state, view.request, view.sender);
      if (slot < 0) return;
      if (settings.firstTokenAt === 'decode') noteFirstToken(settings, state, context, slot, view.atNs);
      const { slots } = state;
      slots.transferStartNs[slot] = view.transferStartNs;
      slots.transferEndNs[slot] = view.transferEndNs;
      slots.transferBytes[slot] = view.transferBytes;
      slots.networkTier[slot] = view.networkTier;
      release(desk, state, slot, charge.transfer);
      judgeOracle(desk, state, context, slot);
    },
    kvArrived: (state, view) => {
      const slot = slotAt(state, view.request, view.sender);
      if (slot >= 0) release(desk, state, slot, charge.transfer);
    },
    tokens: (state, view) => {
      const { sender } = view;
      takeToken(state, view.first, sender);
      if (view.second >= 0) takeToken(state, view.second, sender);
      if (view.third >= 0) takeToken(state, view.third, sender);
      if (view.fourth >= 0) takeToken(state, view.fourth, sender);
      if (view.fifth >= 0) takeToken(state, view.fifth, sender);
      if (view.sixth >= 0) takeToken(state, view.sixth, sender);
    },
  };
}

/** An engine is done with a request, or does not take it. */
function endHandlers(desk: FrontendDesk): Handlers<'finished' | 'refused'> {
  return {
    finished: (state, view, context) => {
      const early = earlySlot(state, view.request, view.sender);
      if (early >= 0) {
        dropEarly(desk, state, context, early, false);
        drainQueues(desk, state, context);
        return;
      }
      const slot = slotAt(state, view.request, view.sender);
      // An engine may confirm a cancel: the request was settled when the cancel was sent.
      if (slot < 0 || view.outcome === outcome.cancelled) return;
      if (view.outcome === outcome.completed) {
        state.slots.generatedTokens[slot] = view.outputTokens;
        state.slots.preemptions[slot] = view.preemptions;
        settle(desk, state, context, slot, outcome.completed, REASON.none, view.lastTokenNs, view.maxGapNs);
      } else loseAttempt(desk, state, context, slot, view.outcome === outcome.transferLost ? REASON.transferLost : REASON.workerLost);
      drainQueues(desk, state, context);
    },
    refused: (state, view, context) => {
      const early = earlySlot(state, view.request, view.sender);
      if (early >= 0) {
        dropEarly(desk, state, context, early, false);
        return;
      }
      const slot = slotAt(state, view.request, view.sender);
      if (slot < 0) return;
      refuseAttempt(desk, state, context, slot, engineOf(state.engines, view.sender), view.reason);
      drainQueues(desk, state, context);
    },
  };
}

/** What the frontend sees of engines, network and other frontends. */
function viewHandlers(
  desk: FrontendDesk,
): Handlers<'kvEvents' | 'kvRemoved' | 'loadReport' | 'oracleKnowledge' | 'engineState' | 'setTelemetryLoss' | 'replicaLoad' | 'syncDue'> {
  const { settings } = desk;
  return {
    kvEvents: (state, view) => takeKvEvents(settings, state, view),
    kvRemoved: (state, view) => takeKvRemoved(settings, state, view),
    loadReport: (state, view, context) => {
      if (state.telemetryLost) state.counters.droppedReports++;
      else takeLoadReport(state.engines, engineOf(state.engines, view.sender), view, context.now);
    },
    oracleKnowledge: (state, view, context) => {
      if (state.telemetryLost) state.counters.droppedReports++;
      else takeKnowledge(desk, state, context, view.body.knowledge, view.madeAtNs);
    },
    engineState: (state, view, context) => {
      const engine = engineOf(state.engines, view.sender);
      state.engines.role[engine] = view.role;
      state.engines.status[engine] = view.status;
      listCandidates(state);
      if (view.status === engineStatus.dead || view.status === engineStatus.off) {
        if (settings.overlap !== undefined) settings.overlap.clear(state.overlap, engine);
        state.engines.kvSequence[engine] = -1;
        // One that is off had drained: it refuses what is still on its way to it.
        if (view.status === engineStatus.dead) loseEngine(desk, state, context, engine);
      }
      drainQueues(desk, state, context);
    },
    setTelemetryLoss: (state, view) => {
      state.telemetryLost = view.lost === 1;
    },
    replicaLoad: (state, view, context) => {
      takeReplicaLoad(state, view.sender, view.body);
      drainQueues(desk, state, context);
    },
    syncDue: (state, _view, context) => sendReplicaLoad(desk, state, context),
  };
}

/** Decisions that were put off, and what others may know or set of them. */
function decisionHandlers(desk: FrontendDesk): Handlers<'decodeDue' | 'scrape' | 'setRouterParameters' | 'assignmentsDue' | 'endDue'> {
  const { settings } = desk;
  return {
    decodeDue: (state, view, context) => {
      if (view.turn === state.decodeTurn) decideWaiting(desk, state, context);
    },
    scrape: (state, view, context) => answerScrape(settings, state, context, view.round),
    setRouterParameters: (state, view) => {
      Object.assign(state, ownParameters(settings, view.body.parameters));
    },
    assignmentsDue: (state, _view, context) =>
      sendAssignments(state.assigned, settings.assignmentListener as NonNullable<typeof settings.assignmentListener>, context),
    endDue: (state, _view, context) => recordInFlight(state, context),
  };
}

interface Submitted {
  readonly sender: number;
  readonly request: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly tenant: number;
  readonly priority: number;
  readonly deadlineNs: number;
  readonly body: PromptBlocks;
}

function takeRequest(state: FrontendState, view: Submitted, context: FrontendContext): number {
  const { slots, slotOf } = state;
  if (slotOfRequest(slotOf, view.request) >= 0)
    throw new KernelError(
      'bad-value',
      `request ${view.request} was submitted while it is in flight here; a client may send it again once it is settled`,
    );
  const slot = takeSlot(slots);
  addRequest(slotOf, view.request, slot);
  slots.request[slot] = view.request;
  slots.client[slot] = view.sender;
  slots.stage[slot] = slotStage.waitingFirst;
  slots.inputTokens[slot] = view.inputTokens;
  slots.outputTokens[slot] = view.outputTokens;
  slots.tenant[slot] = view.tenant;
  slots.priority[slot] = view.priority;
  slots.deadlineNs[slot] = view.deadlineNs;
  slots.arrivalNs[slot] = context.now;
  slots.chains[slot] = view.body;
  if (view.deadlineNs >= 0)
    slots.deadlineTimer[slot] = context.timer(deadlinePassed, Math.max(0, view.deadlineNs - context.now), view.request);
  return slot;
}

/** The slot of a request that the sender is working on, or -1 for a late report: the request is over, has moved to another engine, or was sent there anew. */
function slotAt(state: FrontendState, dispatch: number, sender: number): number {
  const { slots } = state;
  const slot = slotOfDispatch(state, dispatch);
  if (slot >= 0) {
    const stage = slots.stage[slot];
    const engine = stage === slotStage.decode ? slots.decodeEngine[slot]! : slots.prefillEngine[slot]!;
    if (stage !== slotStage.waitingFirst && stage !== slotStage.waitingDecode && isEngine(state.engines, engine, sender)) return slot;
  }
  state.counters.strayReports++;
  return -1;
}

function takeToken(state: FrontendState, request: number, sender: number): void {
  const slot = slotAt(state, request, sender);
  if (slot >= 0) state.slots.generatedTokens[slot] = state.slots.generatedTokens[slot]! + 1;
}

function isEngine(engines: EngineColumns, engine: number, actor: number): boolean {
  return engine >= 0 && engines.actors[engine] === actor;
}

/** The prompt is computed; `hitTokens` counts all tiers, and what the lower ones gave was told before. */
function notePrefilled({ slots }: FrontendState, slot: number, startNs: number, endNs: number, hitTokens: number): void {
  slots.prefillStartNs[slot] = startNs;
  slots.prefillEndNs[slot] = endNs;
  const hits = 4 * slot;
  slots.hitTokens[hits] = hitTokens - slots.hitTokens[hits + 1]! - slots.hitTokens[hits + 2]! - slots.hitTokens[hits + 3]!;
}

function noteFirstToken(
  settings: FrontendDesk['settings'],
  state: FrontendState,
  context: FrontendContext,
  slot: number,
  atNs: number,
): void {
  const { slots } = state;
  const isFirst = slots.firstTokenNs[slot]! < 0;
  slots.firstTokenNs[slot] = atNs;
  if (isFirst) watchFirstToken(settings, state, context, slot);
  slots.generatedTokens[slot] = 1;
}
