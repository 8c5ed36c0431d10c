import { queryRun } from '@braess/telemetry';
import { expect, it } from 'vitest';
import { runText } from './small-runs.js';

/** A prefill and a decode engine of eight GPUs each, in two servers of one rack. */
const wide = `
name: wide
cluster: { gpu: H200, racksPerPod: 1, serversPerRack: 2 }
model: { name: DeepSeek-R1, weightPrecision: fp8 }
serving:
  - { count: 1, role: prefill, tensorParallel: 8, attention: data-parallel }
  - { count: 1, role: decode, tensorParallel: 8, attention: data-parallel }
telemetry: { decisionsEvery: 0 }
workload:
  requests: 1
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 1000 }
    inputTokens: { kind: constant, tokens: 2000 }
    outputTokens: { kind: constant, tokens: 2 }
`;

const transfers = 'select transfer_start_ns, transfer_end_ns, transfer_bytes from requests order by request_id';

it('moves the KV of a request from one GPU to one GPU, over one NIC', async () => {
  const { rows } = await queryRun((await runText(wide)).folder, transfers);
  const [startNs, endNs, bytes] = rows[0] as [number, number, number];
  // 61 layers of 512 + 64 numbers of 16 bit a token, once.
  expect(bytes).toBe(2000 * 70_272);
  // 50 GB/s, and some microseconds of links and of control.
  const movedNs = (bytes / 50e9) * 1e9;
  expect(endNs - startNs).toBeGreaterThan(movedNs);
  expect(endNs - startNs).toBeLessThan(movedNs + 100e3);
});

it('spreads requests over the GPUs: together they have the NICs of all', async () => {
  const { folder } = await runText(wide, [
    'workload.requests=257',
    // The first is computed alone; the others wait for it, and end together.
    'workload.source.arrivals.ratePerSecond=1.0e+6',
    'serving[0]={count: 1, role: prefill, tensorParallel: 8, attention: data-parallel, maxSequences: 256, maxBatchedTokens: 1000000}',
    'serving[1]={count: 1, role: decode, tensorParallel: 8, attention: data-parallel, maxSequences: 256, maxBatchedTokens: 8192}',
  ]);
  const rows = (await queryRun(folder, transfers)).rows.slice(1) as [number, number, number][];
  expect(new Set(rows.map(([startNs]) => startNs)).size).toBe(1);
  const bytes = rows.reduce((sum, row) => sum + row[2], 0);
  expect(bytes).toBe(256 * 2000 * 70_272);
  const spanNs = Math.max(...rows.map(([, endNs]) => endNs)) - (rows[0]?.[0] as number);
  // Over eight NICs on either side; by hash one of the sixteen has more to do than the mean of 32, but hardly twice as much.
  const evenNs = (bytes / (8 * 50e9)) * 1e9;
  expect(spanNs).toBeGreaterThan(evenNs);
  expect(spanNs).toBeLessThan(2 * evenNs);
});
