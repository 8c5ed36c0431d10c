import fc from 'fast-check';
import { expect, it } from 'vitest';
import { addRequest, createRequestIndex, removeRequest, slotOfRequest } from '../src/frontend/request-index.js';

/** Few numbers, so that they come again, and such as differ only in high bits, or would be negative as 32 bits. */
const request = fc.oneof(
  fc.nat(200),
  fc.nat(20).map((low) => low * 65_536),
  fc.nat(20).map((low) => 2 ** 32 - 1 - low),
);

it('an index of requests finds what a Map does, whatever was added and removed before', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(request, fc.boolean()), { minLength: 100, maxLength: 1500 }), (steps) => {
      const index = createRequestIndex(2);
      const expected = new Map<number, number>();
      for (const [slot, [number, removes]] of steps.entries()) {
        if (!expected.has(number)) {
          addRequest(index, number, slot);
          expected.set(number, slot);
        } else if (removes) {
          removeRequest(index, number);
          expected.delete(number);
        }
        expect(index.size).toBe(expected.size);
        expect(slotOfRequest(index, number)).toBe(expected.get(number) ?? -1);
      }
      for (const number of new Set(steps.map(([number]) => number))) expect(slotOfRequest(index, number)).toBe(expected.get(number) ?? -1);
    }),
    { numRuns: 60 },
  );
});
