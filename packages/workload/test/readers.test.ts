import { readFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { generateRequests, type RequestTable, readTrace, streamTrace, traceStatistics, writePlainCsv } from '@braess/workload';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PARENT_AGE_S } from '../src/mooncake-statistics.js';
import { streamsFrom } from './streams.js';
import { realTrace, temporaryFile, temporaryPath, withTrace } from './traces.js';

const CONVERSATION = 'traces/mooncake_conversation.jsonl.gz';

async function roundTrip(table: RequestTable, name: string): Promise<RequestTable> {
  const path = temporaryPath(name);
  await writePlainCsv(path, [table]);
  return (await readTrace(path)).table;
}

describe('a Mooncake trace of other blocks', () => {
  const text = '{"timestamp": 0, "input_length": 640, "output_length": 9, "hash_ids": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}\n';

  it('is read with the block size that is given', async () => {
    const { table } = await readTrace(temporaryFile('blocks-of-64', text), { hashTokens: 64 });
    expect(table.blockTokens).toBe(64);
    expect([...table.blockHashes]).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it('without it is refused with the option that says so', async () => {
    await expect(readTrace(temporaryFile('blocks-of-512', text))).rejects.toThrow(
      /has 10 hashes, expected 2: .*workload\.source\.hashTokens .*--hash-tokens/,
    );
    await expect(readTrace(temporaryFile('no-blocks', text), { hashTokens: 0 })).rejects.toThrow(/hashTokens/);
  });
});

describe('arrivals', () => {
  const mooncake = (times: number[]): string =>
    times.map((time) => `{"timestamp": ${time}, "input_length": 9, "output_length": 5, "hash_ids": [0]}\n`).join('');

  it('of one tick are spread evenly over it, in order, by default', async () => {
    const path = temporaryFile('ticks', mooncake([0, 0, 0, 3000, 3000, 6000]));
    const { table, report } = await readTrace(path);
    expect([...table.arrivalNs]).toEqual([0, 1e9, 2e9, 3e9, 4.5e9, 6e9]);
    expect(report.spreadTickNs).toBe(3e9);
  });

  it('stay as they are on request', async () => {
    const { table, report } = await readTrace(temporaryFile('as-is', mooncake([0, 0, 3000])), { arrivals: 'as-is' });
    expect([...table.arrivalNs]).toEqual([0, 0, 3e9]);
    expect(report.spreadTickNs).toBe(0);
  });

  it('of a clock that turns out finer are spread over its finer tick only', async () => {
    const { table } = await readTrace(temporaryFile('fine', mooncake([0, 10, 500, 500, 2000])));
    expect([...table.arrivalNs]).toEqual([0, 1e7, 5e8, 5.05e8, 2e9]);
  });

  it('never leave their tick nor their order, whatever the times', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(0, 0, 0, 1, 20, 3000, 9000), { minLength: 1, maxLength: 40 }), async (gaps) => {
        let time = 0;
        const times = gaps.map((gap) => (time += gap));
        const { table } = await readTrace(temporaryFile('any-ticks', mooncake(times)));
        for (const [index, stamp] of times.entries()) {
          const next = times.find((other) => other > stamp) ?? stamp + 3003;
          expect(table.arrivalNs[index]).toBeGreaterThanOrEqual(stamp * 1e6);
          expect(table.arrivalNs[index]).toBeLessThan(next * 1e6);
          if (index > 0) expect(table.arrivalNs[index]).toBeGreaterThanOrEqual(table.arrivalNs[index - 1]!);
        }
      }),
      { numRuns: 50 },
    );
  });

  it('in seconds are exact in nanoseconds where a binary fraction would not be', async () => {
    const rows = '0,0.000000001,1,1\n1,0.1,1,1\n2,4000000.123456789,1,1\n3,8e6,1,1\n';
    const { table } = await readTrace(temporaryFile('exact.csv', `request_id,arrival_s,input_tokens,output_tokens\n${rows}`));
    expect([...table.arrivalNs]).toEqual([1, 1e8, 4000000123456789, 8e15]);
  });

  it('of Azure are counted from the first over days, months, leap days and zones', async () => {
    const stamps = ['2024-02-28 23:59:59.5', '2024-02-29 00:00:00+00:00', '2024-03-01T00:00:00.250000', '2024-03-01 02:00:00+01:00'];
    const rows = stamps.map((stamp) => `${stamp},1,1\n`).join('');
    const { table } = await readTrace(temporaryFile('azure.csv', `TIMESTAMP,ContextTokens,GeneratedTokens\n${rows}`));
    const origin = Date.parse('2024-02-28T23:59:59.500Z');
    const expected = ['2024-02-29T00:00:00Z', '2024-03-01T00:00:00.250Z', '2024-03-01T01:00:00Z'].map(
      (stamp) => (Date.parse(stamp) - origin) * 1e6,
    );
    expect([...table.arrivalNs]).toEqual([0, ...expected]);
  });
});

