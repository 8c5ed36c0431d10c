import { addExtension, Packr } from 'msgpackr';
import {
  beginWalk,
  checkDepth,
  checkKeys,
  checkView,
  foreign,
  isLeaf,
  notPlain,
  trail,
  typedArrayIndex,
  typedArrays,
} from './plain-check.js';

/**
 * State, bodies and records are plain data, restored exactly:
 *   null, undefined, booleans, numbers (-0, NaN and infinities included), well-formed strings, bigints of 64 bits, dense arrays, objects with
 *   string keys and no class (with or without Object's prototype), Map, Set, and typed arrays.
 * Not: functions, symbols, class instances, Date, cycles, holes, lone surrogates, the key `__proto__`, shared memory.
 * A value is a tree: a part that is referenced twice comes back as two parts.
 */
export type PlainData = unknown;

/** msgpackr alone turns -0 into 0, Map and Set into objects and arrays, and typed arrays into Buffers; these travel escaped. */
class Escaped {
  readonly kind: number;
  readonly content: unknown;
  constructor(kind: number, content: unknown) {
    this.kind = kind;
    this.content = content;
  }
}

const negativeZero = 0;
const mapKind = 1;
const setKind = 2;
const firstArrayKind = 3;
const bareKind = firstArrayKind + typedArrays.length;
const entriesKind = bareKind + 1;

addExtension({
  Class: Escaped as unknown as new () => Escaped,
  type: 0x42,
  write: (instance: Escaped) => [instance.kind, instance.content],
  read: ([kind, content]: [number, unknown]) => restoreEscaped(kind, content),
} as unknown as Parameters<typeof addExtension>[0]);

/** Records are defined inside each packed buffer, so a frame or a checkpoint needs no learned structures to be read. */
const packr = new Packr({ useRecords: true, mapsAsObjects: true });

function restoreEscaped(kind: number, content: unknown): unknown {
  if (kind === negativeZero) return -0;
  if (kind === mapKind) return new Map(content as [unknown, unknown][]);
  if (kind === setKind) return new Set(content as unknown[]);
  if (kind === bareKind) return fromEntries(Object.create(null) as Record<string, unknown>, content);
  if (kind === entriesKind) return fromEntries({}, content);
  const ArrayType = typedArrays[kind - firstArrayKind] as (typeof typedArrays)[number];
  const bytes = content as Uint8Array;
  return new ArrayType(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer);
}

function fromEntries(target: Record<string, unknown>, content: unknown): Record<string, unknown> {
  for (const [key, value] of content as [string, unknown][]) target[key] = value;
  return target;
}

/** Packs a plain-data value; the bytes are a copy of its own. @throws KernelError `bad-value` with the path of what is not plain data. */
export function packValue(value: PlainData, what: string): Uint8Array {
  return new Uint8Array(packr.pack(escapeFrom(value, what, true)));
}

/** Levels of objects and arrays that the kernel puts around plain data, at most. */
const wrappingLevels = 4;

/** Packs what holds values that were checked each on its own, deeper inside than they were then. */
export function packWrapped(value: PlainData, what: string): Uint8Array {
  return new Uint8Array(packr.pack(escapeFrom(value, what, true, wrappingLevels)));
}

export function unpackValue(bytes: Uint8Array): PlainData {
  return packr.unpack(bytes);
}

/** Packs the bodies of a batch, which were checked when they were sent. A view that the next call may overwrite. */
export function packBodies(bodies: readonly unknown[]): Uint8Array {
  return packr.pack(escapeFrom(bodies, 'a message body', false, wrappingLevels));
}

function escapeFrom(value: unknown, what: string, thorough: boolean, wrapping = 0): unknown {
  beginWalk(what, thorough, wrapping);
  return escapeValue(value, 0);
}

/** The value itself when msgpackr keeps it exactly, else a copy with the delicate parts escaped. `trail` holds the way to it below `depth`. */
function escapeValue(value: unknown, depth: number): unknown {
  if (value === 0 && Object.is(value, -0)) return new Escaped(negativeZero, null);
  return isLeaf(value, depth) ? value : escapeObject(value as object, depth);
}

function escapeObject(value: object, depth: number): unknown {
  checkDepth(depth);
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === Object.prototype) {
    const escaped = escapeRecord(value as Record<string, unknown>, depth) as object;
    // With a key of this name it looks like a class's instance to msgpackr.
    return escaped.constructor === Object ? escaped : new Escaped(entriesKind, Object.entries(escaped));
  }
  if (prototype === null) return new Escaped(bareKind, Object.entries(escapeRecord(value as Record<string, unknown>, depth) as object));
  if (prototype === Array.prototype) return escapeArray(value as unknown[], depth);
  if (prototype === Map.prototype) return new Escaped(mapKind, escapeEntries(value as Map<unknown, unknown>, depth));
  if (prototype === Set.prototype) return new Escaped(setKind, escapeItems(value as Set<unknown>, depth));
  const index = typedArrayIndex.get(prototype);
  if (index === undefined) throw notPlain(depth, foreign(value));
  const view = value as ArrayBufferView;
  checkView(view, depth);
  return new Escaped(index + firstArrayKind, new Uint8Array(view.buffer, view.byteOffset, view.byteLength));
}

function escapeRecord(value: Record<string, unknown>, depth: number): unknown {
  let copy: Record<string, unknown> | undefined;
  for (const key in value) {
    const item = value[key];
    // The cheap common cases first: a body of finite numbers passes with no call.
    if (typeof item === 'number' ? item !== 0 || !Object.is(item, -0) : typeof item === 'boolean') continue;
    trail[depth] = key;
    if (key === '__proto__') throw notPlain(depth, "an object with the key '__proto__'");
    const escaped = escapeValue(item, depth + 1);
    if (escaped === item) continue;
    copy ??= { ...value };
    copy[key] = escaped;
  }
  checkKeys(value, depth);
  return copy ?? value;
}

function escapeArray(value: readonly unknown[], depth: number): unknown {
  let copy: unknown[] | undefined;
  for (let index = 0; index < value.length; index++) {
    const item = value[index];
    trail[depth] = index;
    if (item === undefined && !(index in value)) throw notPlain(depth + 1, 'a hole in an array');
    const escaped = escapeValue(item, depth + 1);
    if (Object.is(escaped, item)) continue;
    copy ??= [...value];
    copy[index] = escaped;
  }
  return copy ?? value;
}

function escapeEntries(map: Map<unknown, unknown>, depth: number): [unknown, unknown][] {
  const entries: [unknown, unknown][] = [];
  for (const [key, item] of map) {
    trail[depth] = `key${entries.length}`;
    const escapedKey = escapeValue(key, depth + 1);
    trail[depth] = `value${entries.length}`;
    entries.push([escapedKey, escapeValue(item, depth + 1)]);
  }
  return entries;
}

function escapeItems(set: Set<unknown>, depth: number): unknown[] {
  const items: unknown[] = [];
  for (const item of set) {
    trail[depth] = `item${items.length}`;
    items.push(escapeValue(item, depth + 1));
  }
  return items;
}
