import type { StartupResult } from '@braess/bench';
import { Command } from 'commander';
import { benchSession } from '../bench-session.js';
import { seedText, wholeNumber } from '../option-values.js';
import { fixed, textTable, verdict } from '../text-output.js';

export function startupCommand(): Command {
  return new Command('startup')
    .description('how long a run of 100,000 cells takes to start')
    .option('--cells <N>', 'cells, one actor each', wholeNumber(1, 2_000_000), 100_000)
    .option('--seed <S>', 'seed of every random stream', seedText, '1')
    .option('--json', 'print one JSON object and nothing else')
    .action(async ({ cells, seed, json }: { cells: number; seed: string; json?: boolean }) => {
      const { measureStartup } = await import('@braess/bench');
      await benchSession(json === true, (session) => measureStartup({ ...session, cells, seed }), describe);
    });
}

function describe({ cells, modelMs, startMs, targetMs, peakRssMb, fingerprint, seed }: StartupResult): string {
  const table = textTable(
    ['cells', 'model', 'start', `under ${fixed(targetMs)} ms`, 'peak memory'],
    [[fixed(cells), `${fixed(modelMs)} ms`, `${fixed(startMs)} ms`, verdict(startMs < targetMs), `${fixed(peakRssMb)} MB`]],
  );
  return `${table}\nstart: from the call until every cell's start has run; seed ${seed}, fingerprint ${fingerprint}`;
}
