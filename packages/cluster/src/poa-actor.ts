import {
  checkLatency,
  createPoaWindow,
  type PoaHat,
  type PoaOptions,
  type PoaWindow,
  poaHatOfLoads,
  poaOverWindow,
  pushPoa,
  type SaturatingLatency,
  withRealised,
} from '@braess/games';
import { type ActorId, type ActorKind, actorKind, type Context, message, record } from '@braess/kernel';
import { assignments, clientOutcomes, engineRole, engineState, engineStatus, scrape, scraped, untilMomentNs } from '@braess/protocol';
import { medianOf } from '@braess/serving';

/**
 * A snapshot of all in flight at `atNs`, once the last of them has ended: PoA-hat with realised latencies, its parts in seconds, and what was in
 * flight. `value` NaN: undefined (too few in flight, or past the pole).
 */
const poaSnapshot = record('poaSnapshot', ['atNs', 'value', 'numeratorSeconds', 'denominatorSeconds', 'inFlight', 'inService']);

/**
 * What was known at `atNs` itself: PoA-hat with the latencies of the requests that ended in the window before, and their P99 TTFT and ITL. NaN where
 * nothing ended.
 */
const poaLive = record('poaLive', ['atNs', 'value', 'windowed', 'ttftP99Ms', 'itlP99Ms', 'ended']);

/** PoA-hat left its calm level (`alarmNs`, -1 never) and the TTFT objective broke (`brokenNs`): their difference is the warning it gave. */
const poaLead = record('poaLead', ['alarmNs', 'brokenNs', 'calm']);

/** How the price-of-anarchy actor samples, models latency, and when it warns. */
export interface PoaActorOptions {
  readonly periodNs: number;
  /** Longest delay of the messages to this actor. */
  readonly delayNs: number;
  /** Requests that ended this long ago at most count for the live value. */
  readonly windowNs: number;
  /** Latency model of each worker: all are alike. */
  readonly latency: SaturatingLatency;
  readonly poa: PoaOptions;
  /** TTFT P99 of a window above which the objective is broken; absent: no warning is measured. */
  readonly ttftSloMs?: number;
  /** The alarm: live value this many times its calm level (median of the first ten not above it), this many windows in a row. */
  readonly alarmFactor: number;
  readonly alarmSamples: number;
}

/** What the program passes to it. */
export interface PoaActorSetup {
  /** Every engine, with the role (a value of `engineRole`) it begins in. May be filled until the run begins. */
  readonly engines: readonly { readonly actor: { readonly id: number }; readonly role: number }[];
}

interface PendingSnapshot {
  atNs: number;
  inFlight: number;
  inService: number;
  /** All of it but the latencies. */
  hat: PoaHat;
  /** Of those that have ended. */
  latencySeconds: number;
  ended: number;
}

interface EndedRequest {
  endNs: number;
  latencyNs: number;
  ttftNs: number;
  itlNs: number;
}

/** Plain data. */
export interface PoaState {
  /** Engine number by actor id. */
  engines: Map<number, number>;
  /** Requests that each engine generates tokens for. */
  loads: Int32Array;
  /** 1 for engines that take requests to decode, by what they last told. */
  decodes: Uint8Array;
  /** In flight by client. */
  clients: Map<number, number>;
  pending: PendingSnapshot[];
  recent: EndedRequest[];
  window: PoaWindow;
  calm: number[];
  above: number;
  alarmNs: number;
  brokenNs: number;
  /** Live value over the window of the last moment, NaN while undefined: what a controller that scrapes is told as `poa_hat`. */
  live: number;
  armed: boolean;
}

const snapshotDue = message('snapshotDue');
const messages = { assignments, clientOutcomes, engineState, snapshotDue, scrape };

/** Values from which the calm level is taken. */
const calmSamples = 10;

/**
 * The price-of-anarchy actor: follows assignments from the frontends' event streams and outcomes from the clients, as the paper (arXiv 2606.17081) did
 * from NATS events and its load generator, and computes PoA-hat at each moment of its period. It lives here because it needs the mathematics of games
 * and hears from actors of control and workload, which may not know games. It is told, never asks, and nobody waits for it.
 */
