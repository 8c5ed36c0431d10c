import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { expect, it } from 'vitest';

/** Specifiers that a file imports before it runs: neither types nor `import()`. */
function importsOf(file: string): string[] {
  const { statements } = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest);
  return statements.flatMap((statement) => {
    if (!ts.isImportDeclaration(statement) || statement.importClause?.phaseModifier === ts.SyntaxKind.TypeKeyword) return [];
    return [(statement.moduleSpecifier as ts.StringLiteral).text];
  });
}

/** What a file and those beside it that it imports load from elsewhere. */
function loadedBy(file: string, seen = new Set<string>()): Set<string> {
  const outside = new Set<string>();
  if (seen.has(file)) return outside;
  seen.add(file);
  for (const specifier of importsOf(file)) {
    if (!specifier.startsWith('.')) outside.add(specifier);
    else for (const found of loadedBy(join(dirname(file), specifier.replace(/\.js$/, '.ts')), seen)) outside.add(found);
  }
  return outside;
}

// `--help` of any command answers in a tenth of a second or two: the emulator's own modules take twice as long to load.
it('loads nothing of the emulator before a command runs', () => {
  const loaded = [...loadedBy(fileURLToPath(new URL('../src/main.ts', import.meta.url)))];
  expect(loaded).toContain('commander');
  expect(loaded.filter((specifier) => specifier.startsWith('@braess/'))).toEqual([]);
});
