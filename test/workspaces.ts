import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));

/** A workspace as the tests of the repository see it. */
export interface Workspace {
  /** Its folder, such as packages/kernel. */
  readonly folder: string;
  /** Everything its package.json depends on, also for development. */
  readonly dependencies: readonly string[];
  readonly sources: readonly SourceFile[];
}

export interface SourceFile {
  /** Relative to the repository. */
  readonly path: string;
  readonly text: string;
}

const skipped = new Set(['node_modules', 'dist', '.turbo', '.git', 'coverage', 'runs', '.docs-snippets']);

/** Every file below a folder of the repository that is not built or installed. */
export function filesBelow(folder: string): string[] {
  if (!existsSync(root + folder)) return [];
  return readdirSync(root + folder, { withFileTypes: true }).flatMap((entry) => {
    if (skipped.has(entry.name)) return [];
    const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
    return entry.isDirectory() ? filesBelow(path) : [path];
  });
}

export function readWorkspaces(): Workspace[] {
  const folders = ['packages', 'apps'].flatMap((parent) => readdirSync(root + parent).map((name) => `${parent}/${name}`));
  return [...folders, 'bench']
    .filter((folder) => existsSync(`${root}${folder}/package.json`))
    .map((folder) => {
      const { dependencies = {}, devDependencies = {} } = JSON.parse(readFileSync(`${root}${folder}/package.json`, 'utf8')) as {
        dependencies?: Record<string, string>;
        devDependencies?: Record<string, string>;
      };
      const sources = filesBelow(`${folder}/src`)
        .filter((path) => /\.[cm]?tsx?$/.test(path))
        .map((path) => ({ path, text: readFileSync(root + path, 'utf8') }));
      return { folder, dependencies: Object.keys({ ...dependencies, ...devDependencies }), sources };
    });
}
