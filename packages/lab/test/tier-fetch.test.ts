import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareRuns, explainRequest, exportTrace, queryRun, writeReport } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { runText } from './small-runs.js';

/** One engine that keeps no block in HBM once its request is over, and prompts whose first 100 blocks come again: times can be worked out on paper. */
const again = `
name: again
cluster: { gpusPerServer: 1, racksPerPod: 1, serversPerRack: 1 }
model: { name: Llama-3.1-8B }
serving:
  - count: 1
    blockTokens: 16
    cacheBlocks: 0
    maxBatchedTokens: 100000
    timing: { kind: linear, prefillMs: 20, prefillMsPerToken: 0.05, decodeMs: 10, decodeMsPerSequence: 0.1 }
delays: { clientUs: 20000, controlUs: 500 }
workload:
  requests: 2
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 1 }
    inputTokens: { kind: constant, tokens: 10 }
    outputTokens: { kind: constant, tokens: 2 }
    prefix: { groups: 1, popularity: { kind: uniform }, prefixTokens: { kind: constant, tokens: 1600 } }
`;
/** 32 layers, 8 KV heads of 128, keys and values, 2 bytes. */
const tokenBytes = 32 * 8 * 128 * 2 * 2;
const prefillNs = (tokens: number): number => (20 + 0.05 * tokens) * 1e6;
/** Client to frontend to engine. */
const wayNs = 20.5e6;
/** A device alone: its latency, then the bytes. */
const deviceNs = (tokens: number, bytesPerSecond: number, latencyNs = 100e3): number =>
  latencyNs + Math.ceil((tokens * tokenBytes * 1e9) / bytesPerSecond);

interface Row {
  readonly g2: number;
  readonly g3: number;
  readonly g4: number;
  readonly queueNs: number;
  readonly fetchNs: number;
  readonly fetchBytes: number;
  readonly prefillNs: number;
  readonly ttftNs: number;
}

async function rowsOf(folder: string): Promise<Row[]> {
  const { columns, rows } = await queryRun(
    folder,
    `select cached_tokens_g2 as g2, cached_tokens_g3 as g3, cached_tokens_g4 as g4, prefill_start_ns - arrival_ns as "queueNs", tier_fetch_ns as "fetchNs",
      tier_fetch_bytes as "fetchBytes", round(prefill_ms * 1e6) as "prefillNs", first_token_ns - arrival_ns as "ttftNs" from requests order by request_id`,
  );
  return rows.map((row) => Object.fromEntries(columns.map((name, column) => [name, Number(row[column])])) as unknown as Row);
}

describe('the wait for KV of lower tiers, by hand on an idle engine', () => {
  it.each([
    ['G2, at the cap of one engine', '{g2: {gigabytes: 10}}', { g2: 1600 }, deviceNs(1600, 32e9)],
    ['a slow G2', '{g2: {gigabytes: 10, workerBytesPerSecond: 8.0e+9, latencyUs: 1000}}', { g2: 1600 }, deviceNs(1600, 8e9, 1e6)],
    // It begins 20.5 ms after a look at what has ended.
    ['a G2 that is polled every 50 ms', '{g2: {gigabytes: 10, pollMs: 50}}', { g2: 1600 }, 50e6 - wayNs],
    ['G3', '{g3: {gigabytes: 10, minimumFrequency: 1}}', { g3: 1600 }, deviceNs(1600, 10e9)],
  ] as const)('%s: latency and bytes over bandwidth; the prefill is that of the rest', async (_name, tiers, hits, fetchNs) => {
    const run = await runText(again, [`kvTiers=${tiers}`]);
    const [first, second] = await rowsOf(run.folder);
    expect(first).toMatchObject({ g2: 0, g3: 0, g4: 0, fetchNs: 0, fetchBytes: 0 });
    const ttftNs = wayNs + fetchNs + prefillNs(10);
    expect(second).toEqual({
      ...{ g2: 0, g3: 0, g4: 0, ...hits },
      ...{ queueNs: wayNs, fetchNs, fetchBytes: 1600 * tokenBytes, prefillNs: prefillNs(10), ttftNs },
    });
    for (const ms of Object.values(run.tierFetchMs!)) expect(ms).toBeCloseTo(fetchNs / 1e6, 9);
  });

  it('G2 and G3 work side by side: the slower one is waited for', async () => {
    const settings = ['workload.requests=12', 'workload.source.prefix.groups=2'];
    const run = await runText(again, [...settings, 'kvTiers={g2: {gigabytes: 0.3}, g3: {gigabytes: 10, minimumFrequency: 1}}']);
    const both = (await rowsOf(run.folder)).filter(({ g2, g3 }) => g2 > 0 && g3 > 0);
    expect(both.length).toBeGreaterThan(0);
    for (const { g2, g3, fetchNs, fetchBytes, prefillNs: restNs } of both) {
      expect(fetchNs).toBe(Math.max(deviceNs(g2, 32e9), deviceNs(g3, 10e9)));
      expect([fetchBytes, restNs]).toEqual([1600 * tokenBytes, prefillNs(10)]);
    }
  });

  it('G4, through the fabric: its latency, the NIC, and less than 0.1 ms of messages', async () => {
    const run = await runText(again, [
      'kvTiers={g4: {gigabytes: 10}}',
      'cluster.topology.bytesPerSecond={nic: 25.0e+9, storage: 100.0e+9}',
    ]);
    const [, second] = await rowsOf(run.folder);
    expect(second).toMatchObject({ g4: 1600, fetchBytes: 1600 * tokenBytes, prefillNs: prefillNs(10) });
    const leastNs = deviceNs(1600, 25e9, 500e3);
    expect(second!.fetchNs).toBeGreaterThan(leastNs);
    expect(second!.fetchNs).toBeLessThan(leastNs + 100e3);
  });

  it('nobody waits where it is not in use, and the run has no such latency', async () => {
    const run = await runText(again);
    expect(run.tierFetchMs).toBeNull();
    expect((await rowsOf(run.folder)).map(({ fetchNs }) => fetchNs)).toEqual([0, 0]);
    expect((await explainRequest(run.folder, 1)).filter(({ step }) => step === 'tier fetch')).toEqual([]);
  });
});

