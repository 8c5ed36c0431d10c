import { type Context, message } from '@braess/kernel';
import { nextEventNs, quietUntilNs } from '../engine.js';
import { passKind } from '../engine-state.js';
import { clearEvents, createEvents, type EngineEvents } from '../events.js';
import type { EngineActorState } from './engine-actor-state.js';
import { type EngineKindOptions, LazyIds } from './engine-options.js';

/** Timers of an engine. */
export const engineWake = message('engineWake');
export const engineReport = message('engineReport');
export const engineEventsDue = message('engineEventsDue');
export const engineTelemetry = message('engineTelemetry');

/** What the handlers of one kind share: constants only. */
export interface EngineScope<Pool> {
  readonly options: EngineKindOptions<Pool>;
  readonly loadsTo: LazyIds;
  readonly eventsTo: LazyIds;
  readonly statesTo: LazyIds;
  readonly promisesTo: LazyIds;
  readonly fabricId: LazyIds;
}

export function createScope<Pool>(options: EngineKindOptions<Pool>): EngineScope<Pool> {
  const least = options.controlDelayNs;
  if (!(Number.isSafeInteger(least) && least >= 0 && Number.isSafeInteger(options.serverDelayNs) && options.serverDelayNs >= 0)) {
    throw new Error(`engine: delays ${least} and ${options.serverDelayNs} ns; both are whole nanoseconds of 0 or more`);
  }
  if (!(options.kvBytesPerToken > 0)) throw new Error(`engine: kvBytesPerToken is ${options.kvBytesPerToken}; must be above 0`);
  for (const [name, report] of Object.entries({ loadReports: options.loadReports, telemetry: options.telemetry })) {
    if (report !== undefined && !(Number.isSafeInteger(report.periodNs) && report.periodNs >= 1))
      throw new Error(`engine: ${name}.periodNs is ${report.periodNs}; must be a whole number of 1 or more`);
  }
  return {
    options,
    loadsTo: new LazyIds(options.loadReports?.to),
    eventsTo: new LazyIds(options.kvEvents?.to),
    statesTo: new LazyIds(options.stateReports?.to),
    promisesTo: new LazyIds(options.promises?.map((promise) => promise.to)),
    fabricId: new LazyIds(options.fabric === undefined ? undefined : [options.fabric.actor]),
  };
}

const scratch: EngineEvents = createEvents();

/** An empty list of events, reused by every engine of a thread within one handler; never state. A handler that threw may have left events in it. */
export function emptyEvents(): EngineEvents {
  clearEvents(scratch);
  return scratch;
}

/**
 * How long until the engine can speak: its loop talks to the outside between passes only. What a pass boundary shows leaves at once; answers to what comes in the
 * middle of a pass (refusals, failures, load reports) wait for its end. This is what makes the promise of silence true, and equal for lazy and single passes.
 */
export function speechDelayNs<Pool>(state: EngineActorState<Pool>, nowNs: number): number {
  return Math.max(quietUntilNs(state.engine, nowNs), state.silentUntilNs) - nowNs;
}

/** The same for what a pass boundary shows: nothing, but after a death. */
export function boundaryDelayNs<Pool>(state: EngineActorState<Pool>, nowNs: number): number {
  return Math.max(0, state.silentUntilNs - nowNs);
}

/** Stands for `speechDelayNs`, worked out only where there is something to say. */
export const unknownDelay = -1;

/** Sets the wake timer to the engine's next event, if that has moved. */
export function setWake<Pool>(state: EngineActorState<Pool>, context: Context): void {
  const nextNs = nextEventNs(state.engine);
  if (nextNs === state.wakeAtNs) return;
  if (state.wakeAtNs !== Number.POSITIVE_INFINITY) context.cancelTimer(state.wakeTimer);
  state.wakeAtNs = nextNs;
  if (nextNs !== Number.POSITIVE_INFINITY) state.wakeTimer = context.timer(engineWake, Math.max(0, nextNs - context.now));
}

/** Promises silence until the pass in progress ends. */
export function promiseQuiet<Pool>(scope: EngineScope<Pool>, state: EngineActorState<Pool>, context: Context): void {
  const promises = scope.options.promises;
  if (promises === undefined || state.engine.passKind === passKind.none) return;
  const untilNs = quietUntilNs(state.engine, context.now);
  const ids = scope.promisesTo.list;
  for (let index = 0; index < ids.length; index++) context.promiseSilence(ids[index]!, untilNs + promises[index]!.delayNs);
}

/** Time to the next multiple of a period. */
export function untilMultipleNs(nowNs: number, periodNs: number): number {
  return periodNs - (nowNs % periodNs);
}
