import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ScenarioReport } from '@braess/cluster';
import type { ScenarioSummary, Sweep } from '@braess/lab';
import { describe, expect, it } from 'vitest';
import { braessHere } from './braess-here.js';
import { braess } from './braess-process.js';
import { temporaryFolder } from './temporary-folder.js';

const folder = temporaryFolder();
let runs = 0;
const out = (): string => folder.path(`run${++runs}`);

async function runJson(
  ...words: string[]
): Promise<{ code: number | null; summary: ScenarioSummary & { report: string | null }; err: string }> {
  const { code, out: printed, err } = await braess(['run', ...words, '--json']);
  expect(printed.trimEnd().split('\n'), err).toHaveLength(1);
  return { code, summary: JSON.parse(printed), err };
}

describe('braess run', () => {
  it('--json prints one object with every key there is to have, and writes a folder with a report', async () => {
    const path = out();
    const { code, summary } = await runJson('configs/quickstart.yaml', '--set', 'workload.requests=150', '--out', path);
    expect(code).toBe(0);
    expect(summary).toMatchObject({ submitted: 150, completed: 150, rejected: 0, failed: 0, inFlight: 0, folder: path });
    for (const key of [
      'fingerprint',
      'simulatedSeconds',
      'wallSeconds',
      'requestsPerSecond',
      'outputTokensPerSecond',
      'goodput',
      'events',
      'peakRssMb',
    ]) {
      expect(summary).toHaveProperty(key);
    }
    expect(Object.keys(summary.hitRates)).toEqual(['g1', 'g2', 'g3', 'g4', 'total']);
    for (const latency of ['ttftMs', 'itlMs', 'tpotMs', 'e2eMs', 'transferMs'] as const) {
      for (const part of ['mean', 'p50', 'p90', 'p99'] as const) expect(summary[latency]?.[part]).toBeGreaterThan(0);
    }
    expect(readFileSync(summary.report as string, 'utf8')).toContain('<svg');
    for (const file of ['manifest.json', 'requests.parquet', 'series.parquet', 'decisions.parquet', 'summary.json']) {
      expect(existsSync(`${path}/${file}`), file).toBe(true);
    }
  });

  it('shows the largest of many tenants in its text, and so does compare', async () => {
    const path = out();
    const tenants = Array.from({ length: 20 }, (_, tenant) => `{name: t${tenant}, share: ${tenant < 12 ? 1 : 50}}`).join();
    const words = ['run', 'configs/quickstart.yaml', '--set', 'workload.requests=300', '--set', `workload.tenants=[${tenants}]`];
    const { code, out: text } = await braess([...words, '--no-report', '--out', path]);
    expect(code).toBe(0);
    const named = [...text.matchAll(/│ t(\d+) +│ +(\d+) │ +(\d+) │/g)].map((match) => match.slice(1).map(Number));
    expect(named).toHaveLength(16);
    expect(text).toContain('4 more tenants in summary.json');
    const sizes = named.map(([, submitted]) => submitted as number);
    expect(sizes).toEqual(sizes.toSorted((one, other) => other - one));
    const compared = (await braess(['compare', path, path])).out;
    const told = [...compared.matchAll(/tenants\.t(\d+)\.submitted/g)].map(([, tenant]) => Number(tenant));
    expect(new Set(told)).toEqual(new Set(named.slice(0, 8).map(([tenant]) => tenant)));
    expect(compared).toContain('12 more tenants with --json');
  });

  it('--trace, --seed, --until, --warmup and --shards do what they say', async () => {
    const trace = folder.file(
      'trace.csv',
      `request_id,arrival_s,input_tokens,output_tokens\n${Array.from({ length: 40 }, (_, row) => `${row},${row / 10},300,20`).join('\n')}\n`,
    );
    const words = ['configs/j8.yaml', '--trace', trace, '--no-report'];
    const one = (await runJson(...words, '--out', out())).summary;
    expect(one.submitted).toBe(40);
    const two = (await runJson(...words, '--shards', '2', '--out', out())).summary;
    expect(two.fingerprint).toBe(one.fingerprint);
    const seeded = (await runJson(...words, '--seed', '7', '--out', out())).summary;
    expect(seeded.seed).toBe('7');
    expect(seeded.fingerprint).not.toBe(one.fingerprint);
    const cut = await runJson(...words, '--until', '2s', '--warmup', '500ms', '--out', out());
    expect(cut.code).toBe(0);
    expect(cut.summary).toMatchObject({ stopped: true, simulatedSeconds: 2 });
    expect(cut.summary.submitted).toBeLessThan(25);
  });

  it('the exit code says what became of it', async () => {
    const small = ['configs/j8.yaml', '--set', 'workload.requests=40', '--no-report'];
    const lost = await runJson(...small, '--set', 'serving[0].maxModelTokens=1500', '--out', out());
    expect(lost.code).toBe(3);
    expect(lost.summary.lost).toBe(lost.summary.rejected);
    expect(lost.summary.lost).toBeGreaterThan(0);
    const mistake = await braess(['run', ...small, '--set', 'router.policy=kvv']);
    expect(mistake).toMatchObject({ code: 1, out: '' });
    expect(mistake.err).toContain('did you mean "kv"?');
    expect((await braess(['run', ...small, '--shards', 'many'])).code).toBe(2);
    const twice = out();
    await runJson(...small, '--out', twice);
    expect(await braess(['run', ...small, '--out', twice])).toMatchObject({ code: 1, out: '' });
  });

  it('an option or argument that is wrong is named with its value, and ends the command with 2', async () => {
    const small = ['configs/j8.yaml', '--no-report'];
    expect((await braessHere(['run', ...small, '--until', 'soon'])).code).toBe(2);
    // The option is named, not the setting that it becomes; what the option takes, the setting takes, too.
    for (const [option, value, reason] of [
      ['--until <time>', '0s', 'It must be above 0'],
      ['--until <time>', '0.0000001ms', 'It must be 0 or from 1 ns'],
      ['--until <time>', '4503600s', 'to 4503599 s (52 days)'],
      ['--warmup <time>', '99999h', 'It must be 0 or from 1 ns'],
      ['--trace <file>', '', 'It must name a file'],
      ['--seed <seed>', '', 'It must be a text of at least one character'],
      ['--set <path=value>', 'seed', 'It must have the form path=value'],
    ] as const) {
      const { code, err } = await braessHere(['run', ...small, (option.split(' ') as [string])[0], value]);
      expect({ value, code }).toEqual({ value, code: 2 });
      expect(err).toContain(`error: option '${option}' argument '${value}' is invalid. `);
      expect(err).toContain(reason);
    }
    for (const [words, reason] of [
      [['run', 'configs/none.yaml'], "SCENARIO: there is no file 'configs/none.yaml'; check the path"],
      [['validate', 'configs'], "SCENARIO: 'configs' is a folder; give a file"],
      [['run', ...small, '--trace', 'none.csv'], "--trace: there is no file 'none.csv'; check the path"],
      [
        ['validate', 'configs/j8.yaml', '--write-trace', '/none/x.csv'],
        "--write-trace: there is no folder '/none' for '/none/x.csv'; make it first",
      ],
      // Before anything runs: where no folder can be made, Node's own way to make one never returns.
      [['study', 'oracle', '--quick', '--out', '/proc/none'], '--out: folder /proc/none cannot be made: '],
      [['reproduce', 'poa', '--quick', '--out', 'package.json'], '--out: folder package.json cannot be made: package.json is a file'],
      [['init', '/proc/none/first.yaml'], 'FILE: folder /proc/none cannot be made: '],
      [['policy', 'new', 'router', 'mine', '--out', '/proc/none'], '--out: folder /proc/none cannot be made: '],
    ] as const)
      expect(await braessHere(words)).toMatchObject({ code: 2, out: '', err: expect.stringContaining(`error: ${reason}`) });
    for (const value of ['1e-9', '4503599'])
      expect(await braessHere(['validate', 'configs/j8.yaml', '--set', `warmupSeconds=${value}`])).toMatchObject({ code: 0, err: '' });
  });

  it('Ctrl-C writes what there is and ends with 130', async () => {
    // Paced, so that it cannot be over before.
    const path = out();
    const words = ['run', 'configs/j8.yaml', '--pace', '1', '--no-report', '--json', '--out', path];
    const { code, out: printed } = await braess(words, join(path, 'manifest.json'));
    const summary = JSON.parse(printed) as ScenarioSummary;
    expect(code).toBe(130);
    expect(summary).toMatchObject({ stopped: true, faults: [] });
    expect(summary.submitted).toBe(summary.completed + summary.inFlight);
    expect(JSON.parse(readFileSync(`${path}/manifest.json`, 'utf8'))).toMatchObject({ status: 'interrupted' });
  });

  it('Ctrl-C ends a run at once whose policy never returns while it is loaded', async () => {
    const policy = folder.path('endless.mjs');
    writeFileSync(policy, `import { writeFileSync } from 'node:fs';\nwriteFileSync('${policy}.loading', '');\nfor (;;);\n`);
    const { code, out: printed, err } = await braess(['run', 'configs/j8.yaml', '--set', `router.policy=${policy}`], `${policy}.loading`);
    expect({ code, printed, err }).toEqual({ code: null, printed: '', err: '\n(ended by SIGINT)' });
  });

  it('init writes a scenario that runs as it stands, and never over a file', async () => {
    const file = folder.path('made/first.yaml');
    expect(await braess(['init', file])).toMatchObject({ code: 0, err: '' });
    expect((await braess(['validate', file])).code).toBe(0);
    const { code, summary } = await runJson(file, '--no-report', '--out', out());
    expect(code).toBe(0);
    expect(summary).toMatchObject({ submitted: 2000, completed: 2000, warnings: [] });
    const again = await braess(['init', file]);
    expect(again).toMatchObject({ code: 2, out: '' });
    expect(again.err).toContain('is there already');
  });

  it('--sweep prints one table and a plot, and marks the knee', async () => {
    const words = [
      'run',
      'configs/j8.yaml',
      '--set',
      'workload.requests=150',
      '--set',
      'workload.slo={ttftMs: 120}',
      '--sweep',
      'workload.rateFactor=1,4,40',
    ];
    const { code, out: printed } = await braess([...words, '--out', out()]);
    expect(code).toBe(0);
    expect(printed).toMatch(/knee: workload\.rateFactor = (1|4) is the last point/);
    const json = await braess([...words, '--json', '--out', out()]);
    const sweep = JSON.parse(json.out) as Sweep;
    expect(sweep.points.map(({ value, runs }) => [value, runs.length])).toEqual([
      ['1', 1],
      ['4', 1],
      ['40', 1],
    ]);
    const met = sweep.points.map(({ runs }) => runs[0]?.summary?.sloAttainment as number);
    expect(sweep.points.map(({ figures }) => figures.sloAttainment)).toEqual(met.map((mean) => ({ mean, halfWidth: null, runs: 1 })));
    expect(met[0]).toBeGreaterThan(met[2] as number);
    const first = met.findIndex((share) => share < sweep.sloShare);
    expect(sweep.knee).toBe(first < 0 ? 2 : first - 1);
  });

  it('several --sweep run every combination; commas within a value part nothing; seeds have no knee', async () => {
    const words = ['run', 'configs/j8.yaml', '--set', 'workload.requests=40', '--set', 'workload.slo={ttftMs: 120}'];
    const grid = ['--sweep', 'router.decode={policy: kv, parameters: {omega: 2, tau: 0}},null', '--sweep', 'seed=1,2'];
    const { code, out: printed } = await braess([...words, ...grid, '--json', '--out', out()]);
    expect(code).toBe(0);
    const sweeps = JSON.parse(printed) as Sweep[];
    expect(sweeps.map(({ path, held, isScale, knee }) => ({ path, held, isScale, knee }))).toEqual(
      ['{policy: kv, parameters: {omega: 2, tau: 0}}', 'null'].map((value) => ({
        path: 'seed',
        held: [{ path: 'router.decode', value }],
        isScale: false,
        knee: -1,
      })),
    );
    expect(
      sweeps.flatMap(({ points }) => points.map(({ value, runs }) => [value, runs[0]?.summary?.seed, runs[0]?.summary?.completed])),
    ).toEqual([
      ['1', '1', 40],
      ['2', '2', 40],
      ['1', '1', 40],
      ['2', '2', 40],
    ]);
    const text = await braess([...words, '--sweep', 'router.policy=kv,random', '--sweep', 'workload.rateFactor=1,2', '--out', out()]);
    expect(text.out).toMatch(/│ router\.policy │ workload\.rateFactor │/);
    expect(text.out).toMatch(/router\.policy = kv: knee: .*\n.*router\.policy = random: knee: workload\.rateFactor = 2 is the last point/);
    const twice = await braess([...words, '--sweep', 'seed=1', '--sweep', 'seed=2']);
    expect(twice).toMatchObject({ code: 2, out: '' });
    expect(twice.err).toContain('seed is swept already');
  });

  it('--seeds runs each point of a sweep with the same seeds, and gives means with their intervals', async () => {
    const words = ['configs/j8.yaml', '--set', 'workload.requests=60', '--set', 'workload.slo={ttftMs: 120}'];
    const several = ['--seed', '5', '--seeds', '3', '--sweep', 'workload.rateFactor=1,40', '--out', out()];
    const { code, out: printed, err } = await braess(['run', ...words, ...several, '--json']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const sweep = JSON.parse(printed) as Sweep;
    expect(sweep.points.map(({ runs }) => runs.map(({ summary }) => summary?.seed))).toEqual([
      ['5', '6', '7'],
      ['5', '6', '7'],
    ]);
    const alone = await runJson(...words, '--seed', '6', '--set', 'workload.rateFactor=40', '--no-report', '--out', out());
    const { folder: _, wallSeconds, loopSeconds, peakRssMb, report, ...figures } = alone.summary;
    expect(sweep.points[1]?.runs[1]?.summary).toMatchObject(figures);
    const p99s = sweep.points[1]?.runs.map(({ summary }) => summary?.ttftMs?.p99 as number) as [number, number, number];
    const mean = (p99s[0] + p99s[1] + p99s[2]) / 3;
    const deviation = Math.sqrt(p99s.reduce((sum, value) => sum + (value - mean) ** 2, 0) / 2);
    // With two degrees of freedom the quantile of Student's t is (2 p - 1) / sqrt(2 p (1 - p)).
    const halfWidth = ((0.95 / Math.sqrt(2 * 0.975 * 0.025)) * deviation) / Math.sqrt(3);
    const found = sweep.points[1]?.figures.ttftMs?.p99;
    expect(found).toMatchObject({ mean: expect.closeTo(mean, 9), runs: 3 });
    expect((found?.halfWidth as number) / halfWidth).toBeCloseTo(1, 3);
    expect(sweep.knee).toBe(sweep.points.findIndex(({ figures }) => (figures.sloAttainment?.mean as number) < 0.9) - 1);
  });

  it('--seeds alone shows run by run what the means are of; lost requests and mistakes end as those of a single run', async () => {
    const small = ['run', 'configs/j8.yaml', '--set', 'workload.requests=40', '--seeds', '2'];
    const lost = await braess([...small, '--set', 'serving[0].maxModelTokens=1500', '--out', out()]);
    expect(lost.code).toBe(3);
    const column = (row: string): number => Number(new RegExp(`│ ${row} +│.*│ +([\\d.]+) │\\n`).exec(lost.out)?.[1]);
    expect(column('1')).toBeGreaterThan(0);
    expect(column('mean')).toBe((column('1') + column('2')) / 2);
    // One degree of freedom: tan(0.475 pi), and the mean of two is half their distance from either.
    expect(column('\\+- 95 %')).toBeCloseTo((Math.tan(0.475 * Math.PI) * Math.abs(column('1') - column('2'))) / 2, 1);
    expect(lost.err).toMatch(/^1 of 2 runs done, about \d+ s left\n2 of 2 runs done\n$/);
    const mistake = await braess([...small, '--set', 'router.policy=kvv']);
    expect(mistake).toMatchObject({ code: 1, out: '', err: expect.stringContaining('did you mean "kv"?') });
    const broken = await braess([...small, '--sweep', 'router.policy=kv,kvv', '--out', out()]);
    expect(broken.code).toBe(1);
    expect(broken.out).toContain('2 of 2 runs failed: ');
    const twice = await braess([...small, '--sweep', 'seed=1,2']);
    expect(twice).toMatchObject({ code: 2, out: '', err: expect.stringContaining('both say which seeds to run') });
  });

  it.each([
    ['--sweep <path=a,b,c>', 'seed=1,2', '--pace', '2'],
    ['--sweep <path=a,b,c>', 'seed=1,2', '--shards', '2'],
    ['--seeds <n>', '2', '--shards', '2'],
  ])('%s %s is refused with %s, which its runs would not follow', async (several, values, option, value) => {
    const words = ['run', 'configs/quickstart.yaml', several.split(' ')[0] as string, values, option, value];
    const { code, out: printed, err } = await braess(words);
    expect({ code, printed }).toEqual({ code: 2, printed: '' });
    expect(err).toContain(`option '${several}' cannot be used with option '${option}`);
  });
});

describe('braess validate', () => {
  it('prints blocks, memory, saturation and defaults', async () => {
    const { code, out: printed } = await braess(['validate', 'configs/mooncake-64gpu.yaml', '--json']);
    expect(code).toBe(0);
    const report = JSON.parse(printed) as ScenarioReport;
    // Llama-3.1-70B: 327,680 bytes a token at 16 bit over 4 GPUs.
    expect(report.groups[0]).toMatchObject({ kvBytesPerTokenPerGpu: 327_680 / 4, engines: 6, tensorParallel: 4 });
    expect(report.saturation.requestsPerSecond).toBeGreaterThan(0);
    const defaults = report.defaults.map(({ path }) => path);
    expect(defaults).toContain('router.maxAttempts');
    expect(defaults).not.toContain('router.policy');
    const text = await braess(['validate', 'configs/mooncake-64gpu.yaml']);
    expect(text.out).toContain('estimated saturation');
  });

  it('names a mistake with its place', async () => {
    const file = folder.file('bad.yaml', 'serving:\n  - cuont: 1\nworkload: { source: { kind: mooncake-like } }\n');
    const { code, err } = await braess(['validate', file]);
    expect(code).toBe(1);
    expect(err).toContain(`${file}:2:5: serving[0].cuont is no option; did you mean "count"?`);
  });
});
