import { queryRun } from '@braess/telemetry';
import { expect, it } from 'vitest';
import { runText, testFile } from './small-runs.js';

it('the longest gap of a request is kept until its end, however many requests end after it', async () => {
  // 40 answers of 20, 40 ... 800 tokens, and at 20 ms a prompt of four chunks, for which all of them wait.
  const answers = Array.from({ length: 40 }, (_, index) => `0,100,${20 * (index + 1)}`);
  const trace = testFile('long-prompt.csv', `arrival_s,input_tokens,output_tokens\n0,100,10\n${answers.join('\n')}\n0.02,8000,1\n`);
  const { folder } = await runText(`
name: long-prompt
cluster: { gpu: H100 }
serving: [{ count: 1, maxBatchedTokens: 2048 }]
workload: { source: { kind: trace, file: ${trace} } }
`);
  const { rows } = await queryRun(folder, 'select output_tokens, tpot_ms, max_itl_ms, prefill_ms from requests order by output_tokens');
  const [long, ...others] = rows as [number, number, number, number][];
  expect(long?.[0]).toBe(1);
  for (const [tokens, tpotMs, longestMs] of others) {
    expect(longestMs, `${tokens} tokens`).toBeGreaterThanOrEqual(tpotMs);
    // A chunk of 2,048 tokens is a quarter of that prompt, and more in its later part.
    if (tokens > 10) expect(longestMs, `${tokens} tokens`).toBeGreaterThan((long as number[])[3]! / 5);
    if (tokens > 10) expect(longestMs).toBe(others[1]?.[2]);
  }
});
