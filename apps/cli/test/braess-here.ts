import { vi } from 'vitest';
import { buildCommand } from '../src/command.js';
import { exitCodeOf } from '../src/exit-codes.js';
import { createLogger } from '../src/logger.js';
import type { Ended } from './braess-process.js';

/** Runs the command in this process, without the start of another: for what it refuses, or only checks. */
export async function braessHere(words: readonly string[]): Promise<Ended> {
  const said = { out: '', err: '' };
  const spies = (['stdout', 'stderr'] as const).map((stream) =>
    vi.spyOn(process[stream], 'write').mockImplementation((text) => {
      said[stream === 'stdout' ? 'out' : 'err'] += String(text);
      return true;
    }),
  );
  const exitCodeBefore = process.exitCode;
  try {
    const command = buildCommand(await createLogger());
    const code = await command.parseAsync([...words], { from: 'user' }).then(
      () => Number(process.exitCode ?? 0),
      (error: unknown) => exitCodeOf(error, (text) => process.stderr.write(`${text}\n`)),
    );
    return { code, ...said };
  } finally {
    process.exitCode = exitCodeBefore;
    for (const spy of spies) spy.mockRestore();
  }
}
