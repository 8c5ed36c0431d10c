import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ScenarioSummary } from '@braess/lab';
import { afterAll, describe, expect, it } from 'vitest';
import { root } from './workspaces.js';

// What somebody does on the first day, in this order, after installing: each step uses what the steps before it left.

const home = mkdtempSync(join(tmpdir(), 'braess-walk-'));
for (const name of ['configs', 'node_modules']) symlinkSync(root + name, join(home, name));
afterAll(() => rmSync(home, { recursive: true, force: true }));

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function run(file: string, words: readonly string[]): Promise<Ended> {
  const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...environment } = process.env;
  return new Promise((resolve, reject) => {
    const child = spawn(file, words, { cwd: home, env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    let err = '';
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, out, err }));
  });
}

const braess = (words: string): Promise<Ended> => run(process.execPath, [`${root}apps/cli/bin/braess.js`, ...words.split(' ')]);

/** A command that must succeed and print JSON only. */
async function json<Result>(words: string | readonly string[]): Promise<Result> {
  const list = typeof words === 'string' ? words.split(' ') : words;
  const { code, out, err } = await run(process.execPath, [`${root}apps/cli/bin/braess.js`, ...list, '--json']);
  expect({ words, code, err }).toEqual({ words, code: 0, err: '' });
  return JSON.parse(out) as Result;
}

const query = (folder: string, sql: string): Promise<Record<string, unknown>[]> => json(['query', folder, sql]);
const variant = 'run configs/quickstart.yaml --no-report --set workload.requests=240';

