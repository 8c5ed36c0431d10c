import { posix } from 'node:path';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';
import { readWorkspaces, type Workspace } from './workspaces.js';

// One way down: a workspace imports only from layers below its own. Siblings talk through messages and types, never through imports.

const layers: readonly (readonly string[])[] = [
  ['apps/cli', 'apps/live', 'apps/dashboard'],
  // The benchmarks may measure any package; only the command may know them.
  ['bench'],
  ['packages/lab'],
  ['packages/cluster'],
  ['packages/control', 'packages/serving', 'packages/kvbm', 'packages/fabric', 'packages/workload', 'packages/telemetry', 'packages/games'],
  ['packages/protocol'],
  ['packages/kernel'],
];

function layerOf(folder: string): number {
  return layers.findIndex((layer) => layer.includes(folder));
}

/** The workspace folder that a package name stands for; undefined for packages from outside. */
function folderOf(packageName: string): string | undefined {
  const name = /^@braess\/([^/]+)/.exec(packageName)?.[1];
  if (name === undefined) return undefined;
  return layers.flat().find((folder) => posix.basename(folder) === name) ?? name;
}

/** The workspace a file imports from, for a package name or a relative path that leaves its own. */
function importedFolder(workspace: string, path: string, specifier: string): string | undefined {
  if (!specifier.startsWith('.')) return folderOf(specifier);
  const target = posix.join(posix.dirname(path), specifier);
  if (target.startsWith(`${workspace}/`)) return undefined;
  return layers.flat().find((folder) => target.startsWith(`${folder}/`)) ?? target;
}

/** A sentence for every import and dependency that goes sideways or up. */
function violations(workspaces: readonly Workspace[]): string[] {
  const found: string[] = [];
  for (const { folder, dependencies, sources } of workspaces) {
    const layer = layerOf(folder);
    if (layer < 0) found.push(`${folder} has no place in the layers of test/boundaries.test.ts`);
    const check = (imported: string | undefined, where: string): void => {
      if (imported === undefined || imported === folder) return;
      if (layerOf(imported) <= layer) found.push(`${where} imports ${imported}, which is not below ${folder}`);
    };
    for (const dependency of dependencies) check(folderOf(dependency), `${folder}/package.json`);
    for (const { path, text } of sources) {
      // Finds import, export from, import() and type imports alike.
      for (const { fileName } of ts.preProcessFile(text, true, true).importedFiles) {
        check(importedFolder(folder, path, fileName), path);
        const imported = folderOf(fileName);
        if (imported !== undefined && imported !== folder && !dependencies.includes(`@braess/${posix.basename(imported)}`))
          found.push(`${path} imports ${imported}, which ${folder}/package.json does not list`);
      }
    }
  }
  return found;
}

describe('import boundaries', () => {
  const workspaces = readWorkspaces();

  it('hold everywhere', () => {
    expect(workspaces.length).toBeGreaterThan(5);
    expect(workspaces.flatMap((workspace) => workspace.sources).length).toBeGreaterThan(50);
    expect(violations(workspaces)).toEqual([]);
  });

  function withFile(folder: string, text: string, dependencies: readonly string[] = []): Workspace {
    return { folder, dependencies, sources: [{ path: `${folder}/src/deep/file.ts`, text }] };
  }

  it.each([
    ['packages/serving', '@braess/kvbm', 'packages/kvbm'],
    ['packages/serving', '@braess/cluster', 'packages/cluster'],
    ['packages/control', '@braess/lab', 'packages/lab'],
    ['packages/kernel', '@braess/protocol', 'packages/protocol'],
    ['packages/cluster', '@braess/lab', 'packages/lab'],
    ['packages/lab', '@braess/bench', 'bench'],
    ['apps/live', '@braess/cli', 'apps/cli'],
    ['packages/fabric', '@braess/serving/deep/path', 'packages/serving'],
  ])('catch %s importing %s', (folder, specifier, imported) => {
    const complaint = `${folder}/src/deep/file.ts imports ${imported}, which is not below ${folder}`;
    const forms = [
      `import { x } from '${specifier}';`,
      `import type { X } from "${specifier}";`,
      `export * from '${specifier}';`,
      `const x = await import('${specifier}');`,
      `type X = import('${specifier}').X;`,
    ];
    for (const form of forms) expect(violations([withFile(folder, form)]), form).toContain(complaint);
  });

  it('catch a path that leaves its workspace, a dependency, one that is not listed, and a workspace without a layer', () => {
    expect(violations([withFile('packages/kvbm', `import '../../../serving/src/engine.js';`)])).toEqual([
      'packages/kvbm/src/deep/file.ts imports packages/serving, which is not below packages/kvbm',
    ]);
    expect(violations([withFile('packages/kvbm', '', ['@braess/fabric'])])).toEqual([
      'packages/kvbm/package.json imports packages/fabric, which is not below packages/kvbm',
    ]);
    expect(violations([withFile('packages/kvbm', `import '@braess/kernel';`)])).toEqual([
      'packages/kvbm/src/deep/file.ts imports packages/kernel, which packages/kvbm/package.json does not list',
    ]);
    expect(violations([withFile('packages/extra', '')])).toEqual(['packages/extra has no place in the layers of test/boundaries.test.ts']);
  });

  it('allow what lies below', () => {
    const below = ['@braess/kernel', '@braess/protocol'];
    expect(
      violations([withFile('packages/kvbm', `import '@braess/kernel/internals'; import '../other.js'; import 'zod';`, below)]),
    ).toEqual([]);
    expect(violations([withFile('apps/cli', `import '@braess/bench';`, ['@braess/bench'])])).toEqual([]);
    expect(violations([withFile('bench', `import '@braess/lab';`, ['@braess/lab'])])).toEqual([]);
  });
});
