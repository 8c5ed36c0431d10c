import type { ActorKind, Context, TimerId } from '../actor.js';
import { KernelError } from '../errors.js';
import { slotLayout } from '../event-slab.js';
import { type ActorId, type BodyOf, createView, type FieldValues, type MessageType, type RowType } from '../message.js';
import { ActorReference } from '../model.js';
import { copyValue } from '../plain-copy.js';
import { RandomStreams } from '../random-streams.js';
import { maximumTimeNs, timeFault } from '../time.js';
import { checkPlainTree, firstSharedPart } from './plain-tree.js';

const { senderOffset } = slotLayout;

/** A message the actor sent, to another or to itself. */
export interface SentMessage {
  readonly to: ActorId<never>;
  /** Name of the receiver, as it was given to the bench. */
  readonly toName: string;
  readonly message: string;
  readonly sentNs: number;
  readonly delayNs: number;
  readonly fields: readonly number[];
  readonly body: unknown;
}

/** A message to itself that has not arrived yet; `timer` when it was set with `context.timer`. */
export interface PendingMessage extends SentMessage {
  readonly timer: TimerId | undefined;
  readonly arrivesNs: number;
}

/** A record the actor emitted. */
export interface EmittedRecord {
  readonly timeNs: number;
  readonly type: string;
  readonly fields: readonly number[];
  readonly body: unknown;
}

/** A promise of silence the actor made. */
export interface MadePromise {
  readonly destination: ActorId<never>;
  readonly madeNs: number;
  readonly untilNs: number;
}

/** What comes with a message that a test feeds: one number for each field, a body where one is declared, and a sender. */
export type Fed<T extends MessageType> = { readonly sender?: ActorId<never> } & (T['fields'] extends readonly []
  ? { readonly fields?: FieldValues<T> }
  : { readonly fields: FieldValues<T> }) &
  ([BodyOf<T>] extends [never] ? { readonly body?: never } : { readonly body: BodyOf<T> });

type AnyKind = ActorKind<string, string, never>;

/**
 * Where actors are driven alone, without a run: `const bench = new ActorBench(); const gpu = bench.drive('gpu0', gpuKind, {...})`.
 * Names get ids in the order they are first mentioned (in a run ids follow the sorted names); random streams draw what an actor of
 * this name draws in a run with the same seed.
 */
export class ActorBench {
  readonly seed: string;
  readonly #names: string[] = [];
  readonly #idOfName = new Map<string, ActorId>();

  constructor(seed: string | number = '1') {
    this.seed = String(seed);
  }

  /** The id of an actor that only exists by name: somebody to send to or to receive from. */
  id(name: string): ActorId {
    let id = this.#idOfName.get(name);
    if (id === undefined) {
      id = this.#names.length as ActorId;
      this.#names.push(name);
      this.#idOfName.set(name, id);
    }
    return id;
  }

  /** A reference as a program would pass it in a set-up. */
  reference<Kind extends AnyKind>(name: string, kind: Kind): ActorReference<Kind> {
    const reference = new ActorReference(name, kind);
    reference.assignId(this.id(name));
    return reference;
  }

  nameOf(id: ActorId<never>): string {
    const name = this.#names[id];
    if (name === undefined) throw new KernelError('unknown-actor', `actor ${id} was never named on this bench; use bench.id(name)`);
    return name;
  }

  /** Builds an actor's state and runs its `start`. */
  drive<Name extends string, Accepts extends string, Setup>(
    name: string,
    kind: ActorKind<Name, Accepts, Setup>,
    setup: Setup,
    options: { readonly atNs?: number; readonly start?: boolean } = {},
  ): DrivenActor {
    const actor = new DrivenActor(this, name, kind as unknown as AnyKind, setup, options.atNs ?? 0);
    if (options.start !== false) actor.start();
    return actor;
  }
}

interface Pending extends PendingMessage {
  readonly type: MessageType;
  readonly step: number;
  readonly sequence: number;
}

/** One actor alone: feed it messages, look at what it did. The state is checked after every handler. */
export class DrivenActor {
  readonly name: string;
  readonly id: ActorId;
  /** The live state; cast it to what the kind declares. */
  readonly state: unknown;
  /** Everything sent so far, messages to itself and timers included, in order. */
  readonly sent: SentMessage[] = [];
  readonly records: EmittedRecord[] = [];
  readonly promises: MadePromise[] = [];
  readonly timersSet: TimerId[] = [];
  readonly timersCancelled: TimerId[] = [];
  nowNs: number;
  readonly #bench: ActorBench;
  readonly #kind: AnyKind;
  readonly #streams: RandomStreams;
  readonly #context: Context;
  #pending: Pending[] = [];
  #sequence = 0;
  #step = 0;

