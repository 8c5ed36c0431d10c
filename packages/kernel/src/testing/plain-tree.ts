import { KernelError } from '../errors.js';
import { packValue, unpackValue } from '../plain-data.js';

/**
 * Checks that a value is a plain-data tree that a checkpoint restores exactly: every part is of a documented type, none is referenced twice
 * (two references come back as two parts), and packing what was unpacked gives the same bytes.
 * @throws KernelError `bad-value` naming the path.
 */
export function checkPlainTree(value: unknown, what: string): void {
  const packed = packValue(value, what);
  const again = packValue(unpackValue(packed), what);
  if (!Buffer.from(packed).equals(Buffer.from(again)))
    throw new KernelError('bad-value', `${what} does not survive a checkpoint: packed, restored and packed again it has other bytes`);
  const seen = new Map<object, string>();
  visitParts(value, what, (part, path) => {
    const before = seen.get(part);
    if (before !== undefined)
      throw new KernelError('bad-value', `${path} is the same object as ${before}; a restored state would hold two: keep one, or copy it`);
    seen.set(part, path);
  });
}

/** Names the first part that two values share, as [path in the first, path in the second]. */
export function firstSharedPart(a: unknown, nameA: string, b: unknown, nameB: string): readonly [string, string] | undefined {
  const parts = new Map<object, string>();
  visitParts(a, nameA, (part, path) => parts.set(part, path));
  let shared: readonly [string, string] | undefined;
  visitParts(b, nameB, (part, path) => {
    const other = parts.get(part);
    if (other !== undefined) shared ??= [other, path];
  });
  return shared;
}

/** Calls `visit` with every object of a plain-data tree and its path. */
function visitParts(value: unknown, path: string, visit: (part: object, path: string) => void): void {
  if (typeof value !== 'object' || value === null) return;
  visit(value, path);
  if (ArrayBuffer.isView(value)) visit(value.buffer, `${path}.buffer`);
  else if (Array.isArray(value)) for (const [index, item] of value.entries()) visitParts(item, `${path}[${index}]`, visit);
  else if (value instanceof Map) {
    for (const [index, [key, item]] of [...value].entries()) {
      visitParts(key, `${path}.key${index}`, visit);
      visitParts(item, `${path}.value${index}`, visit);
    }
  } else if (value instanceof Set) for (const [index, item] of [...value].entries()) visitParts(item, `${path}.item${index}`, visit);
  else for (const key of Object.keys(value)) visitParts((value as Record<string, unknown>)[key], `${path}.${key}`, visit);
}
