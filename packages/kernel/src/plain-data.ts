import { addExtension, Packr } from 'msgpackr';
import { KernelError } from './errors.js';

/**
 * State, bodies and records are plain data, restored exactly:
 *   null, undefined, booleans, numbers (-0, NaN and infinities included), well-formed strings, bigints, dense arrays, objects with string
 *   keys and no prototype of their own, Map, Set, and typed arrays.
 * Not: functions, symbols, class instances, Date, cycles, holes, lone surrogates, the key `__proto__`, shared memory.
 * A value is a tree: a part that is referenced twice comes back as two parts.
 */
export type PlainData = unknown;

const maximumDepth = 200;

// Taken before the guards hide it from handlers: a body with a typed array is packed while they are up.
const SharedMemory = SharedArrayBuffer;

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
const typedArrays = [
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
  const ArrayType = typedArrays[kind - firstArrayKind] as (typeof typedArrays)[number];
  const bytes = content as Uint8Array;
  return new ArrayType(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer);
}

/** Checks an actor's state without packing it. @throws KernelError `bad-value` with the path of what is not plain data. */
export function checkPlainData(state: unknown, actorName: string): void {
  escapeValue(state, actorName, 0);
}

/** Packs a plain-data value; the bytes are a copy of its own. @throws KernelError `bad-value` with the path of what is not plain data. */
export function packValue(value: PlainData, what: string): Uint8Array {
  return new Uint8Array(packr.pack(escapeValue(value, what, 0)));
}

export function unpackValue(bytes: Uint8Array): PlainData {
  return packr.unpack(bytes);
}

/** A deep copy through the codec. */
export function copyValue<T>(value: T, what: string): T {
  return packr.unpack(packr.pack(escapeValue(value, what, 0))) as T;
}

/** The value itself when msgpackr keeps it exactly, else a copy with the delicate parts escaped. */
function escapeValue(value: unknown, path: string, depth: number): unknown {
  switch (typeof value) {
    case 'number':
      return value === 0 && Object.is(value, -0) ? new Escaped(negativeZero, null) : value;
    case 'boolean':
    case 'undefined':
      return value;
    case 'bigint':
      if (BigInt.asIntN(64, value) !== value && BigInt.asUintN(64, value) !== value) throw notPlain(path, 'a bigint beyond 64 bits');
      return value;
    case 'string':
      if (!isWellFormed(value)) throw notPlain(path, 'a string with a lone surrogate');
      return value;
    case 'object':
      return value === null ? null : escapeObject(value, path, depth);
    default:
      throw notPlain(path, `a ${typeof value}`);
  }
}

function isWellFormed(text: string): boolean {
  return (text as string & { isWellFormed(): boolean }).isWellFormed();
}

function escapeObject(value: object, path: string, depth: number): unknown {
  if (depth > maximumDepth) throw notPlain(path, `nested deeper than ${maximumDepth} (a cycle?)`);
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === Object.prototype || prototype === null) return escapeRecord(value as Record<string, unknown>, path, depth);
  if (prototype === Array.prototype) return escapeArray(value as unknown[], path, depth);
  if (prototype === Map.prototype) {
    const entries = [...(value as Map<unknown, unknown>)].map(([key, item], index) => [
      escapeValue(key, `${path}.key${index}`, depth + 1),
      escapeValue(item, `${path}.value${index}`, depth + 1),
    ]);
    return new Escaped(mapKind, entries);
  }
  if (prototype === Set.prototype)
    return new Escaped(
      setKind,
      [...(value as Set<unknown>)].map((item, index) => escapeValue(item, `${path}.item${index}`, depth + 1)),
    );
  if (ArrayBuffer.isView(value)) return escapeTypedArray(value, path);
  throw notPlain(path, `an instance of ${value.constructor?.name ?? 'a class'}`);
}

function escapeRecord(value: Record<string, unknown>, path: string, depth: number): unknown {
  let copy: Record<string, unknown> | undefined;
  for (const key in value) {
    const item = value[key];
    // The cheap common cases first: a body of finite numbers and strings passes with no call.
    if (typeof item === 'number' ? item !== 0 || !Object.is(item, -0) : typeof item === 'boolean') continue;
    const escaped = escapeValue(item, `${path}.${key}`, depth + 1);
    if (escaped === item) continue;
    copy ??= { ...value };
    copy[key] = escaped;
  }
  if (Object.hasOwn(value, '__proto__')) throw notPlain(path, "an object with the key '__proto__'");
  if (Object.getOwnPropertySymbols(value).length > 0) throw notPlain(path, 'an object with symbol keys');
  return copy ?? value;
}

function escapeArray(value: readonly unknown[], path: string, depth: number): unknown {
  let copy: unknown[] | undefined;
  for (let index = 0; index < value.length; index++) {
    const item = value[index];
    if (item === undefined && !(index in value)) throw notPlain(`${path}[${index}]`, 'a hole in an array');
    // Only what has parts, or is refused, needs its own path.
    const itemPath = typeof item === 'number' || typeof item === 'string' ? path : `${path}[${index}]`;
    const escaped = escapeValue(item, itemPath, depth + 1);
    if (Object.is(escaped, item)) continue;
    copy ??= [...value];
    copy[index] = escaped;
  }
  return copy ?? value;
}

function escapeTypedArray(value: ArrayBufferView, path: string): unknown {
  const kind = typedArrays.findIndex((ArrayType) => Object.getPrototypeOf(value) === ArrayType.prototype);
  if (kind < 0) throw notPlain(path, `a ${value.constructor.name}`);
  if (value.buffer instanceof SharedMemory) throw notPlain(path, 'shared memory');
  return new Escaped(kind + firstArrayKind, new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
}

function notPlain(path: string, found: string): KernelError {
  return new KernelError('bad-value', `${path} holds ${found}; state, bodies and records are plain data (see docs/kernel.md, "Data")`);
}

/** Packs typed columns as one msgpack binary, with bodies beside them. A view that the next call may overwrite. */
export function packBatch(columns: Uint8Array, bodies: readonly unknown[]): Uint8Array {
  return packr.pack([columns, bodies.length === 0 ? bodies : escapeArray(bodies, 'a message body', 0)]);
}

export function unpackBatch(bytes: Uint8Array): [columns: Uint8Array, bodies: unknown[]] {
  return packr.unpack(bytes) as [Uint8Array, unknown[]];
}
