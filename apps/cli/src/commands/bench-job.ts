import type { JobResult } from '@braess/lab';
import { Command } from 'commander';
import { refusingRanges } from '../arguments.js';
import { exitCodes } from '../exit-codes.js';
import { wholeNumber } from '../option-values.js';
import { fixed, textTable, verdict } from '../text-output.js';

/** `braess bench job`: whole runs of the cluster, each in a fresh process. */
export function jobCommand(): Command {
  return new Command('job')
    .description('whole runs of the emulated cluster, each in a fresh process, against what is asked of them')
    .argument('[name]', 'one job; without it all, one after the other')
    .option('--requests <n>', "so many generated requests instead of the job's own", wholeNumber(1, 10_000_000))
    .option('--json', 'print one JSON object for a name, else an array')
    .action(async (name: string | undefined, { requests, json }: { requests?: number; json?: boolean }, command: Command) => {
      const { benchJobs } = await import('@braess/lab');
      const options = {
        ...(requests === undefined ? {} : { requests }),
        ...(json === true ? {} : { onJob: (job: string) => process.stderr.write(`running ${job}\n`) }),
      };
      const results = await refusingRanges(command, () => benchJobs(name, options));
      process.stdout.write(`${json === true ? JSON.stringify(name === undefined ? results : results[0]) : describe(results)}\n`);
      if (results.some((result) => result.completed < result.requests)) process.exitCode = exitCodes.lost;
    });
}

function describe(results: readonly JobResult[]): string {
  const table = textTable(
    ['job', 'requests', 'requests/s', 'events/s', 'wall s', 'CPU s', 'MB', 'shards', 'input'],
    results.map((result) => [
      result.name,
      fixed(result.requests),
      fixed(result.requestsPerSecond),
      fixed(result.eventsPerSecond),
      fixed(result.wallSeconds, 2),
      fixed(result.cpuSeconds, 2),
      fixed(result.peakRssMb),
      String(result.shards),
      result.input,
    ]),
  );
  const targets = results.flatMap(({ name, targets }) => targets.map(({ what, reached }) => `${name}: ${what}: ${verdict(reached)}`));
  const windows = results.flatMap(({ name, windows }) =>
    windows === null
      ? []
      : [
          `${name}: ${fixed(windows.windows)} windows, ${fixed(windows.eventsPerWindow, 1)} events a window, at best ${fixed(windows.bound, 2)} times one shard`,
        ],
  );
  return [table, ...targets, ...windows].join('\n');
}
