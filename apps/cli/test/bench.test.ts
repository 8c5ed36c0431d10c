import { describe, expect, it } from 'vitest';
import { braess, npxBraess } from './braess-process.js';

const contractKeys = [
  'eventsPerSecond',
  'plainEventsPerSecond',
  'speedupOverOneShard',
  'barrierMicroseconds',
  'peakRssMb',
  'fingerprint',
] as const;
const small = ['--actors', '64', '--events', '5000', '--seed', 'test 7'];

async function phold(...words: string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await braess(['bench', 'phold', ...small, '--json', ...words]);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  expect(out.trimEnd().split('\n')).toHaveLength(1);
  return JSON.parse(out) as Record<string, unknown>;
}

describe('braess bench phold --json', () => {
  it('prints one object with the contract keys, the same fingerprint for every number of shards', async () => {
    const two = await phold('--shards', '2');
    for (const key of contractKeys) expect(two, key).toHaveProperty(key);
    for (const key of contractKeys.filter((key) => key !== 'fingerprint')) expect(two[key], key).toBeGreaterThan(0);
    expect(two).toMatchObject({ actors: 64, shards: 2, seed: 'test 7', interrupted: false, choice: null });
    expect(two.fingerprint).toMatch(/^[0-9a-f]{16}$/);
    expect(two.rounds).toHaveLength(3);

    const one = await phold('--shards', '1', '--work', '0.5');
    expect(one).toMatchObject({ shards: 1, barrierMicroseconds: null, speedupOverOneShard: 1, fingerprint: two.fingerprint });
  });

  it('says what auto chose', async () => {
    const auto = await phold('--shards', 'auto');
    expect(auto.choice).toEqual(expect.stringMatching(/./));
    expect(auto.shards).toBeGreaterThanOrEqual(1);
  });

  it('ends on Ctrl-C with exit code 130 and what there is', async () => {
    const words = ['bench', 'phold', '--actors', '1024', '--events', '10000000000', '--shards', '1', '--json'];
    const { code, out, err } = await braess(words, 5000);
    expect({ code, err }).toEqual({ code: 130, err: '' });
    expect(JSON.parse(out)).toMatchObject({ interrupted: true, eventsPerSecond: null, rounds: [] });
  });
});

describe('braess bench', () => {
  it('prints an aligned table and a reading without --json', async () => {
    const { code, out } = await braess(['bench', 'phold', ...small, '--shards', '2']);
    expect(code).toBe(0);
    const table = out.split('\n').filter((line) => /^[│┌├└]/.test(line));
    expect(table).toHaveLength(7);
    expect(new Set(table.map((line) => line.length)).size).toBe(1);
    expect(out).toMatch(/One shard runs at [\d.]+ x the plain engine\. 2 shards (gain|lose)/);
  });

  it('lists the benches without a name', async () => {
    const { code, out } = await braess(['bench', '--json']);
    expect(code).toBe(0);
    const names = (JSON.parse(out) as { benches: { name: string }[] }).benches.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(['phold', 'queues', 'codec', 'growth', 'grid', 'startup', 'fork']));
  });

  it.each([
    ['codec', '--batches', '90'],
    ['queues', '--events', '1000'],
    ['startup', '--cells', '50'],
    ['fork', '--actors', '50'],
    ['growth', '--events', '2000'],
    ['grid', '--events', '2000', '--actors', '20', '30'],
  ])('%s prints one JSON object', async (...words) => {
    const { code, out, err } = await braess(['bench', ...words, '--json']);
    expect(code, err).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ interrupted: false });
    expect(out.trimEnd().split('\n')).toHaveLength(1);
  });

  it('poa prints what the PoA actor takes of two runs', async () => {
    const { code, out, err } = await braess(['bench', 'poa', '--requests', '300', '--json']);
    expect(code, err).toBe(0);
    const { rows, targetPercent } = JSON.parse(out) as {
      rows: { runMs: number; actorMs: number; percent: number }[];
      targetPercent: number;
    };
    expect(targetPercent).toBe(5);
    expect(rows).toHaveLength(2);
    for (const { runMs, actorMs, percent } of rows) {
      expect(actorMs).toBeGreaterThan(0);
      expect(actorMs).toBeLessThan(runMs);
      expect(percent).toBeCloseTo((100 * actorMs) / runMs, 9);
    }
  });

  it.each([
    [['--actors', '0'], "option '--actors <N>' argument '0' is invalid. It must be a whole number from 1 to 2000000."],
    [['--actors', '1.5'], "option '--actors <N>' argument '1.5' is invalid. It must be a whole number from 1 to 2000000."],
    [['--remote', '1.1'], "option '--remote <P>' argument '1.1' is invalid. It must be a number from 0 to 1."],
    [['--remote', ''], "option '--remote <P>' argument '' is invalid. It must be a number from 0 to 1."],
    [['--lookahead', '0'], "option '--lookahead <S>' argument '0' is invalid. It must be a number from 0.000001 to 0.99."],
    [['--shards', '65'], "option '--shards <N>' argument '65' is invalid. It must be a whole number from 1 to 64, or 'auto'."],
    [['--work=-1'], "option '--work <US>' argument '-1' is invalid. It must be a number from 0 to 1000."],
    [['--events', 'many'], "option '--events <N>' argument 'many' is invalid. It must be a whole number from 1000 to 100000000000."],
    [['--seed', ''], "option '--seed <S>' argument '' is invalid. It must be a text of at least one character."],
    [['--colour'], "unknown option '--colour'"],
  ])('phold %j is refused with exit code 2', async (words, message) => {
    const { code, out, err } = await braess(['bench', 'phold', ...words]);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toContain(message);
  });

  it('job runs a whole scenario in a fresh process, small when asked to', async () => {
    const { code, out, err } = await braess(['bench', 'job', '1024-gpu-2', '--requests', '150', '--json']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const job = JSON.parse(out) as Record<string, unknown>;
    expect(job).toMatchObject({ name: '1024-gpu-2', requests: 150, completed: 150, shards: 2, input: 'generated', targets: [] });
    expect(job.windows).toMatchObject({ events: expect.any(Number) as number, bound: expect.any(Number) as number });
    const unknown = await braess(['bench', 'job', 'j65']);
    expect(unknown.code).toBe(2);
    expect(unknown.err).toContain("no job is named 'j65'; jobs are j64, j8, j64-long");
  });

  it('names the benches when asked for one that does not exist', async () => {
    const { code, err } = await braess(['bench', 'fold']);
    expect(code).toBe(2);
    expect(err).toContain("there is no bench 'fold'; it must be one of phold, queues");
  });
});

describe('braess', () => {
  it('runs through npx', async () => {
    const { code, out } = await npxBraess(['--version']);
    expect({ code, out }).toEqual({ code: 0, out: '0.1.0\n' });
  });

  it('documents its exit codes', async () => {
    const { code, out } = await braess(['bench', 'phold', '--help']);
    expect(code).toBe(0);
    for (const exit of ['0', '1', '2', '130']) expect(out).toMatch(new RegExp(`^ {2}${exit} `, 'm'));
  });

  it('refuses an unknown command with exit code 2', async () => {
    const { code, err } = await braess(['bence']);
    expect(code).toBe(2);
    expect(err).toContain("unknown command 'bence'");
  });
});
