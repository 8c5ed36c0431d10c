import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';
import type { TraceReport, TraceStatistics } from '@braess/workload';
import { describe, expect, it } from 'vitest';
import { braess } from './braess-process.js';
import { temporaryFolder } from './temporary-folder.js';

const folder = temporaryFolder();
const header = 'arrival_s,input_tokens,output_tokens,block_hashes_16';
// Blocks 1 and 2 come back at once (an LRU cache of 2 holds them), and again after 3 and 4 (a cache of 4 does).
const plain = `${header}\n0,32,10,1 2\n1,32,20,1 2\n2,32,30,3 4\n3,32,40,1 2\n`;
const file = folder.file('plain.csv', plain);

async function traced(...words: string[]): Promise<{ report: TraceReport; statistics: TraceStatistics }> {
  const { code, out, err } = await braess(['trace', ...words, '--json']);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out.trimEnd().split('\n')).toHaveLength(1);
  return JSON.parse(out) as { report: TraceReport; statistics: TraceStatistics };
}

describe('braess trace', () => {
  it('prints the statistics as JSON: rates, burstiness, lengths, reuse by the size of an LRU cache', async () => {
    const { report, statistics } = await traced(file, '--window', '1');
    expect(report).toMatchObject({ file, format: 'plain', lines: 5, requests: 4, rejectedRows: 0, rejections: [] });
    expect(statistics).toMatchObject({
      requests: 4,
      durationS: 3,
      requestsPerSecond: 4 / 3,
      gapCv: 0,
      dispersion: 0,
      windowS: 1,
      input: { mean: 32, p50: 32, max: 32 },
      output: { mean: 25, min: 10, p50: 25, p90: 37, max: 40 },
      prefixReuse: { blockTokens: 16, blocks: 8, distinctBlocks: 4, infiniteShare: 0.5, infiniteTokenShare: 0.5 },
    });
    const found = Object.fromEntries(statistics.prefixReuse!.lru.map(({ cacheBlocks, share }) => [cacheBlocks, share]));
    expect(found).toMatchObject({ 1: 0, 2: 0.25, 3: 0.25, 4: 0.5, 10: 0.5, 10000: 0.5 });
  });

  it('prints tables and a curve of the reuse', async () => {
    const { code, out } = await braess(['trace', file]);
    expect(code).toBe(0);
    expect(out).toContain('format plain, 4 requests over 3 s in 5 lines');
    expect(out).toMatch(/│ output │ +25 │ +10 │ +25 │ +37 │ +39\.700 │ +40 │/);
    expect(out).toMatch(/│ +10 │ +160 │ +50\.00 % │\n│ +unlimited │ +│ +50\.00 % │/);
    expect(out).toContain('8 prompt blocks of 16 tokens, 4 distinct; an unlimited cache holds 50.00 % of the input tokens');
    // The curve ends at the first cache that holds all reuse: 4 blocks.
    expect(out).toMatch(/^ +50\.00 ┼ +╭─$/m);
    expect(out).toMatch(/\n {12}1 +4\n$/);
  });

  it('reads .gz and says when there is no prefix identity; --window counts arrivals in other windows', async () => {
    const rows = ['0', '0.1', '0.2', '1.5', '10', '10.1'].map((second) => `${second},8,1\n`).join('');
    const zipped = folder.file('burst.csv.gz', gzipSync(`arrival_s,input_tokens,output_tokens\n${rows}`));
    // Windows of 5 s: 4 and 0 arrivals in whole ones, variance 8 over mean 2. Of 1 s: 3, 1, then eight of none: variance 8.4 / 9 over mean 0.4.
    const five = (await traced(zipped, '--window', '5')).statistics;
    expect(five.dispersion).toBeCloseTo(4, 12);
    expect((await traced(zipped, '--window', '1')).statistics.dispersion).toBeCloseTo(8.4 / 9 / 0.4, 12);
    expect(five.prefixReuse).toBeNull();
    expect((await braess(['trace', zipped])).out).toContain('No prefix identity');
  });

  it('spreads equal timestamps over the tick of the clock, unless --as-is; --format is obeyed', async () => {
    const row = (timestamp: number): string => `{"timestamp":${timestamp},"input_length":100,"output_length":5,"hash_ids":[0]}\n`;
    const mooncake = folder.file('mooncake.jsonl', row(0) + row(0) + row(3000) + row(3000));
    const spread = await traced(mooncake);
    expect(spread).toMatchObject({ report: { format: 'mooncake', spreadTickNs: 3e9 }, statistics: { gapCv: 0, durationS: 4.5 } });
    const asIs = await traced(mooncake, '--as-is', '--format', 'mooncake');
    expect(asIs).toMatchObject({ report: { spreadTickNs: 0 }, statistics: { durationS: 3 } });
    // Gaps 0, 3, 0: mean 1, variance 2.
    expect(asIs.statistics.gapCv).toBeCloseTo(Math.sqrt(2), 12);
    const { code, err } = await braess(['trace', mooncake, '--format', 'azure']);
    expect(code).toBe(1);
    expect(err).toContain(`${mooncake}:1: `);
  });

  it('lists bad rows with file and line, leaves them out and fails; --count-bad accepts them', async () => {
    const bad = folder.file('bad.csv', `${plain}4,NaN,1,\n5,32,-1,5 6\n`);
    const { code, out, err } = await braess(['trace', bad]);
    expect(code).toBe(1);
    expect(out).toContain('4 requests over 3 s in 7 lines');
    expect(out).toContain('2 rows are bad and left out:');
    for (const [line, field] of [
      ['6', 'input_tokens'],
      ['7', 'output_tokens'],
    ])
      expect(out).toContain(`${bad}:${line}: ${field}: found `);
    expect(err).toContain(`error: 2 rows are bad, the first: ${bad}:6: input_tokens: found "NaN"`);
    const accepted = await traced(bad, '--count-bad');
    expect(accepted.report).toMatchObject({ requests: 4, rejectedRows: 2 });
  });

  it.each([
    ['empty.csv', '', 'the file is empty; expected at least one request'],
    ['other.csv', 'when,what\n1,2\n', ':1: format: found "when,what", expected a header with ContextTokens (Azure)'],
    ['hole.csv', `${header}\n0,32,1,1 2\n\n1,32,1,1 2\n`, ':3: blank line before the end'],
    ['all.csv', `${header}\n0,x,1,\n`, 'all 1 rows were rejected'],
    ['cut.csv.gz', gzipSync(plain).subarray(0, 30), 'cut.csv.gz'],
  ])('%s gives the error of the reader and exit code 1', async (name, content, message) => {
    const { code, out, err } = await braess(['trace', folder.file(name, content)]);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toContain(message);
    expect(err).toMatch(/^error: /);
  });

  it.each([
    [['trace', folder.path('none.csv')], "there is no file '"],
    [['trace', folder.path('')], 'is a folder; give a file'],
    [['trace', file, '--window', '0'], "option '--window <S>' argument '0' is invalid. It must be a number from 0.001 to 1000000."],
    [['trace', file, '--format', 'csv'], 'It must be one of mooncake, azure, burstgpt, dynamo, plain.'],
    [['trace'], "missing required argument 'FILE'"],
  ])('%j is refused with exit code 2', async (words, message) => {
    const { code, out, err } = await braess(words);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(message);
  });
});

