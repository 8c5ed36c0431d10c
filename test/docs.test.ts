import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runScenario } from '@braess/lab';
import { afterAll, describe, expect, it } from 'vitest';
import { type Block, blocksOf, commandsOf, documents, readBlocks } from './doc-blocks.js';
import { root } from './workspaces.js';

// What the documentation says is tried. TypeScript blocks are compiled with the project's own settings, and the README's example is run. For everything
// else each document gets a folder with `configs` and `node_modules` in it: blocks with a file name are written there, then, in order, each command of
// its `sh` blocks is run and must end with 0; what a `text printed` block shows must be among what they print. Each YAML block is a scenario: one that no command names is run here, a `fragment` as a variant of the
// quickstart.

const snippetFolder = `${root}test/.docs-snippets`;
const blocks = documents.flatMap(blocksOf);
const snippets = blocks.filter(({ language }) => language === 'ts');

function compile(): string {
  rmSync(snippetFolder, { recursive: true, force: true });
  mkdirSync(snippetFolder, { recursive: true });
  for (const [index, { document, text }] of snippets.entries())
    writeFileSync(`${snippetFolder}/${document.replace(/\W/g, '-')}-${index}.ts`, `${text}\nexport {};\n`);
  const config = {
    extends: '../../tsconfig.base.json',
    compilerOptions: {
      composite: false,
      incremental: false,
      declaration: false,
      declarationMap: false,
      sourceMap: false,
      outDir: 'out',
      rootDir: '.',
    },
    include: ['*.ts'],
  };
  writeFileSync(`${snippetFolder}/tsconfig.json`, JSON.stringify(config));
  const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  try {
    execFileSync(process.execPath, [compiler, '-p', snippetFolder], { encoding: 'utf8' });
    return '';
  } catch (error) {
    return String((error as { stdout?: string }).stdout);
  }
}

