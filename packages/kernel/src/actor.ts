import { KernelError } from './errors.js';
import type { ActorId, BodyOf, FieldValues, MessageType, MessageView, RowType } from './message.js';

/** Names a pending timer of one actor: the sequence number it was set with, so it means the same after a restore on other shards. */
export type TimerId = number;

/**
 * All that a handler can do. One object a shard, valid only inside the handler.
 * Delays are whole nanoseconds; a fraction, a negative number or NaN is an error.
 */
export interface Context<Stream extends string = string> {
  /** The simulated time in ns. */
  readonly now: number;
  /** The id of the actor whose handler runs. */
  readonly self: ActorId;
  /**
   * Sends a message that arrives after `delayNs`. To another cell the delay must be at least the declared lookahead; inside a cell it may be 0.
   * @throws KernelError `lookahead`, `bad-time`, `unknown-actor`, `unknown-message`, `promise-broken`, `zero-delay-loop`.
   */
  send<T extends MessageType<string, readonly string[], never>>(
    to: ActorId<T['name']>,
    type: T,
    delayNs: number,
    ...fields: FieldValues<T>
  ): void;
  /** Sends a message with a body, which belongs to the receiver from then on. `undefined`, where the body's type allows it, sends none and costs nothing. */
  sendBody<T extends MessageType>(to: ActorId<T['name']>, type: T, delayNs: number, body: BodyOf<T>, ...fields: FieldValues<T>): void;
  /** Sends a message to oneself that can be cancelled. */
  timer<T extends MessageType<string, readonly string[], never>>(type: T, delayNs: number, ...fields: FieldValues<T>): TimerId;
  /** Cancels a pending timer of this actor; false when it has fired or was cancelled. */
  cancelTimer(timer: TimerId): boolean;
  /** The next number in [0, 1) of one of the kind's declared random streams. */
  random(stream: Stream): number;
  /** Emits a record. Records of a run merge by (time, step, actor, number), the same for every shard count. */
  emit<T extends MessageType<string, readonly string[], never>>(type: T, ...fields: FieldValues<T>): void;
  emitBody<T extends MessageType>(type: T, body: BodyOf<T>, ...fields: FieldValues<T>): void;
  /** Emits a record of many numbers, one for each column; `numbers` is copied and may be used again. */
  emitRow(type: RowType, numbers: Float64Array): void;
  /**
   * Promises that no message of this actor arrives in the cell of `destination` before `untilNs`, whatever this actor receives.
   * Promises widen the windows of other shards; breaking one is an error. A promise never shrinks: an earlier time changes nothing.
   */
  promiseSilence(destination: ActorId<never>, untilNs: number): void;
}

/** A declared kind of actor: what it receives, how its state begins, and its handlers. */
export interface ActorKind<Name extends string = string, Accepts extends string = string, Setup = never> {
  readonly name: Name;
  readonly messages: readonly MessageType[];
  readonly streams: readonly string[];
  /** Cell classes it may send to; undefined means every class with a declared lookahead. */
  readonly sendsTo: readonly string[] | undefined;
  readonly createState: (setup: Setup) => unknown;
  readonly start: ((state: never, context: Context) => void) | undefined;
  readonly handlers: readonly ((state: never, message: never, context: Context) => void)[];
  readonly atEnd: ((state: never) => readonly string[]) | undefined;
  readonly accepts?: Accepts;
}

export type AcceptedBy<Kind> = Kind extends ActorKind<string, infer Accepts, never> ? Accepts : string;

type MessageTable = { readonly [name: string]: MessageType };

interface ActorDeclaration<Name extends string, Messages extends MessageTable, State, Setup, Stream extends string> {
  readonly name: Name;
  /** The protocol: each key is the name of its message. */
  readonly messages: Messages;
  /** Names of the random streams its handlers draw from. */
  readonly streams?: readonly Stream[];
  /** Cell classes it may send to. Declared by actors that promise silence: only then can windows widen by it. */
  readonly sendsTo?: readonly string[];
  /** Builds the plain-data state from what the program passes for this actor. */
  readonly state: (setup: Setup) => State;
  /** What is wrong with a state in which nothing is left to do, one sentence each: asked once of a run that ended by itself. */
  readonly atEnd?: (state: NoInfer<State>) => readonly string[];
  /** Runs at time 0, before any message, in the order of the ids. */
  readonly start?: (state: NoInfer<State>, context: Context<NoInfer<Stream>>) => void;
  readonly on: {
    readonly [K in keyof Messages]: (state: NoInfer<State>, message: MessageView<Messages[K]>, context: Context<NoInfer<Stream>>) => void;
  };
}

/**
 * Declares a kind of actor.
 * @throws KernelError `bad-model` when a key of `messages` is not the message's name, a handler is missing, or a stream's name holds a slash.
 */
export function actorKind<
  const Name extends string,
  const Messages extends MessageTable,
  State,
  Setup = undefined,
  const Stream extends string = never,
>(declaration: ActorDeclaration<Name, Messages, State, Setup, Stream>): ActorKind<Name, keyof Messages & string, Setup> {
  const { name, messages, on } = declaration;
  const names = Object.keys(messages);
  for (const key of names) {
    const type = messages[key] as MessageType;
    if (type.name !== key)
      throw new KernelError(
        'bad-model',
        `actor kind '${name}': message key '${key}' holds message '${type.name}'; use its name as the key`,
      );
    if (typeof on[key] !== 'function')
      throw new KernelError('bad-model', `actor kind '${name}' has no handler for '${key}'; add on.${key}`);
  }
  for (const stream of declaration.streams ?? []) {
    // Streams are seeded by seed/actor/stream: with a slash, two of them could have one name and draw the same numbers.
    if (stream === '' || stream.includes('/'))
      throw new KernelError('bad-model', `actor kind '${name}': random stream '${stream}' needs a name without '/'`);
  }
  for (const key of Object.keys(on)) {
    if (!(key in messages)) throw new KernelError('bad-model', `actor kind '${name}' handles '${key}', which its messages do not list`);
  }
  return Object.freeze({
    name,
    messages: names.map((key) => messages[key] as MessageType),
    streams: declaration.streams ?? [],
    sendsTo: declaration.sendsTo,
    createState: declaration.state,
    start: declaration.start as ((state: never, context: Context) => void) | undefined,
    atEnd: declaration.atEnd as ((state: never) => readonly string[]) | undefined,
    handlers: names.map((key) => on[key] as (state: never, message: never, context: Context) => void),
  }) as ActorKind<Name, keyof Messages & string, Setup>;
}
