import { type ActorId, actorKind, defineProgram, exponential, message, modelOf, Simulation } from '@braess/kernel';
import { cancel, outcome, settled, submit } from '@braess/protocol';
import {
  appendRequest,
  type ClientCounts,
  type ClientOptions,
  clientKind,
  createRequestTableBuilder,
  finishRequestTable,
  type RequestTable,
} from '@braess/workload';

export const MS = 1_000_000;

export interface Seen {
  request: number;
  atNs: number;
  chain: number[] | null;
  priority: number;
  tenant: number;
  deadlineNs: number;
  client: number;
}

export interface FrontendState {
  seen: Seen[];
  cancels: { request: number; atNs: number }[];
  busy: number;
  queue: { request: number; client: number }[];
  timers: Map<number, number>;
}

export interface FakeFrontend {
  /** Servers; Infinity serves all at once. */
  servers: number;
  meanServiceNs: number;
  exponential?: boolean;
  /** How attempt number n (from 1) of a request ends. */
  ends?: (request: number, attempt: number) => number;
  replyNs: number;
}

const served = message('served', ['request', 'client']);

/** A queue before some servers; answers each submit with one settled, also after a cancel. */
function fakeFrontend(fake: FakeFrontend, terse: boolean) {
  return actorKind({
    name: 'fakeFrontend',
    messages: { submit, cancel, served },
    streams: ['service'],
    state: (): FrontendState => ({ seen: [], cancels: [], busy: 0, queue: [], timers: new Map() }),
    on: {
      submit(state, { request, tenant, priority, deadlineNs, sender, body }, context) {
        const chain = body === undefined ? null : Array.from(body);
        if (!terse) state.seen.push({ request, atNs: context.now, chain, priority, tenant, deadlineNs, client: sender });
        state.queue.push({ request, client: sender });
        startService(state, context);
      },
      cancel(state, { request, sender }, context) {
        state.cancels.push({ request, atNs: context.now });
        const waiting = state.queue.findIndex((entry) => entry.request === request);
        const timer = state.timers.get(request);
        if (waiting >= 0) state.queue.splice(waiting, 1);
        else if (timer !== undefined && context.cancelTimer(timer)) {
          state.timers.delete(request);
          state.busy--;
        } else return;
        context.send(sender as ActorId, settled, fake.replyNs, request, outcome.cancelled, -1, -1, 0);
        startService(state, context);
      },
      served(state, { request, client }, context) {
        state.busy--;
        state.timers.delete(request);
        const attempt = fake.ends === undefined ? 1 : state.seen.filter((entry) => entry.request === request).length;
        context.send(client as ActorId, settled, fake.replyNs, request, fake.ends?.(request, attempt) ?? outcome.completed, -1, -1, 0);
        startService(state, context);
      },
    },
  });

  function startService(
    state: FrontendState,
    context: { random(stream: 'service'): number; timer(type: typeof served, delayNs: number, request: number, client: number): number },
  ): void {
    while (state.busy < fake.servers && state.queue.length > 0) {
      const { request, client } = state.queue.shift() as { request: number; client: number };
      state.busy++;
      const durationNs = fake.exponential === true ? exponential(context.random('service'), fake.meanServiceNs) : fake.meanServiceNs;
      state.timers.set(request, context.timer(served, Math.round(durationNs), request, client));
    }
  }
}

export interface Setting {
  options: ClientOptions;
  frontend: FakeFrontend;
  frontends?: number;
  /** The frontend keeps no list of what it has seen (long runs). */
  terse?: boolean;
}

function programOf({ options, frontend, frontends = 1, terse = false }: Setting) {
  return defineProgram(undefined, 'clients-test', (world) => {
    const kind = fakeFrontend(frontend, terse);
    const references = Array.from({ length: frontends }, (_unused, index) =>
      world.actor(`control/frontend${index}`, kind, undefined, { class: 'control' }),
    );
    const client = clientKind(options);
    for (let index = 0; index < (options.clients ?? 1); index++) {
      world.actor(`clients/client${index}`, client, { client: index, frontends: references }, { class: 'client' });
    }
    world.lookahead('client', 'control', Math.max(1, options.submitDelayNs));
    world.lookahead('control', 'client', Math.max(1, Math.min(1000, frontend.replyNs)));
  });
}

export function simulate(setting: Setting, shards = 1): Simulation {
  return new Simulation(modelOf(programOf(setting), undefined), { shards, keepRecords: true, strict: shards > 1 });
}

export function seenBy(simulation: Simulation, frontend = 0): Seen[] {
  return (simulation.stateOf(`control/frontend${frontend}`) as FrontendState).seen;
}

export function countsOf(simulation: Simulation, client = 0): ClientCounts {
  return (simulation.stateOf(`clients/client${client}`) as { counts: ClientCounts }).counts;
}

export interface Row {
  arrivalNs: number;
  inputTokens?: number;
  tenant?: number;
  session?: number;
  hashes?: number[];
}

export function tableOf(rows: Row[], blockTokens = 0): RequestTable {
  const builder = createRequestTableBuilder(blockTokens);
  for (const { arrivalNs, inputTokens = 100, tenant = 0, session = -1, hashes = [] } of rows) {
    appendRequest(builder, { arrivalNs, inputTokens, outputTokens: 10, tenant, session, name: '', hashes });
  }
  const table = finishRequestTable(builder);
  const sessions = Math.max(-1, ...rows.map((row) => row.session ?? -1)) + 1;
  table.sessionNames = Array.from({ length: sessions }, (_unused, index) => `s${index}`);
  return table;
}

export const AT_ONCE: FakeFrontend = { servers: Number.POSITIVE_INFINITY, meanServiceNs: 5 * MS, replyNs: 1000 };
