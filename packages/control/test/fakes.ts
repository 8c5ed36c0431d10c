import {
  bindPolicy,
  builtInPolicy,
  createFrontendKind,
  type FrontendOptions,
  type FrontendState,
  type RouterPolicy,
  requestEnded,
  requestRowOf,
} from '@braess/control';
import { type ActorReference, actorKind, defineProgram, message, modelOf, Simulation, type SimulationOptions } from '@braess/kernel';
import type { RequestRecord } from '@braess/protocol';
import * as protocol from '@braess/protocol';

/** A single server: prompts are computed one after the other at a fixed rate, answers are decoded all at once at a fixed rate. */
export interface FakeEngine {
  readonly role: number;
  /** Prefill time of a prompt: fixed plus so much a token. */
  readonly prefillNs?: number;
  readonly prefillTokenNs?: number;
  readonly transferNs?: number;
  readonly tokenNs?: number;
  /** Refuses with `reason` while it has this many requests. */
  readonly refuseAt?: number;
  readonly reason?: number;
  readonly dieAtNs?: number;
  /** Changes of status it announces: [time, role, status]. */
  readonly states?: readonly (readonly [number, number, number])[];
  /** Load reports it sends: [time, queued tokens, running, waiting, used, total]. */
  readonly reports?: readonly (readonly [number, number, number, number, number, number])[];
  /** KV events it sends: [time, sequence, identities stored]. */
  readonly stored?: readonly (readonly [number, number, readonly number[]])[];
  /** The same of a few blocks removed, at most four. */
  readonly removed?: readonly (readonly [number, number, readonly number[]])[];
}

export interface FakeRequest {
  readonly atNs: number;
  readonly inputTokens: number;
  readonly outputTokens?: number;
  readonly tenant?: number;
  readonly priority?: number;
  readonly deadlineNs?: number;
  readonly cancelAtNs?: number;
  readonly chain?: readonly number[];
  readonly frontend?: number;
}

/** Codes with which fake engines refuse, as the frontends are told of them: of these one is for good, one of an engine that is on its way to another role. */
export const refusal = { moved: -1, queueFull: -2, forGood: -4 } as const;

export const engineDelayNs = 500;
export const clientDelayNs = 1000;

const send = message('send', ['request']);
const giveUp = message('giveUp', ['request']);
const prefillDone = message('prefillDone', ['request', 'startNs', 'decodeHere', 'outputTokens']);
const transferDone = message('transferDone', ['request', 'outputTokens', 'startNs']);
const answered = message('answered', ['request', 'outputTokens']);
const die = message('die');
const announce = message('announce', ['index']);
const report = message('report', ['index']);
const tell = message('tell', ['index']);
const tellRemoved = message('tellRemoved', ['index']);

export interface EngineLog {
  /** Request, time, and `hits` of each prefill or decode received. */
  prefills: { request: number; atNs: number }[];
  decodes: { request: number; atNs: number; prefillEngine: number }[];
  cancels: { request: number; atNs: number }[];
  orders: { role: number; atNs: number; start: boolean }[];
  /** The frontend of each request that is here. */
  present: Map<number, number>;
  /** Those whose KV is on the way. */
  fetching: Set<number>;
  frontends: number[];
  busyUntilNs: number;
  dead: boolean;
}

export interface ClientLog {
  settled: { request: number; outcome: number; atNs: number; firstTokenNs: number; lastTokenNs: number; outputTokens: number }[];
}

export interface FakeCluster {
  readonly engines: readonly FakeEngine[];
  readonly requests: readonly FakeRequest[];
  readonly frontends?: number;
  readonly options?: Partial<FrontendOptions>;
  readonly router?: string;
  readonly routerParameters?: unknown;
}

export function router(name: string, parameters: unknown = {}) {
  return bindPolicy(builtInPolicy('router', name) as RouterPolicy, parameters);
}

