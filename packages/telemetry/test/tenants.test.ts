import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  appendRequest,
  closeRunFolder,
  compareRuns,
  createLatencyHistogram,
  createRequestColumns,
  emptyRequestRecord,
  MOST_TENANTS,
  OUTCOME,
  openRunFolder,
  queryRun,
  type RequestRecord,
  type RunSummary,
  readSummary,
  SERIES_METRICS,
  type Slo,
  summarize,
  type TenantFigures,
  writeReport,
} from '@braess/telemetry';
import { afterAll, describe, expect, it } from 'vitest';

const MS = 1e6;
const parent = mkdtempSync(join(tmpdir(), 'tenants-'));
afterAll(() => rmSync(parent, { recursive: true, force: true }));

/** Requests of all outcomes; every third completed one has a single token. */
function made(count: number, tenants: number): RequestRecord[] {
  return Array.from({ length: count }, (_, id) => {
    const dice = (id * 2654435761) % 1000;
    const arrivalNs = id * 10 * MS;
    const given = { ...emptyRequestRecord(), requestId: id, tenantId: Math.floor(dice / 7) % tenants, arrivalNs, inputTokens: 100 };
    if (dice % 10 === 0) return { ...given, outcome: OUTCOME.rejected, endNs: arrivalNs };
    if (dice % 10 === 1) return { ...given, outcome: OUTCOME.failed, endNs: arrivalNs + MS };
    if (dice % 10 === 2) return { ...given, outcome: OUTCOME.inFlight };
    const outputTokens = dice % 3 === 0 ? 1 : 2 + (dice % 50);
    const firstTokenNs = arrivalNs + (5 + dice) * MS + dice;
    const lastTokenNs = firstTokenNs + (outputTokens - 1) * (3 * MS + 7 * dice);
    const times = { prefillStartNs: arrivalNs + MS, prefillEndNs: arrivalNs + 2 * MS, firstTokenNs, lastTokenNs, endNs: lastTokenNs };
    return { ...given, ...times, outcome: OUTCOME.completed, outputTokens, maxItlNs: outputTokens > 1 ? 3 * MS + 7 * dice : -1 };
  });
}

const COUNTS = ['submitted', 'completed', 'rejected', 'failed', 'inFlight'] as const;
const RATES = ['requestsPerSecond', 'outputTokensPerSecond', 'goodput'] as const;

function expectSums(summary: RunSummary): void {
  const all: TenantFigures[] = [...summary.tenants!, ...(summary.otherTenants === undefined ? [] : [summary.otherTenants])];
  const sum = (key: (typeof COUNTS)[number] | (typeof RATES)[number]): number =>
    all.reduce((total, figures) => total + (figures[key] ?? 0), 0);
  for (const key of COUNTS) expect(sum(key), key).toBe(summary[key]);
  for (const key of RATES) expect(sum(key), key).toBeCloseTo(summary[key]!, 9);
}

function summaryOf(records: readonly RequestRecord[], names: readonly string[], tenantSlos = new Map<number, Slo>()): RunSummary {
  const columns = createRequestColumns(100_000, 64);
  for (const record of records) appendRequest(columns, record);
  return summarize(columns, createLatencyHistogram(), { tenantNames: names, tenantSlos, warmupNs: 1e9, simulatedNs: 20e9 });
}