describe('braess validate --write-trace', () => {
  it('makes a plain trace of any format that has the same statistics, to the last digit', async () => {
    const mooncake = fileURLToPath(new URL('../../../configs/fixtures/mooncake-trace.jsonl', import.meta.url));
    const rows = Array.from({ length: 30 }, (_, row) => `2023-11-16 18:${String(10 + row)}:00.1234567,${100 + 7 * row},${5 + row}`);
    const azure = folder.file('azure.csv', `TIMESTAMP,ContextTokens,GeneratedTokens\n${rows.join('\n')}\n`);
    const scenario = folder.file('any.yaml', 'serving: [{ count: 1 }]\nworkload: { source: { kind: trace, file: none } }\n');
    for (const given of [mooncake, azure]) {
      const copy = folder.path('copy.csv.gz');
      const { code, err } = await braess(['validate', scenario, '--trace', given, '--write-trace', copy]);
      expect({ code, err }).toEqual({ code: 0, err: '' });
      const [read, written] = [await traced(given), await traced(copy)];
      expect(written.report.format).toBe('plain');
      expect(written.statistics).toEqual(read.statistics);
    }
  });

  it('writes arrivals as the run has them, rate factor included, and says so: replayed without it the run is the same', async () => {
    const scenario = folder.file(
      'faster.yaml',
      `serving: [{ count: 1 }]
workload:
  requests: 20
  rateFactor: 4
  source:
    kind: independent
    arrivals: { kind: poisson, ratePerSecond: 5 }
    inputTokens: { kind: uniform, minTokens: 10, maxTokens: 500 }
    outputTokens: { kind: constant, tokens: 3 }
`,
    );
    const copy = folder.path('faster.csv');
    const { code, err } = await braess(['validate', scenario, '--write-trace', copy]);
    expect({ code, err }).toEqual({
      code: 0,
      err: `note: the arrivals in ${copy} have workload.rateFactor 4 in them: replay it with --set workload.rateFactor=1\n`,
    });
    const run = async (...words: string[]) => {
      const { out } = await braess(['run', scenario, '--no-report', '--json', '--out', folder.path(`run${words.length}`), ...words]);
      return (JSON.parse(out) as { fingerprint: string }).fingerprint;
    };
    expect(await run('--trace', copy, '--set', 'workload.rateFactor=1')).toBe(await run());
  });
});
