import type { ComparisonRow, RunComparison } from '@braess/telemetry';
import { Command } from 'commander';
import { checkRunFolder, refuse } from '../arguments.js';
import { colors } from '../colors.js';
import { exitCodeHelp } from '../exit-codes.js';
import { numberText, signedText } from '../number-text.js';
import { textTable } from '../text-output.js';

export function compareCommand(): Command {
  return new Command('compare')
    .description('summaries of several runs side by side, with the differences from the first')
    .argument('<RUN...>', 'folders that runs have written, two or more')
    .option('--json', 'print one JSON object and nothing else')
    .addHelpText('after', exitCodeHelp)
    .action(async (folders: string[], { json }: { json?: boolean }, command: Command) => {
      if (folders.length < 2) refuse(command, `RUN: compare needs two or more run folders, got ${folders.length}; add another`);
      for (const folder of folders) checkRunFolder(command, folder);
      const { compareRuns, queryRun } = await import('@braess/telemetry');
      const comparison = compareRuns(folders);
      const prompts = await Promise.all(folders.map(async (folder) => JSON.stringify((await queryRun(folder, promptsSql)).rows)));
      const others = folders.map((_, run) => runName(run)).filter((_, run) => prompts[run] !== prompts[0]);
      if (others.length > 0)
        process.stderr.write(`note: ${others.join(', ')} had other requests than A: differences come from those, too\n`);
      process.stdout.write(`${json ? JSON.stringify(comparison) : describe(comparison)}\n`);
    });
}

/** What tells sets of requests apart whatever became of them: how many, and the lengths of their prompts. */
const promptsSql = 'select count(*), sum(input_tokens::double), sum(input_tokens::double * input_tokens) from requests';

function describe({ folders, fingerprints, rows }: RunComparison): string {
  const names = folders.map((_, run) => runName(run));
  const first = names[0] as string;
  const head = ['quantity', 'unit', first, ...names.slice(1).flatMap((name) => [name, `${name} - ${first}`, '%'])];
  // A quantity that no run has says nothing.
  const shown = rows.filter((row) => row.values.some((value) => value !== null));
  const table = textTable(
    head,
    shown.map((row) => [
      row.name,
      row.unit,
      numberText(row.values[0] ?? null),
      ...folders.slice(1).flatMap((_, run) => cells(row, run + 1)),
    ]),
    head.map((_, column) => (column < 2 ? 'left' : 'right')),
  );
  const same = new Set(fingerprints).size === 1 ? '\nAll fingerprints are the same: the runs are identical.' : '';
  return `${folders.map((folder, run) => `${runName(run)}  ${fingerprints[run] || '-'}  ${folder}`).join('\n')}\n${table}${same}`;
}

/** A, B, ... Z, then 27 and up: folder names are too long for columns. */
function runName(run: number): string {
  return run < 26 ? String.fromCharCode(65 + run) : String(run + 1);
}

function cells({ values, deltas, deltaPercents, better }: ComparisonRow, run: number): string[] {
  const delta = deltas[run] ?? null;
  const percent = deltaPercents[run] ?? null;
  const text = percent === null ? '-' : `${percent > 0 ? '+' : ''}${percent.toFixed(2)}`;
  const improved = better === 'neither' || delta === null || delta === 0 ? undefined : delta > 0 === (better === 'higher');
  const painted = improved === undefined ? text : improved ? colors.green(text) : colors.red(text);
  return [numberText(values[run] ?? null), signedText(delta), painted];
}
