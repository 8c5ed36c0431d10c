import type { ActorId, Context } from '@braess/kernel';
import { engineState, engineStatus, loadReport } from '@braess/protocol';
import { liveRequests, passKind } from '../engine-state.js';
import type { EngineEvents } from '../events.js';
import { passProgress } from '../pass-progress.js';
import { createCurve, decodeCurve } from '../timing.js';
import { expectedExperts, type RooflineTiming } from '../timing-roofline.js';
import type { EngineActorState, EngineTotals } from './engine-actor-state.js';
import { engineCounts, engineLoad, engineWork, itlGaps, timingLookups } from './engine-records.js';
import { type EngineScope, engineReport, engineTelemetry, untilMultipleNs } from './engine-scope.js';
import { forgetGaps, gapLogFull, gapStackFull, noteStretch, takeGaps } from './gap-log.js';
import { gpuUsage } from './gpu-actor.js';

/** Takes the stretches of equal batches of one advance: gaps and work. */
export function takeStretches<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, events: EngineEvents): void {
  const { telemetry } = scope.options;
  const keepRows = telemetry?.gaps === true;
  for (let index = 0; index < events.stretches; index++) {
    noteStretch(state.gaps, events, index, keepRows);
    const tokens = events.stretchSequences[index]! * (events.stretchTo[index]! - events.stretchFrom[index]!);
    state.totals.decodeTokens += tokens;
    state.totals.outputTokens += tokens;
    if (telemetry?.series === true) addBandwidth(state, events, index);
  }
  if (keepRows && gapLogFull(state.gaps)) emitGaps(state, context);
}

/** Drops gaps that nobody will ask for; after an advance, as requests that ended in it run no more and have asked then. */
export function dropOldGaps<Pool>(state: EngineActorState<Pool>): void {
  if (gapStackFull(state.gaps)) forgetGaps(state.gaps, oldestGapClock(state));
}

function oldestGapClock<Pool>(state: EngineActorState<Pool>): number {
  const { engine, columns } = state;
  let oldest = state.gaps.clock;
  for (let index = 0; index < engine.runningCount; index++) oldest = Math.min(oldest, columns.gapsSince[engine.running[index]!]!);
  return oldest;
}

/** Reused; never state. */
const bare = createCurve();

/** KV and experts read by decodes; the weights that every pass reads are added at the record. */
function addBandwidth<Pool>(state: EngineActorState<Pool>, events: EngineEvents, index: number): void {
  const { engine, totals } = state;
  const { timing } = engine;
  if (timing.kind !== 'roofline') return;
  const from = events.stretchFrom[index]!;
  const passes = events.stretchTo[index]! - from;
  const sequences = events.stretchSequences[index]!;
  if (timing.experts > 0) {
    const halves = halvesOf(timing);
    const hit = expectedExperts(timing.experts, timing.expertsPerToken, (sequences * (timing.draftTokens + 1)) / halves);
    totals.bandwidthNs += (passes / timing.passTokens) * halves * timing.expertNs * hit;
  }
  if (events.stretchC1Ns[index] === 0 || timing.twoBatchOverlap) {
    // One mixed pass, or one beside exchanges: its time says nothing of the contexts, the engine does.
    totals.bandwidthNs += (passes * engine.decodeTokens * timing.contextNs) / timing.ranks / timing.passTokens;
    return;
  }
  decodeCurve(timing, sequences, 0, engine.speedFactor, bare);
  const first = events.stretchC0Ns[index]! - bare.c0Ns + from * events.stretchC1Ns[index]!;
  totals.bandwidthNs += Math.max(0, passes * first + ((passes * (passes - 1)) / 2) * events.stretchC1Ns[index]!) * engine.speedFactor;
}

/** How often a pass reads the weights. */
function halvesOf({ twoBatchOverlap }: RooflineTiming): number {
  return twoBatchOverlap ? 2 : 1;
}

function emitGaps<Pool>(state: EngineActorState<Pool>, context: Context): void {
  const rows = state.gaps.rows;
  if (rows > 0) context.emitBody(itlGaps, takeGaps(state.gaps), rows);
}

/** Where a timing table is left, its edge values are used: that must be seen. */
function tellLookups<Pool>(state: EngineActorState<Pool>, context: Context): void {
  const { timing } = state.engine;
  if (timing.kind !== 'table') return;
  const { lookups, clampedPrefillLookups, clampedDecodeLookups } = timing;
  if (clampedPrefillLookups + clampedDecodeLookups === state.toldLookups) return;
  state.toldLookups = clampedPrefillLookups + clampedDecodeLookups;
  context.emit(timingLookups, lookups, clampedPrefillLookups, clampedDecodeLookups);
}

// Reused; never state.
const progress = { ns: 0, share: 0, tokens: 0 };

