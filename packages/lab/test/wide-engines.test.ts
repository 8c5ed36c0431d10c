import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { runText } from './small-runs.js';

/** A prefill and a decode engine of two servers with two GPUs each, in one rack. */
const wide = `
name: wide
cluster: { racksPerPod: 1, serversPerRack: 4, gpusPerServer: 2 }
serving:
  - { count: 1, role: prefill, tensorParallel: 4 }
  - { count: 1, role: decode, tensorParallel: 4 }
telemetry: { decisionsEvery: 0, seriesSeconds: 0 }
workload:
  requests: 1
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 100 }
    inputTokens: { kind: constant, tokens: 2000 }
    outputTokens: { kind: constant, tokens: 20 }
`;

/** Bytes and time of the transfer of the first request. */
async function moved(settings: readonly string[]): Promise<[bytes: number, ns: number]> {
  const { folder, faults } = await runText(wide, settings);
  expect(faults).toEqual([]);
  const { rows } = await queryRun(folder, 'select transfer_bytes, transfer_end_ns - transfer_start_ns from requests order by request_id');
  return rows[0] as [number, number];
}

describe('engines of several servers', () => {
  it('move KV over the NICs of all their servers', async () => {
    for (const fabric of ['{}', '{shards: per-gpu}', '{fidelity: chunk, chunkBytes: 1000000}']) {
      const [bytes, ns] = await moved([`cluster.fabric=${fabric}`]);
      // 32 layers of keys and values of 8 heads of 128 numbers of 16 bit a token.
      expect(bytes).toBe(2000 * 131_072);
      const evenNs = (bytes / (4 * 50e9)) * 1e9;
      expect(ns).toBeGreaterThan(evenNs);
      expect(ns).toBeLessThan(evenNs + 100e3);
    }
  });

  it('move it no faster than the smaller end takes', async () => {
    const [bytes, ns] = await moved(['serving[1].tensorParallel=2']);
    const evenNs = (bytes / (2 * 50e9)) * 1e9;
    expect(bytes).toBe(2000 * 131_072);
    expect(ns).toBeGreaterThan(evenNs);
    expect(ns).toBeLessThan(evenNs + 100e3);
  });

  it('are known to network-aware routers for the transfers that they take', async () => {
    const network = ['router={policy: kv, decode: {policy: netkv}, oracle: {policy: periodic}}', 'telemetry.decisionsEvery=1'];
    // Of 4 KV heads 8 GPUs keep two copies, and 4 GPUs, or one that keeps requests of its own, one.
    const copies = ['model={name: Qwen3-30B-A3B, weightPrecision: fp8}', 'cluster.gpusPerServer=8', 'serving[0].tensorParallel=8'];
    const cases = [
      [],
      ['cluster.fabric.shards=per-gpu'],
      ['serving[1].tensorParallel=2'],
      ['cluster.gpusPerServer=4'],
      copies,
      [...copies, 'serving[1].attention=data-parallel'],
    ];
    for (const settings of cases) {
      const { folder } = await runText(wide, [...network, ...settings]);
      const predicted = await queryRun(folder, "select transfer_ms from decisions where kind = 'decode_route' and chosen");
      const actual = await queryRun(folder, 'select transfer_ms from requests');
      const ratio = (predicted.rows[0]![0] as number) / (actual.rows[0]![0] as number);
      // Posting a transfer and noticing its end come on top of what is predicted.
      expect(ratio).toBeGreaterThan(0.9);
      expect(ratio).toBeLessThan(1.01);
    }
  });

  it('are slowed, and stopped, by a GPU of any of their servers', async () => {
    const run = (gpu: string, factor: number) =>
      runText(wide, [
        'workload.requests=40',
        `faults=[{kind: gpu-speed, atSeconds: 0.2, gpu: "pod0/rack0/${gpu}", factor: ${factor}}]`,
        'router.maxAttempts=1',
        'untilSeconds=20',
      ]);
    const healthy = await runText(wide, ['workload.requests=40']);
    const [near, far] = [await run('node2/gpu0', 0.25), await run('node3/gpu1', 0.25)];
    expect([near.completed, far.completed]).toEqual([40, 40]);
    // Word of a GPU elsewhere takes the delay of a message between servers.
    expect(far.itlMs!.p99 / near.itlMs!.p99).toBeCloseTo(1, 2);
    expect(far.itlMs!.p50).toBeGreaterThan(3 * healthy.itlMs!.p50);
    const dead = await run('node3/gpu1', 0);
    expect(dead.faults).toEqual([]);
    expect(dead.completed).toBeLessThan(25);
    expect(dead.completed + dead.failed + dead.rejected + dead.inFlight).toBe(40);
  });

  it('give the same results on two shards, and at chunk fidelity', async () => {
    const many = ['workload.requests=60', 'serving[1].tensorParallel=2', 'serving[1].count=2'];
    const one = await runText(wide, many, { strict: true });
    const two = await runText(wide, many, { transport: 'threads', shards: 2 });
    expect(two.fingerprint).toBe(one.fingerprint);
    const chunk = await runText(wide, [...many, 'cluster.fabric={fidelity: chunk, chunkBytes: 4000000}']);
    expect([chunk.completed, chunk.faults]).toEqual([60, []]);
  });

  it('have no tiers below them', async () => {
    await expect(runText(wide, ['kvTiers={g2: {gigabytes: 100}}'])).rejects.toThrow(
      /kvTiers\.g2 would be below engines of 2 servers \(prefill0\).*set tensorParallel to 2 or less there/,
    );
    const { completed } = await runText(wide, ['kvTiers={g2: {gigabytes: 100}}', 'serving[0].tensorParallel=2']);
    expect(completed).toBe(1);
  });
});
