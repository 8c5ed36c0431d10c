import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { braess } from './braess-process.js';
import { actors, makeRun } from './made-run.js';
import { temporaryFolder } from './temporary-folder.js';

const folder = temporaryFolder();
const first = folder.path('first');
const slow = folder.path('slow');
const twin = folder.path('twin');
const damaged = folder.path('damaged');

beforeAll(() => {
  makeRun(first);
  makeRun(slow, { gapMs: 20, fingerprint: 'feedbeef00000000' });
  makeRun(twin);
  mkdirSync(damaged);
  folder.file('damaged/manifest.json', '{"format": 1');
  mkdirSync(folder.path('plain'));
});

async function printed(...words: string[]): Promise<string> {
  const { code, out, err } = await braess(words);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return out;
}

async function json(...words: string[]): Promise<unknown> {
  const out = await printed(...words, '--json');
  expect(out.trimEnd().split('\n')).toHaveLength(1);
  return JSON.parse(out);
}

describe('braess query', () => {
  it('prints rows as JSON objects, 64-bit integers, lists and repeated names included', async () => {
    expect(
      await json('query', first, 'select request_id as id, ttft_ms, e2e_ms, transfer_bytes, network_tier from requests order by 1'),
    ).toEqual([
      { id: 0, ttft_ms: 50, e2e_ms: 90, transfer_bytes: 50e6, network_tier: 'same rack' },
      { id: 1, ttft_ms: 150, e2e_ms: 170, transfer_bytes: 0, network_tier: null },
      { id: 2, ttft_ms: null, e2e_ms: null, transfer_bytes: 0, network_tier: null },
      { id: 3, ttft_ms: null, e2e_ms: null, transfer_bytes: 0, network_tier: null },
    ]);
    expect(
      await json('query', first, 'select sum(input_tokens) as a, [1::bigint, 2] as b, 9007199254740993 as c, 4 as a from requests'),
    ).toEqual([{ a: 1520, b: [1, 2], c: '9007199254740993', 'a:1': 4 }]);
    expect(await json('query', first, 'select * from series where value > 1')).toEqual([]);
  });

  it('prints an aligned table with the number of rows', async () => {
    const out = await printed(
      'query',
      first,
      'select outcome, count(*) as requests, max(tpot_ms) as slowest from requests group by all order by 1',
    );
    expect(out).toBe(
      [
        '┌───────────┬──────────┬─────────┐',
        '│ outcome   │ requests │ slowest │',
        '├───────────┼──────────┼─────────┤',
        '│ completed │        2 │      20 │',
        '│ failed    │        1 │    NULL │',
        '│ rejected  │        1 │    NULL │',
        '└───────────┴──────────┴─────────┘',
        '3 rows\n',
      ].join('\n'),
    );
    expect(await printed('query', first, 'select range from range(1500)')).toContain(
      '1,500 rows, the last 500 not shown: --json prints all',
    );
  });

  it('ends quietly when its reader has seen enough', () => {
    const command = fileURLToPath(new URL('../bin/braess.js', import.meta.url));
    const script = `'${process.execPath}' '${command}' query '${first}' 'select range from range(300000)' --json | head -c 12; exit "\${PIPESTATUS[0]}"`;
    const { status, stdout, stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8' });
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '[{"range":0}', stderr: '' });
  });

  it.each([
    ['select nonsense from requests', 'error: SQL: Binder Error: Referenced column "nonsense" not found'],
    ['select * from nowhere', 'error: SQL: Catalog Error: Table with name nowhere does not exist'],
    ['selekt', 'error: SQL: Parser Error: syntax error'],
    [' ', 'error: SQL: the query is empty'],
    [';', 'error: SQL: the query is empty'],
    ['select 1; select 2', 'error: SQL: these are 2 statements'],
    ['select range from range(1000001)', 'error: SQL: the query returns more than 1000000 rows'],
  ])('refuses %j with exit code 2 and names the tables', async (sql, message) => {
    const { code, out, err } = await braess(['query', first, sql]);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(message);
    expect(err).toContain('Tables: requests, series, decisions. Their columns: braess query RUN "describe requests"');
  });
});

