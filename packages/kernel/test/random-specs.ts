import type { ActorSpec, CellSpec, Operation, RandomSpec } from '@braess/kernel/testing';
import fc from 'fast-check';

/** Few values, so that equal times are common. */
const delayNs = fc.constantFrom(0, 0, 1, 10, 10, 20, 100, 1000);
const tag = fc.nat(6);
const index = fc.nat(20);

const specialNumber = fc.constantFrom(
  -0,
  0,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  2 ** 53 - 1,
  -(2 ** 31),
  0.1,
  1e300,
);

const typedArray: fc.Arbitrary<unknown> = fc.oneof(
  fc.int8Array({ maxLength: 4 }),
  fc.uint8Array({ maxLength: 4 }),
  fc.uint8ClampedArray({ maxLength: 4 }),
  fc.int16Array({ maxLength: 4 }),
  fc.uint16Array({ maxLength: 4 }),
  fc.int32Array({ maxLength: 4 }),
  fc.uint32Array({ maxLength: 4 }),
  fc.float32Array({ maxLength: 4 }),
  fc.float64Array({ maxLength: 4 }),
  fc.bigInt64Array({ maxLength: 4 }),
  fc.bigUint64Array({ maxLength: 4 }),
);

const key = fc
  .oneof(fc.string({ maxLength: 4 }), fc.constantFrom('constructor', 'length', '0', '10', 'ключ', '😀'))
  .filter((name) => name !== '__proto__');

/** Every documented type of plain data, nested. */
export const plainValue: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constantFrom(null, undefined, true, false),
    specialNumber,
    fc.double(),
    fc.maxSafeInteger(),
    fc.string({ unit: 'grapheme', maxLength: 40 }),
    fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n }),
    typedArray,
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(key, tie('value'), { maxKeys: 4, noNullPrototype: true }),
    fc.array(fc.tuple(tie('value'), tie('value')), { maxLength: 3 }).map((entries) => new Map(entries)),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => new Set(items)),
  ),
})).value;

const operation: fc.Arbitrary<Operation> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('send' as const), to: index, delayNs, tag }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('sendBody' as const), to: index, delayNs, tag, value: index }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('forward' as const), to: index, delayNs, tag }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('sendRandom' as const), spreadNs: fc.constantFrom(1, 10, 1000) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('timer' as const), delayNs, tag }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), which: index }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('emit' as const), value: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('emitBody' as const), value: index }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('store' as const), value: index }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('promise' as const), to: index, forNs: delayNs }) },
);

const actor: fc.Arbitrary<ActorSpec> = fc.record({
  offset: index,
  promises: fc.boolean(),
  startNs: fc.constantFrom(0, 0, 1, 10, 500, -1),
});

const cell: fc.Arbitrary<CellSpec> = fc.record({
  class: fc.nat(2),
  weight: fc.constantFrom(0, 1, 1, 1, 3),
  actors: fc.array(actor, { minLength: 1, maxLength: 3 }),
});

/** A random program; `budget` messages an actor at most. */
export function randomSpec(greatestBudget = 40): fc.Arbitrary<RandomSpec> {
  const lookahead = fc.constantFrom(0, 1, 10, 10, 50);
  return fc.record({
    cells: fc.array(cell, { minLength: 1, maxLength: 6 }),
    lookaheadNs: fc
      .integer({ min: 1, max: 3 })
      .chain((classes) =>
        fc.array(fc.array(lookahead, { minLength: classes, maxLength: classes }), { minLength: classes, maxLength: classes }),
      ),
    links: fc.array(fc.record({ from: index, to: index, delayNs: fc.constantFrom(1, 5, 10, 100) }), { maxLength: 3 }),
    reactions: fc.array(fc.array(operation, { minLength: 1, maxLength: 5 }), { minLength: 1, maxLength: 5 }),
    values: fc.array(plainValue, { minLength: 1, maxLength: 5 }),
    budget: fc.integer({ min: 2, max: greatestBudget }),
  });
}

/** How a failing property is run again. */
export function replayOf(file: string, test: string): string {
  return `npx vitest run packages/kernel/test/${file} -t '${test}'`;
}
