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
      const { compareRuns, likeForLike } = await import('@braess/telemetry');
      const comparison = compareRuns(folders);
      const notices = await likeForLike(folders);
      if (json !== true) for (const { run, text } of notices) process.stderr.write(`note: ${runName(run)}, unlike A, ${text}\n`);
      process.stdout.write(`${json ? JSON.stringify({ ...comparison, notices }) : describe(comparison)}\n`);
    });
}

/** Of each tenant there are 21 rows. */
const mostTenants = 8;

function describe({ folders, fingerprints, rows }: RunComparison): string {
  const names = folders.map((_, run) => runName(run));
  const first = names[0] as string;
  const head = ['quantity', 'unit', first, ...names.slice(1).flatMap((name) => [name, `${name} - ${first}`, '%'])];
  // A quantity that no run has says nothing.
  const untold = new Set(tenantsBySize(rows).slice(mostTenants));
  const shown = rows.filter(
    ({ tenant, values }) => values.some((value) => value !== null) && !(tenant !== undefined && untold.has(tenant)),
  );
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
  const left = untold.size === 0 ? '' : `\n${untold.size} more tenants with --json`;
  return `${folders.map((folder, run) => `${runName(run)}  ${fingerprints[run] || '-'}  ${folder}`).join('\n')}\n${table}${left}${same}`;
}

/** Those that submit most in a run first. */
function tenantsBySize(rows: readonly ComparisonRow[]): string[] {
  const sizes = rows.flatMap(({ tenant, name, values }) =>
    tenant !== undefined && name.endsWith('.submitted') ? [{ tenant, size: Math.max(...values.map((value) => value ?? 0)) }] : [],
  );
  return sizes.sort((one, other) => other.size - one.size).map(({ tenant }) => tenant);
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
