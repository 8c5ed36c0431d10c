import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const shared = join(dirname(fileURLToPath(import.meta.url)), '..', '..', '..', '..', 'shared');

/** A real trace, or null where the folder with real traces is absent. */
export function realTrace(name: string): string | null {
  const path = join(shared, name);
  return existsSync(path) ? path : null;
}

/** Says in a test's name when it cannot run. */
export function withTrace(title: string, name: string): string {
  return realTrace(name) === null ? `${title} (NOT RUN: real traces absent)` : title;
}

const folder = mkdtempSync(join(tmpdir(), 'braess-workload-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

export function temporaryPath(name: string): string {
  return join(folder, name);
}

export function temporaryFile(name: string, content: string | Uint8Array): string {
  const path = temporaryPath(name);
  writeFileSync(path, content);
  return path;
}