/** A cluster of fakes around real frontends. Actors: control/frontend0.., node0../engine, clients/client. */
export function simulate(cluster: FakeCluster, options: SimulationOptions = {}): Simulation {
  const program = defineProgram(undefined, 'fakes', (world) => {
    const entries: { name: string; actor: ActorReference; role: number }[] = [];
    const frontends: ActorReference[] = [];
    const bound = router(cluster.router ?? 'least-loaded', cluster.routerParameters);
    const kind = createFrontendKind({
      engines: entries,
      blockTokens: 16,
      clientDelayNs,
      engineDelayNs,
      prefillRouter: bound,
      decodeRouter: bound,
      permanentRefusals: [refusal.forGood],
      movedRefusals: [refusal.moved],
      ...cluster.options,
      ...(cluster.options?.replicaSync === undefined ? {} : { replicaSync: { ...cluster.options.replicaSync, frontends } }),
    });
    const control = world.cell('control', { class: 'control' });
    for (let index = 0; index < (cluster.frontends ?? 1); index++)
      frontends.push(control.actor(`frontend${index}`, kind, undefined) as never);
    const engineKind = fakeEngineKind(frontends);
    for (const [index, engine] of cluster.engines.entries()) {
      const actor = world.cell(`node${String(index).padStart(3, '0')}`, { class: 'server' }).actor('engine', engineKind, engine);
      entries.push({ name: `engine${index}`, actor: actor as never, role: engine.role });
    }
    world.cell('clients', { class: 'client' }).actor('client', fakeClientKind(frontends), cluster.requests);
    world.lookahead('client', 'control', clientDelayNs);
    world.lookahead('control', 'client', clientDelayNs);
    world.lookahead('control', 'server', engineDelayNs);
    world.lookahead('server', 'control', engineDelayNs);
  });
  return new Simulation(modelOf(program, undefined), { strict: true, keepRecords: true, ...options });
}

