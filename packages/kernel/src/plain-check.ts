import { types } from 'node:util';
import { KernelError } from './errors.js';

/** Deepest nesting of plain data. */
const maximumDepth = 200;

// Taken before the guards hide it from handlers: bodies are checked while they are up.
const sharedPrototype = SharedArrayBuffer.prototype as object;

export const typedArrays = [
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
] as const;

/** Position in `typedArrays` by prototype. */
export const typedArrayIndex: ReadonlyMap<object | null, number> = new Map(
  typedArrays.map((ArrayType, index) => [ArrayType.prototype as object, index]),
);

/** Where a walk over a value is: the key or index at each depth. Kept so that a path is put together only for an error. */
export const trail: (string | number)[] = [];
let root: string | { readonly name: string } = '';

/** How much is looked for: symbol keys cost a call an object, repeated parts a set. */
let deepest = maximumDepth;
let findSymbols = false;
let seen: Set<object> | undefined;
let views: Map<object, ArrayBufferView[]> | undefined;

/**
 * What a walk over a value is about: its name, or the message type whose body it is.
 * @param wrapping levels that the kernel itself puts around plain data.
 */
export function beginWalk(what: typeof root, thorough: boolean, wrapping = 0): void {
  root = what;
  deepest = maximumDepth + wrapping;
  findSymbols = thorough;
  seen = undefined;
}

/**
 * Checks a body that is about to be sent, without copying it: what passes here passes on every shard count and transport.
 * @returns about how many bytes it holds.
 * @throws KernelError `bad-value` with the path of what is not plain data.
 */
export function checkBody(value: unknown, type: { readonly name: string; readonly hasBody: boolean }): number {
  if (!type.hasBody)
    throw new KernelError('bad-value', `message '${type.name}' is declared without a body; use send, or declare it with body<...>()`);
  beginWalk(type, false);
  return weigh(value, 0);
}

/** Checks an actor's state without packing it. @throws KernelError `bad-value` with the path of what is not plain data. */
export function checkPlainData(value: unknown, what: string): void {
  beginWalk(what, true);
  weigh(value, 0);
}

/**
 * Strict mode's check: also that the value is a tree and holds nothing that a copy would lose.
 * @returns about how many bytes it holds.
 */
export function checkTree(value: unknown, what: string | { readonly name: string }): number {
  beginWalk(what, true);
  seen = new Set();
  views = new Map();
  return weigh(value, 0);
}

/** Checks the part of a value below `depth`; returns about how many bytes it holds. */
function weigh(value: unknown, depth: number): number {
  if (!isLeaf(value, depth)) return weighObject(value as object, depth);
  return typeof value === 'string' ? 8 + 2 * value.length : 8;
}

/** True for what holds no further parts, which is checked; false for objects, of any kind. */
export function isLeaf(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'number':
    case 'boolean':
    case 'undefined':
      return true;
    case 'bigint':
      if (BigInt.asIntN(64, value) !== value && BigInt.asUintN(64, value) !== value) throw notPlain(depth, 'a bigint beyond 64 bits');
      return true;
    case 'string':
      if (!(value as string & { isWellFormed(): boolean }).isWellFormed()) throw notPlain(depth, 'a string with a lone surrogate');
      return true;
    case 'object':
      return value === null;
    default:
      throw notPlain(depth, `a ${typeof value}`);
  }
}

function weighObject(value: object, depth: number): number {
  checkDepth(depth);
  if (seen !== undefined) {
    if (seen.has(value)) throw notPlain(depth, 'an object that it also holds elsewhere (a value is a tree: give each place its own copy)');
    seen.add(value);
    if (types.isProxy(value)) throw notPlain(depth, 'a Proxy');
  }
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === Object.prototype || prototype === null) return weighRecord(value as Record<string, unknown>, depth);
  if (prototype === Array.prototype) return weighArray(value as unknown[], depth);
  if (prototype === Map.prototype) return weighMap(value as Map<unknown, unknown>, depth);
  if (prototype === Set.prototype) return weighSet(value as Set<unknown>, depth);
  if (!typedArrayIndex.has(prototype)) throw notPlain(depth, foreign(value));
  const view = value as ArrayBufferView;
  checkView(view, depth);
  if (seen !== undefined) checkOwn(view, (view as Uint8Array).length, depth);
  return 16 + view.byteLength;
}

