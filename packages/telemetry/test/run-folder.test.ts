import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  closeRunFolder,
  compareRuns,
  explainRequest,
  exportTrace,
  type FolderSummary,
  histogramQuantile,
  makeFreeFolder,
  openRunDatabase,
  queryRun,
  readManifest,
  readSummary,
  writeReport,
} from '@braess/telemetry';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clusterNames, type SyntheticRun, writeSyntheticRun } from './synthetic.js';

const parent = mkdtempSync(join(tmpdir(), 'runs-'));
const first = join(parent, "it's a run");
const second = join(parent, 'slow');
const facts = { fingerprint: '0123456789abcdef', wallSeconds: 0.5, events: 100, peakRssMb: 99 };
let written: SyntheticRun;
let summary: FolderSummary;

beforeAll(() => {
  written = writeSyntheticRun(first, 10_000, 5, { keep: true });
  summary = closeRunFolder(written.run, written.itl, facts, { simulatedNs: written.simulatedNs });
  const slow = writeSyntheticRun(second, 1000, 5, { slow: 2 });
  closeRunFolder(slow.run, slow.itl, { ...facts, fingerprint: 'feedbeef' }, { simulatedNs: slow.simulatedNs, status: 'interrupted' });
});
afterAll(() => rmSync(parent, { recursive: true, force: true }));

describe('run folder', () => {
  it.runIf(existsSync('/dev/full'))('on a full disk: the error names the file and says what to do', () => {
    const full = join(parent, 'full');
    mkdirSync(full);
    symlinkSync('/dev/full', join(full, 'requests.parquet.partial'));
    const { run, itl } = writeSyntheticRun(full, 10, 5);
    expect(() => closeRunFolder(run, itl, facts)).toThrow(
      /^cannot write .*requests\.parquet: ENOSPC: .*; make room there, or give another folder \(--out\)$/,
    );
  });

  it('one each for those that begin at the same time, and none over another', () => {
    const start = join(parent, 'below', 'free');
    expect([1, 2, 3].map(() => makeFreeFolder(start))).toEqual([1, 2, 3].map((number) => `${start}-${number}`));
    expect(() => makeFreeFolder(join(first, 'manifest.json', 'free'))).toThrow('manifest.json is a file; give another folder');
    const before = readFileSync(join(first, 'manifest.json'), 'utf8');
    expect(() => writeSyntheticRun(first, 10, 5)).toThrow('already holds a run (manifest.json); give another folder or remove it first');
    expect(readFileSync(join(first, 'manifest.json'), 'utf8')).toBe(before);
  });

  it('stores every request as it was recorded', async () => {
    const { rows } = await queryRun(
      first,
      `select request_id, outcome, prefill_worker, decode_worker, network_tier, input_tokens, cached_tokens_g2, transfer_bytes, arrival_ns, first_token_ns, end_ns
       from requests order by request_id`,
    );
    const names = clusterNames();
    const tiers = ['same node', 'same rack', 'other rack'];
    const outcomes = ['in_flight', 'completed', 'rejected', 'failed'];
    expect(rows).toEqual(
      written.records.map((r) => [
        r.requestId,
        outcomes[r.outcome],
        names[r.prefillWorkerId] ?? null,
        names[r.decodeWorkerId] ?? null,
        tiers[r.networkTier] ?? null,
        r.inputTokens,
        r.cachedTokensG2,
        r.transferBytes,
        r.arrivalNs,
        r.firstTokenNs < 0 ? null : r.firstTokenNs,
        r.endNs,
      ]),
    );
  });

  it('has the summary that DuckDB computes from the files', async () => {
    const { rows } = await queryRun(
      first,
      `select count(*), count(*) filter (where outcome = 'completed'), count(*) filter (where outcome = 'failed'),
        sum(output_tokens) filter (where outcome = 'completed'),
        count(*) filter (where outcome = 'completed' and ttft_ms <= 2000 and coalesce(tpot_ms, 0) <= 40),
        sum(cached_tokens_g1) filter (where prefill_start_ns is not null) / sum(input_tokens) filter (where prefill_start_ns is not null) from requests`,
    );
    const [submitted, completed, failed, tokens, good, g1] = rows[0] as number[];
    expect(summary).toMatchObject({ submitted, completed, failed, ...facts });
    expect(summary.outputTokensPerSecond).toBeCloseTo(tokens! / summary.simulatedSeconds, 6);
    expect(summary.goodput).toBeCloseTo(good! / summary.simulatedSeconds, 9);
    expect(summary.hitRates.g1).toBeCloseTo(g1!, 12);
    for (const [key, column] of [
      ['ttftMs', 'ttft_ms'],
      ['tpotMs', 'tpot_ms'],
      ['e2eMs', 'e2e_ms'],
      ['transferMs', 'transfer_ms'],
    ] as const) {
      const result = await queryRun(
        first,
        `select avg(${column}), quantile_cont(${column}, 0.5), quantile_cont(${column}, 0.9), quantile_cont(${column}, 0.99) from requests where outcome = 'completed'`,
      );
      const ours = summary[key]!;
      [ours.mean, ours.p50, ours.p90, ours.p99].forEach((value, i) => {
        expect(value / Number(result.rows[0]![i])).toBeCloseTo(1, 9);
      });
    }
    expect(summary.submitted).toBe(summary.completed + summary.rejected + summary.failed + summary.inFlight);
    expect(summary.itlMs!.p90).toBe(histogramQuantile(written.itl, 0.9) * 1e-6);
  });

  it('gives decisions and series as SQL views with NULL for what was not seen', async () => {
    const database = await openRunDatabase(first);
    try {
      const seen = await database.query(
        'select count(*), count(distinct decision_id), count(overlap_blocks), count(congestion), count(*) filter (where chosen) from decisions where request_id = 17',
      );
      expect(seen.rows).toEqual([[6, 2, 3, 3, 2]]);
      const { rows } = await database.query('select metric, count(distinct entity), count(*) from series group by metric order by metric');
      expect(rows).toContainEqual(['gpu_use', 64, 64 * 120]);
      expect(rows).toContainEqual(['output_tokens_per_second', 0, 120]);
      // Queries started together do not disturb each other.
      const many = await Promise.all([1, 2, 3].map((n) => database.query(`select ${n} from range(5000)`)));
      expect(many.map((result) => result.rows.length)).toEqual([5000, 5000, 5000]);
    } finally {
      database.close();
    }
  });

  it('writes manifest and summary, and refuses to write over a run', () => {
    expect(readManifest(first)).toMatchObject({ format: 2, status: 'complete', seed: '5', fingerprint: facts.fingerprint });
    expect(readManifest(first).tables.requests!.rows).toBe(10_000);
    expect(readManifest(second).status).toBe('interrupted');
    expect(readSummary(first)).toEqual(summary);
    expect(() => writeSyntheticRun(first, 1, 1)).toThrow(/already holds a run/);
  });

  it('says what is wrong with a folder that is no finished run', async () => {
    await expect(queryRun(join(parent, 'nothing'), 'select 1')).rejects.toThrow(/manifest.json is missing/);
    const killed = join(parent, 'killed');
    writeSyntheticRun(killed, 10, 1);
    expect(readManifest(killed).status).toBe('running');
    await expect(queryRun(killed, 'select 1')).rejects.toThrow(/no requests.parquet: the run was killed/);
    const broken = join(parent, 'broken');
    mkdirSync(broken);
    writeFileSync(join(broken, 'manifest.json'), '{');
    expect(() => readManifest(broken)).toThrow(/not valid JSON/);
    writeFileSync(join(broken, 'manifest.json'), '{"format": 99}');
    expect(() => readManifest(broken)).toThrow(/format 99/);
    await expect(queryRun(first, 'select nonsense from requests')).rejects.toThrow(/nonsense/);
  });
});