export function fakeEngineKind(frontends: readonly { readonly id: number }[]) {
  const fakes = new Map<number, FakeEngine>();
  return actorKind({
    name: 'fakeEngine',
    messages: {
      prefill: protocol.prefill,
      decode: protocol.decode,
      cancel: protocol.cancel,
      kvLost: protocol.kvLost,
      changeRole: protocol.changeRole,
      startEngine: protocol.startEngine,
      stopEngine: protocol.stopEngine,
      prefillDone,
      transferDone,
      answered,
      die,
      announce,
      report,
      tell,
      tellRemoved,
    },
    state: (engine: FakeEngine): EngineLog & { fake: FakeEngine } => ({
      fake: engine,
      prefills: [],
      decodes: [],
      cancels: [],
      orders: [],
      present: new Map(),
      fetching: new Set(),
      frontends: frontends.map((frontend) => frontend.id),
      busyUntilNs: 0,
      dead: false,
    }),
    start: (state, context) => {
      const { dieAtNs, states = [], reports = [], stored = [], removed = [] } = state.fake;
      fakes.set(context.self, state.fake);
      if (dieAtNs !== undefined) context.timer(die, dieAtNs);
      for (const [index, [atNs]] of states.entries()) context.timer(announce, atNs, index);
      for (const [index, [atNs]] of reports.entries()) context.timer(report, atNs, index);
      for (const [index, [atNs]] of stored.entries()) context.timer(tell, atNs, index);
      for (const [index, [atNs]] of removed.entries()) context.timer(tellRemoved, atNs, index);
    },
    on: {
      prefill: (state, view, context) => {
        const { refuseAt, reason = refusal.queueFull, prefillNs = 0, prefillTokenNs = 0 } = state.fake;
        if (state.dead) return;
        if (refuseAt !== undefined && state.present.size >= refuseAt) {
          context.send(view.sender, protocol.refused, engineDelayNs, view.request, reason, 0);
          return;
        }
        state.prefills.push({ request: protocol.requestOfDispatch(view.request), atNs: context.now });
        state.present.set(view.request, view.sender);
        const startNs = Math.max(context.now, state.busyUntilNs);
        state.busyUntilNs = startNs + prefillNs + prefillTokenNs * view.inputTokens;
        context.timer(prefillDone, state.busyUntilNs - context.now, view.request, startNs, view.decodeHere, view.outputTokens);
      },
      prefillDone: (state, view, context) => {
        if (state.dead || !state.present.has(view.request)) return;
        const frontend = state.present.get(view.request) as number;
        if (view.decodeHere === 0) {
          state.present.delete(view.request);
          context.send(frontend, protocol.prefilled, engineDelayNs, view.request, view.startNs, context.now, 0, 0);
          return;
        }
        context.send(frontend, protocol.answerBegun, engineDelayNs, view.request, view.startNs, context.now, 0, 0);
        context.timer(answered, (view.outputTokens - 1) * (state.fake.tokenNs ?? 0), view.request, view.outputTokens);
      },
      decode: (state, view, context) => {
        const { refuseAt, reason = refusal.queueFull, transferNs = 0 } = state.fake;
        if (state.dead) return;
        if (refuseAt !== undefined && state.present.size >= refuseAt) {
          context.send(view.sender, protocol.refused, engineDelayNs, view.request, reason, 1);
          return;
        }
        state.decodes.push({ request: protocol.requestOfDispatch(view.request), atNs: context.now, prefillEngine: view.prefillEngine });
        state.present.set(view.request, view.sender);
        state.fetching.add(view.request);
        context.timer(transferDone, transferNs, view.request, view.outputTokens, context.now);
      },
      transferDone: (state, view, context) => {
        if (state.dead || !state.present.has(view.request)) return;
        state.fetching.delete(view.request);
        const frontend = state.present.get(view.request) as number;
        const bytes = 100 * view.request;
        context.send(frontend, protocol.firstToken, engineDelayNs, view.request, context.now, view.startNs, context.now, bytes, 2);
        context.timer(answered, (view.outputTokens - 1) * (state.fake.tokenNs ?? 0), view.request, view.outputTokens);
      },
      answered: (state, view, context) => {
        const frontend = state.present.get(view.request);
        if (state.dead || frontend === undefined) return;
        state.present.delete(view.request);
        const { request, outputTokens } = view;
        const maxGapNs = outputTokens > 1 ? (state.fake.tokenNs ?? 0) : -1;
        context.send(frontend, protocol.finished, engineDelayNs, request, 0, context.now, outputTokens, maxGapNs, 0);
      },
      cancel: (state, view, context) => {
        state.cancels.push({ request: protocol.requestOfDispatch(view.request), atNs: context.now });
        state.present.delete(view.request);
      },
      kvLost: (state, view, context) => {
        if (state.dead || !state.present.has(view.request) || !state.fetching.has(view.request)) return;
        state.present.delete(view.request);
        context.send(view.sender, protocol.finished, engineDelayNs, view.request, protocol.outcome.failed, -1, 0, -1, 0);
      },
      changeRole: (state, view, context) => {
        state.orders.push({ role: view.role, atNs: context.now, start: false });
      },
      startEngine: (state, view, context) => {
        state.orders.push({ role: view.role, atNs: context.now, start: true });
      },
      stopEngine: (state, _view, context) => {
        state.orders.push({ role: -1, atNs: context.now, start: false });
      },
      die: (state, _view, context) => {
        state.dead = true;
        for (const to of state.frontends) context.send(to, protocol.engineState, engineDelayNs, context.self, state.fake.role, 4);
      },
      announce: (state, view, context) => {
        const [, role, status] = state.fake.states![view.index]!;
        for (const to of state.frontends) context.send(to, protocol.engineState, engineDelayNs, context.self, role, status);
      },
      report: (state, view, context) => {
        const [, queued, running, waiting, used, total] = state.fake.reports![view.index]!;
        for (const to of state.frontends)
          context.send(to, protocol.loadReport, engineDelayNs, context.self, queued, running, waiting, used, total);
      },
      tellRemoved: (state, view, context) => {
        const [, sequence, [block0 = 0, block1 = 0, block2 = 0, block3 = 0]] = state.fake.removed![view.index]!;
        for (const to of state.frontends) context.send(to, protocol.kvRemoved, engineDelayNs, sequence, block0, block1, block2, block3);
      },
      tell: (state, view, context) => {
        const [, sequence, identities] = state.fake.stored![view.index]!;
        for (const to of state.frontends) {
          const body = {
            kinds: new Uint8Array(identities.length).fill(1),
            identities: Float64Array.from(identities),
            parents: new Float64Array(identities.length),
            blocks: new Int32Array(identities.length).fill(1),
          };
          context.sendBody(to, protocol.kvEvents, engineDelayNs, body, context.self, sequence);
        }
      },
    },
  });
}