describe.sequential('a new user', { timeout: 120_000 }, () => {
  const prints: Record<string, string> = {};

  it('runs the quickstart', async () => {
    const { code, out, err } = await run('npx', ['--no-install', 'braess', 'run', 'configs/quickstart.yaml']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toContain('quickstart: 4,000 submitted = 4,000 completed + 0 rejected + 0 failed + 0 in flight');
    expect(out).toContain('run folder runs/quickstart-1, report runs/quickstart-1/report.html');
    const manifest = JSON.parse(readFileSync(join(home, 'runs/quickstart-1/manifest.json'), 'utf8')) as Record<string, unknown>;
    expect(manifest).toMatchObject({ status: 'complete' });
    expect(out).toContain(`fingerprint ${String(manifest.fingerprint)};`);
    const [row] = await query(
      'runs/quickstart-1',
      'select count(*) as n, count(distinct prefill_worker) as p, count(distinct decode_worker) as d from requests',
    );
    // Six prefill and ten decode engines of four GPUs each: all 64 had work.
    expect(row).toEqual({ n: 4000, p: 6, d: 10 });
  });

  it('changes the router', async () => {
    const kv = await json<ScenarioSummary>(`${variant} --out runs/kv`);
    const turns = await json<ScenarioSummary>(`${variant} --out runs/turns --set router.policy=round-robin`);
    const again = await json<ScenarioSummary>(`${variant} --out runs/again --set router.policy=round-robin --shards 2`);
    expect([kv.submitted, kv.completed, turns.completed]).toEqual([240, 240, 240]);
    expect(again.shards).toBe(2);
    expect(again.fingerprint).toBe(turns.fingerprint);
    expect(turns.fingerprint).not.toBe(kv.fingerprint);
    Object.assign(prints, { kv: kv.fingerprint, turns: turns.fingerprint });
    // In turn is exactly even; that costs prefix hits, which the kv router is there for.
    for (const [column, engines] of [
      ['prefill_worker', 6],
      ['decode_worker', 10],
    ] as const) {
      const rows = await query('runs/turns', `select ${column}, count(*) as n from requests group by all`);
      expect(rows.map(({ n }) => n)).toEqual(Array(engines).fill(240 / engines));
    }
    expect(kv.hitRates.g1).toBeGreaterThan(turns.hitRates.g1);
  });

  it('writes a policy of their own and tests it', async () => {
    const { code, out } = await braess('policy new router my-policy');
    expect(code).toBe(0);
    expect(out).toContain('written: my-policy.ts, my-policy.test.mjs');
    const tested = await run(process.execPath, ['--test', '--test-reporter=tap', 'my-policy.test.mjs']);
    expect(tested.code).toBe(0);
    expect(tested.out).toMatch(/# pass 2\n/);
  });

  it('runs with it, from a scenario of their own', async () => {
    const scenario = `extends: configs/quickstart.yaml
name: mine
router: { policy: ./my-policy.ts, parameters: { bonusTokens: 64 } }
workload: { requests: 240 }
telemetry: { decisionsEvery: 1 }
`;
    writeFileSync(join(home, 'mine.yaml'), scenario);
    const mine = await json<ScenarioSummary>('run mine.yaml --no-report --out runs/mine');
    const again = await json<ScenarioSummary>('run mine.yaml --no-report --out runs/mine-again');
    const other = await json<ScenarioSummary>('run mine.yaml --no-report --out runs/other --set router.parameters.bonusTokens=0');
    expect(mine.completed).toBe(240);
    expect(again.fingerprint).toBe(mine.fingerprint);
    expect(new Set([mine.fingerprint, other.fingerprint, prints.kv, prints.turns]).size).toBe(4);
    prints.mine = mine.fingerprint;

    // Every decision was its own, at its own price: tokens to compute less 64 a cached block, which is 64 tokens per prefill block less the overlap once.
    const decisions = await query(
      'runs/mine',
      `select kind, policy, count(distinct request_id) as requests, count(*) filter (chosen) as chosen,
         max(abs(score - 64 * prefill_blocks)) as off from decisions group by all order by kind`,
    );
    expect(decisions).toHaveLength(2);
    expect(decisions[0]).toMatchObject({ kind: 'decode_route', policy: 'my-policy', requests: 240, chosen: 240 });
    expect(decisions[1]).toMatchObject({ kind: 'prefill_route', policy: 'my-policy', requests: 240, chosen: 240 });
    // Scores are stored as 32-bit floats.
    expect(decisions[1]?.off).toBeLessThan(0.1);
    const notCheapest = await query(
      'runs/mine',
      'select decision_id from decisions group by all having min(score) filter (chosen) > min(score)',
    );
    expect(notCheapest).toEqual([]);
  });

  it('compares two runs', async () => {
    const comparison = await json<{ fingerprints: string[]; rows: { name: string; values: number[]; deltas: number[] }[] }>(
      'compare runs/kv runs/mine',
    );
    expect(comparison.fingerprints).toEqual([prints.kv, prints.mine]);
    const completed = comparison.rows.find(({ name }) => name === 'completed');
    expect(completed).toMatchObject({ values: [240, 240], deltas: [0, 0] });
    const rate = comparison.rows.find(({ name }) => name === 'requestsPerSecond') as (typeof comparison.rows)[number];
    expect(rate.deltas[1]).toBe((rate.values[1] as number) - (rate.values[0] as number));
    expect((await braess('compare runs/kv runs/mine')).out).not.toContain('the runs are identical');
    expect((await braess('compare runs/mine runs/mine-again')).out).toContain('All fingerprints are the same: the runs are identical.');
  });

  it('asks what happened to one request', async () => {
    const [row] = await query('runs/mine', 'select * from requests where request_id = 100');
    const { steps } = await json<{
      steps: { step: string; where: string; text: string; sinceArrivalMs: number; candidates: { name: string; chosen: boolean }[] }[];
    }>('explain runs/mine 100');
    expect(steps[0]).toMatchObject({ step: 'arrival', sinceArrivalMs: 0 });
    const times = steps.map(({ sinceArrivalMs }) => sinceArrivalMs);
    expect(times).toEqual([...times].sort((a, b) => a - b));
    const decisions = steps.filter(({ step }) => step === 'decision');
    const chosen = decisions.map(({ candidates }) => candidates.find((candidate) => candidate.chosen)?.name);
    expect(chosen).toEqual([row?.prefill_worker, row?.decode_worker]);
    expect(decisions.map(({ text }) => text.includes('by policy my-policy'))).toEqual([true, true]);
    const printed = (await braess('explain runs/mine 100')).out;
    for (const part of ['request 100 of runs/mine', String(row?.prefill_worker), String(row?.decode_worker), 'my-policy'])
      expect(printed).toContain(part);
  });

  it('queries, and writes a report that needs no network', async () => {
    const [sums] = await query(
      'runs/mine',
      `select count(*) as n, count(*) filter (outcome = 'completed') as completed,
         max(abs(ttft_ms - (queue_ms + tier_fetch_ms + prefill_ms + handover_ms + first_decode_ms))) as unexplained_ms from requests`,
    );
    expect(sums).toMatchObject({ n: 240, completed: 240 });
    expect(sums?.unexplained_ms).toBeLessThan(1e-6);
    expect((await braess('report runs/mine')).out).toBe('report written to runs/mine/report.html\n');
    const page = readFileSync(join(home, 'runs/mine/report.html'), 'utf8');
    expect(page).toContain('<svg');
    expect(page).toContain(prints.mine);
    expect(page.match(/(?:src|href)\s*=\s*["']?(?:https?:)?\/\//g)).toBeNull();
  });

  it('breaks the policy and is told where, with a command that shows it again', async () => {
    const source = readFileSync(join(home, 'my-policy.ts'), 'utf8');
    writeFileSync(join(home, 'my-policy.ts'), source.replace('view.engines.activePrefillTokens[engine]!', 'Number.NaN'));
    const { code, out, err } = await braess(`run mine.yaml --no-report --out runs/broken --set name="it's-broken"`);
    expect({ code, out }).toEqual({ code: 1, out: '' });
    expect(err).toMatch(/router policy 'my-policy' \(.*\/my-policy\.ts\), asked for the prefill engine of request 0 /);
    expect(err).toContain('is NaN; it must be a finite number');
    const replay = /replay: braess (.*)\n/.exec(err)?.[1] as string;
    const again = await run('sh', ['-c', `'${process.execPath}' '${root}apps/cli/bin/braess.js' ${replay}`]);
    expect(again.code).toBe(1);
    expect(again.err).toBe(err);
    // What there was until then can be looked at, and is marked.
    expect(JSON.parse(readFileSync(join(home, 'runs/broken/manifest.json'), 'utf8'))).toMatchObject({ status: 'failed' });
    expect(existsSync(join(home, 'runs/broken/requests.parquet'))).toBe(true);
  });
});
