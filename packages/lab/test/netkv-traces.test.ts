import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { runScenario } from '@braess/lab';
import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { newFolder } from './small-runs.js';

const configs = fileURLToPath(new URL('../../../configs/paper/netkv/', import.meta.url));
const traces = fileURLToPath(new URL('../../../../shared/traces/', import.meta.url));
const requests = 150;

interface Line {
  readonly timestamp: number;
  readonly input_length: number;
  readonly output_length: number;
  readonly hash_ids: readonly number[];
}

/** The lines of a trace, by a reader of two lines. */
function linesOf(file: string): Line[] {
  const text = gunzipSync(readFileSync(file)).toString('utf8');
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as Line]));
}

describe('the profiles of NetKV as slices of published traces', () => {
  for (const [profile, trace, least, most, rateFactor] of [
    ['rag', 'mooncake_toolagent_head_1000', 1, 65_536, 0.4],
    ['chatbot', 'mooncake_conversation', 1, 8192, 1.8],
    ['long-context', 'mooncake_conversation', 16_384, 126_976, 1.36],
  ] as const) {
    const file = `${traces}${trace}.jsonl.gz`;
    const there = existsSync(file);
    it(`${profile}: ${there ? 'serves all requests within its limits, in order, and moves what is not found' : `not run: ${trace} is not there`}`, async () => {
      if (!there) return;
      const run = await runScenario({
        file: `${configs}${profile}-trace.yaml`,
        settings: [`workload.source.file=${file}`, `workload.requests=${requests}`, 'warmupSeconds=0'],
        transport: 'memory',
        out: newFolder(),
      });
      const slice = linesOf(file).filter(({ input_length: tokens }) => tokens >= least && tokens <= most);
      const expected = slice.slice(0, requests);
      expect(run.faults).toEqual([]);
      expect(run.completed).toBe(requests);
      const sql = 'select input_tokens, output_tokens, arrival_ns, transfer_bytes from requests order by request_id';
      const rows = (await queryRun(run.folder, sql)).rows.map((row) => row.map(Number)) as [number, number, number, number][];
      expect(rows.map(([input]) => input)).toEqual(expected.map(({ input_length: tokens }) => tokens));
      expect(rows.map(([, output]) => output)).toEqual(expected.map(({ output_length: tokens }) => tokens));
      // Timestamps are whole ticks of about 3 s, over which requests are spread; then the clock runs so many times as fast.
      for (const [index, [, , arrivalNs]] of rows.entries()) {
        const tickMs = arrivalNs / 1e6 - expected[index]!.timestamp / rateFactor;
        expect(tickMs).toBeGreaterThanOrEqual(-1);
        expect(tickMs).toBeLessThan(3100 / rateFactor);
      }
      // Llama-3.1-70B: 80 layers, 8 KV heads of 128, keys and values, 2 bytes; whole blocks of 512 tokens are found or not.
      const tokenBytes = 80 * 8 * 128 * 2 * 2;
      const seen = new Set<number>();
      let found = 0;
      for (const [index, [input, , , bytes]] of rows.entries()) {
        const hashes = expected[index]!.hash_ids;
        const foundBlocks = (input - bytes / tokenBytes) / 512;
        expect(foundBlocks).toBe(Math.trunc(foundBlocks));
        // Nothing is found that nobody had before.
        const known = hashes.findIndex((hash) => !seen.has(hash));
        expect(foundBlocks).toBeLessThanOrEqual(known < 0 ? hashes.length : known);
        for (const hash of hashes) seen.add(hash);
        found += foundBlocks;
      }
      expect(found).toBeGreaterThan(requests / 10);
    });
  }
});
