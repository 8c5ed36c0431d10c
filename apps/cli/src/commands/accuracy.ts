import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { AccuracyRow } from '@braess/serving';
import { Command } from 'commander';
import { judgeAccuracy, type Verdict } from '../accuracy-targets.js';
import { refuse } from '../arguments.js';
import { exitCodeHelp, exitCodes } from '../exit-codes.js';
import { checkMeasuredFolder, measuredFormat } from '../measured-folder.js';
import { fixed, textTable, verdict } from '../text-output.js';

/** Where the repository's own measurements lie, beside its checkout; absent in an installed package. */
const besideCheckout = fileURLToPath(new URL('../../../../../shared/measured', import.meta.url));

export function accuracyCommand(): Command {
  return new Command('accuracy')
    .description('the timing model against measured engines: every row, and whether the errors are within the targets')
    .option('--measured <DIR>', 'folder with the measured latencies (default: shared/measured beside the checkout, if there)')
    .option('--json', 'print the rows as one JSON array and nothing else')
    .addHelpText('after', `\n${measuredFormat}\n${exitCodeHelp}`)
    .action(async ({ measured, json }: { measured?: string; json?: boolean }, command: Command) => {
      const folder = measured ?? besideCheckout;
      if (measured === undefined && !existsSync(folder))
        refuse(command, `no measured latencies here: give --measured DIR. ${measuredFormat}`);
      checkMeasuredFolder(command, folder);
      const { accuracyRows } = await import('@braess/serving');
      const rows = accuracyRows(folder);
      if (rows.length === 0) throw new Error(`${folder} holds no measured row, so nothing can be judged; add sweeps or runs`);
      const verdicts = judgeAccuracy(rows);
      const missed = verdicts.filter((each) => !each.reached);
      process.stdout.write(`${json ? JSON.stringify(rows) : describe(rows, verdicts)}\n`);
      // Not the logger's: a missed target is the command's answer, also with --json.
      for (const { group, basis } of missed) process.stderr.write(`target missed: ${group}, ${basis}\n`);
      if (missed.length > 0) process.exitCode = exitCodes.failed;
    });
}

function describe(rows: readonly AccuracyRow[], verdicts: readonly Verdict[]): string {
  const groups = [...new Set(verdicts.map(({ group }) => group))];
  const tables = groups.map((group) => {
    const ofGroup = verdicts.filter((each) => each.group === group).flatMap((each) => each.rows);
    const ordered = rows.filter((row) => ofGroup.includes(row));
    return `${group}, ms\n${rowTable(ordered)}`;
  });
  const all = verdicts.every(({ reached }) => reached) ? 'All targets are reached.' : 'A target is missed.';
  return `${tables.join('\n\n')}\n\n${verdictTable(verdicts)}\nerrors in percent of the measured value; fit: used to calibrate the model, prediction: not seen by it\n${all}`;
}

function rowTable(rows: readonly AccuracyRow[]): string {
  return textTable(
    ['row', 'measured', 'predicted', 'error %', 'basis'],
    rows.map(({ id, measured, predicted, errorPercent, basis }) => [
      id,
      fixed(measured, 3),
      fixed(predicted, 3),
      fixed(errorPercent, 2),
      basis,
    ]),
    ['left', 'right', 'right', 'right', 'left'],
  );
}

function verdictTable(verdicts: readonly Verdict[]): string {
  const limit = (value: number | undefined): string => (value === undefined ? '-' : fixed(value));
  return textTable(
    ['group', 'basis', 'rows', 'mean |error| %', 'at most', 'largest %', 'at most', 'reached'],
    verdicts.map(({ group, basis, rows, meanPercent, largestPercent, target, reached }) => [
      group,
      basis,
      String(rows.length),
      fixed(meanPercent, 2),
      limit(target.meanPercent),
      fixed(largestPercent, 2),
      limit(target.largestPercent),
      target.meanPercent === undefined && target.largestPercent === undefined ? '-' : verdict(reached),
    ]),
    ['left', 'left', 'right', 'right', 'right', 'right', 'right', 'left'],
  );
}
