import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Reproduction, RunsProgress } from '@braess/lab';
import { SingleBar } from 'cli-progress';
import { Command } from 'commander';
import { makeOutputFolder, refuse, refusingRanges } from '../arguments.js';
import { exitCodeHelp, exitCodes } from '../exit-codes.js';
import { interruptible } from '../interruption.js';
import { folderName, listOf, wholeNumber } from '../option-values.js';

interface ReproduceOptions {
  readonly table?: number[];
  readonly figure?: number[];
  readonly experiment?: number[];
  readonly quick?: boolean;
  readonly json?: boolean;
  readonly out?: string;
}

/** `braess reproduce`: the tables and figures of a paper, published against emulated. */
export function reproduceCommand(): Command {
  return new Command('reproduce')
    .description('runs the tables and figures of a paper and sets the published beside the emulated numbers')
    .argument('<paper>', 'netkv or poa')
    .option('--table <n>', 'only this table; may be given several times', listOf(wholeNumber(1, 99)))
    .option('--figure <n>', 'only this figure; may be given several times', listOf(wholeNumber(1, 99)))
    .option('--experiment <n>', 'only this experiment; may be given several times', listOf(wholeNumber(1, 99)))
    .option('--quick', 'fewer seeds and points, shorter runs')
    .option('--json', 'print one JSON object {rows} on stdout and nothing else')
    .option('--out <folder>', 'folder for rows.json and report.html; default the next free runs/reproduce-<paper>-<number>', folderName)
    .addHelpText('after', exitCodeHelp)
    .action(async (name: string, options: ReproduceOptions, command: Command) => {
      const { checkSelection, reproduce, reproductionSuite, reproductionSuiteNames } = await import('@braess/lab');
      const suite = reproductionSuite(name);
      if (suite === undefined) refuse(command, `no paper is named '${name}'; there are ${reproductionSuiteNames().join(', ')}`);
      const selection = {
        ...(options.table === undefined ? {} : { tables: options.table }),
        ...(options.figure === undefined ? {} : { figures: options.figure }),
        ...(options.experiment === undefined ? {} : { experiments: options.experiment }),
      };
      await refusingRanges(command, async () => checkSelection(suite, selection));
      if (options.out !== undefined) await makeOutputFolder(command, options.out);
      const progress = progressBar(options);
      await interruptible(async ({ signal }) => {
        try {
          const reproduction = await reproduce(suite, {
            quick: options.quick === true,
            signal,
            ...selection,
            ...(progress === undefined ? {} : { onProgress: progress.update }),
          });
          progress?.stop();
          await print(reproduction, options);
        } finally {
          progress?.stop();
        }
      });
    });
}

async function print(reproduction: Reproduction, options: ReproduceOptions): Promise<void> {
  const { makeFreeFolder, writeComparison } = await import('@braess/telemetry');
  const { reproductionPage, reproductionText } = await import('../reproduction-text.js');
  const folder = options.out ?? makeFreeFolder(join('runs', `reproduce-${reproduction.suite}`));
  const { rows } = reproduction;
  writeFileSync(join(folder, 'rows.json'), `${JSON.stringify({ rows }, null, 2)}\n`);
  await writeComparison(reproductionPage(reproduction), join(folder, 'report.html'));
  process.stdout.write(
    options.json === true ? `${JSON.stringify({ rows })}\n` : `${reproductionText(reproduction)}\n${join(folder, 'report.html')}\n`,
  );
  if (reproduction.interrupted) process.exitCode = exitCodes.interrupted;
}

/** A bar on a terminal; nothing where nobody looks. */
function progressBar({
  json,
}: ReproduceOptions): { readonly update: (progress: RunsProgress) => void; readonly stop: () => void } | undefined {
  if (json === true || process.stderr.isTTY !== true) return undefined;
  const bar = new SingleBar({
    format: '{bar} {percentage}% | {value} of {total} runs | {left}',
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
  });
  let started = false;
  return {
    update: ({ runsDone, runs, secondsLeft }) => {
      const payload = { left: secondsLeft === undefined ? '' : `about ${Math.ceil(secondsLeft)} s left` };
      if (!started) bar.start(runs, runsDone, payload);
      started = true;
      bar.update(runsDone, payload);
    },
    stop: () => bar.stop(),
  };
}