describe('under load', () => {
  const busy = [
    'workload.requests=80',
    'workload.source.arrivals={kind: poisson, ratePerSecond: 12}',
    'workload.source.inputTokens={kind: uniform, minTokens: 1, maxTokens: 300}',
    'workload.source.prefix.groups=6',
    'kvTiers={g2: {gigabytes: 0.8, workerBytesPerSecond: 6.0e+9}, g3: {gigabytes: 20, minimumFrequency: 1}}',
  ];

  it('prompts that do not wait for each other take their own prefill to the nanosecond, whoever else fetches or computes meanwhile', async () => {
    const run = await runText(again, [
      ...busy,
      'cluster.gpusPerServer=2',
      'serving=[{count: 1, role: prefill, prompts: independent, cacheBlocks: 0, timing: &linear {kind: linear, prefillMs: 20, prefillMsPerToken: 0.05, decodeMs: 10, decodeMsPerSequence: 0.1}}, {count: 1, role: decode, timing: *linear}]',
    ]);
    const { rows } = await queryRun(
      run.folder,
      `with parts as (select *, prefill_start_ns + tier_fetch_ns as computing_ns, tier_fetch_ns > 0 as waited from requests)
       select count(*), count(*) filter (waited),
         max(abs(prefill_end_ns - computing_ns - (20 + 0.05 * (input_tokens - cached_tokens)) * 1e6)),
         min(tier_fetch_ns - 100000 - greatest(cached_tokens_g2 / 6.0, cached_tokens_g3 / 10.0) * ${tokenBytes}) filter (waited),
         count(*) filter (waited and exists (select 1 from parts as other where other.request_id <> parts.request_id
           and other.computing_ns < parts.computing_ns and other.prefill_end_ns > parts.prefill_start_ns)),
         count(*) filter (waited and exists (select 1 from parts as other where other.request_id <> parts.request_id and other.waited
           and other.prefill_start_ns < parts.computing_ns and other.computing_ns > parts.prefill_start_ns)) from parts`,
    );
    const [requests, waited, computedOff, quicker, besidePrefill, besideFetch] = rows[0]!.map(Number);
    expect(requests).toBe(80);
    expect(computedOff).toBeLessThanOrEqual(0.5);
    // None is quicker than its device alone.
    expect(quicker).toBeGreaterThan(-1);
    for (const seen of [waited, besidePrefill, besideFetch]) expect(seen).toBeGreaterThan(15);
  });

  it('in batches the parts add up to TTFT to the nanosecond, the summary is that of the rows, and each view of the run shows the wait', async () => {
    const run = await runText(again, busy);
    const rows = (await rowsOf(run.folder)).filter(({ fetchNs }) => fetchNs > 0);
    expect(rows.length).toBeGreaterThan(15);
    for (const { queueNs, fetchNs, prefillNs: restNs, ttftNs } of rows) {
      expect(queueNs + fetchNs + restNs).toBe(ttftNs);
      // Some wait behind others, none computes in less than it takes.
      expect(restNs).toBeGreaterThanOrEqual(prefillNs(1));
    }
    expect(run.tierFetchMs?.mean).toBeCloseTo(rows.reduce((sum, { fetchNs }) => sum + fetchNs, 0) / rows.length / 1e6, 6);

    const { rows: ids } = await queryRun(run.folder, 'select request_id, tier_fetch_ns from requests where cached_tokens_g3 > 0 limit 1');
    const [request, fetchNs] = ids[0]!.map(Number) as [number, number];
    const steps = await explainRequest(run.folder, request);
    expect(steps.map(({ step }) => step)).toEqual([
      'arrival',
      'queue',
      'tier fetch',
      'tier fetch',
      'prefill',
      'prefill',
      'first token',
      'tokens',
      'end',
    ]);
    expect(steps[3]!.timeNs - steps[2]!.timeNs).toBe(fetchNs);
    expect(steps[2]!.text).toMatch(
      /^KV fetch from lower tiers started after [\d.]+ ms of waiting: tokens of (G2 \d+, )?G3 \d+, [\d.]+ MB$/,
    );
    expect(steps[3]!.text).toMatch(/^KV fetch ended after [\d.]+ ms \([\d.]+ GB\/s\)$/);

    const path = join(run.folder, 'trace.json');
    await exportTrace(run.folder, { requestIds: [request] }, path);
    const { traceEvents } = JSON.parse(readFileSync(path, 'utf8')) as {
      traceEvents: { name: string; ph: string; ts: number; dur: number }[];
    };
    const [fetched, computed] = ['KV fetch', 'prefill'].map((slice) => traceEvents.find(({ name, ph }) => name === slice && ph === 'X'));
    expect(fetched!.dur).toBeCloseTo(fetchNs / 1000, 6);
    expect(computed!.ts).toBeCloseTo(fetched!.ts + fetched!.dur, 6);

    const page = readFileSync(await writeReport(run.folder), 'utf8');
    expect(page).toContain('fetch of KV from lower tiers');
    const compared = compareRuns([run.folder, run.folder]).rows.find(({ name }) => name === 'tierFetchMs.p90');
    expect(compared?.values[0]).toBe(run.tierFetchMs?.p90);
  });
});
