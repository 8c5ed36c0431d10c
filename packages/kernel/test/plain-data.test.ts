import { copyValue, Hash, packValue, unpackValue } from '@braess/kernel';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { plainValue } from './random-specs.js';

/** Equality with nothing forgiven: prototypes, -0 and NaN, order of keys and entries, bits of typed arrays. */
function sameExactly(a: unknown, b: unknown): boolean {
  if (typeof a !== 'object' || a === null || typeof b !== 'object' || b === null) return Object.is(a, b);
  if (Object.getPrototypeOf(a) !== Object.getPrototypeOf(b)) return false;
  if (ArrayBuffer.isView(a) && ArrayBuffer.isView(b)) {
    const bytesOf = (view: ArrayBufferView) => Buffer.from(view.buffer, view.byteOffset, view.byteLength);
    return bytesOf(a).equals(bytesOf(b));
  }
  const partsOf = (value: object): unknown[] => {
    if (value instanceof Map) return [...value].flat(1);
    if (value instanceof Set) return [...value];
    if (Array.isArray(value)) return value;
    return Object.entries(value).flat(1);
  };
  const [partsA, partsB] = [partsOf(a), partsOf(b)];
  return partsA.length === partsB.length && partsA.every((part, index) => sameExactly(part, partsB[index]));
}

