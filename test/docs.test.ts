import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

// Every TypeScript block of the documentation is compiled with the project's own settings, and the README's example is run.

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = `${root}test/.docs-snippets`;
const documents = ['README.md', ...readdirSync(`${root}docs`).map((name) => `docs/${name}`)].filter((name) => name.endsWith('.md'));

interface Snippet {
  readonly document: string;
  readonly index: number;
  readonly code: string;
}

function snippetsOf(document: string): Snippet[] {
  const text = readFileSync(root + document, 'utf8');
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map((match, index) => ({ document, index, code: match[1] as string }));
}

const snippets = documents.flatMap(snippetsOf);

function compile(): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  for (const { document, index, code } of snippets)
    writeFileSync(`${folder}/${document.replace(/\W/g, '-')}-${index}.ts`, `${code}\nexport {};\n`);
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
  writeFileSync(`${folder}/tsconfig.json`, JSON.stringify(config));
  const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  try {
    execFileSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8' });
    return '';
  } catch (error) {
    return String((error as { stdout?: string }).stdout);
  }
}

describe('the documentation', () => {
  const errors = compile();

  it('has TypeScript blocks that compile', () => {
    expect(snippets.length).toBeGreaterThanOrEqual(2);
    expect(errors).toBe('');
  });

  it('has a README example that prints what it says', () => {
    const printed = execFileSync(process.execPath, [`${folder}/out/README-md-0.js`], { encoding: 'utf8' });
    expect(printed).toMatch(/^5001 \{ serves: true, hits: 6 \} [0-9a-f]{16}\n$/);
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
});
