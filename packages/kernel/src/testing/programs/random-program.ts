import { type ActorKind, actorKind, type Context, type TimerId } from '../../actor.js';
import { type ActorId, body, message, record } from '../../message.js';
import type { ActorReference } from '../../model.js';
import { defineProgram } from '../../program.js';
import type { ActorSpec, Operation, RandomSpec } from './random-spec.js';

const work = message('work', ['budget', 'tag', 'value']);
const parcel = message('parcel', ['budget', 'tag'], body<unknown>());
const alarm = message('alarm', ['budget', 'tag']);
const seen = record('seen', ['count', 'value']);
const kept = record('kept', ['count'], body<unknown>());

interface Peer {
  readonly reference: ActorReference;
  readonly cell: number;
  /** Declared lookahead to it; 0 inside the cell. */
  readonly leastNs: number;
}

interface Setup {
  readonly actor: ActorSpec;
  readonly peers: readonly Peer[];
}

interface State {
  readonly actor: ActorSpec;
  readonly peers: readonly { readonly id: number; readonly cell: number; readonly leastNs: number }[];
  count: number;
  sum: number;
  timers: TimerId[];
  /** Cell to the time until which it was promised silence. */
  readonly silentUntilNs: Map<number, number>;
  readonly tags: Set<number>;
  readonly histogram: Float64Array;
  stored: unknown;
}

/** A body of its own from the spec's table. */
function fresh(spec: RandomSpec, index: number): unknown {
  return spec.values.length === 0 ? null : structuredClone(spec.values[index % spec.values.length]);
}

/** Interprets a spec. Every handler shares its budget among the messages it causes, so a program always ends. */
export default defineProgram<RandomSpec>(import.meta.url, 'random', (world, spec) => {
  const kinds = [createKind('plain', spec, undefined), createKind('promising', spec, classNames(spec))] as const;
  const cells = spec.cells.map((cell, index) => ({
    ...cell,
    name: `cell${index}`,
    declared: world.cell(`cell${index}`, { class: `class${classOf(spec, index)}`, weight: cell.weight }),
  }));
  const peersOf = cells.map((): Peer[] => []);
  const references: { reference: ActorReference; cell: number }[] = [];
  for (const [index, cell] of cells.entries()) {
    for (const [position, actor] of cell.actors.entries()) {
      const kind = kinds[actor.promises ? 1 : 0];
      const reference = cell.declared.actor(`actor${position}`, kind, { actor, peers: peersOf[index] as Peer[] });
      references.push({ reference: reference as unknown as ActorReference, cell: index });
    }
  }
  for (const [from, rules] of spec.lookaheadNs.entries())
    for (const [to, delayNs] of rules.entries()) if (delayNs > 0) world.lookahead(`class${from}`, `class${to}`, delayNs);
  const linkNs = new Map<string, number>();
  for (const link of spec.links) {
    const [from, to] = [link.from % cells.length, link.to % cells.length];
    if (from === to || cells[from]?.actors.length === 0 || cells[to]?.actors.length === 0) continue;
    linkNs.set(`${from}>${to}`, link.delayNs); // The last of several counts.
  }
  for (const [route, delayNs] of linkNs) {
    const [from, to] = route.split('>');
    world.link(`cell${from}`, `cell${to}`, delayNs);
  }
  for (const [from, peers] of peersOf.entries()) {
    for (const { reference, cell } of references) {
      const leastNs =
        cell === from ? 0 : (linkNs.get(`${from}>${cell}`) ?? spec.lookaheadNs[classOf(spec, from)]?.[classOf(spec, cell)] ?? 0);
      if (cell === from || leastNs > 0) peers.push({ reference, cell, leastNs });
    }
  }
});

function classOf(spec: RandomSpec, cell: number): number {
  return (spec.cells[cell] as { class: number }).class % spec.lookaheadNs.length;
}

function classNames(spec: RandomSpec): string[] {
  return spec.lookaheadNs.map((_, index) => `class${index}`);
}