function weighRecord(value: Record<string, unknown>, depth: number): number {
  let bytes = 16;
  let keys = 0;
  for (const key in value) {
    if (key === '__proto__') throw notPlain(depth, "an object with the key '__proto__'");
    const item = value[key];
    keys++;
    bytes += 8;
    // The cheap common case first: a body of numbers passes with no call.
    if (typeof item === 'number') continue;
    trail[depth] = key;
    bytes += weigh(item, depth + 1);
  }
  if (findSymbols) checkKeys(value, depth);
  if (seen !== undefined) checkProperties(value, keys, depth);
  return bytes;
}

/** What the keys of an object must not be, apart from what its values are. */
export function checkKeys(value: object, depth: number): void {
  if (Object.hasOwn(value, '__proto__')) throw notPlain(depth, "an object with the key '__proto__'");
  if (findSymbols && Object.getOwnPropertySymbols(value).length > 0) throw notPlain(depth, 'an object with symbol keys');
}

/** A copy turns accessors into values, and loses properties that are hidden. */
function checkProperties(value: object, count: number, depth: number): void {
  const names = Object.getOwnPropertyNames(value);
  if (names.length !== count) throw notPlain(depth, 'an object with properties that a copy would lose');
  for (const name of names) {
    const property = Object.getOwnPropertyDescriptor(value, name);
    if (property?.get !== undefined || property?.set !== undefined) throw notPlain(depth, `an object with the accessor '${name}'`);
  }
}

/** A copy keeps the items of an array, a Map, a Set or a typed array, and loses what stands beside them. */
function checkOwn(value: object, count: number, depth: number): void {
  if (Reflect.ownKeys(value).length !== count)
    throw notPlain(depth, `an instance of ${value.constructor.name} with properties that a copy would lose`);
}

function weighArray(value: readonly unknown[], depth: number): number {
  let bytes = 16 + 8 * value.length;
  for (let index = 0; index < value.length; index++) {
    const item = value[index];
    if (typeof item === 'number') continue;
    trail[depth] = index;
    if (item === undefined && !(index in value)) throw notPlain(depth + 1, 'a hole in an array');
    bytes += weigh(item, depth + 1);
  }
  if (seen !== undefined) checkOwn(value, value.length + 1, depth); // The length is a property too.
  return bytes;
}

function weighMap(map: Map<unknown, unknown>, depth: number): number {
  if (seen !== undefined) checkOwn(map, 0, depth);
  let bytes = 16;
  let index = 0;
  for (const [key, item] of map) {
    trail[depth] = `key${index}`;
    bytes += weigh(key, depth + 1);
    trail[depth] = `value${index++}`;
    bytes += weigh(item, depth + 1);
  }
  return bytes;
}

function weighSet(set: Set<unknown>, depth: number): number {
  if (seen !== undefined) checkOwn(set, 0, depth);
  let bytes = 16;
  let index = 0;
  for (const item of set) {
    trail[depth] = `item${index++}`;
    bytes += weigh(item, depth + 1);
  }
  return bytes;
}

export function checkView(view: ArrayBufferView, depth: number): void {
  if (Object.getPrototypeOf(view.buffer) === sharedPrototype) throw notPlain(depth, 'shared memory');
  if (seen === undefined || views === undefined) return;
  const others = views.get(view.buffer);
  if (others === undefined) {
    views.set(view.buffer, [view]);
    return;
  }
  for (const other of others) {
    if (view.byteOffset < other.byteOffset + other.byteLength && other.byteOffset < view.byteOffset + view.byteLength)
      throw notPlain(depth, 'a typed array whose memory it also holds elsewhere (a value is a tree: give each place its own copy)');
  }
  others.push(view);
}

/** What an object is that is no plain data. */
export function foreign(value: object): string {
  const name = value.constructor?.name ?? 'class';
  return ArrayBuffer.isView(value) ? `a ${name}` : `an instance of ${name}`;
}

/** For an object at this depth, 0 being the value itself. */
export function checkDepth(depth: number): void {
  if (depth >= deepest) throw notPlain(depth, `nested deeper than ${maximumDepth} (a cycle?)`);
}

export function notPlain(depth: number, found: string): KernelError {
  const path = trail.slice(0, Math.min(depth, 20)).map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`));
  const what = typeof root === 'string' ? root : `the body of message '${root.name}'`;
  return new KernelError(
    'bad-value',
    `${what}${path.join('')} holds ${found}; state, bodies and records are plain data (see docs/kernel.md, "Data")`,
  );
}
