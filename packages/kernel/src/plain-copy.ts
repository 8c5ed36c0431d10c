import { beginWalk, checkDepth, checkKeys, checkView, foreign, isLeaf, notPlain, trail, typedArrayIndex } from './plain-check.js';
import type { PlainData } from './plain-data.js';

/**
 * A deep copy of plain data that shares nothing with it, checked on the way: equal to what the codec would give back, without the bytes.
 * @throws KernelError `bad-value` with the path of what is not plain data.
 */
export function copyValue<T extends PlainData>(value: T, what: string): T {
  beginWalk(what, true);
  return copyPart(value, 0) as T;
}

function copyPart(value: unknown, depth: number): unknown {
  return isLeaf(value, depth) ? value : copyObject(value as object, depth);
}

function copyObject(value: object, depth: number): object {
  checkDepth(depth);
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === Object.prototype) return copyItems(value as Record<string, unknown>, { ...value }, depth);
  if (prototype === null) return copyItems(value as Record<string, unknown>, Object.assign(Object.create(null) as object, value), depth);
  if (prototype === Array.prototype) return copyArray(value as unknown[], depth);
  if (prototype === Map.prototype) return copyMap(value as Map<unknown, unknown>, depth);
  if (prototype === Set.prototype) return copySet(value as Set<unknown>, depth);
  if (!typedArrayIndex.has(prototype)) throw notPlain(depth, foreign(value));
  checkView(value as ArrayBufferView, depth);
  return (value as Uint8Array).slice();
}

/** Completes a shallow copy: what it still shares with the original is copied in turn. */
function copyItems(value: Record<string, unknown>, copy: object, depth: number): object {
  checkKeys(value, depth);
  for (const key in value) {
    const item = value[key];
    if (typeof item === 'number') continue;
    trail[depth] = key;
    const part = copyPart(item, depth + 1);
    if (part !== item) (copy as Record<string, unknown>)[key] = part;
  }
  return copy;
}

function copyArray(value: readonly unknown[], depth: number): unknown[] {
  const copy = value.slice();
  for (let index = 0; index < copy.length; index++) {
    const item = copy[index];
    if (typeof item === 'number') continue;
    trail[depth] = index;
    if (item === undefined && !(index in value)) throw notPlain(depth + 1, 'a hole in an array');
    copy[index] = copyPart(item, depth + 1);
  }
  return copy;
}

function copyMap(map: Map<unknown, unknown>, depth: number): Map<unknown, unknown> {
  const copy = new Map<unknown, unknown>();
  for (const [key, item] of map) {
    trail[depth] = `key${copy.size}`;
    const copiedKey = copyPart(key, depth + 1);
    trail[depth] = `value${copy.size}`;
    copy.set(copiedKey, copyPart(item, depth + 1));
  }
  return copy;
}

function copySet(set: Set<unknown>, depth: number): Set<unknown> {
  const copy = new Set<unknown>();
  for (const item of set) {
    trail[depth] = `item${copy.size}`;
    copy.add(copyPart(item, depth + 1));
  }
  return copy;
}
