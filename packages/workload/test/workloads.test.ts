import {
  assignTenants,
  chooseWeighted,
  createTenantChoice,
  createWeightedChoice,
  createWorkload,
  generateBatches,
  generateRequests,
  nextRequest,
  type RequestRow,
  type RequestTable,
  type SessionWorkloadSpec,
  sliceRequests,
  traceStatistics,
  zipfWeights,
} from '@braess/workload';
import { describe, expect, it } from 'vitest';
import { streamsFrom, uniformFrom } from './streams.js';

const SESSIONS: SessionWorkloadSpec = {
  kind: 'sessions',
  sessionArrivals: { kind: 'poisson', ratePerSecond: 4 },
  turns: { kind: 'uniform', minTokens: 1, maxTokens: 6 },
  firstTokens: { kind: 'lognormal', meanTokens: 300, sigma: 0.8 },
  turnTokens: { kind: 'exponential', meanTokens: 60 },
  outputTokens: { kind: 'exponential', meanTokens: 120 },
  meanThinkS: 5,
  answerS: 0.5,
  answerMsPerToken: 10,
  maxInputTokens: 3000,
  prefix: { groups: 5, popularity: { kind: 'zipf', exponent: 1 }, prefixTokens: { kind: 'uniform', minTokens: 40, maxTokens: 400 } },
  tenants: [
    { name: 'gold', share: 1, priority: 2, slo: { ttftMs: 200 } },
    { name: 'free', share: 3 },
  ],
};

function hashesOf(table: RequestTable, row: number): number[] {
  return [...table.blockHashes.subarray(table.blockOffsets[row]!, table.blockOffsets[row + 1]!)];
}

describe('sessions', () => {
  const table = generateRequests(SESSIONS, streamsFrom(2), { requests: 4000 });
  const turns = new Map<number, number[]>();
  for (let row = 0; row < table.requestCount; row++) turns.set(table.session[row]!, [...(turns.get(table.session[row]!) ?? []), row]);

  it('arrive in order and each turn shares every whole block of the one before, and no more', () => {
    let continued = 0;
    for (const rows of turns.values()) {
      for (const [index, row] of rows.entries()) {
        const hashes = hashesOf(table, row);
        expect(hashes.length).toBe(Math.ceil(table.inputTokens[row]! / 16));
        expect(table.inputTokens[row]).toBeLessThanOrEqual(3000);
        if (index === 0) continue;
        continued++;
        const before = rows[index - 1]!;
        const whole = Math.floor(table.inputTokens[before]! / 16);
        const earlier = hashesOf(table, before);
        expect(hashes.slice(0, whole)).toEqual(earlier.slice(0, whole));
        if (earlier.length > whole) expect(hashes).not.toContain(earlier[whole]);
        expect(table.inputTokens[row]).toBeGreaterThan(table.inputTokens[before]! + table.outputTokens[before]!);
        expect(table.arrivalNs[row]! - table.arrivalNs[before]!).toBeGreaterThanOrEqual(
          (0.5 + 0.01 * table.outputTokens[before]!) * 1e9 - 1,
        );
        expect(table.tenant[row]).toBe(table.tenant[before]);
      }
    }
    expect(continued).toBeGreaterThan(1500);
    expect(table.arrivalNs.every((time, row) => time >= (table.arrivalNs[row - 1] ?? 0))).toBe(true);
  });

  it('of different numbers share group blocks only', () => {
    const firstRows = [...turns.values()].map((rows) => rows[0]!);
    const owners = new Map<number, Set<number>>();
    for (let row = 0; row < table.requestCount; row++) {
      for (const [place, hash] of hashesOf(table, row).entries()) {
        if (place * 16 < 400) continue;
        owners.set(hash, (owners.get(hash) ?? new Set()).add(table.session[row]!));
      }
    }
    expect(Math.max(...[...owners.values()].map((sessions) => sessions.size))).toBe(1);
    expect(new Set(firstRows.map((row) => hashesOf(table, row)[0])).size).toBe(5);
  });

  it('give tenants their shares', () => {
    const gold = [...turns.values()].filter((rows) => table.tenant[rows[0]!] === 0).length;
    const expected = turns.size / 4;
    expect(Math.abs(gold - expected)).toBeLessThan(4 * Math.sqrt(expected * 0.75));
    expect(table.tenantNames).toEqual(['gold', 'free']);
  });

  it('are cut by the number of requests where they are not through; without think times that is the last one alone', () => {
    const cut = (meanThinkS: number): number => {
      const spec: SessionWorkloadSpec = {
        ...SESSIONS,
        turns: { kind: 'constant', tokens: 4 },
        meanThinkS,
        maxInputTokens: 100_000,
        answerS: 0,
        answerMsPerToken: 0,
      };
      const { session } = generateRequests(spec, streamsFrom(1), { requests: 1001 });
      const counts = new Map<number, number>();
      for (const number of session) counts.set(number, (counts.get(number) ?? 0) + 1);
      return [...counts.values()].filter((count) => count < 4).length;
    };
    expect(cut(0)).toBe(1);
    // By Little's law 4 sessions a second, each under way for three mean think times, are 60 sessions.
    expect(Math.abs(cut(5) - 60)).toBeLessThan(4 * Math.sqrt(60));
  });

  it('go on from a cloned state as from the original', () => {
    const row = (): RequestRow => ({ arrivalNs: 0, inputTokens: 0, outputTokens: 0, tenant: 0, session: -1, name: '', hashes: [] });
    for (const spec of [SESSIONS, { kind: 'mooncake-like' } as const]) {
      const state = createWorkload(spec, streamsFrom(3));
      const warm = streamsFrom(4);
      for (let index = 0; index < 500; index++) nextRequest(state, warm, row());
      const copy = structuredClone(state);
      const [a, b] = [streamsFrom(5), streamsFrom(5)];
      for (let index = 0; index < 300; index++) {
        const [one, two] = [row(), row()];
        nextRequest(state, a, one);
        nextRequest(copy, b, two);
        expect(two).toEqual(one);
      }
      expect(copy).toEqual(state);
    }
  });
});

