import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

const command = fileURLToPath(new URL('../bin/braess.js', import.meta.url));
const root = fileURLToPath(new URL('../../..', import.meta.url));

/** Runs the built command; `interruptAfterMs` sends it a Ctrl-C. */
export function braess(words: readonly string[], interruptAfterMs?: number): Promise<Ended> {
  return ended(process.execPath, [command, ...words], interruptAfterMs);
}

/** Runs it as a user does, through npm. */
export function npxBraess(words: readonly string[]): Promise<Ended> {
  return ended('npx', ['--no-install', 'braess', ...words]);
}

function ended(file: string, words: readonly string[], interruptAfterMs?: number): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, words, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    let err = '';
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, out, err: signal === null ? err : `${err}\n(ended by ${signal})` }));
    if (interruptAfterMs !== undefined) setTimeout(() => child.kill('SIGINT'), interruptAfterMs);
  });
}