describe('docs/results.md', () => {
  it('names every column of the files, and of the views over them', async () => {
    const page = readFileSync(new URL('../../../docs/results.md', import.meta.url), 'utf8');
    for (const table of ['requests', 'series', 'decisions']) {
      const file = join(first, `${table}.parquet`).replaceAll("'", "''");
      const columnsOf = async (source: string): Promise<unknown[]> =>
        (await queryRun(first, `select column_name from (describe select * from ${source})`)).rows.map(([name]) => name);
      const [stored, viewed] = [await columnsOf(`read_parquet('${file}')`), await columnsOf(table)];
      expect(viewed.slice(0, stored.length)).toEqual(stored);
      for (const name of viewed) expect(page, `${table}.${String(name)}`).toContain(`\`${String(name)}\``);
    }
  });
});

describe('compareRuns', () => {
  it('sets runs side by side with deltas against the first', () => {
    const comparison = compareRuns([first, second]);
    const slow = readSummary(second);
    const p99 = comparison.rows.find((row) => row.name === 'ttftMs.p99')!;
    expect(p99.values).toEqual([summary.ttftMs!.p99, slow.ttftMs!.p99]);
    expect(p99.deltas).toEqual([0, slow.ttftMs!.p99 - summary.ttftMs!.p99]);
    expect(p99.deltaPercents[1]).toBeCloseTo((slow.ttftMs!.p99 / summary.ttftMs!.p99 - 1) * 100, 9);
    expect(comparison.fingerprints).toEqual([facts.fingerprint, 'feedbeef']);
    // G4 is never hit in these runs: no percentage of nothing.
    expect(comparison.rows.find((row) => row.name === 'hitRates.g4')!.deltaPercents).toEqual([null, null]);
    expect(() => compareRuns([first])).toThrow(/at least two/);
  });
});