  constructor(bench: ActorBench, name: string, kind: AnyKind, setup: unknown, atNs: number) {
    this.#bench = bench;
    this.name = name;
    this.#kind = kind;
    this.id = bench.id(name);
    this.nowNs = atNs;
    this.#streams = new RandomStreams(kind.streams.length, (stream) => `${bench.seed}/${name}/${kind.streams[stream]}`);
    this.state = (kind.createState as (setup: unknown) => unknown)(setup);
    this.#context = this.#createContext();
    checkPlainTree(this.state, `the state of '${name}'`);
  }

  start(): void {
    if (this.#kind.start !== undefined) this.#handle('start', () => this.#kind.start?.(this.state as never, this.#context));
  }

  /** Lets a message arrive now. */
  receive<T extends MessageType>(
    type: T,
    ...[fed]: T['fields'] extends readonly [] ? ([BodyOf<T>] extends [never] ? [fed?: Fed<T>] : [fed: Fed<T>]) : [fed: Fed<T>]
  ): void {
    const {
      sender = this.#bench.id('(test)'),
      fields = [],
      body,
    } = (fed ?? {}) as Partial<{ sender: ActorId<never>; fields: number[]; body: unknown }>;
    this.#step = 0;
    this.#deliver(type, sender, fields, copyValue(body, `the body of message '${type.name}'`));
  }

  /** Messages to itself that have not arrived, timers included, in the order they will arrive. */
  get pending(): readonly PendingMessage[] {
    return this.#pending.map(({ type, step, sequence, ...rest }) => rest);
  }

  /** Moves time on by `byNs`, delivering messages to itself and timers on the way, those due at the new time included. */
  advance(byNs: number): void {
    this.advanceTo(this.nowNs + byNs);
  }

  advanceTo(timeNs: number): void {
    if (!Number.isSafeInteger(timeNs) || timeNs < this.nowNs)
      throw new KernelError(
        'bad-time',
        `cannot advance '${this.name}' to ${timeNs} ns; it must be a whole number, not before ${this.nowNs} ns`,
      );
    for (let first = this.#pending[0]; first !== undefined && first.arrivesNs <= timeNs; first = this.#pending[0]) {
      this.#pending.shift();
      this.nowNs = first.arrivesNs;
      this.#step = first.step;
      this.#deliver(first.type, this.id, first.fields, first.body);
    }
    this.nowNs = timeNs;
  }

  /** What was sent since the last call, without messages to itself. */
  takeSent(): SentMessage[] {
    return this.sent.splice(0).filter(({ to }) => to !== this.id);
  }

  takeRecords(): EmittedRecord[] {
    return this.records.splice(0);
  }

  #deliver(type: MessageType, sender: ActorId<never>, fields: readonly number[], body: unknown): void {
    const index = this.#kind.messages.indexOf(type);
    if (index < 0)
      throw new KernelError(
        'unknown-message',
        `kind '${this.#kind.name}' handles no message '${type.name}'; it handles [${this.#kind.messages.map((known) => known.name).join(', ')}]`,
      );
    this.#checkShape(type, fields, body !== undefined);
    const words = new Float64Array(4);
    const integers = new Int32Array(words.buffer);
    integers[senderOffset] = sender;
    const cursor = { words, integers, fields: Float64Array.from(fields), base: 0, fieldsBase: 0, body };
    const view = createView(type, cursor, true);
    const handler = this.#kind.handlers[index] as unknown as (state: unknown, message: unknown, context: Context) => unknown;
    try {
      this.#handle(type.name, () => handler(this.state, view, this.#context));
    } finally {
      cursor.base = -1;
    }
  }

  #handle(message: string, work: () => unknown): void {
    const sentBefore = this.sent.length;
    const site = { actor: this.name, message, timeNs: this.nowNs, seed: this.#bench.seed };
    const returned = work();
    if (typeof (returned as { then?: unknown } | undefined)?.then === 'function')
      throw new KernelError('forbidden', 'a handler returned a promise; handlers must not await: split the work into messages', site);
    checkPlainTree(this.state, `the state of '${this.name}' after '${message}'`);
    for (const { body, message: sentName } of this.sent.slice(sentBefore)) {
      const shared = firstSharedPart(body, `the body of message '${sentName}'`, this.state, 'the state');
      if (shared !== undefined)
        throw new KernelError('bad-value', `${shared[0]} is the same object as ${shared[1]} of the sender; send a copy`, site);
    }
  }