describe('tenants of a summary', () => {
  it('add up to the whole run, each with its own SLO', () => {
    const slos = new Map<number, Slo>([
      [0, { ttftMs: 400 }],
      [2, { itlMs: 5 }],
    ]);
    const records = made(1000, 3);
    const summary = summaryOf(records, ['a', 'b', 'c'], slos);
    expect(summary.tenants!.map(({ name }) => name)).toEqual(['a', 'b', 'c']);
    expect(summary.otherTenants).toBeUndefined();
    expectSums(summary);
    expect(summary.tenants![1]).toMatchObject({ goodput: null, sloAttainment: null });
    const ended = records.filter((r) => r.tenantId === 0 && r.arrivalNs >= 1e9 && r.outcome !== OUTCOME.inFlight);
    const good = ended.filter((r) => r.outcome === OUTCOME.completed && r.firstTokenNs - r.arrivalNs <= 400 * MS);
    expect(summary.tenants![0]).toMatchObject({ goodput: good.length / 19, sloAttainment: good.length / ended.length });
  });

  it('are not told of where there is one', () => {
    const summary = summaryOf(made(100, 1), ['default']);
    expect(summary).not.toHaveProperty('tenants');
    expect(summary).not.toHaveProperty('otherTenants');
  });

  it('one that submitted nothing has zeros and no latencies', () => {
    const idle = summaryOf(made(100, 1), ['a', 'idle']).tenants![1]!;
    expect(idle).toMatchObject({ name: 'idle', submitted: 0, requestsPerSecond: 0, ttftMs: null, tpotMs: null, e2eMs: null });
  });

  it('of thousands have an entry each where they submit most, and one together', () => {
    const names = Array.from({ length: 5000 }, (_, tenant) => `t${tenant}`);
    // The last hundred submit as many requests as their number among the hundred, all others of them one.
    const records = made(6000, 1).map((record, id) => ({
      ...record,
      tenantId: id < 950 ? id : 4900 + (Math.floor(Math.sqrt(2 * (id - 950))) % 100),
    }));
    const submitted = new Float64Array(5000);
    for (const { tenantId } of records) submitted[tenantId]!++;
    const summary = summaryOf(records, names, new Map([[4999, { ttftMs: 400 }]]));
    expectSums(summary);
    expect(summary.tenants).toHaveLength(MOST_TENANTS);
    const sizes = summary.tenants!.map((tenant) => tenant.submitted);
    expect(sizes).toEqual(sizes.toSorted((one, other) => other - one));
    const least = Math.min(...sizes);
    const told = new Set(summary.tenants!.map(({ name }) => name));
    for (const [tenant, name] of names.entries()) if (!told.has(name)) expect(submitted[tenant]).toBeLessThanOrEqual(least);
    const others = records.filter((r) => !told.has(names[r.tenantId]!) && r.arrivalNs >= 1e9 && r.outcome === OUTCOME.completed);
    const ttftMs = others.map((r) => (r.firstTokenNs - r.arrivalNs) / MS).sort((one, other) => one - other);
    expect(summary.otherTenants!.tenants).toBe(5000 - MOST_TENANTS);
    expect(summary.otherTenants!.ttftMs!.mean).toBeCloseTo(ttftMs.reduce((sum, each) => sum + each, 0) / ttftMs.length, 6);
    expect(summary.otherTenants!.ttftMs!.p99).toBeGreaterThanOrEqual(ttftMs[Math.floor(0.99 * (ttftMs.length - 1))]!);
    expect(summary.otherTenants!.ttftMs!.p99).toBeLessThanOrEqual(ttftMs[Math.ceil(0.99 * (ttftMs.length - 1))]!);
  });

  it('refuse a request of none of them', () => {
    expect(() => summaryOf(made(10, 5), ['a', 'b'])).toThrow(/is of tenant \d, but the run has 2 tenants/);
  });
});

function written(name: string, tenants: readonly string[]): string {
  const folder = join(parent, name);
  const run = openRunFolder({
    folder,
    scenario: { name, warmupSeconds: 1 },
    seed: '1',
    versions: {},
    names: { actors: [], tenants, networkTiers: [], metrics: SERIES_METRICS, policies: [], notes: [] },
    summary: { slo: { ttftMs: 500 }, warmupNs: 1e9 },
  });
  for (const record of made(2000, tenants.length)) appendRequest(run.requests, record);
  closeRunFolder(run, createLatencyHistogram(), { fingerprint: 'f', wallSeconds: 1, events: 1, peakRssMb: 1 }, { simulatedNs: 25e9 });
  return folder;
}

describe('tenants of a run folder', () => {
  it('agree with SQL over its rows', async () => {
    const folder = written('sql', ['x', 'y', 'z']);
    const { rows } = await queryRun(
      folder,
      `select tenant, count(*), count(*) filter (where outcome = 'completed'), count(*) filter (where outcome = 'in_flight'),
         sum(output_tokens) filter (where late and outcome = 'completed') / 24, ${['ttft_ms', 'tpot_ms', 'e2e_ms']
           .map(
             (column) =>
               `avg(${column}) filter (where late and outcome = 'completed'), ${[0.5, 0.9, 0.99].map((q) => `quantile_cont(${column}, ${q}) filter (where late and outcome = 'completed')`).join()}`,
           )
           .join()}
       from (select *, arrival_ns >= 1000000000 as late from requests) group by tenant order by tenant`,
    );
    const tenants = readSummary(folder).tenants!;
    expect(tenants.map(({ name }) => name)).toEqual(rows.map(([name]) => name));
    for (const [index, tenant] of tenants.entries()) {
      const latencies = [tenant.ttftMs!, tenant.tpotMs!, tenant.e2eMs!].flatMap(({ mean, p50, p90, p99 }) => [mean, p50, p90, p99]);
      const values = [tenant.submitted, tenant.completed, tenant.inFlight, tenant.outputTokensPerSecond, ...latencies];
      for (const [column, value] of values.entries()) expect(value).toBeCloseTo(Number(rows[index]![column + 1]), 5);
    }
  });

  it('are matched by name in a comparison, and stand in the report', async () => {
    const [one, other] = [written('one', ['x', 'y']), written('other', ['y', 'only'])];
    const { rows } = compareRuns([one, other]);
    const row = (name: string): unknown => rows.find((each) => each.name === name);
    const p99 = [readSummary(one).tenants![1]!.ttftMs!.p99, readSummary(other).tenants![0]!.ttftMs!.p99] as const;
    expect(row('tenants.y.ttftMs.p99')).toMatchObject({ tenant: 'y', values: p99, deltas: [0, p99[1] - p99[0]] });
    expect(row('tenants.only.completed')).toMatchObject({
      values: [null, readSummary(other).tenants![1]!.completed],
      deltas: [null, null],
    });
    const page = readFileSync(await writeReport(one), 'utf8');
    expect(page).toMatch(/<h2>Tenants<\/h2>.*<td>x<\/td>.*<td>y<\/td>/s);
  });
});