export function poaActorKind(options: PoaActorOptions): ActorKind<'poa', keyof typeof messages, PoaActorSetup> {
  checkLatency(options.latency);
  const arm = (state: PoaState, context: Context): void => {
    if (state.armed) return;
    state.armed = true;
    // Behind the messages of the moment, before those of the next one.
    const untilNs = untilMomentNs(context.now - options.delayNs - 1, options.periodNs);
    context.timer(snapshotDue, untilNs);
  };
  return actorKind({
    name: 'poa',
    messages,
    state: (setup: PoaActorSetup): PoaState => ({
      engines: new Map(setup.engines.map(({ actor }, index) => [actor.id, index])),
      loads: new Int32Array(setup.engines.length),
      decodes: Uint8Array.from(setup.engines, ({ role }) => takesDecodes(role, engineStatus.active)),
      clients: new Map(),
      pending: [],
      recent: [],
      window: createPoaWindow(options.windowNs, Math.ceil(options.windowNs / options.periodNs) + 1),
      calm: [],
      above: 0,
      alarmNs: -1,
      brokenNs: -1,
      live: Number.NaN,
      armed: false,
    }),
    on: {
      assignments(state, { body }, context) {
        for (let index = 0; index < body.worker.length; index++) {
          const engine = state.engines.get(body.worker[index]!);
          if (engine !== undefined) state.loads[engine]! += body.change[index]!;
        }
        arm(state, context);
      },
      clientOutcomes(state, { sender, inFlight, body }, context) {
        state.clients.set(sender, inFlight);
        const { cameNs, endNs, ttftNs, itlNs } = body;
        for (let index = 0; index < endNs.length; index++) {
          const latencyNs = endNs[index]! - cameNs[index]!;
          state.recent.push({ endNs: endNs[index]!, latencyNs, ttftNs: ttftNs[index]!, itlNs: itlNs[index]! });
          noteLatency(state.pending, cameNs[index]!, endNs[index]!);
        }
        closeSnapshots(options, state, context);
        arm(state, context);
      },
      engineState(state, { engine: actor, role, status }) {
        const engine = state.engines.get(actor);
        if (engine !== undefined) state.decodes[engine] = takesDecodes(role, status);
      },
      scrape(state, { sender, round }, context) {
        const values = new Map(Number.isNaN(state.live) ? [] : [['poa_hat', state.live] as const]);
        const metrics = { ttftCounts: null, ttftSumNs: 0, decodeRequests: null, values };
        context.sendBody(sender as ActorId, scraped, options.delayNs, metrics, round, 0, 0, 0);
      },
      snapshotDue(state, _message, context) {
        state.armed = false;
        const inFlight = [...state.clients.values()].reduce((sum, count) => sum + count, 0);
        if (inFlight === 0) {
          state.pending = []; // Of what they wait for, nothing can come any more.
          return;
        }
        takeSnapshot(options, state, context, inFlight);
        arm(state, context);
      },
    },
  });
}

function takeSnapshot(options: PoaActorOptions, state: PoaState, context: Context, inFlight: number): void {
  const atNs = context.now - options.delayNs - 1;
  const loads = workerLoads(state);
  const hat = poaHatOfLoads(loads, inFlight, options.latency, options.poa);
  const inService = loads.reduce((sum, load) => sum + load, 0);
  state.pending.push({ atNs, inFlight, inService, hat, latencySeconds: 0, ended: 0 });
  const fromNs = atNs - options.windowNs;
  const { recent } = state;
  let old = 0;
  while (old < recent.length && recent[old]!.endNs <= fromNs) old++;
  recent.splice(0, old);
  let latencyNs = 0;
  for (const request of recent) latencyNs += request.latencyNs;
  const meanSeconds = recent.length === 0 ? Number.NaN : latencyNs / recent.length / 1e9;
  const live = withRealised(hat, meanSeconds, options.poa);
  pushPoa(state.window, atNs, live);
  const value = live.status === 'defined' ? live.value : Number.NaN;
  const ttftP99Ms = percentile99(recent, 'ttftNs') / 1e6;
  const itlP99Ms = percentile99(recent, 'itlNs') / 1e6;
  state.live = poaOverWindow(state.window, atNs) ?? Number.NaN;
  context.emit(poaLive, atNs, value, state.live, ttftP99Ms, itlP99Ms, recent.length);
  watch(options, state, context, atNs, value, ttftP99Ms);
}

