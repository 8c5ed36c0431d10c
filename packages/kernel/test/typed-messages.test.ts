import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
const base = JSON.parse(readFileSync(new URL('../../../tsconfig.base.json', import.meta.url), 'utf8')) as {
  compilerOptions: { strict: boolean; exactOptionalPropertyTypes: boolean; noUncheckedIndexedAccess: boolean };
};

it('the compiler accepts right uses of declared messages and refuses wrong ones', { timeout: 120_000 }, () => {
  // The options that decide here are those of the workspace.
  expect(base.compilerOptions).toMatchObject({ strict: true, exactOptionalPropertyTypes: true, noUncheckedIndexedAccess: true });
  const options =
    '--ignoreConfig --noEmit --strict --exactOptionalPropertyTypes --noUncheckedIndexedAccess --skipLibCheck --target ES2023 --module NodeNext';
  const file = fileURLToPath(new URL('./types/typed-messages.ts', import.meta.url));
  let output = '';
  try {
    output = execFileSync(process.execPath, [compiler, ...options.split(' '), '--types', 'node', file], { encoding: 'utf8' });
  } catch (error) {
    output = (error as { stdout: string }).stdout;
  }
  // An unused `@ts-expect-error` is an error too, so a single silent line would show here.
  expect(output).toBe('');
  expect(readFileSync(file, 'utf8').match(/@ts-expect-error/g)?.length).toBeGreaterThan(25);
});