  #checkShape(type: MessageType, fields: readonly number[], hasBody: boolean): void {
    if (fields.length !== type.fields.length || fields.some((field) => typeof field !== 'number'))
      throw new KernelError(
        'bad-value',
        `'${type.name}' was given [${fields.join(', ')}]; it has ${type.fields.length} numeric fields [${type.fields.join(', ')}]`,
      );
    if (hasBody && !type.hasBody) throw new KernelError('bad-value', `'${type.name}' is declared without a body`);
  }

  #post(to: ActorId, type: MessageType, delayNs: number, fields: readonly number[], body: unknown, isTimer: boolean): TimerId {
    this.#checkShape(type, fields, body !== undefined);
    const arrivesNs = this.nowNs + delayNs;
    if (!Number.isSafeInteger(delayNs) || delayNs < 0 || arrivesNs > maximumTimeNs)
      throw new KernelError('bad-time', `'${this.name}' sends '${type.name}' with delay ${delayNs}: ${timeFault(delayNs)}`);
    const toName = this.#bench.nameOf(to);
    const broken = this.promises.find(({ destination, untilNs }) => destination === to && arrivesNs < untilNs);
    if (broken !== undefined)
      throw new KernelError(
        'promise-broken',
        `'${this.name}' sends '${type.name}' to '${toName}' for ${arrivesNs} ns, but promised silence until ${broken.untilNs} ns`,
      );
    copyValue(body, `the body of message '${type.name}'`);
    const sequence = this.#sequence++;
    const sent = { to, toName, message: type.name, sentNs: this.nowNs, delayNs, fields, body };
    this.sent.push(sent);
    if (isTimer) this.timersSet.push(sequence);
    if (to === this.id) {
      const step = delayNs === 0 ? this.#step + 1 : 0;
      this.#pending.push({ ...sent, arrivesNs, timer: isTimer ? sequence : undefined, type, step, sequence });
      this.#pending.sort((a, b) => a.arrivesNs - b.arrivesNs || a.step - b.step || a.sequence - b.sequence);
    }
    return sequence;
  }

  #createContext(): Context {
    const actor = this;
    const context: Record<keyof Context, unknown> = {
      get now() {
        return actor.nowNs;
      },
      self: actor.id,
      send: (to: ActorId, type: MessageType, delayNs: number, ...fields: number[]) => {
        actor.#post(to, type, delayNs, fields, undefined, false);
      },
      sendBody: (to: ActorId, type: MessageType, delayNs: number, body: unknown, ...fields: number[]) => {
        actor.#post(to, type, delayNs, fields, body, false);
      },
      timer: (type: MessageType, delayNs: number, ...fields: number[]) => actor.#post(actor.id, type, delayNs, fields, undefined, true),
      cancelTimer: (timer: TimerId) => actor.#cancel(timer),
      random: (stream: string) => {
        const index = actor.#kind.streams.indexOf(stream);
        if (index < 0) throw new KernelError('bad-value', `kind '${actor.#kind.name}' declares no random stream '${stream}'`);
        return actor.#streams.draw(index);
      },
      emit: (type: MessageType, ...fields: number[]) => actor.#emit(type, fields, undefined),
      emitBody: (type: MessageType, body: unknown, ...fields: number[]) => actor.#emit(type, fields, body),
      emitRow: (type: RowType, numbers: Float64Array) => {
        actor.records.push({ timeNs: actor.nowNs, type: type.name, fields: [...numbers], body: undefined });
      },
      promiseSilence: (destination: ActorId, untilNs: number) => {
        if (!Number.isSafeInteger(untilNs) || untilNs < 0)
          throw new KernelError('bad-time', `promiseSilence until ${untilNs}: ${timeFault(untilNs)}`);
        actor.#bench.nameOf(destination);
        actor.promises.push({ destination, madeNs: actor.nowNs, untilNs });
      },
    };
    return context as unknown as Context;
  }

  #cancel(timer: TimerId): boolean {
    const index = this.#pending.findIndex((pending) => pending.timer === timer);
    if (index < 0) return false;
    this.#pending.splice(index, 1);
    this.timersCancelled.push(timer);
    return true;
  }

  #emit(type: MessageType, fields: readonly number[], body: unknown): void {
    this.#checkShape(type, fields, body !== undefined);
    this.records.push({ timeNs: this.nowNs, type: type.name, fields, body: copyValue(body, `the body of record '${type.name}'`) });
  }
}
