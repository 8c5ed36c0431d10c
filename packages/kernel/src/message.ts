import { KernelError } from './errors.js';
import { type EventCursor, slotLayout } from './event-slab.js';

const { bodyFlag, kindOffset, senderOffset } = slotLayout;

/** The greatest count of numeric fields in a message or record. */
const maximumFields = 6;

declare const bodyOf: unique symbol;
declare const accepts: unique symbol;

/**
 * The id of an actor: an index into the actors sorted by name, so it does not depend on placement.
 * `Accepts` is the union of message names its kind handles; sending anything else does not compile.
 */
export type ActorId<Accepts extends string = string> = number & { readonly [accepts]?: (message: Accepts) => void };

/** A declared message (or record): a name, up to six numeric fields, and possibly a body. */
export interface MessageType<Name extends string = string, Fields extends readonly string[] = readonly string[], Body = unknown> {
  readonly name: Name;
  readonly fields: Fields;
  readonly hasBody: boolean;
  /** Number of this declaration in this process; never part of a result. */
  readonly declaration: number;
  readonly [bodyOf]?: Body;
}

/** Marks the type of a body; carries nothing at run time. */
export interface BodyType<Body> {
  readonly [bodyOf]?: Body;
}

/** One number for each declared field. */
export type FieldValues<T extends MessageType> = T['fields'] extends infer Fields extends readonly string[]
  ? { -readonly [K in keyof Fields]: number }
  : never;

/** What a body-carrying declaration carries; `never` without one. */
export type BodyOf<T extends MessageType> = T extends MessageType<string, readonly string[], infer Body> ? Body : never;

/**
 * What a handler sees of a message: its sender, each numeric field by name, and the body.
 * The object is reused for every message of its type and is invalid after the handler returns.
 */
export type MessageView<T extends MessageType> = { readonly sender: ActorId } & {
  readonly [F in T['fields'][number]]: number;
} & (unknown extends BodyOf<T> ? { readonly body: unknown } : [BodyOf<T>] extends [never] ? unknown : { readonly body: BodyOf<T> });

let declarations = 0;

/** Declares the type of a body: `message('stored', ['worker'], body<StoredBlocks>())`. */
export function body<Body>(): BodyType<Body> {
  return {};
}

/**
 * Declares a message: its name, the names of its numeric fields in the order they are sent, and possibly a body.
 * @throws KernelError `bad-model` for more than six fields, a repeated field, or a reserved name (`sender`, `body`, what every object has).
 */
export function message<const Name extends string>(name: Name): MessageType<Name, readonly [], never>;
export function message<const Name extends string, const Fields extends readonly string[]>(
  name: Name,
  fields: Fields,
): MessageType<Name, Fields, never>;
export function message<const Name extends string, const Fields extends readonly string[], Body>(
  name: Name,
  fields: Fields,
  bodyType: BodyType<Body>,
): MessageType<Name, Fields, Body>;
export function message(name: string, fields: readonly string[] = [], bodyType?: BodyType<unknown>): MessageType {
  if (name === '') throw new KernelError('bad-model', 'a message needs a name');
  if (fields.length > maximumFields) {
    throw new KernelError('bad-model', `message '${name}' has ${fields.length} fields; at most ${maximumFields}: put the rest into a body`);
  }
  for (const field of fields) {
    if (field === 'sender' || field === 'body' || field === '' || field in Object.prototype)
      throw new KernelError('bad-model', `message '${name}': '${field}' is reserved; rename the field`);
    if (fields.indexOf(field) !== fields.lastIndexOf(field))
      throw new KernelError('bad-model', `message '${name}' has field '${field}' twice`);
  }
  return Object.freeze({ name, fields: Object.freeze([...fields]), hasBody: bodyType !== undefined, declaration: declarations++ });
}

/**
 * Declares a record that actors emit; records have the same shape as messages.
 * @alias
 */
export const record = message;

/** The greatest count of numbers in a row. */
const maximumColumns = 64;

declare const isRow: unique symbol;

/** A declared record of many numbers, which an actor emits from an array of its own. */
export interface RowType {
  readonly name: string;
  readonly fields: readonly string[];
  readonly declaration: number;
  readonly [isRow]: true;
}

/**
 * Declares a record of many numbers. Several records of six numbers that belong together cost as many times the bookkeeping of one row.
 * @throws KernelError `bad-model` for an empty name, no columns, or more than 64.
 */
export function rowRecord(name: string, columns: readonly string[]): RowType {
  if (name === '' || columns.length === 0 || columns.length > maximumColumns || new Set(columns).size !== columns.length)
    throw new KernelError(
      'bad-model',
      `row '${name}' has ${columns.length} columns; give it a name and 1 to ${maximumColumns} different columns`,
    );
  return Object.freeze({ name, fields: Object.freeze([...columns]), declaration: declarations++ }) as unknown as RowType;
}

/** Builds the reused view of one message type over a shard's cursor. In strict mode reading it after the handler throws. */
export function createView(type: MessageType, cursor: EventCursor, strict: boolean): unknown {
  // One class a message type: its getters stay monomorphic, and a handler of one type never sees another's shape. The cursor is held by the
  // getters, not by the view, and the view is frozen: a handler can neither reach the engine through it nor leave anything on it.
  class View {}
  const define = (name: string, read: () => unknown): void => {
    const guarded = (): unknown => {
      if (cursor.base < 0)
        throw new KernelError('forbidden', `message '${type.name}' was read after its handler returned; copy '${name}' inside the handler`);
      return read();
    };
    Object.defineProperty(View.prototype, name, { get: strict ? guarded : read, enumerable: true });
  };
  define('sender', () => cursor.integers[2 * cursor.base + senderOffset]);
  // Without the flag the cursor still holds the body of an earlier event.
  define('body', () => (((cursor.integers[2 * cursor.base + kindOffset] as number) & bodyFlag) === 0 ? undefined : cursor.body));
  for (const [index, field] of type.fields.entries()) define(field, fieldReader(index, cursor));
  return Object.freeze(new View());
}

function fieldReader(index: number, cursor: EventCursor): () => number {
  // A constant offset a getter lets the compiler fold it.
  switch (index) {
    case 0:
      return () => cursor.fields[cursor.fieldsBase] as number;
    case 1:
      return () => cursor.fields[cursor.fieldsBase + 1] as number;
    case 2:
      return () => cursor.fields[cursor.fieldsBase + 2] as number;
    case 3:
      return () => cursor.fields[cursor.fieldsBase + 3] as number;
    case 4:
      return () => cursor.fields[cursor.fieldsBase + 4] as number;
    default:
      return () => cursor.fields[cursor.fieldsBase + 5] as number;
  }
}