describe('braess compare', () => {
  it('prints values, differences and percentages', async () => {
    const comparison = (await json('compare', first, slow)) as { rows: { name: string }[] };
    expect(comparison).toMatchObject({ folders: [first, slow], fingerprints: ['0123456789abcdef', 'feedbeef00000000'] });
    // Gaps of 10 ms (four) and 20 ms against five of 20 ms.
    expect(comparison.rows.find(({ name }) => name === 'itlMs.mean')).toEqual({
      name: 'itlMs.mean',
      unit: 'ms',
      better: 'lower',
      values: [12, 20],
      deltas: [0, 8],
      deltaPercents: [0, expect.closeTo((100 * 8) / 12, 9)],
    });
    const out = await printed('compare', first, slow, twin);
    expect(out).toContain(`A  0123456789abcdef  ${first}\nB  feedbeef00000000  ${slow}\nC  0123456789abcdef  ${twin}\n`);
    expect(out).toMatch(/│ itlMs\.mean +│ ms +│ +12 │ +20 │ +\+8 │ +\+66\.67 │ +12 │ +0 │ +0\.00 │/);
    expect(out).toMatch(/│ e2eMs\.mean +│ ms +│ +130 │ +150 │ +\+20 │ +\+15\.38 │/);
    const table = out.split('\n').filter((line) => /^[│┌├└]/.test(line));
    expect(new Set(table.map((line) => line.length)).size).toBe(1);
    expect(out).not.toContain('identical');
    expect(await printed('compare', first, twin)).toContain('All fingerprints are the same');
  });

  it('says which requests were not the same, one by one, also in JSON', async () => {
    const made = (name: string, run: Parameters<typeof makeRun>[1]): string => {
      makeRun(folder.path(name), run);
      return folder.path(name);
    };
    const differing = [
      // Of the four requests two complete: the outputs of the others say nothing.
      made('prompts', { change: ({ inputTokens }) => ({ inputTokens: inputTokens - 1 }) }),
      made('outputs', { change: ({ outputTokens }) => ({ outputTokens: outputTokens + 1 }) }),
      made('arrivals', { change: ({ requestId, arrivalNs }) => ({ arrivalNs: arrivalNs + requestId }) }),
      made('numbers', { change: ({ requestId }) => ({ requestId: requestId === 3 ? 4 : requestId }) }),
      made('measures', { scenario: { warmupSeconds: 5, workload: { slo: { ttftMs: 100 } } } }),
    ];
    const { err } = await braess(['compare', first, ...differing]);
    expect(err.split('\n').slice(0, -1)).toEqual([
      'note: B, unlike A, had other requests: 4 of the 4 requests of both had prompts of another length',
      'note: C, unlike A, had other requests: 2 of the 4 requests of both completed with outputs of another length',
      'note: D, unlike A, had other arrivals: 3 of the 4 requests of both were sent at another time (another rate or seed, or clients that wait for answers)',
      "note: E, unlike A, had other requests: 1 of A's missing, 1 more",
      'note: F, unlike A, was measured otherwise: warmupSeconds is 5, not null',
      'note: F, unlike A, was measured otherwise: workload.slo is {"ttftMs":100}, not null',
    ]);
    const { notices } = (await json('compare', first, ...differing)) as {
      notices: { run: number; about: string; requests: number | null }[];
    };
    expect(notices.map(({ run, about, requests }) => [run, about, requests])).toEqual([
      [1, 'prompts', 4],
      [2, 'outputs', 2],
      [3, 'arrivals', 3],
      [4, 'requests', 2],
      [5, 'measure', null],
      [5, 'measure', null],
    ]);
    expect(await braess(['compare', first, slow])).toMatchObject({ err: '' });
    expect(await json('compare', first, slow)).toMatchObject({ notices: [] });
  });

  it('needs two runs', async () => {
    const { code, err } = await braess(['compare', first]);
    expect(code).toBe(2);
    expect(err).toContain('error: RUN: compare needs two or more run folders, got 1; add another');
  });
});

describe('braess explain', () => {
  it('tells the life of a request, with what the router saw', async () => {
    const { run, request, steps } = (await json('explain', first, '0')) as {
      run: string;
      request: number;
      steps: { step: string; sinceArrivalMs: number; candidates: { name: string; chosen: boolean; score: number }[] }[];
    };
    expect({ run, request }).toEqual({ run: first, request: 0 });
    expect(steps.map(({ step, sinceArrivalMs }) => [step, sinceArrivalMs])).toEqual([
      ['arrival', 0],
      ['decision', 0],
      ['queue', 1],
      ['prefill', 10],
      ['prefill', 40],
      ['transfer', 41],
      ['transfer', 42],
      ['first token', 50],
      ['tokens', 90],
      ['end', 90],
    ]);
    expect(steps[1]?.candidates).toMatchObject([
      { name: actors[0], chosen: true, score: 12.5 },
      { name: actors[1], chosen: false, score: 20 },
    ]);
  });

  it('prints a line a step and a table a decision', async () => {
    const out = await printed('explain', first, '0');
    expect(out).toContain(
      `request 0 of ${first}, times since its arrival\n +0.000 ms  arrival      arrived from tenant default with 1000 input tokens\n`,
    );
    expect(out).toContain(`decision     ${actors[2]}: prefill route by policy kv: chose ${actors[0]} of 2\n`);
    expect(out).toMatch(/ {25}│ candidate +│ +│ +score │ overlap blocks │\n/);
    expect(out).toMatch(new RegExp(` {25}│ ${actors[0]} │ chosen │ 12\\.500 │ +4 │\n`));
    expect(out).toContain(`+50.000 ms  first token  ${actors[1]}: first token: TTFT 50.000 ms\n`);
    expect(await printed('explain', first, '3')).toMatch(/\+100\.000 ms {2}end {6}failed \(worker lost\)\n$/);
  });

  it.each([
    ['4', 'has no request 4; its 4 requests have ids 0 to 3'],
    ['one', "error: command-argument value 'one' is invalid for argument 'REQUEST'. It must be a whole number from 0 to 2147483647."],
  ])('refuses request %s with exit code 2', async (request, message) => {
    const { code, out, err } = await braess(['explain', first, request]);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(message);
  });
});

