import {
  appendRequest,
  chainHash,
  checkBlockTokens,
  createRequestTableBuilder,
  createStackDistances,
  expandBlocks,
  finishRequestTable,
  foldHash,
  type RequestTable,
  touchBlock,
  touchUniqueBlocks,
  traceStatistics,
} from '@braess/workload';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { uniformFrom } from './streams.js';

/** A table from (prompt tokens, hashes) rows, one arrival a second. */
function tableOf(blockTokens: number, rows: [number, number[]][]): RequestTable {
  const builder = createRequestTableBuilder(blockTokens);
  for (const [index, [inputTokens, hashes]] of rows.entries()) {
    appendRequest(builder, { arrivalNs: index * 1e9, inputTokens, outputTokens: 1, tenant: 0, session: -1, name: '', hashes });
  }
  return finishRequestTable(builder);
}

function expanded(table: RequestTable, row: number, engineBlockTokens: number): number[] {
  const out = new Float64Array(100_000);
  return [...out.subarray(0, expandBlocks(table, row, engineBlockTokens, out))];
}

function sharedStart(a: number[], b: number[]): number {
  let shared = 0;
  while (shared < a.length && shared < b.length && a[shared] === b[shared]) shared++;
  return shared;
}

describe('chained hashes', () => {
  it('are safe integers without a collision among a million', () => {
    const seen = new Set<number>();
    let hash = 0;
    for (let index = 0; index < 500_000; index++) {
      seen.add((hash = chainHash(hash, index & 7)));
      seen.add(chainHash(index, 1));
    }
    expect(seen.size).toBe(1_000_000);
    expect([...seen].every((value) => Number.isSafeInteger(value) && value >= 0)).toBe(true);
  });

  it('spread every output bit evenly', () => {
    const ones = new Array<number>(53).fill(0);
    for (let index = 0; index < 20_000; index++) {
      const bits = chainHash(index, 0).toString(2).padStart(53, '0');
      for (let bit = 0; bit < 53; bit++) if (bits[bit] === '1') ones[bit]!++;
    }
    for (const count of ones) expect(Math.abs(count - 10_000)).toBeLessThan(5 * 71);
  });

  it('depend on all bits of both arguments', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.maxSafeNat(), fc.nat(52), (parent, value, bit) => {
        const flip = (number: number): number => Number(BigInt(number) ^ (1n << BigInt(bit)));
        return chainHash(flip(parent), value) !== chainHash(parent, value) && chainHash(parent, flip(value)) !== chainHash(parent, value);
      }),
    );
    expect(Number.isSafeInteger(foldHash(2 ** 64))).toBe(true);
    expect(foldHash(12345)).toBe(12345);
  });
});

describe('expansion to engine blocks', () => {
  const table = tableOf(512, [
    [1100, [1, 2, 3]],
    [1500, [1, 2, 4]],
    [1100, [9, 2, 3]],
    [1100, [1, 2, 3]],
  ]);

  it.each([16, 64, 512, 1024])('to %d tokens: count, shared prefix, nothing shared behind a difference', (size) => {
    const [first, second, other, again] = [0, 1, 2, 3].map((row) => expanded(table, row, size)) as [number[], number[], number[], number[]];
    expect(first.length).toBe(Math.ceil(1100 / size));
    expect(second.length).toBe(Math.ceil(1500 / size));
    expect(sharedStart(first, second)).toBe(1024 / size);
    expect(again).toEqual(first);
    // A hash under another prefix is other content: chained identities share nothing.
    expect(first.filter((hash) => other.includes(hash))).toEqual([]);
    expect(new Set(first).size).toBe(first.length);
  });

  it('gives a partial block an id that no full block and no other length has', () => {
    const partial = tableOf(64, [
      [16, [5]],
      [20, [5]],
      [21, [5]],
      [64, [5]],
    ]);
    const lasts = [0, 1, 2, 3].map((row) => expanded(partial, row, 64)[0]);
    expect(new Set(lasts).size).toBe(4);
    expect(expanded(partial, 0, 16)[0]).toBe(expanded(partial, 3, 16)[0]);
  });

  it('gives blocks behind the listed hashes to their request alone', () => {
    const tails = tableOf(16, [
      [160, [1, 2, 3, 4]],
      [160, [1, 2, 3, 4]],
    ]);
    const [a, b] = [expanded(tails, 0, 16), expanded(tails, 1, 16)];
    expect(a.length).toBe(10);
    expect(sharedStart(a, b)).toBe(4);
    expect(a.slice(4).some((hash) => b.includes(hash))).toBe(false);
    expect(sharedStart(expanded(tails, 0, 48), expanded(tails, 1, 48))).toBe(1);
  });

  it('shares exactly the whole engine blocks within the shared trace blocks', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.nat(5),
        fc.integer({ min: 1, max: 600 }),
        fc.constantFrom(16, 32, 64, 128, 256),
        (shared, more, tail, size) => {
          const own = (seed: number): number[] => Array.from({ length: more }, (_, index) => seed * 100 + index);
          const prefix = Array.from({ length: shared }, (_, index) => index);
          const tokens = (shared + more) * 64;
          const both = tableOf(64, [
            [tokens, [...prefix, ...own(1)]],
            [tokens + tail, [...prefix, ...own(2)]],
          ]);
          const expected = more === 0 ? Math.floor(tokens / size) : Math.floor((shared * 64) / size);
          expect(sharedStart(expanded(both, 0, size), expanded(both, 1, size))).toBe(expected);
        },
      ),
    );
  });

  it('refuses sizes that fit neither way, and arrays that are too short', () => {
    expect(() => checkBlockTokens(512, 48)).toThrow(/48 does not fit.*512/);
    expect(() => checkBlockTokens(512, 0)).toThrow(/engine block size 0/);
    expect(() => expandBlocks(table, 0, 16, new Float64Array(10))).toThrow(/needs 69 blocks/);
  });
});