describe('independent requests', () => {
  it('have group prefixes by popularity, in whole blocks', () => {
    const table = generateRequests(
      {
        kind: 'independent',
        arrivals: { kind: 'poisson', ratePerSecond: 10 },
        inputTokens: { kind: 'constant', tokens: 50 },
        outputTokens: { kind: 'constant', tokens: 5 },
        prefix: { groups: 10, popularity: { kind: 'zipf', exponent: 1 }, prefixTokens: { kind: 'constant', tokens: 100 } },
        blockTokens: 32,
      },
      streamsFrom(1),
      { requests: 20_000 },
    );
    const counts = new Map<number, number>();
    for (let row = 0; row < table.requestCount; row++) {
      expect(table.inputTokens[row]).toBe(150);
      const hashes = hashesOf(table, row);
      expect(hashes.length).toBe(3);
      counts.set(hashes[2]!, (counts.get(hashes[2]!) ?? 0) + 1);
    }
    const sorted = [...counts.values()].sort((a, b) => b - a);
    const harmonic = Array.from({ length: 10 }, (_, index) => 1 / (index + 1)).reduce((sum, value) => sum + value, 0);
    for (const [rank, count] of sorted.entries()) {
      const expected = 20_000 / harmonic / (rank + 1);
      expect(Math.abs(count - expected)).toBeLessThan(4.5 * Math.sqrt(expected));
    }
  });

  it('stop at a time, come in equal batches, and need a limit', () => {
    const spec = {
      kind: 'independent',
      arrivals: { kind: 'constant', ratePerSecond: 100 },
      inputTokens: { kind: 'constant', tokens: 5 },
      outputTokens: { kind: 'constant', tokens: 5 },
    } as const;
    const batches = [...generateBatches(spec, streamsFrom(1), { untilNs: 100e9 })];
    expect(batches.map((batch) => batch.requestCount)).toEqual([8192, 9999 - 8192]);
    expect(batches[1]!.firstRequest).toBe(8192);
    expect(() => [...generateBatches(spec, streamsFrom(1), {})]).toThrow(/give at least one/);
    expect(generateRequests(spec, streamsFrom(1), { untilNs: 1 }).requestCount).toBe(0);
  });
});