function fakeClientKind(frontends: readonly { readonly id: number }[]) {
  return actorKind({
    name: 'fakeClient',
    messages: { settled: protocol.settled, send, giveUp },
    state: (requests: readonly FakeRequest[]): ClientLog & { requests: readonly FakeRequest[]; frontends: number[] } => ({
      requests: structuredClone(requests) as FakeRequest[],
      frontends: frontends.map((frontend) => frontend.id),
      settled: [],
    }),
    start: (state, context) => {
      for (const [request, { atNs, cancelAtNs }] of state.requests.entries()) {
        context.timer(send, atNs, request);
        if (cancelAtNs !== undefined) context.timer(giveUp, cancelAtNs, request);
      }
    },
    on: {
      send: (state, view, context) => {
        const request = state.requests[view.request] as FakeRequest;
        const chain = request.chain === undefined ? undefined : Float64Array.from(request.chain);
        const { inputTokens, outputTokens = 1, tenant = 0, priority = 0, deadlineNs = -1 } = request;
        const to = state.frontends[request.frontend ?? 0] as number;
        context.sendBody(to, protocol.submit, clientDelayNs, chain, view.request, inputTokens, outputTokens, tenant, priority, deadlineNs);
      },
      giveUp: (state, view, context) => {
        const to = state.frontends[state.requests[view.request]?.frontend ?? 0] as number;
        context.send(to, protocol.cancel, clientDelayNs, view.request);
      },
      settled: (state, view, context) => {
        const { request, outcome, firstTokenNs, lastTokenNs, outputTokens } = view;
        state.settled.push({ request, outcome, atNs: context.now, firstTokenNs, lastTokenNs, outputTokens });
      },
    },
  });
}

export function frontendOf(simulation: Simulation, index = 0): FrontendState {
  return simulation.stateOf(`control/frontend${index}`) as FrontendState;
}

export function engineLog(simulation: Simulation, index: number): EngineLog {
  return simulation.stateOf(`node${String(index).padStart(3, '0')}/engine`) as EngineLog;
}

export function settledOf(simulation: Simulation): ClientLog['settled'] {
  return (simulation.stateOf('clients/client') as ClientLog).settled;
}

/** submitted - (completed + rejected + failed + cancelled + timed out + in flight): 0 when the books balance. */
export function imbalance(simulation: Simulation, index = 0): number {
  const { counters, slotOf } = frontendOf(simulation, index);
  const { submitted, completed, rejected, failed, cancelled, timedOut } = counters;
  return submitted - (completed + rejected + failed + cancelled + timedOut + slotOf.size);
}

/** Rows of the requests that have ended, by request. */
export function rows(simulation: Simulation): RequestRecord[] {
  const found = simulation
    .takeRecords()
    .filter(({ type }) => type === requestEnded.name)
    .map(requestRowOf);
  return found.sort((a, b) => a.requestId - b.requestId);
}
