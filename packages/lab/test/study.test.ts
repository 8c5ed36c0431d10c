import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { traceSetting } from '@braess/cluster';
import { runScenario, runStudy, studyNamed, studyNames } from '@braess/lab';
import { queryRun } from '@braess/telemetry';
import { afterAll, describe, expect, it } from 'vitest';
import { measureScenario } from '../src/measure-scenario.js';
import { searchBraess } from '../src/study/caching-games.js';

const folder = mkdtempSync(join(tmpdir(), 'braess-study-test-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const file = join(folder, 'scenario.yaml');
writeFileSync(
  file,
  `name: study
model: { name: Llama-3.1-8B }
serving:
  - { count: 2, role: prefill, blockTokens: 64 }
  - { count: 3, role: decode, blockTokens: 64 }
router: { loadReportMs: 100 }
planner: { policy: schedule, switchSeconds: 1, parameters: { changes: [{ atMs: 500, engine: pod0/rack0/node0/engine4, role: prefill }] } }
workload:
  requests: 90
  tenants: [{ name: a, share: 1 }, { name: b, share: 2 }]
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 30 }
    inputTokens: { kind: uniform, minTokens: 200, maxTokens: 2000 }
    outputTokens: { kind: uniform, minTokens: 1, maxTokens: 40 }
`,
);

describe('what a study measures', () => {
  it('keeps series, moves and the summaries of tenants, and runs as without them', async () => {
    const plain = await measureScenario({ file, settings: [] });
    const measured = await measureScenario({ file, settings: [], series: ['prefill_engines', 'moving_engines'] });
    expect(plain.series).toEqual({});
    expect(measured.summary.completed).toBe(90);
    expect(measured.moves).toMatchObject([
      { timeNs: 500e6, policy: 'schedule', target: 'pod0/rack0/node0/engine4', note: 'change to prefill' },
    ]);
    const { value } = measured.series.prefill_engines!;
    expect([value[0], value.at(-1)]).toEqual([2, 3]);
    expect(measured.series.moving_engines!.value).toContain(1);
    // An ordinary run tells its tenants apart in another way.
    const { folder: run, tenants } = await runScenario({ file, transport: 'memory', out: join(folder, 'run') });
    const long = await measureScenario({ file, settings: [], tenantOutputTokens: 20 });
    for (const { name, ...figures } of tenants!) {
      expect(measured.tenants[name]).toMatchObject(figures);
      // All gaps of a request are its last token less its first; all completed.
      const gaps = await queryRun(
        run,
        `select sum(last_token_ns - first_token_ns) / sum(output_tokens - 1) / 1e6 from requests where tenant = '${name}'`,
      );
      expect([[expect.closeTo(figures.itlMs!.mean, 9)]]).toEqual(gaps.rows);
      const rows = `from requests where tenant = '${name}' and output_tokens >= 20`;
      const found = await queryRun(run, `select count(*), avg(ttft_ms), sum(cached_tokens_g1) / sum(input_tokens) ${rows}`);
      const { completed, ttftMs, hitRates } = long.tenants[name]!;
      expect([[completed, expect.closeTo(ttftMs!.mean, 9), hitRates.g1]]).toEqual(found.rows);
    }
    expect(Object.keys(measured.tenants)).toEqual(['a', 'b']);
  });

  it('is no fault where all that came before a given end is done, and more would have come', async () => {
    const trace = join(folder, 'two.csv');
    writeFileSync(trace, 'arrival_s,input_tokens,output_tokens\n0.5,100,5\n60,100,5\n');
    const { summary } = await measureScenario({ file, settings: [traceSetting(trace), 'workload.tenants=[]', 'untilSeconds=5'] });
    expect([summary.submitted, summary.completed, summary.inFlight]).toEqual([1, 1, 0]);
  });

  it('is run by name, in the order of its tasks', async () => {
    expect(studyNames()).toEqual(expect.arrayContaining(['caching', 'cascade', 'oscillation', 'regimes']));
    expect(studyNamed('nothing')).toBeUndefined();
    const seen: number[] = [];
    const report = await runStudy(
      {
        name: 'made',
        title: 'Made',
        async run({ measureAll }) {
          const runs = await measureAll([10, 20, 30].map((requests) => ({ file, settings: [`workload.requests=${requests}`] })));
          return { tables: [], finding: runs.map(({ summary }) => summary.completed).join(' ') };
        },
      },
      { quick: true, parallel: 1, onProgress: ({ runsDone }) => void seen.push(runsDone) },
    );
    expect(report).toMatchObject({ finding: '10 20 30', runs: 3 });
    expect(seen).toEqual([1, 2, 3]);
  });
});

describe('Braess search', () => {
  it('finds no game on one server in which a further cache hurts the others at the best equilibrium, and some on a line', () => {
    const { rows } = searchBraess(300);
    const of = (topology: string) => rows.find((row) => row.topology.startsWith(topology))!;
    expect(of('one NVLink').best).toBe(0);
    expect(of('line').best).toBeGreaterThan(0);
  });
});
