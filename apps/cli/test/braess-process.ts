import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

const command = fileURLToPath(new URL('../bin/braess.js', import.meta.url));
const root = fileURLToPath(new URL('../../..', import.meta.url));

/** Runs the built command; sends it a Ctrl-C after `interrupt` milliseconds, or a second after that file has appeared. */
export function braess(words: readonly string[], interrupt?: number | string): Promise<Ended> {
  return ended(process.execPath, [command, ...words], interrupt);
}

/** Runs it as a user does, through npm. */
export function npxBraess(words: readonly string[]): Promise<Ended> {
  return ended('npx', ['--no-install', 'braess', ...words]);
}

function ended(file: string, words: readonly string[], interrupt?: number | string): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(file, words, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
    let out = '';
    let err = '';
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, out, err: signal === null ? err : `${err}\n(ended by ${signal})` }));
    const kill = (): void => void child.kill('SIGINT');
    if (typeof interrupt === 'number') setTimeout(kill, interrupt);
    if (typeof interrupt === 'string') {
      const looking = setInterval(() => {
        if (!existsSync(interrupt)) return;
        clearInterval(looking);
        setTimeout(kill, 1000);
      }, 100);
      child.once('close', () => clearInterval(looking));
    }
  });
}
