import type { CounterfactualPoa } from '@braess/lab';
import { Command } from 'commander';
import { checkRunFolder } from '../arguments.js';
import { exitCodeHelp, exitCodes } from '../exit-codes.js';
import { interruptible } from '../interruption.js';
import { wholeNumber } from '../option-values.js';
import { fixed, textTable } from '../text-output.js';

interface PoaOptions {
  readonly moments: number;
  readonly decisions: number;
  readonly forks: number;
  readonly json?: boolean;
}

/** `braess poa`: the counterfactual price of anarchy of a run's placements. */
export function poaCommand(): Command {
  return new Command('poa')
    .description('forks a run at sampled moments, replaces its next placements by better ones, and compares the latencies that come of it')
    .argument('<RUN>', 'folder that a run has written')
    .option('--moments <n>', 'moments, spread over the run', wholeNumber(3, 1000), 12)
    .option('--decisions <k>', 'placements replaced after each', wholeNumber(1, 1000), 8)
    .option('--forks <n>', 'forks tried at each', wholeNumber(2, 10_000), 16)
    .option('--json', 'print one JSON object on stdout and nothing else')
    .addHelpText('after', exitCodeHelp)
    .action(async (folder: string, options: PoaOptions, command: Command) => {
      checkRunFolder(command, folder);
      const { counterfactualPoa } = await import('@braess/lab');
      await interruptible(async ({ signal }) => {
        const found = await counterfactualPoa({ folder, ...options, signal });
        process.stdout.write(options.json === true ? `${JSON.stringify(found)}\n` : `${poaText(found)}\n`);
        if (signal.aborted) process.exitCode = exitCodes.interrupted;
        else if (!found.sameRun) process.exitCode = exitCodes.failed;
      });
    });
}

function poaText({ moments, estimate, bias, forks, sameRun }: CounterfactualPoa): string {
  const rows = moments.map(({ atSeconds, requests, realisedSeconds, warmStartSeconds, bestSeconds, changed }) => [
    fixed(atSeconds, 1),
    fixed(requests),
    fixed(realisedSeconds, 2),
    fixed(warmStartSeconds, 2),
    fixed(bestSeconds, 2),
    fixed(realisedSeconds / bestSeconds, 4),
    fixed(changed),
  ]);
  const head = ['at, s', 'requests', 'realised, s', 'warm start, s', 'best, s', 'ratio', 'changed'];
  const summary =
    estimate === null
      ? 'price of anarchy of the placements: undefined, fewer than three moments decided anything'
      : `price of anarchy of the placements: ${fixed(estimate.ratio, 4)} (95 %: ${fixed(estimate.low, 4)} to ${fixed(estimate.high, 4)}), ${estimate.pairs} moments, ${fixed(forks)} forks`;
  const check = sameRun
    ? 'the run, repeated to its end, has the fingerprint of the folder'
    : 'FAULT: the run, repeated to its end, has another fingerprint than the folder: its scenario file or the program has changed since';
  return [textTable(head, rows), summary, `bias: ${bias}`, check].join('\n');
}
