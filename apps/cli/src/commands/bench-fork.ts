import type { ForkResult } from '@braess/bench';
import { Command } from 'commander';
import { benchSession } from '../bench-session.js';
import { seedText, wholeNumber } from '../option-values.js';
import { fixed, textTable, verdict } from '../text-output.js';

export function forkCommand(): Command {
  return new Command('fork')
    .description('how long a fork of 10,000 actors takes, from the first of a process on')
    .option('--actors <N>', 'actors forked', wholeNumber(2, 2_000_000), 10_000)
    .option('--forks <n>', 'forks of the same moment', wholeNumber(1, 1000), 8)
    .option('--seed <S>', 'seed of every random stream', seedText, '1')
    .option('--json', 'print one JSON object and nothing else')
    .action(async ({ actors, forks, seed, json }: { actors: number; forks: number; seed: string; json?: boolean }) => {
      const { measureForks } = await import('@braess/bench');
      await benchSession(json === true, (session) => measureForks({ ...session, actors, forks, seed }), describe);
    });
}

function describe({ forkMs, targetMs, checkpointMs, checkpointBytes, restoreMs, sameEnd, fingerprint, seed, actors }: ForkResult): string {
  const rows = [
    ...forkMs.map((ms, index) => [`fork ${index + 1}`, `${fixed(ms, 1)} ms`, verdict(ms < targetMs)]),
    ['checkpoint', `${fixed(checkpointMs, 1)} ms`, ''],
    ['restore', `${fixed(restoreMs, 1)} ms`, ''],
  ];
  return `${textTable([`${fixed(actors)} actors`, 'time', `under ${targetMs} ms`], rows, ['left', 'right', 'left'])}
A checkpoint has ${fixed(checkpointBytes)} bytes. Forked and restored, the run ${sameEnd ? 'ends like' : 'DOES NOT END LIKE'} the original; seed ${seed}, fingerprint ${fingerprint}`;
}
