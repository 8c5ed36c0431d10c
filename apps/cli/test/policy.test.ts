import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { loadPolicy, type PolicyListing } from '@braess/control';
import { afterAll, describe, expect, it } from 'vitest';
import { braess } from './braess-process.js';
import { temporaryFolder } from './temporary-folder.js';

const folder = temporaryFolder();
// Below the repository, where a policy's test finds the packages as in a project that has installed them.
const project = fileURLToPath(new URL('../../../runs/policy-test', import.meta.url));
afterAll(() => rmSync(project, { recursive: true, force: true }));

async function list(...words: string[]): Promise<PolicyListing[]> {
  const { code, out, err } = await braess(['policy', 'list', ...words, '--json']);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return JSON.parse(out) as PolicyListing[];
}

describe('braess policy list', () => {
  it('lists what a scenario can name, with parameters as JSON Schema', async () => {
    const routers = await list('router');
    const decodeRouters = [
      'cache-aware',
      'load-aware',
      'cla',
      'netkv-static',
      'netkv-self',
      'netkv',
      'netkv-path',
      'netkv-joint',
      'weighted',
    ];
    expect(routers.map(({ name }) => name)).toEqual([
      'round-robin',
      'random',
      'power-of-two',
      'least-loaded',
      'kv',
      ...decodeRouters,
      'tier-first',
      'zone-first',
    ]);
    expect(routers.find(({ name }) => name === 'kv')?.parameters).toMatchObject({
      properties: { omega: { default: 1 }, tau: { default: 0 } },
    });
    const evictions = await list('eviction');
    expect(evictions.map(({ name }) => name)).toEqual(['lru', 'fifo', 'lfu', 's3-fifo', 'cost-aware', 'lineage']);
    expect(evictions.every(({ description }) => description !== 'Chooses the cached block that goes next.')).toBe(true);
    const kinds = new Set((await list()).map(({ kind }) => kind));
    for (const kind of ['router', 'planner', 'admission', 'eviction']) expect(kinds).toContain(kind);
  });

  it('prints a table with defaults, and refuses a kind that does not exist', async () => {
    const { code, out } = await braess(['policy', 'list']);
    expect(code).toBe(0);
    expect(out).toMatch(/│ router +│ kv +│ omega = 1, tau = 0 +│ Prefix overlap/);
    expect(out).toMatch(/│ router +│ least-loaded +│ by = requests +│/);
    expect(out).toMatch(/│ planner +│ schedule +│ changes \(required\) +│/);
    const wrong = await braess(['policy', 'list', 'rooter']);
    expect(wrong).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringContaining("there is no policy kind 'rooter'; it must be one of router,"),
    });
  });
});

describe('braess policy new', () => {
  it('writes a policy that loads and a test that passes', async () => {
    const { code, out, err } = await braess(['policy', 'new', 'router', 'my-router', '--out', project, '--json']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const paths = [`${project}/my-router.ts`, `${project}/my-router.test.mjs`];
    expect(JSON.parse(out)).toEqual({ kind: 'router', name: 'my-router', paths });
    expect(loadPolicy('router', { policy: './my-router.ts' }, { baseDirectory: project }).policy.name).toBe('my-router');
    // Not a child of this test runner's: its settings must not leak in.
    const { NODE_OPTIONS: _, ...environment } = process.env;
    const printed = execFileSync(process.execPath, ['--test', '--test-reporter=tap', paths[1] as string], {
      encoding: 'utf8',
      env: environment,
    });
    expect(printed).toMatch(/# fail 0\n/);
    expect(printed).not.toMatch(/# pass 0\n/);

    const written = readFileSync(paths[0] as string, 'utf8');
    const again = await braess(['policy', 'new', 'router', 'my-router', '--out', project]);
    expect(again).toMatchObject({ code: 2, out: '', err: expect.stringContaining(`'${paths[0]}' is there already; choose another NAME`) });
    expect(readFileSync(paths[0] as string, 'utf8')).toBe(written);
  });

  it('says how to test it and where to name it', async () => {
    mkdirSync(folder.path('there'));
    const { code, out } = await braess(['policy', 'new', 'planner', 'night-shift', '--out', folder.path('there')]);
    expect(code).toBe(0);
    expect(out).toContain(`Test it with: braess policy test ${folder.path('there/night-shift.test.mjs')}\n`);
    // A folder from which no @braess package is found, as with a command that is installed elsewhere.
    const test = folder.path('there/night-shift.test.mjs');
    expect(await braess(['policy', 'test', test])).toMatchObject({ code: 0, out: expect.stringMatching(/fail 0/), err: '' });
    writeFileSync(test, `${readFileSync(test, 'utf8')}\ntest('no', () => assert.equal(1, 2));\n`);
    expect(await braess(['policy', 'test', test])).toMatchObject({ code: 1, out: expect.stringMatching(/fail 1/) });
    expect(await braess(['policy', 'test', folder.path('none.mjs')])).toMatchObject({ code: 2 });
    expect(await braess(['policy', 'test', test.replace('.test.mjs', '.ts')])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/is no test that Node runs; give the one beside a policy, such as [\w-]+\.test\.mjs/),
    });
    expect(out).toContain('where the planner policy stands, as ./night-shift.ts');
  });

  it.each([
    [['rooter', 'mine'], "there is no policy kind 'rooter'; it must be one of router,"],
    [['constructor', 'mine'], "there is no policy kind 'constructor'"],
    [['router', 'My Router'], 'needs a name of lower-case words joined by hyphens'],
    [['router', '../evil'], 'needs a name of lower-case words joined by hyphens'],
    [['router'], "missing required argument 'NAME'"],
  ])('refuses %j with exit code 2 and writes nothing', async (words, message) => {
    const out = folder.path('never');
    expect(await braess(['policy', 'new', ...words, '--out', out])).toMatchObject({
      code: 2,
      out: '',
      err: expect.stringContaining(message),
    });
    expect(existsSync(out)).toBe(false);
  });
});