describe('explainRequest', () => {
  it('tells one request in order, with what each decision saw', async () => {
    const record = written.records[17]!;
    const lines = await explainRequest(first, 17);
    expect(lines.map((line) => line.step)).toEqual([
      'arrival',
      'decision',
      'queue',
      'prefill',
      'decision',
      'prefill',
      'transfer',
      'transfer',
      'first token',
      'tokens',
      'end',
    ]);
    expect(lines.map((line) => line.timeNs)).toEqual([...lines.map((line) => line.timeNs)].sort((a, b) => a - b));
    const decision = lines[1]!;
    expect(decision.candidates).toHaveLength(3);
    expect(decision.candidates.filter((candidate) => candidate.chosen).map((candidate) => candidate.name)).toEqual([
      clusterNames()[record.prefillWorkerId],
    ]);
    expect(decision.text).toContain('prefill route by policy kv');
    const ttft = ((record.firstTokenNs - record.arrivalNs) / 1e6).toFixed(3);
    expect(lines.find((line) => line.step === 'first token')!.text).toBe(`first token: TTFT ${ttft} ms`);
    expect(lines.at(-1)!.text).toContain('completed: E2E');
  });

  it('tells why a request failed and names a request that is not there', async () => {
    const lines = await explainRequest(first, 77);
    expect(lines.at(-1)!.text).toBe('failed (worker lost)');
    await expect(explainRequest(first, 10_000)).rejects.toThrow(/no request 10000; its 10000 requests have ids 0 to 9999/);
    await expect(explainRequest(first, Number.NaN)).rejects.toThrow(/not a whole number/);
  });
});

describe('trace export', () => {
  it('writes valid trace events of chosen requests and entities', async () => {
    const path = join(parent, 'trace.json');
    const gpu = clusterNames()[20]!;
    const count = await exportTrace(first, { requestIds: [17, 18], entities: [gpu] }, path);
    const { traceEvents } = JSON.parse(readFileSync(path, 'utf8')) as { traceEvents: Record<string, unknown>[] };
    expect(traceEvents).toHaveLength(count);
    const record = written.records[17]!;
    const pids = new Map(traceEvents.filter((e) => e.name === 'process_name').map((e) => [(e.args as { name: string }).name, e.pid]));
    const decode = traceEvents.find(
      (e) => e.name === 'decode' && e.pid === pids.get('requests') && (e.args as { request: number }).request === 17,
    )!;
    expect(decode).toMatchObject({ ph: 'X', ts: record.firstTokenNs / 1000, dur: (record.lastTokenNs - record.firstTokenNs) / 1000 });
    expect(pids.has(clusterNames()[record.prefillWorkerId]!)).toBe(true);
    const samples = traceEvents.filter((e) => e.ph === 'C' && e.pid === pids.get(gpu));
    expect(samples).toHaveLength(120);
    const arrows = traceEvents.filter((e) => e.ph === 's' || e.ph === 'f').map((e) => `${e.ph}${e.id}`);
    expect(arrows.sort()).toEqual(['f17', 'f18', 's17', 's18']);
    await expect(exportTrace(first, {}, path)).rejects.toThrow(/nothing chosen/);
    await expect(exportTrace(first, { requestIds: [99_999] }, path)).rejects.toThrow(/no request 99999/);
    await expect(exportTrace(first, { entities: ['gpu/none'] }, path)).rejects.toThrow(/no series of "gpu\/none"/);
  });
});

describe('report', () => {
  it('is one page of static SVG that loads nothing', async () => {
    const path = await writeReport(first);
    const page = readFileSync(path, 'utf8');
    expect(page).not.toMatch(/<script|<link|@import|src=|url\(|href="http/);
    expect(
      [...page.matchAll(/https?:\/\/[^"'\s<]+/g)].map((match) => match[0]).filter((url) => url !== 'http://www.w3.org/2000/svg'),
    ).toEqual([]);
    for (const heading of [
      'Latency',
      'Where the time to first token goes',
      'Timelines',
      'Topology',
      'Prefix cache',
      'Hot spots and balance',
      'Decisions',
      'did not complete',
    ]) {
      expect(page).toContain(heading);
    }
    expect(page.match(/<svg/g)!.length).toBeGreaterThanOrEqual(16);
    // 64 GPUs in the heat map, each with its name and value.
    expect(page.match(/<title>[^<]*gpu\d+: [\d.]+ %<\/title>/g)).toHaveLength(64);
    expect(page).not.toMatch(/NaN|undefined|Infinity|\u26a0/);
    expect(page.length).toBeLessThan(1_000_000);
  });

  it('escapes names and works on a run in which nothing completed', async () => {
    const { openRunFolder, createLatencyHistogram, appendRequest, emptyRequestRecord, OUTCOME, REASON } = await import('@braess/telemetry');
    const empty = join(parent, 'empty');
    const run = openRunFolder({
      folder: empty,
      scenario: { name: '<img src=x>' },
      seed: '1',
      versions: {},
      names: { actors: [], tenants: ['t'], networkTiers: [], metrics: [], policies: [], notes: [] },
    });
    appendRequest(run.requests, { ...emptyRequestRecord(), outcome: OUTCOME.rejected, reason: REASON.tooLong, arrivalNs: 1, endNs: 1 });
    closeRunFolder(run, createLatencyHistogram(), facts);
    const page = readFileSync(await writeReport(empty), 'utf8');
    // Plot marks its own complaints with this sign.
    expect(page).not.toContain('\u26a0');
    expect(page).toContain('&lt;img src=x&gt;');
    expect(page).not.toContain('<img');
    expect(page).toContain('too_long');
    expect(existsSync(join(empty, 'report.html'))).toBe(true);
  });
});