describe('plain data', () => {
  it('comes back exactly', () => {
    fc.assert(
      fc.property(plainValue, (value) => {
        expect(sameExactly(unpackValue(packValue(value, 'it')), value)).toBe(true);
        expect(sameExactly(copyValue(value, 'it'), value)).toBe(true);
      }),
      { seed: 6, numRuns: 5000 },
    );
  });

  it('comes back exactly also with keys that every object has', () => {
    const inner = { constructor: 5, toJSON: 3, hasOwnProperty: -0, toString: null, valueOf: 'v', 10: 'a', 2: 'b', '': 1 };
    const bare: unknown = Object.assign(Object.create(null), { constructor: -0, inner });
    const value = [inner, { constructor: { constructor: inner } }, bare, new Map([[1, { constructor: Number.NaN }]])];
    expect(sameExactly(copyValue(value, 'it'), value)).toBe(true);
    expect(sameExactly(unpackValue(packValue(value, 'it')), value)).toBe(true);
  });

  it('has a hash that tells where each part ends', () => {
    // Few keys and values, so that two trees often have the same sequence of them.
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof(
        { maxDepth: 3 },
        fc.constantFrom(1, 'a'),
        fc.array(tie('tree'), { maxLength: 2 }),
        fc.dictionary(fc.constantFrom('a', 'b'), tie('tree'), { maxKeys: 2 }),
      ),
    }));
    const hashOf = (value: unknown): string => {
      const hash = new Hash();
      hash.value(value);
      return hash.digest();
    };
    const seen = new Map<string, string>();
    fc.assert(
      fc.property(tree, (value) => {
        const text = JSON.stringify(value);
        const known = seen.get(hashOf(value));
        if (known !== undefined) expect(text).toBe(known);
        seen.set(hashOf(value), text);
      }),
      { seed: 3, numRuns: 5000 },
    );
    expect(seen.size).toBeGreaterThan(100);
    expect(hashOf({ a: { b: 1 }, c: 2 })).not.toBe(hashOf({ a: { b: 1, c: 2 } }));
  });

  it('packs to the same bytes whatever was packed before, and again after a round trip', () => {
    fc.assert(
      fc.property(fc.array(plainValue, { maxLength: 5 }), plainValue, (before, value) => {
        const bytes = Buffer.from(packValue(value, 'it'));
        for (const other of before) packValue(other, 'another');
        expect(Buffer.from(packValue(value, 'it')).equals(bytes)).toBe(true);
        expect(Buffer.from(packValue(unpackValue(bytes), 'it')).equals(bytes)).toBe(true);
      }),
      { seed: 7, numRuns: 1000 },
    );
  });

  it('packs many shapes of objects to the same bytes whatever the history', () => {
    const shapes = Array.from({ length: 300 }, (_, index) => ({ [`key${index}`]: index, common: 1, [`z${index % 7}`]: -0 }));
    const first = Buffer.from(packValue(shapes, 'shapes'));
    for (const shape of shapes) packValue([shape, { ...shape, more: 1 }], 'one');
    expect(Buffer.from(packValue(shapes, 'shapes')).equals(first)).toBe(true);
    expect(sameExactly(unpackValue(first), shapes)).toBe(true);
  });

  it('copies share nothing with the original', () => {
    const value = { list: [1, { deep: new Float64Array(3) }], map: new Map([['k', [1]]]) };
    const copy = copyValue(value, 'it');
    (copy.list[1] as { deep: Float64Array }).deep[0] = 9;
    (copy.map.get('k') as number[]).push(2);
    expect(value).toEqual({ list: [1, { deep: new Float64Array(3) }], map: new Map([['k', [1]]]) });
  });

  it('of a typed array that views a part of a buffer is that part', () => {
    const view = new Float64Array(new Float64Array([1, 2, 3, 4]).buffer, 8, 2);
    expect(sameExactly(copyValue(view, 'it'), Float64Array.of(2, 3))).toBe(true);
    expect(copyValue(view, 'it').buffer.byteLength).toBe(16);
  });

  class Point {
    x = 1;
  }
  class OwnMap extends Map {}
  class OwnArray extends Array {}
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  it.each<[string, unknown, RegExp]>([
    ['a function', { f: () => 1 }, /it\.f holds a function/],
    ['a symbol', { s: Symbol('s') }, /it\.s holds a symbol/],
    ['a symbol key', { o: { [Symbol('k')]: 1 } }, /it\.o holds an object with symbol keys/],
    ['an instance', { a: [new Point()] }, /it\.a.* holds an instance of Point/],
    ['a Date', { d: new Date(0) }, /it\.d holds an instance of Date/],
    ['a RegExp', { r: /x/ }, /it\.r holds an instance of RegExp/],
    ['an Error', { e: new Error('x') }, /it\.e holds an instance of Error/],
    ['a promise', { p: Promise.resolve() }, /it\.p holds an instance of Promise/],
    ['a WeakMap', { w: new WeakMap() }, /it\.w holds an instance of WeakMap/],
    ['an ArrayBuffer', { b: new ArrayBuffer(8) }, /it\.b holds an instance of ArrayBuffer/],
    ['a DataView', { v: new DataView(new ArrayBuffer(8)) }, /it\.v holds a DataView/],
    ['a Buffer', { b: Buffer.from('x') }, /it\.b holds a Buffer/],
    ['shared memory', { s: new Uint8Array(new SharedArrayBuffer(4)) }, /it\.s holds shared memory/],
    ['a cycle', cycle, /nested deeper than 200 \(a cycle\?\)/],
    // biome-ignore lint/suspicious/noSparseArray: the hole is what is refused.
    ['a hole', { h: [1, , 3] }, /it\.h\[1\] holds a hole in an array/],
    ['a lone surrogate', { t: 'a\ud800' }, /it\.t holds a string with a lone surrogate/],
    ['the key __proto__', { o: JSON.parse('{"__proto__": 1}') }, /it\.o holds an object with the key '__proto__'/],
    ['inside a Map', new Map([['k', () => 1]]), /it\.value0 holds a function/],
    ['inside a Map key', new Map([[() => 1, 1]]), /it\.key0 holds a function/],
    ['inside a Set', new Set([() => 1]), /it\.item0 holds a function/],
    ['inside an array', { a: [1, [2, () => 1]] }, /it\.a\[1\]\[1\] holds a function/],
    ['a Map of its own class', { m: new OwnMap() }, /it\.m holds an instance of OwnMap/],
    ['an array of its own class', { a: new OwnArray() }, /it\.a holds an instance of OwnArray/],
    ['a bigint beyond 64 bits', { b: 2n ** 64n }, /it\.b holds a bigint/],
  ])('refuses %s, naming where it is', (_what, value, message) => {
    expect(() => packValue(value, 'it')).toThrow(message);
  });
});
