import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { readWorkspaces, root } from './workspaces.js';

interface PackageFile {
  readonly name: string;
  readonly private?: boolean;
  readonly exports?: Readonly<Record<string, { readonly default: string }>>;
  readonly bin?: Readonly<Record<string, string>>;
}

describe('what npm pack makes of the workspaces', () => {
  it('holds all that the command runs, and nothing that the command needs is kept from being packed', () => {
    const printed = execFileSync('npm', ['pack', '--workspaces', '--dry-run', '--json', '--ignore-scripts', '--silent'], {
      cwd: root,
      encoding: 'utf8',
    });
    // An array, or an object by name, with the version of npm.
    const packed = Object.values(JSON.parse(printed) as Record<string, { name: string; files: { path: string }[] }>);
    const files = new Map(packed.map(({ name, files: list }) => [name, new Set(list.map(({ path }) => `./${path}`))]));
    const workspaces = new Map(
      readWorkspaces().map((workspace) => {
        const manifest = JSON.parse(readFileSync(`${root}${workspace.folder}/package.json`, 'utf8')) as PackageFile;
        return [manifest.name, { manifest, dependencies: workspace.dependencies }];
      }),
    );
    const needed = new Set(['@braess/cli']);
    for (const name of needed) for (const other of workspaces.get(name)!.dependencies) if (workspaces.has(other)) needed.add(other);
    expect(needed.size).toBeGreaterThan(10);
    for (const name of needed) {
      const { manifest } = workspaces.get(name)!;
      expect(manifest.private, name).toBeUndefined();
      expect(files.get(name), `${name} packs its licence`).toContain('./LICENSE');
      const run = [...Object.values(manifest.exports ?? {}).map((entry) => entry.default), ...Object.values(manifest.bin ?? {})];
      expect(run.length, name).toBeGreaterThan(0);
      for (const file of run) expect(files.get(name), `${name} packs ${file}`).toContain(file);
    }
  });

  it('carries one licence', () => {
    const licence = readFileSync(`${root}LICENSE`, 'utf8');
    for (const { folder } of readWorkspaces()) {
      const manifest = JSON.parse(readFileSync(`${root}${folder}/package.json`, 'utf8')) as PackageFile;
      if (manifest.private !== true) expect(readFileSync(`${root}${folder}/LICENSE`, 'utf8'), folder).toBe(licence);
    }
  });

  it('carries the scenarios that jobs, studies and reproductions run', () => {
    const lab = JSON.parse(readFileSync(`${root}packages/lab/package.json`, 'utf8')) as {
      files: string[];
      scripts: Record<string, string>;
    };
    expect(lab.files).toContain('configs');
    expect(lab.scripts.prepack).toContain("cpSync('../../configs', 'configs'");
    // No other package looks for files of the repository while it runs.
    const reaching = readWorkspaces().flatMap(({ sources }) =>
      sources.filter(({ text }) => /new URL\(['"`](\.\.\/){3,}(configs|docs|test|packages)/.test(text)).map(({ path }) => path),
    );
    expect(reaching).toEqual([]);
  });
});