describe('braess report', () => {
  it('writes the page into the run folder, or where --out says', async () => {
    expect(await json('report', first)).toEqual({ path: `${first}/report.html` });
    const elsewhere = folder.path('page.html');
    expect(await printed('report', slow, '--out', elsewhere)).toBe(`report written to ${elsewhere}\n`);
    expect(existsSync(`${slow}/report.html`)).toBe(false);
    for (const path of [`${first}/report.html`, elsewhere]) expect(readFileSync(path, 'utf8')).toMatch(/^<!doctype html>[\s\S]*made-up/i);
  });
});

describe('braess export', () => {
  const out = folder.path('trace.json');

  it('writes a trace of the chosen requests and GPUs', async () => {
    const { events } = (await json('export', first, '--requests', '0, 1,0', '--gpus', actors[3], '--out', out)) as { events: number };
    const { traceEvents } = JSON.parse(readFileSync(out, 'utf8')) as { traceEvents: Record<string, unknown>[] };
    expect(traceEvents).toHaveLength(events);
    const prefills = traceEvents.filter(({ name, ph }) => name === 'prefill' && ph === 'X');
    // Each on the request's track and on its worker's: 10 ms after the arrival at 100 ms for 30 ms, and at 200 ms for 150 ms; times in us.
    expect(prefills.map(({ ts, dur }) => [ts, dur])).toEqual([
      [110_000, 30_000],
      [110_000, 30_000],
      [200_000, 150_000],
      [200_000, 150_000],
    ]);
    const samples = traceEvents.filter(({ ph }) => ph === 'C').map(({ ts, args }) => [ts, args]);
    expect(samples).toEqual([
      [100_000, { value: 0.25 }],
      [200_000, { value: 0.75 }],
    ]);
  });

  it.each([
    [['--requests', '9'], 'has no request 9'],
    [['--gpus', 'pod9/gpu0'], 'has no series of "pod9/gpu0"; list them with: select distinct entity from series'],
    [['--requests', '1,'], 'It must be one or more values joined by commas.'],
    [['--requests', '1,x'], 'It must be a whole number from 0 to 2147483647.'],
    [[], 'nothing is chosen; give --requests a,b or --gpus c,d or both'],
  ])('%j is refused with exit code 2 and leaves an older trace alone', async (words, message) => {
    const old = folder.file('old.json', 'precious');
    const { code, err } = await braess(['export', first, ...words, '--out', old]);
    expect(code).toBe(2);
    expect(err).toContain(message);
    expect(readFileSync(old, 'utf8')).toBe('precious');
  });

  it('needs --out, in a folder that is there', async () => {
    const missing = await braess(['export', first, '--requests', '0']);
    expect(missing).toMatchObject({ code: 2, err: expect.stringContaining("required option '--out <FILE>' not specified") });
    const nowhere = await braess(['export', first, '--requests', '0', '--out', folder.path('no/trace.json')]);
    expect(nowhere).toMatchObject({ code: 2, err: expect.stringContaining('; make it first') });
  });
});

describe('a folder that is no finished run', () => {
  const absent = folder.path('absent');
  const other = folder.path('plain');
  const commands = [
    [2, `there is no folder '${absent}'; give the folder that a run has written`, ['query', absent, 'select 1']],
    [2, 'cannot be read: ENAMETOOLONG', ['query', 'x'.repeat(5000), 'select 1']],
    [2, "option '--out <folder>' argument '' is invalid. It must name a folder.", ['run', 'any.yaml', '--out', '']],
    [2, `there is no folder '${absent}'; give`, ['compare', first, absent]],
    [2, `there is no folder '${absent}'; give`, ['explain', absent, '0']],
    [2, `there is no folder '${absent}'; give`, ['report', absent]],
    [2, `there is no folder '${absent}'; give`, ['export', absent, '--requests', '0', '--out', folder.path('x.json')]],
    [2, `'${other}' is not a run folder, it has no manifest.json; give the folder`, ['query', other, 'select 1']],
    [1, `${damaged}/manifest.json is not valid JSON`, ['explain', damaged, '0']],
    [1, `${damaged} is not a finished run folder: summary.json is missing`, ['compare', first, damaged]],
  ] as const;

  it.each(commands)('is exit code %i and %s', async (code, message, words) => {
    expect(await braess(words)).toEqual({ code, out: '', err: expect.stringContaining(message) });
  });
});