describe('export and replay', () => {
  it('gives the same table for generated sessions with groups and tenants, plain and gzipped', async () => {
    const table = generateRequests(
      {
        kind: 'sessions',
        sessionArrivals: { kind: 'poisson', ratePerSecond: 5 },
        turns: { kind: 'uniform', minTokens: 1, maxTokens: 5 },
        firstTokens: { kind: 'exponential', meanTokens: 200 },
        turnTokens: { kind: 'exponential', meanTokens: 50 },
        outputTokens: { kind: 'exponential', meanTokens: 80 },
        meanThinkS: 3,
        maxInputTokens: 4000,
        prefix: { groups: 4, popularity: { kind: 'zipf', exponent: 1 }, prefixTokens: { kind: 'constant', tokens: 100 } },
      },
      streamsFrom(1),
      { requests: 600 },
    );
    const sessionNames = table.sessionNames.slice(0, 1 + Math.max(...table.session));
    expect(await roundTrip(table, 'sessions.csv')).toEqual({ ...table, sessionNames });
    expect(await roundTrip(table, 'sessions.csv.gz')).toEqual({ ...table, sessionNames });
  });

  it('keeps the names of requests, tenants and sessions', async () => {
    const header = 'request_id,arrival_s,input_tokens,output_tokens,tenant,session,prefix_group,prefix_tokens\n';
    const path = temporaryFile('names.csv', `${header}a,0,50,1,gold,s1,system,40\nb,0.5,60,2,free,,system,33\nc,1,60,2,gold,s1,,\n`);
    const { table } = await readTrace(path);
    expect(table.tenantNames).toEqual(['gold', 'free']);
    expect([...table.session]).toEqual([0, -1, 0]);
    expect([...table.blockOffsets]).toEqual([0, 2, 4, 4]);
    expect(table.blockHashes[0]).toBe(table.blockHashes[2]);
    expect(await roundTrip(table, 'names-again.csv')).toEqual(table);
  });

  it(withTrace('keeps the real conversation trace and all its prefix hits', CONVERSATION), async () => {
    const path = realTrace(CONVERSATION);
    if (path === null) return;
    const { table } = await readTrace(path);
    expect(await roundTrip(table, 'conversation.csv.gz')).toEqual(table);
  });
});

describe('streaming', () => {
  it(withTrace('gives the same requests in small batches as at once', CONVERSATION), async () => {
    const path = realTrace(CONVERSATION);
    if (path === null) return;
    const { table } = await readTrace(path);
    let rows = 0;
    let hashes = 0;
    for await (const batch of streamTrace(path, { batchRequests: 500 })) {
      expect(batch.firstRequest).toBe(rows);
      expect(batch.requestCount).toBeLessThanOrEqual(500);
      expect(batch.arrivalNs).toEqual(table.arrivalNs.subarray(rows, rows + batch.requestCount));
      expect(batch.blockHashes).toEqual(table.blockHashes.subarray(hashes, hashes + batch.blockHashes.length));
      rows += batch.requestCount;
      hashes += batch.blockHashes.length;
    }
    expect(rows).toBe(table.requestCount);
  });

  it('may stop early, plain or gzipped', async () => {
    const text = `arrival_s,input_tokens,output_tokens\n${Array.from({ length: 200_000 }, (_, row) => `${row},${1 + ((row * 7919) % 10_007)},1\n`).join('')}`;
    for (const path of [temporaryFile('long.csv', text), temporaryFile('long.csv.gz', gzipSync(text))]) {
      for await (const batch of streamTrace(path, { batchRequests: 10 })) {
        expect(batch.requestCount).toBe(10);
        break;
      }
    }
  });
});