describe('weights', () => {
  it('choose by share, never a weight of 0', () => {
    const choice = createWeightedChoice([0, 2, 0, 6, 0], 'test');
    const counts = [0, 0, 0, 0, 0];
    const uniform = uniformFrom(1);
    for (let index = 0; index < 8000; index++) counts[chooseWeighted(choice, uniform)]!++;
    expect([counts[0], counts[2], counts[4]]).toEqual([0, 0, 0]);
    expect(Math.abs(counts[1]! - 2000)).toBeLessThan(4 * Math.sqrt(1500));
    expect(chooseWeighted(choice, () => 0)).toBe(1);
    expect(chooseWeighted(choice, () => 1 - 2 ** -53)).toBe(3);
  });

  it('are checked', () => {
    expect(() => createWeightedChoice([0, 0], 'test')).toThrow(/all weights are 0/);
    expect(() =>
      createTenantChoice([
        { name: 'a', share: 1 },
        { name: 'a', share: 1 },
      ]),
    ).toThrow(/tenants\[1\]\.name/);
    expect(() => createTenantChoice([{ name: 'a', share: -1 }])).toThrow(/weight -1/);
    expect(() => createTenantChoice([{ name: 'a', share: 1, slo: { ttftMs: 0 } }])).toThrow(/slo\.ttftMs is 0/);
    expect([...zipfWeights(3, 2)].map((weight) => Number(weight.toFixed(12)))).toEqual([1, 0.25, Number((1 / 9).toFixed(12))]);
  });

  it('give a whole session to one tenant', () => {
    const table = generateRequests({ ...SESSIONS }, streamsFrom(6), { requests: 500 });
    assignTenants(
      table,
      [
        { name: 'x', share: 1 },
        { name: 'y', share: 1 },
      ],
      uniformFrom(2),
    );
    const owner = new Map<number, number>();
    for (let row = 0; row < 500; row++) {
      const tenant = table.tenant[row]!;
      expect(owner.get(table.session[row]!) ?? tenant).toBe(tenant);
      owner.set(table.session[row]!, tenant);
    }
    expect(new Set(table.tenant).size).toBe(2);
  });
});

describe('mooncake-like, against the published statistics of the conversation trace', () => {
  const runs = [1, 2, 3, 4, 5, 6].map((seed) =>
    traceStatistics(generateRequests({ kind: 'mooncake-like' }, streamsFrom(seed), { requests: 12_031 })),
  );
  const long = generateRequests({ kind: 'mooncake-like' }, streamsFrom(9), { requests: 60_000 });

  it('has its rate and block size', () => {
    // Waves of dispersion 4.6 in the long run: that is the variance of a count over its mean.
    const deviation = 3.4 * Math.sqrt(4.6 / 12_031);
    for (const run of runs) expect(Math.abs(run.requestsPerSecond - 3.4)).toBeLessThan(3 * deviation);
    expect(runs[0]!.prefixReuse!.blockTokens).toBe(512);
  });

  it('has its dispersion of arrivals in windows of seconds and minutes', () => {
    for (const [seconds, published] of [
      [3, 1.168],
      [6, 1.327],
      [15, 1.768],
      [30, 2.311],
      [60, 2.902],
      [120, 3.758],
    ] as const) {
      const counts = new Float64Array(Math.floor(long.arrivalNs[long.requestCount - 1]! / (seconds * 1e9)));
      for (const time of long.arrivalNs) {
        const window = Math.floor(time / (seconds * 1e9));
        if (window < counts.length) counts[window]!++;
      }
      const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
      const variance = counts.reduce((sum, count) => sum + (count - mean) * (count - mean), 0) / (counts.length - 1);
      // Some 150 windows of two minutes: their variance has a standard error of 12 %.
      expect(Math.abs(variance / mean / published - 1)).toBeLessThan(0.04 + 3 * Math.sqrt(2 / counts.length));
    }
  });

  it('has its LRU hit curve at each size, within 0.025 in every run and 0.01 in their mean', () => {
    const published = [0.0445, 0.1104, 0.2112, 0.3257, 0.3546, 0.3637];
    const meanOf = (value: (run: (typeof runs)[number]) => number): number => runs.reduce((sum, run) => sum + value(run), 0) / runs.length;
    expect(runs[0]!.prefixReuse!.lru.map((point) => point.cacheBlocks)).toEqual([1000, 5000, 10_000, 30_000, 50_000, 100_000]);
    for (const [index, share] of published.entries()) {
      for (const run of runs) expect(Math.abs(run.prefixReuse!.lru[index]!.share - share)).toBeLessThan(0.025);
      expect(Math.abs(meanOf((run) => run.prefixReuse!.lru[index]!.share) - share)).toBeLessThan(0.01);
    }
    for (const run of runs) {
      expect(Math.abs(run.prefixReuse!.infiniteShare - 0.3664)).toBeLessThan(0.02);
      expect(Math.abs(run.prefixReuse!.infiniteTokenShare - 0.3736)).toBeLessThan(0.02);
    }
    // Where ages did not know of lengths, the mean at 5,000 blocks was 0.124.
    expect(meanOf((run) => run.prefixReuse!.lru[1]!.share)).toBeLessThan(0.119);
  });

  it('has its lengths within 5 %', () => {
    const { input, output } = traceStatistics(long);
    const near = (found: number, published: number): void => expect(Math.abs(found / published - 1)).toBeLessThan(0.05);
    near(input.mean, 12_035);
    near(input.p50, 6909);
    near(input.p99, 85_400);
    near(output.mean, 343);
    near(output.p50, 350);
    near(output.p99, 1118);
    expect(input.max).toBeLessThanOrEqual(126_195);
  });

  it('begins every prompt with block 0', () => {
    const table = generateRequests({ kind: 'mooncake-like' }, streamsFrom(1), { requests: 500 });
    for (let row = 0; row < 500; row++) expect(table.blockHashes[table.blockOffsets[row]!]).toBe(0);
  });
});