/** Follows calm level, alarm and objective; says once what warning there was. */
function watch(options: PoaActorOptions, state: PoaState, context: Context, atNs: number, value: number, ttftP99Ms: number): void {
  if (options.ttftSloMs === undefined || state.brokenNs >= 0) return;
  if (!Number.isNaN(value)) {
    const isCalm = state.calm.length === 0 || value <= options.alarmFactor * medianOf(state.calm);
    if (isCalm && state.calm.length < calmSamples) state.calm.push(value);
    state.above = isCalm ? 0 : state.above + 1;
    if (state.above >= options.alarmSamples && state.alarmNs < 0) state.alarmNs = atNs;
  }
  if (!(ttftP99Ms > options.ttftSloMs)) return;
  state.brokenNs = atNs;
  context.emit(poaLead, state.alarmNs, atNs, state.calm.length === 0 ? Number.NaN : medianOf(state.calm));
}

/** A request has ended: those pending snapshots that saw it in flight, in order of time, know one more. */
function noteLatency(pending: readonly PendingSnapshot[], cameNs: number, endNs: number): void {
  for (let place = pending.length - 1; place >= 0; place--) {
    const snapshot = pending[place]!;
    if (snapshot.atNs < cameNs) return;
    if (snapshot.atNs >= endNs) continue;
    snapshot.latencySeconds += (endNs - cameNs) / 1e9;
    snapshot.ended++;
  }
}

/** Snapshots of which everything has ended, oldest first. */
function closeSnapshots(options: PoaActorOptions, state: PoaState, context: Context): void {
  if (!state.pending.some(({ ended, inFlight }) => ended >= inFlight)) return;
  const open: PendingSnapshot[] = [];
  for (const snapshot of state.pending) {
    const { atNs, inFlight, inService, latencySeconds, ended } = snapshot;
    if (ended < inFlight) {
      open.push(snapshot);
      continue;
    }
    const hat = withRealised(snapshot.hat, latencySeconds / ended, options.poa);
    if (hat.status === 'defined')
      context.emit(poaSnapshot, atNs, hat.value, hat.numeratorSeconds, hat.denominatorSeconds, inFlight, inService);
    else context.emit(poaSnapshot, atNs, Number.NaN, Number.NaN, Number.NaN, inFlight, inService);
  }
  state.pending = open;
}

function takesDecodes(role: number, status: number): 0 | 1 {
  return role !== engineRole.prefill && status === engineStatus.active ? 1 : 0;
}

/** Loads of the workers of the moment: engines that take requests to decode, and those that no longer do but still decode some. */
function workerLoads({ loads, decodes }: PoaState): Int32Array {
  return loads.filter((load, engine) => decodes[engine] === 1 || load > 0);
}

/** Nearest-rank P99 of the values that are there (not below 0); NaN without any. Only the largest hundredth is ever sorted. */
function percentile99(recent: readonly EndedRequest[], key: 'ttftNs' | 'itlNs'): number {
  let count = 0;
  for (const request of recent) if (request[key] >= 0) count++;
  if (count === 0) return Number.NaN;
  const top = new Float64Array(count - Math.ceil(0.99 * count) + 1).fill(-1);
  for (const request of recent) {
    const value = request[key];
    if (value <= top[0]!) continue;
    let place = 0;
    for (; place + 1 < top.length && top[place + 1]! < value; place++) top[place] = top[place + 1]!;
    top[place] = value;
  }
  return top[0]!;
}