/** The records of a period. */
export function emitRecords<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context): void {
  const { engine, totals, recorded } = state;
  const last = context.now >= (scope.options.telemetry?.endNs ?? Number.POSITIVE_INFINITY) - 1;
  // Few and large records: what is left leaves when the engine is idle, or at the end of the run.
  if (last || liveRequests(engine.requests) === 0) emitGaps(state, context);
  tellLookups(state, context);
  if (scope.options.telemetry?.series !== true) return;
  passProgress(engine, context.now, progress);
  totals.busyNs = engine.busyNs;
  totals.workNs = engine.busyNs + engine.cutShortNs - engine.repeatedNs + progress.ns;
  totals.passShare = progress.share;
  totals.passTokens = progress.share * progress.tokens;
  totals.passes = engine.passes;
  totals.preemptions = engine.preemptionCount;
  totals.prefillTokens = engine.prefillTokensDone;
  totals.atNs = context.now;
  const since = (key: keyof EngineTotals): number => totals[key] - recorded[key];
  const { timing } = engine;
  const roofline = timing.kind === 'roofline';
  // Of passes that draft, a step is a part; those with prompts, which do not, are taken as such, too.
  const [rows, steps] = roofline ? [timing.draftTokens + 1, timing.passTokens] : [1, 1];
  const tokens = (since('decodeTokens') * rows) / steps + since('prefillTokens') + since('passTokens');
  const passes = (since('passes') + since('passShare')) / steps;
  // A death takes back what was counted of the pass that it cut short.
  const flopNs = roofline ? Math.max(0, Math.round(tokens * (timing.tokenNs / timing.ranks + timing.sharedTokenNs))) : -1;
  const bandwidthNs = roofline ? Math.max(0, Math.round(since('bandwidthNs') + passes * halvesOf(timing) * timing.weightNs)) : -1;
  const { capacityBlocks } = engine.rules;
  const usedBlocks = capacityBlocks - scope.options.blocks.available(engine.pool);
  for (const gpu of state.gpus) context.send(gpu as ActorId, gpuUsage, 0, usedBlocks, since('busyNs'));
  context.emit(
    engineLoad,
    engine.runningCount,
    engine.waiting.count + engine.ready.count,
    state.queuedTokens,
    usedBlocks,
    capacityBlocks,
    engine.status,
  );
  context.emit(engineWork, since('prefillTokens'), since('decodeTokens'), since('workNs'), since('passes'), flopNs, bandwidthNs);
  context.emit(
    engineCounts,
    since('finishedRequests'),
    since('preemptions'),
    since('hitTokens'),
    since('transferBytes'),
    recorded.atNs,
    since('outputTokens'),
  );
  Object.assign(recorded, totals);
}

/** An engine of whose requests nobody has spoken for an hour reports no more: where they wait for ever, the run must end to say so. */
const patienceNs = 3600e9;

/** Sets the periodic timers that an engine with work needs and has not set. */
export function setPeriods<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context): void {
  const { loadReports, telemetry } = scope.options;
  if (liveRequests(state.engine.requests) === 0) return;
  if (context.now - state.touchedNs > patienceNs && isIdle(state)) return;
  if (loadReports !== undefined && !state.reportSet && loadReports.to.length > 0) {
    state.reportSet = true;
    context.timer(engineReport, untilMultipleNs(context.now, loadReports.periodNs));
  }
  if (telemetry === undefined || state.telemetrySet) return;
  const lastNs = (telemetry.endNs ?? Number.POSITIVE_INFINITY) - 1;
  const delayNs = Math.min(untilMultipleNs(context.now, telemetry.periodNs), lastNs - context.now);
  if (delayNs <= 0) return;
  state.telemetrySet = true;
  context.timer(engineTelemetry, delayNs);
}

export function sendLoad<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, extraNs: number): void {
  if (state.telemetryLost) return;
  const { engine } = state;
  const { capacityBlocks } = engine.rules;
  const used = capacityBlocks - scope.options.blocks.available(engine.pool);
  const waiting = engine.waiting.count + engine.ready.count + state.inquiries.size;
  const delayNs = scope.options.controlDelayNs + extraNs;
  for (const to of scope.loadsTo.list)
    context.send(to as ActorId, loadReport, delayNs, context.self, state.queuedTokens, engine.runningCount, waiting, used, capacityBlocks);
}

/** What others are told: those who wait for an engine to come must know of one that itself waits for a decode engine. */
export function statusToTell<Pool>(state: EngineActorState<Pool>): number {
  const { engine, inquiries } = state;
  const { status, heldCount } = engine;
  // Prompts may still wait for the memory or the slots of what is held.
  return status === engineStatus.draining && heldCount > 0 && isIdle(state) && inquiries.size === 0 ? engineStatus.drainingHeld : status;
}

/** Nothing happens here before another message. */
function isIdle<Pool>({ engine: { passKind: pass, wakeNs } }: EngineActorState<Pool>): boolean {
  return pass === passKind.none && wakeNs === Number.POSITIVE_INFINITY;
}

/** Tells of a new role or status. */
export function sendState<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context, extraNs: number): void {
  const { role } = state.engine;
  const status = statusToTell(state);
  state.reportedRole = role;
  state.reportedStatus = status;
  for (const to of scope.statesTo.list)
    context.send(to as ActorId, engineState, scope.options.controlDelayNs + extraNs, context.self, role, status);
}