/** The naive cache: a list, most recent last. */
function naiveHits(accesses: number[], cacheBlocks: number): number {
  const cache: number[] = [];
  let hits = 0;
  for (const block of accesses) {
    const place = cache.indexOf(block);
    if (place >= 0) {
      hits++;
      cache.splice(place, 1);
    }
    cache.push(block);
    if (cache.length > cacheBlocks) cache.shift();
  }
  return hits;
}

describe('stack distances', () => {
  it('equal a naive LRU cache of every size, through compactions and unique blocks', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.nat(12), fc.integer({ min: -4, max: -1 })), { maxLength: 300 }),
        fc.integer({ min: 3, max: 40 }),
        (script, capacity) => {
          const stack = createStackDistances(capacity);
          const distances: number[] = [];
          const accesses: number[] = [];
          let unique = 1000;
          for (const step of script) {
            if (step >= 0) {
              distances.push(touchBlock(stack, step));
              accesses.push(step);
            } else {
              touchUniqueBlocks(stack, -step);
              for (let index = 0; index < -step; index++) accesses.push(unique++);
            }
          }
          for (const size of [1, 2, 3, 5, 8, 20])
            expect(distances.filter((distance) => distance < size).length).toBe(naiveHits(accesses, size));
        },
      ),
    );
  });

  it('give a table the shares of a naive cache, blocks behind the listed ones included', () => {
    const uniform = uniformFrom(3);
    const rows = Array.from({ length: 300 }, (): [number, number[]] => {
      const start = Math.floor(uniform() * 8) * 100;
      const length = 1 + Math.floor(uniform() * 6);
      return [length * 16 + Math.floor(uniform() * 40), Array.from({ length }, (_, index) => start + index)];
    });
    let unique = 1e6;
    const accesses = rows.flatMap(([tokens, hashes]) => [
      ...hashes,
      ...Array.from({ length: Math.ceil(tokens / 16) - hashes.length }, () => unique++),
    ]);
    const reuse = traceStatistics(tableOf(16, rows), [4, 16, 64]).prefixReuse!;
    expect(reuse.blocks).toBe(accesses.length);
    for (const { cacheBlocks, share } of reuse.lru) expect(share).toBe(naiveHits(accesses, cacheBlocks) / accesses.length);
    expect(reuse.infiniteShare).toBe(naiveHits(accesses, 1e9) / accesses.length);
    expect(reuse.distinctBlocks).toBe(new Set(accesses).size);
  });
});

describe('statistics', () => {
  it('of rates, gaps, counts and lengths equal plain formulas over all values', () => {
    const uniform = uniformFrom(8);
    const builder = createRequestTableBuilder(0);
    let time = 5e9;
    const times: number[] = [];
    const inputs: number[] = [];
    for (let index = 0; index < 500; index++) {
      time += Math.floor(uniform() * uniform() * 4e9);
      times.push(time);
      inputs.push(1 + Math.floor(uniform() * 50));
      appendRequest(builder, {
        arrivalNs: time,
        inputTokens: inputs[index]!,
        outputTokens: 3,
        tenant: 0,
        session: -1,
        name: '',
        hashes: [],
      });
    }
    const statistics = traceStatistics(finishRequestTable(builder), [], 20);
    const gaps = times.slice(1).map((value, index) => (value - times[index]!) / 1e9);
    const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length;
    const deviation = Math.sqrt(gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length);
    expect(statistics.gapCv).toBeCloseTo(deviation / mean, 9);
    const windows = new Array<number>(Math.floor((times.at(-1)! - 5e9 - (times[0]! - 5e9)) / 20e9)).fill(0);
    for (const value of times)
      if (Math.floor((value - times[0]!) / 20e9) < windows.length) windows[Math.floor((value - times[0]!) / 20e9)]!++;
    const average = windows.reduce((sum, count) => sum + count, 0) / windows.length;
    const variance = windows.reduce((sum, count) => sum + (count - average) ** 2, 0) / (windows.length - 1);
    expect(statistics.dispersion).toBeCloseTo(variance / average, 9);
    const sorted = [...inputs].sort((a, b) => a - b);
    const rank = 0.9 * 499;
    const p90 = sorted[Math.floor(rank)]! + (rank % 1) * (sorted[Math.floor(rank) + 1]! - sorted[Math.floor(rank)]!);
    expect(statistics.input.p90).toBeCloseTo(p90, 9);
    expect(statistics.input.max).toBe(sorted.at(-1));
    expect(statistics.prefixReuse).toBeNull();
  });
});
