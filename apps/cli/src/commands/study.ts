import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command } from 'commander';
import { makeOutputFolder, refuse, refusingRanges } from '../arguments.js';
import { exitCodeHelp } from '../exit-codes.js';
import { interruptible } from '../interruption.js';
import { folderName } from '../option-values.js';
import { studyPage, studyText } from '../study-text.js';

interface StudyOptions {
  readonly quick?: boolean;
  readonly scenario?: string;
  readonly json?: boolean;
  readonly out?: string;
}

/** `braess study`: experiments that answer one question, with tables and a finding made from their numbers. */
export function studyCommand(): Command {
  return new Command('study')
    .description('runs a set of experiments that answer one question, and says what they found')
    .argument('<name>', 'name of the study; an unknown one is answered with the list')
    .option('--quick', 'thinner grids and shorter runs')
    .option('--scenario <file>', 'study this scenario (when-worth-it)')
    .option('--json', 'print one JSON object on stdout and nothing else')
    .option('--out <folder>', 'folder for study.json and report.html; default the next free runs/study-<name>-<number>', folderName)
    .addHelpText('after', exitCodeHelp)
    .action(async (name: string, options: StudyOptions, command: Command) => {
      const { runStudy, studyNamed, studyNames } = await import('@braess/lab');
      const study = studyNamed(name);
      if (study === undefined) refuse(command, `no study is named '${name}'; there are ${studyNames().join(', ')}`);
      if (options.out !== undefined) await makeOutputFolder(command, options.out);
      const quiet = options.json === true || process.stderr.isTTY !== true;
      await interruptible(async ({ signal }) => {
        const report = await refusingRanges(command, () =>
          runStudy(study, {
            quick: options.quick === true,
            signal,
            ...(options.scenario === undefined ? {} : { scenario: options.scenario }),
            ...(quiet ? {} : { onProgress: ({ runsDone, runs }) => process.stderr.write(`\r${runsDone} of ${runs} runs done `) }),
          }),
        );
        if (!quiet) process.stderr.write('\n');
        const { makeFreeFolder, writeComparison } = await import('@braess/telemetry');
        const folder = options.out ?? makeFreeFolder(join('runs', `study-${name}`));
        writeFileSync(join(folder, 'study.json'), `${JSON.stringify(report, null, 2)}\n`);
        const page = join(folder, 'report.html');
        await writeComparison(studyPage(report), page);
        process.stdout.write(options.json === true ? `${JSON.stringify(report)}\n` : `${studyText(report)}\n${page}\n`);
      });
    });
}