describe('real traces', () => {
  it(withTrace('Mooncake conversation has its published statistics', CONVERSATION), async () => {
    const path = realTrace(CONVERSATION);
    if (path === null) return;
    const { table, report } = await readTrace(path);
    const statistics = traceStatistics(table);
    expect(report).toMatchObject({ format: 'mooncake', lines: 12_031, requests: 12_031, rejectedRows: 0 });
    expect(statistics.requestsPerSecond).toBeCloseTo(3.4, 2);
    expect(statistics.input).toMatchObject({ p50: 6909, max: 126_195 });
    expect(statistics.input.mean).toBeCloseTo(12_035, -1);
    expect(statistics.input.p99).toBeCloseTo(85_400, -1);
    expect(statistics.output.p50).toBe(350);
    expect(statistics.output.mean).toBeCloseTo(343, -0.5);
    expect(statistics.output.p99).toBeCloseTo(1118, -0.5);
    // What the arrivals of mooncake-like are fitted to.
    for (const [index, dispersion] of [1.168, 1.327, 1.768, 2.311, 2.902, 3.758].entries())
      expect(traceStatistics(table, [], [3, 6, 15, 30, 60, 120][index]).dispersion).toBeCloseTo(dispersion, 3);
    const reuse = statistics.prefixReuse!;
    for (const [index, share] of [0.0445, 0.1104, 0.2112, 0.3257, 0.3546, 0.3637].entries())
      expect(reuse.lru[index]!.share).toBeCloseTo(share, 4);
    expect(reuse.infiniteShare).toBeCloseTo(0.3664, 4);
    expect(reuse.infiniteTokenShare).toBeCloseTo(0.3736, 4);
  });

  it(withTrace('Mooncake conversation has the ages of continued prompts that mooncake-like draws', CONVERSATION), async () => {
    const path = realTrace(CONVERSATION);
    if (path === null) return;
    const { table } = await readTrace(path);
    const continued = continuedPrompts(table);
    for (const [index, [from, quantiles]] of PARENT_AGE_S.entries()) {
      const to = PARENT_AGE_S[index + 1]?.[0] ?? Number.POSITIVE_INFINITY;
      const ages = continued.filter(({ blocks }) => blocks >= from && blocks < to).map(({ ageS }) => ageS);
      ages.sort((a, b) => a - b);
      for (const [probability, ageS] of quantiles) {
        const rank = probability * (ages.length - 1);
        const below = ages[Math.floor(rank)]!;
        expect(below + (rank % 1) * (ages[Math.ceil(rank)]! - below)).toBeCloseTo(ageS, 0.9);
      }
    }
  });

  it(withTrace('Mooncake tool-agent', 'traces/mooncake_toolagent_head_1000.jsonl.gz'), async () => {
    const path = realTrace('traces/mooncake_toolagent_head_1000.jsonl.gz');
    if (path === null) return;
    const statistics = traceStatistics((await readTrace(path, { arrivals: 'as-is' })).table);
    expect(statistics.requestsPerSecond).toBeCloseTo(5.65, 1);
    expect(statistics.input).toMatchObject({ mean: expect.closeTo(9792, 0), p50: 6558 });
    expect(statistics.output).toMatchObject({ mean: expect.closeTo(199, 0), p50: 34 });
    expect(statistics.prefixReuse!.infiniteShare).toBeCloseTo(0.3799, 4);
  });

  it(withTrace('Azure conversation', 'traces/azure_2023_conv.csv.gz'), async () => {
    const path = realTrace('traces/azure_2023_conv.csv.gz');
    if (path === null) return;
    const statistics = traceStatistics((await readTrace(path)).table);
    expect(statistics.requests).toBe(19_366);
    expect(statistics.requestsPerSecond).toBeCloseTo(5.53, 2);
    expect(statistics.durationS).toBeCloseTo(3502, -0.5);
    expect(statistics.input).toMatchObject({ mean: expect.closeTo(1155, -0.5), p50: 1020, p99: 4142 });
    expect(statistics.output).toMatchObject({ mean: expect.closeTo(211, -0.5), p50: 129, p99: 601 });
    expect(statistics.prefixReuse).toBeNull();
  });

  it(withTrace('BurstGPT sums to its own totals', 'traces/burstgpt_head_282.csv.gz'), async () => {
    const path = realTrace('traces/burstgpt_head_282.csv.gz');
    if (path === null) return;
    const { table } = await readTrace(path);
    const rows = gunzipSync(readFileSync(path)).toString().trim().split('\r\n').slice(1);
    expect(table.requestCount).toBe(282);
    expect([...table.inputTokens].map((input, row) => input + table.outputTokens[row]!)).toEqual(
      rows.map((row) => Number(row.split(',')[4])),
    );
  });

  it(
    withTrace('Dynamo: cached tokens that the real engine reported are found as shared blocks', 'traces/dynamo_request_trace.jsonl.gz'),
    async () => {
      const path = realTrace('traces/dynamo_request_trace.jsonl.gz');
      if (path === null) return;
      const { table, report } = await readTrace(path);
      expect(report).toMatchObject({ lines: 61, requests: 17, otherEvents: 44 });
      const raw = gunzipSync(readFileSync(path)).toString();
      const cachedOf = new Map<string, number>();
      for (const match of raw.matchAll(/"request_id":"([^"]+)".*?"cached_tokens":(\d+)/g)) cachedOf.set(match[1]!, Number(match[2]));
      for (let row = 0; row < table.requestCount; row++) {
        expect(cachedOf.get(table.requestNames[row]!)).toBeLessThanOrEqual(cacheableTokens(table, row));
      }
    },
  );

  it(withTrace('Dynamo: 64-bit hashes beyond the exact range of numbers stay apart', 'traces/dynamo_request_trace.jsonl.gz'), async () => {
    const path = realTrace('traces/dynamo_request_trace.jsonl.gz');
    if (path === null) return;
    const digits = [
      ...gunzipSync(readFileSync(path))
        .toString()
        .matchAll(/"input_sequence_hashes":\[([\d,]+)\]/g),
    ].flatMap((match) => match[1]!.split(','));
    const { blockHashes } = (await readTrace(path)).table;
    expect(blockHashes.length).toBe(digits.length);
    expect(new Set(blockHashes).size).toBe(new Set(digits).size);
    expect(blockHashes.every((hash) => Number.isSafeInteger(hash) && hash >= 0)).toBe(true);
  });
});