function createKind(
  name: string,
  spec: RandomSpec,
  sendsTo: readonly string[] | undefined,
): ActorKind<string, 'work' | 'parcel' | 'alarm', Setup> {
  return actorKind({
    name,
    messages: { work, parcel, alarm },
    streams: ['draws', 'delays'],
    ...(sendsTo === undefined ? {} : { sendsTo }),
    state: ({ actor, peers }: Setup): State => ({
      actor: { ...actor },
      peers: peers.map(({ reference, cell, leastNs }) => ({ id: reference.id, cell, leastNs })),
      count: 0,
      sum: -0,
      timers: [],
      silentUntilNs: new Map(),
      tags: new Set(),
      histogram: new Float64Array(4),
      stored: undefined,
    }),
    start(state, context) {
      if (state.actor.startNs >= 0) context.send(context.self, work, state.actor.startNs, spec.budget, 0, -0);
    },
    on: {
      work(state, { budget, tag, value, sender }, context) {
        state.sum += value + sender;
        react(spec, state, context, budget, tag, undefined);
      },
      parcel(state, view, context) {
        react(spec, state, context, view.budget, view.tag, view.body);
      },
      alarm(state, { budget, tag }, context) {
        state.timers.shift();
        react(spec, state, context, budget, tag, undefined);
      },
    },
  });
}

function react(spec: RandomSpec, state: State, context: Context, budget: number, tag: number, received: unknown): void {
  state.count++;
  state.tags.add(tag);
  state.histogram[tag & 3] = (state.histogram[tag & 3] as number) + 1 / (1 + tag);
  if (spec.reactions.length === 0) return;
  const operations = spec.reactions[(state.actor.offset + tag) % spec.reactions.length] as readonly Operation[];
  const sends = operations.filter((operation) => ['send', 'sendBody', 'forward', 'sendRandom', 'timer'].includes(operation.do)).length;
  const share = sends === 0 ? 0 : Math.floor((budget - 1) / sends);
  let body = received;
  for (const operation of operations) {
    const sending = 'tag' in operation || operation.do === 'sendRandom';
    if (sending && share < 1) continue;
    if (operation.do === 'forward') {
      // Sent on as it came, and only once: a body belongs to one actor at a time.
      const [peer, delayNs] = route(state, context, operation.to, operation.delayNs);
      context.sendBody(peer.id as ActorId, parcel, delayNs, body, share, operation.tag);
      body = null;
    } else perform(spec, state, context, operation, share);
  }
  if (received !== undefined && body !== null) state.stored = body;
}

function perform(spec: RandomSpec, state: State, context: Context, operation: Exclude<Operation, { do: 'forward' }>, share: number): void {
  switch (operation.do) {
    case 'send': {
      const [peer, delayNs] = route(state, context, operation.to, operation.delayNs);
      context.send(peer.id as ActorId, work, delayNs, share, operation.tag, state.count % 3 === 0 ? Number.NaN : state.sum);
      return;
    }
    case 'sendBody': {
      const [peer, delayNs] = route(state, context, operation.to, operation.delayNs);
      context.sendBody(
        peer.id as ActorId,
        parcel,
        delayNs,
        { inner: fresh(spec, operation.value), count: state.count },
        share,
        operation.tag,
      );
      return;
    }
    case 'sendRandom': {
      const draw = Math.floor(context.random('draws') * 1000);
      const [peer, delayNs] = route(state, context, draw, Math.floor(context.random('delays') * operation.spreadNs));
      context.send(peer.id as ActorId, work, delayNs, share, draw % 7, context.random('draws'));
      return;
    }
    case 'timer':
      state.timers.push(context.timer(alarm, operation.delayNs, share, operation.tag));
      return;
    case 'cancel': {
      if (state.timers.length === 0) return;
      const [timer] = state.timers.splice(operation.which % state.timers.length, 1);
      state.sum += context.cancelTimer(timer as TimerId) ? 1 : 100;
      return;
    }
    case 'emit':
      context.emit(seen, state.count, operation.value === 0 ? -0 : state.sum / operation.value);
      return;
    case 'emitBody':
      context.emitBody(kept, [fresh(spec, operation.value), state.sum, state.stored], state.count);
      return;
    case 'store':
      state.stored = fresh(spec, operation.value);
      return;
    case 'promise': {
      const peer = state.peers[operation.to % state.peers.length] as State['peers'][number];
      const untilNs = Math.max(state.silentUntilNs.get(peer.cell) ?? 0, context.now + operation.forNs);
      if (peer.leastNs === 0) return;
      state.silentUntilNs.set(peer.cell, untilNs);
      context.promiseSilence(peer.id as ActorId, untilNs);
    }
  }
}

/** A peer and the delay to it: no less than the lookahead, and not before a promise ends. */
function route(state: State, context: Context, to: number, extraNs: number): [State['peers'][number], number] {
  const peer = state.peers[to % state.peers.length] as State['peers'][number];
  const silentNs = (state.silentUntilNs.get(peer.cell) ?? 0) - context.now;
  return [peer, Math.max(peer.leastNs + extraNs, peer.leastNs === 0 ? 0 : silentNs)];
}