const folder = mkdtempSync(join(tmpdir(), 'braess-docs-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The folder in which a document's commands run: what a user has after cloning, and the files that the document shows. */
function documentFolder(document: string): string {
  const place = join(folder, document.replace(/\W/g, '-'));
  mkdirSync(place);
  for (const name of ['configs', 'node_modules']) symlinkSync(root + name, join(place, name));
  for (const { label, text } of blocksOf(document)) if (label !== '' && label !== 'fragment') writeFileSync(join(place, label), text);
  return place;
}

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** Runs a command in a shell, `npx braess` by its file: npx alone takes half a second each time. */
function shell(command: string, cwd: string): Promise<Ended> {
  const quick = command.replaceAll(/\bnpx braess\b/g, `'${process.execPath}' '${root}apps/cli/bin/braess.js'`);
  // Not a child of this test runner's: its settings must not leak into `node --test`.
  const { NODE_OPTIONS: _, NODE_TEST_CONTEXT: __, ...environment } = process.env;
  return new Promise((resolve, reject) => {
    const child = spawn('sh', ['-c', quick], { cwd, env: environment, stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    let err = '';
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, out, err }));
  });
}

/** `braess accuracy` needs measurements that are not part of the repository; without them it must say so, and how to give them. */
function endedWell(written: string, { code, err }: Ended): boolean {
  if (code === 0) return true;
  return (
    written.startsWith('npx braess accuracy') && code === 2 && err.startsWith('error: no measured latencies here: give --measured DIR')
  );
}

describe('the documentation', () => {
  const errors = compile();

  it('has TypeScript blocks that compile', () => {
    expect(snippets.length).toBeGreaterThanOrEqual(6);
    expect(errors).toBe('');
  });

  it('has a README example that prints what it says', () => {
    const printed = execFileSync(process.execPath, [`${snippetFolder}/out/README-md-0.js`], { encoding: 'utf8' });
    expect(printed).toMatch(/^5001 \{ serves: true, hits: 6 \} [0-9a-f]{16}\n$/);
  });

  it('has blocks of known languages only, so that none goes untested', () => {
    const known = ['ts', 'sh', 'yaml', 'json', 'text'];
    for (const { document, line, language } of blocks)
      expect(known, `${document}:${line} has a block of language '${language}'`).toContain(language);
    for (const { document, line, language, label } of blocks)
      if (language === 'yaml' || language === 'json')
        expect(label, `${document}:${line} needs a file name, or 'fragment', behind ${language}`).not.toBe('');
  });

  it('links only to files that exist', () => {
    for (const document of documents) {
      const text = readFileSync(root + document, 'utf8');
      for (const [, target] of text.matchAll(/\]\((?!https?:)([^)#]+)/g)) {
        const from = document.includes('/') ? `${root}${document.slice(0, document.lastIndexOf('/') + 1)}` : root;
        expect(existsSync(from + target), `${document} links to ${target}`).toBe(true);
      }
    }
  });

  it('is read right', () => {
    const markdown = 'x\n```sh\nnpm ci && npx braess doctor # why\n\nnpm test\n```\n\n```yaml a.yaml\nname: a\n```\n';
    const found = readBlocks('a.md', markdown);
    expect(found.map(({ line, language, label }) => [line, language, label])).toEqual([
      [2, 'sh', ''],
      [8, 'yaml', 'a.yaml'],
    ]);
    expect(commandsOf(found[0] as Block)).toEqual([
      { written: 'npm ci && npx braess doctor', run: 'npx braess doctor' },
      { written: 'npm test', run: undefined },
    ]);
  });

  it('leaves out installing and testing only', () => {
    const skipped = blocks.filter(({ language }) => language === 'sh').flatMap(commandsOf);
    expect(skipped.filter(({ run }) => run === undefined).map(({ written }) => written)).toEqual(['npm ci && npm test']);
    expect(blocksOf('README.md').flatMap((block) => (block.language === 'sh' ? commandsOf(block) : []))[0]?.run).toBe(
      'npx braess run configs/quickstart.yaml',
    );
  });
});

describe.concurrent('each document', { timeout: 240_000 }, () => {
  it.each(documents)('%s: its commands end with 0 and its scenarios run', async (document) => {
    const place = documentFolder(document);
    const inDocument = blocksOf(document);
    const commands = inDocument.filter(({ language }) => language === 'sh').flatMap(commandsOf);
    const printed = new Set<string>();
    for (const block of inDocument) {
      if (block.label === 'printed')
        for (const line of withoutTimes(block.text)) expect(printed, `${document}:${block.line}`).toContain(line);
      if (block.language === 'sh')
        for (const { written, run } of commandsOf(block)) {
          if (run === undefined) continue;
          const ended = await shell(run, place);
          expect(
            endedWell(written, ended),
            `${document}:${block.line} ${written}\nended with ${ended.code}: ${ended.out}${ended.err}`,
          ).toBe(true);
          for (const line of withoutTimes(ended.out)) printed.add(line);
        }
      const isRun = commands.some(({ run }) => run?.split(' ').includes(block.label));
      if (block.language === 'yaml' && !isRun) await runBlock(block, place);
    }
  });
});

/** Lines of what a command prints, as far as they are the same on every machine. */
function withoutTimes(text: string): string[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => line.replace(/[\d.,]+(?= (s wall|MB))/g, '#'));
}

/** Runs a scenario, of its requests the first fifty: what only shows when actors are built shows then. */
async function runBlock(block: Block, place: string): Promise<void> {
  const isFragment = block.label === 'fragment';
  const file = isFragment ? join(place, `fragment-${block.line}.yaml`) : join(place, block.label);
  if (isFragment) writeFileSync(file, `extends: configs/quickstart.yaml\n${block.text}`);
  const out = join(place, `runs/block-${block.line}`);
  const summary = await runScenario({ file, settings: ['workload.requests=50'], out, transport: 'memory' });
  expect(summary, `${block.document}:${block.line}`).toMatchObject({ submitted: 50, faults: [] });
}