describe('prefixes that some requests share', () => {
  const spec = (share: number, part: 'added' | 'included', tokens: number) => ({
    kind: 'independent' as const,
    arrivals: { kind: 'poisson' as const, ratePerSecond: 1 },
    inputTokens: { kind: 'constant' as const, tokens },
    outputTokens: { kind: 'constant' as const, tokens: 10 },
    prefix: { groups: 4, popularity: { kind: 'uniform' as const }, prefixTokens: { kind: 'constant' as const, tokens: 640 }, share, part },
    blockTokens: 64,
  });

  it('a share of them, within their length or before it', () => {
    const table = generateRequests(spec(0.7, 'included', 1000), streamsFrom(1), { requests: 4000 });
    const with640 = Array.from({ length: 4000 }, (_, row) => hashesOf(table, row).length);
    expect(new Set(with640)).toEqual(new Set([0, 10]));
    // Four standard deviations of a binomial share.
    expect(Math.abs(with640.filter((blocks) => blocks > 0).length / 4000 - 0.7)).toBeLessThan(4 * Math.sqrt((0.7 * 0.3) / 4000));
    expect(new Set(table.inputTokens)).toEqual(new Set([1000]));
    expect(new Set(generateRequests(spec(1, 'added', 1000), streamsFrom(1), { requests: 50 }).inputTokens)).toEqual(new Set([1640]));
    const short = generateRequests(spec(1, 'included', 200), streamsFrom(1), { requests: 50 });
    expect(hashesOf(short, 0)).toHaveLength(3);
    expect(() => generateRequests(spec(1.2, 'added', 9), streamsFrom(1), { requests: 1 })).toThrow('prefix.share is 1.2');
  });
});

describe('a slice of a trace', () => {
  it('keeps what is within it, with its prefixes', () => {
    const table = generateRequests(
      {
        kind: 'independent',
        arrivals: { kind: 'poisson', ratePerSecond: 1 },
        inputTokens: { kind: 'uniform', minTokens: 100, maxTokens: 2000 },
        outputTokens: { kind: 'constant', tokens: 10 },
        prefix: { groups: 4, popularity: { kind: 'uniform' }, prefixTokens: { kind: 'constant', tokens: 64 } },
      },
      streamsFrom(2),
      { requests: 300 },
    );
    const slice = sliceRequests(table, { fromNs: 50e9, minInputTokens: 500, maxInputTokens: 900 });
    const kept = Array.from({ length: 300 }, (_, row) => row).filter(
      (row) => table.arrivalNs[row]! >= 50e9 && table.inputTokens[row]! >= 500 && table.inputTokens[row]! <= 900,
    );
    expect(kept.length).toBeGreaterThan(20);
    expect([...slice.inputTokens]).toEqual(kept.map((row) => table.inputTokens[row]));
    expect([...slice.arrivalNs]).toEqual(kept.map((row) => table.arrivalNs[row]! - 50e9));
    expect(kept.map((_, row) => hashesOf(slice, row))).toEqual(kept.map((row) => hashesOf(table, row)));
  });
});