/** The most of a prompt an engine can have in its cache: what it shares with an earlier prompt, and that one's answer if it shares all of it. */
function cacheableTokens(table: RequestTable, row: number): number {
  const hashes = (of: number): Float64Array => table.blockHashes.subarray(table.blockOffsets[of]!, table.blockOffsets[of + 1]!);
  const own = hashes(row);
  let most = 0;
  for (let earlier = 0; earlier < row; earlier++) {
    const others = hashes(earlier);
    const whole = Math.floor(table.inputTokens[earlier]! / table.blockTokens);
    let shared = 0;
    while (shared < own.length && own[shared] === others[shared]) shared++;
    most = Math.max(most, shared >= whole ? table.inputTokens[earlier]! + table.outputTokens[earlier]! : shared * table.blockTokens);
  }
  return most;
}

/** Of each prompt that has more in common with an earlier one than the system prompt: the blocks, and how long ago the latest with all of them came. */
function continuedPrompts(table: RequestTable): { blocks: number; ageS: number }[] {
  const latest = new Map<number, number>();
  const found: { blocks: number; ageS: number }[] = [];
  for (let row = 0; row < table.requestCount; row++) {
    const hashes = table.blockHashes.subarray(table.blockOffsets[row]!, table.blockOffsets[row + 1]!);
    let blocks = 0;
    while (blocks < hashes.length && latest.has(hashes[blocks]!)) blocks++;
    if (blocks > 1) found.push({ blocks, ageS: (table.arrivalNs[row]! - table.arrivalNs[latest.get(hashes[blocks - 1]!)!]!) / 1e9 });
    for (const hash of hashes) latest.set(hash, row);
  }
  return found;
}
