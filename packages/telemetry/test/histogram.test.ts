import { createHash } from 'node:crypto';
import { createLatencyHistogram, histogramMean, histogramQuantile, type LatencyHistogram, recordLatency } from '@braess/telemetry';
import fc from 'fast-check';
import { build } from 'hdr-histogram-js';
import { describe, expect, it } from 'vitest';
import { randomNumbers } from './synthetic.js';

const run = fc.tuple(
  fc.oneof(fc.integer({ min: 0, max: 5000 }), fc.integer({ min: 0, max: 2 ** 31 - 1 }), fc.maxSafeInteger().map(Math.abs)),
  fc.integer({ min: 1, max: 40 }),
);
const runs = fc.array(run, { minLength: 1, maxLength: 60 });

function filled(list: readonly (readonly [number, number])[]): LatencyHistogram {
  const histogram = createLatencyHistogram();
  for (const [value, count] of list) recordLatency(histogram, value, count);
  return histogram;
}

/** All of a histogram, the counts as a digest: comparing 40,000 of them one by one takes the test library a second. */
function content(histogram: LatencyHistogram): unknown {
  const { counts, ...rest } = histogram;
  const digest = createHash('sha1').update(new Uint8Array(counts.buffer)).digest('hex');
  return { ...rest, buckets: counts.length, digest };
}

/** Independent: every value written out, sorted, type 7. */
function exactQuantile(list: readonly (readonly [number, number])[], quantile: number): number {
  const all = list.flatMap(([value, count]) => Array.from({ length: count }, () => value)).sort((a, b) => a - b);
  const at = quantile * (all.length - 1);
  const low = all[Math.floor(at)]!;
  const high = all[Math.ceil(at)]!;
  return low + (high - low) * (at - Math.floor(at));
}

describe('latency histogram', () => {
  it('gives every quantile within 2^-11 of the exact one', () => {
    fc.assert(
      fc.property(runs, fc.double({ min: 0, max: 1, noNaN: true }), (list, quantile) => {
        const exact = exactQuantile(list, quantile);
        expect(Math.abs(histogramQuantile(filled(list), quantile) - exact)).toBeLessThanOrEqual(exact * 2 ** -11 + 1e-9);
      }),
      { numRuns: 300 },
    );
  });

  it('counts a run as that many single values', () => {
    fc.assert(
      fc.property(runs, (list) => {
        const singly = createLatencyHistogram();
        for (const [value, count] of list) for (let i = 0; i < count; i++) recordLatency(singly, value);
        expect(content(filled(list))).toEqual(content(singly));
      }),
      { numRuns: 60 },
    );
  });

  it('is the same whatever the order in which values come', () => {
    fc.assert(
      fc.property(
        runs.chain((list) => fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length, maxLength: list.length }))),
        ([list, shuffled]) => {
          expect(content(filled(shuffled))).toEqual(content(filled(list)));
        },
      ),
      { numRuns: 60 },
    );
  });

  it('keeps the mean exact beyond 2^53, as BigInt does', () => {
    fc.assert(
      fc.property(runs, (list) => {
        const sum = list.reduce((total, [value, count]) => total + BigInt(value) * BigInt(count), 0n);
        const histogram = filled(list);
        expect(BigInt(histogram.sumHigh) * 67_108_864n + BigInt(histogram.sumLow)).toBe(sum);
        expect(histogramMean(histogram)).toBeCloseTo(Number(sum) / histogram.total, -4);
      }),
      { numRuns: 200 },
    );
  });

  it('agrees with HdrHistogram on a realistic mix of gaps', () => {
    const random = randomNumbers(7);
    const ours = createLatencyHistogram();
    const theirs = build({ lowestDiscernibleValue: 1, highestTrackableValue: 1e11, numberOfSignificantValueDigits: 4 });
    for (let i = 0; i < 20_000; i++) {
      const gapNs = Math.round(8e6 + 6e6 * random() + (random() < 0.02 ? 3e8 * random() : 0));
      const count = 1 + Math.floor(random() * 50);
      recordLatency(ours, gapNs, count);
      theirs.recordValueWithCount(gapNs, count);
    }
    expect(ours.total).toBe(theirs.totalCount);
    for (const percent of [1, 50, 90, 99, 99.9]) {
      const ratio = histogramQuantile(ours, percent / 100) / theirs.getValueAtPercentile(percent);
      expect(Math.abs(ratio - 1)).toBeLessThan(1e-3);
    }
  });

  it('refuses what is no whole number of ns, and more equal values than the sum can take', () => {
    const histogram = createLatencyHistogram();
    for (const bad of [-1, 0.5, Number.NaN, Infinity, 2 ** 53]) expect(() => recordLatency(histogram, bad)).toThrow(/whole number of ns/);
    expect(() => recordLatency(histogram, 1, 2 ** 27)).toThrow(/2\^26/);
    expect(histogram.total).toBe(0);
  });
});
