/** Goal: identities are exact, well mixed and mean "equal prefix". Method: properties, birthday bound, and a plain expansion written here. */
import {
  chainIdentity,
  createIdentityTable,
  createRecentIdentities,
  expandTraceBlocks,
  extendChain,
  forgetIdentity,
  isRecent,
  noteIdentity,
  tableGet,
  tableInsert,
  tableRemove,
} from '@braess/kvbm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

describe('block identity', () => {
  it('is a positive integer exact in a double', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.maxSafeNat(), (parent, content) => {
        const identity = chainIdentity(parent, content);
        expect(Number.isSafeInteger(identity) && identity > 0).toBe(true);
      }),
    );
  });

  it('does not collide over a million sequential and structured inputs (expected collisions by the birthday bound: 6e-5)', () => {
    const seen = new Set<number>();
    for (let content = 0; content < 500_000; content++) seen.add(chainIdentity(0, content));
    for (let high = 0; high < 500; high++)
      for (let low = 0; low < 1000; low++) seen.add(chainIdentity(1 + high * 2 ** 32, low * 2 ** 32 + high));
    expect(seen.size).toBe(1_000_000);
  });

  it('spreads each of its 53 bits evenly: counts within 5 sigma of a fair coin', () => {
    const draws = 40_000;
    const ones = new Array<number>(53).fill(0);
    for (let content = 0; content < draws; content++) {
      const identity = chainIdentity(12345, content);
      for (let bit = 0; bit < 53; bit++) ones[bit]! += Math.floor(identity / 2 ** bit) % 2;
    }
    for (const count of ones) expect(Math.abs(count - draws / 2)).toBeLessThan(5 * Math.sqrt(draws / 4));
  });

  it('expands trace ids to full engine blocks, equal exactly where the prefixes are equal', () => {
    const ids = fc.array(fc.nat(2), { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(ids, ids, fc.nat(511), fc.constantFrom(16, 32, 64, 512), (a, b, short, blockTokens) => {
        const lengthA = a.length * 512 - short;
        const outA = new Float64Array(200);
        const outB = new Float64Array(200);
        expect(expandTraceBlocks(a, lengthA, blockTokens, outA)).toBe(Math.floor(lengthA / blockTokens));
        const countB = expandTraceBlocks(b, b.length * 512, blockTokens, outB);
        let same = 0;
        while (same < Math.min(a.length, b.length) && a[same] === b[same]) same++;
        const tokens = Math.min(same * 512, lengthA);
        for (let block = 0; block < Math.min(Math.floor(lengthA / blockTokens), countB); block++) {
          expect(outA[block] === outB[block]).toBe((block + 1) * blockTokens <= tokens);
        }
      }),
    );
  });

  it('continues a chain with blocks of one owner', () => {
    const a = new Float64Array(6);
    const b = new Float64Array(6);
    for (const out of [a, b]) expandTraceBlocks([7], 512, 512, out);
    expect(extendChain(a, 1, 5, 11)).toBe(6);
    extendChain(b, 1, 2, 11);
    extendChain(b, 3, 3, 12);
    expect([...b.subarray(0, 3)]).toEqual([...a.subarray(0, 3)]);
    for (let index = 3; index < 6; index++) expect(b[index]).not.toBe(a[index]);
  });

  it('names what is wrong with an expansion', () => {
    const out = new Float64Array(8);
    expect(() => expandTraceBlocks([1], 600, 64, out)).toThrow(/cover only 512 of 600 input tokens/);
    expect(() => expandTraceBlocks([1], 512, 48, out)).toThrow(/block of 48 tokens: must divide/);
    expect(() => expandTraceBlocks([1], 512, 16, out)).toThrow(/chain of 8 blocks: 512 tokens need 32/);
    expect(() => expandTraceBlocks([1], Number.NaN, 64, out)).toThrow(/input of NaN tokens/);
    expect(() => extendChain(out, 4, 5, 1)).toThrow(/cannot extend to 9/);
  });
});

describe('identity table', () => {
  it('does what a Map does, also with colliding keys and rows that are used again', () => {
    const key = fc.oneof(
      fc.integer({ min: 1, max: 12 }),
      fc.nat(20).map((low) => low * 2 ** 32 + 7),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.constantFrom('put', 'put', 'remove'), key), { maxLength: 300, size: 'max' }), (steps) => {
        const table = createIdentityTable();
        const identities = new Float64Array(40);
        const free = Array.from(identities.keys());
        const rows = new Map<number, number>();
        for (const [action, identity] of steps) {
          const row = rows.get(identity);
          expect(tableGet(table, identities, identity)).toBe(row ?? -1);
          if (action === 'put' && row === undefined) {
            const taken = free.splice(identity % free.length, 1)[0] as number;
            identities[taken] = identity;
            tableInsert(table, identity, taken);
            rows.set(identity, taken);
          } else if (action === 'remove' && row !== undefined) {
            tableRemove(table, row);
            identities[row] = 0;
            rows.delete(identity);
            free.push(row);
          }
          expect(table.count).toBe(rows.size);
        }
        for (let low = 0; low < 30; low++) {
          for (const identity of [1 + low, low * 2 ** 32 + 7]) expect(tableGet(table, identities, identity)).toBe(rows.get(identity) ?? -1);
        }
      }),
    );
  });

  it('keeps its chains short for numbers in a row while a window of them slides', () => {
    const table = createIdentityTable();
    const identities = new Float64Array(10_000);
    for (let identity = 1; identity <= 30_000; identity++) {
      const row = identity % 10_000;
      if (identities[row] !== 0) tableRemove(table, row);
      identities[row] = identity;
      tableInsert(table, identity, row);
    }
    const lengths = Array.from(table.heads, (head) => {
      let length = 0;
      for (let row = head - 1; row >= 0; row = (table.links[2 * row + 1] as number) - 1) length++;
      return length;
    });
    expect(table.count).toBe(10_000);
    expect(lengths.reduce((sum, length) => sum + length)).toBe(10_000);
    // Random keys at a load of 10,000 / 16,384 make chains of up to about 6.
    expect(Math.max(...lengths)).toBeLessThan(7);
  });
});

describe('recent identities', () => {
  it('remembers the last distinct ones with their counts, as a plain list does', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 90 }),
        fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 120 })), { maxLength: 400, size: 'max' }),
        (capacity, steps) => {
          const recent = createRecentIdentities(capacity);
          // A forgotten identity keeps its place in the queue (it only stops counting), so the list holds a blank for it.
          const list: { identity: number; count: number }[] = [];
          for (const [forget, identity] of steps) {
            const known = list.find((entry) => entry.identity === identity);
            if (forget) {
              expect(forgetIdentity(recent, identity)).toBe(known !== undefined);
              if (known) known.identity = 0;
            } else if (known) {
              expect(noteIdentity(recent, identity)).toBe(++known.count);
            } else {
              list.push({ identity, count: 1 });
              if (list.length > capacity) list.shift();
              expect(noteIdentity(recent, identity)).toBe(1);
            }
          }
          for (let identity = 1; identity <= 120; identity++) {
            expect(isRecent(recent, identity)).toBe(list.some((entry) => entry.identity === identity));
          }
        },
      ),
    );
  });
});
