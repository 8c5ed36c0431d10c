import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

/** Builds every package before a test run, so that an edit is never tested against stale output. */
export default function buildFirst(): void {
  const compiler = createRequire(import.meta.url).resolve('typescript/bin/tsc');
  const root = fileURLToPath(new URL('..', import.meta.url));
  execFileSync(process.execPath, [compiler, '-b', root], { stdio: 'inherit' });
}
