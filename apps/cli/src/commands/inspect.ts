import { Command } from 'commander';
import { exitCodeHelp } from '../exit-codes.js';
import { wholeNumber } from '../option-values.js';
import { fixed, textTable } from '../text-output.js';

/** The commands that look at finished runs: query, compare, explain, report. */
export function inspectCommands(): Command[] {
  return [queryCommand(), compareCommand(), explainCommand(), reportCommand()].map((command) => command.addHelpText('after', exitCodeHelp));
}

function queryCommand(): Command {
  return new Command('query')
    .description('runs SQL over a run: tables requests, series and decisions')
    .argument('<run>', 'run folder')
    .argument('<sql>', 'e.g. "select tenant, avg(ttft_ms) from requests group by tenant"')
    .option('--json', 'print rows as a JSON array of objects')
    .action(async (run: string, sql: string, { json }: { json?: boolean }) => {
      const { queryRun } = await import('@braess/telemetry');
      const { columns, rows } = await queryRun(run, sql);
      const objects = (): unknown[] => rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, row[index]])));
      process.stdout.write(
        `${
          json
            ? JSON.stringify(objects())
            : textTable(
                columns,
                rows.map((row) => row.map(cellText)),
              )
        }\n`,
      );
    });
}

function compareCommand(): Command {
  return new Command('compare')
    .description('sets the summaries of runs side by side, with the difference to the first')
    .argument('<runs...>', 'two or more run folders')
    .option('--json', 'print one JSON object')
    .action(async (runs: string[], { json }: { json?: boolean }) => {
      const { compareRuns } = await import('@braess/telemetry');
      const comparison = compareRuns(runs);
      if (json) {
        process.stdout.write(`${JSON.stringify(comparison)}\n`);
        return;
      }
      const rows = comparison.rows
        .filter((row) => row.values.some((value) => value !== null))
        .map((row) => [
          `${row.name} (${row.unit})`,
          ...row.values.flatMap((value, index) => {
            const percent = row.deltaPercents[index] ?? null;
            return index === 0
              ? [cellText(value)]
              : [cellText(value), percent === null ? '-' : `${percent >= 0 ? '+' : ''}${percent.toFixed(1)} %`];
          }),
        ]);
      const head = ['', ...runs.flatMap((run, index) => (index === 0 ? [run] : [run, 'change']))];
      const same = new Set(comparison.fingerprints).size === 1 ? 'same fingerprint: the runs are equal' : 'fingerprints differ';
      process.stdout.write(`${textTable(head, rows)}\n${same}\n`);
    });
}

function explainCommand(): Command {
  return new Command('explain')
    .description("tells one request's life step by step, with what each decision saw")
    .argument('<run>', 'run folder')
    .argument('<request>', 'number of the request', wholeNumber(0, 2 ** 31 - 1))
    .option('--json', 'print the steps as a JSON array')
    .action(async (run: string, request: number, { json }: { json?: boolean }) => {
      const { explainRequest } = await import('@braess/telemetry');
      const lines = await explainRequest(run, request);
      if (json) {
        process.stdout.write(`${JSON.stringify(lines)}\n`);
        return;
      }
      for (const line of lines) {
        const at = `${line.sinceArrivalMs >= 0 ? '+' : ''}${line.sinceArrivalMs.toFixed(3)} ms`;
        process.stdout.write(`${at.padStart(16)}  ${line.step.padEnd(11)} ${line.text}${line.where === '' ? '' : `  [${line.where}]`}\n`);
        for (const candidate of line.candidates) {
          const seen = Object.entries(candidate).flatMap(([name, value]) =>
            name === 'name' || name === 'chosen' || value === null ? [] : [`${name} ${cellText(value)}`],
          );
          process.stdout.write(`${' '.repeat(18)}${candidate.chosen ? '>' : ' '} ${candidate.name}: ${seen.join(', ')}\n`);
        }
      }
    });
}

function reportCommand(): Command {
  return new Command('report')
    .description('writes report.html into a run folder: one page of static SVG, no network')
    .argument('<run>', 'run folder')
    .action(async (run: string) => {
      const { writeReport } = await import('@braess/telemetry');
      process.stdout.write(`${await writeReport(run)}\n`);
    });
}

function cellText(value: unknown): string {
  if (value === null || value === undefined) return '-';
  if (typeof value !== 'number') return String(value);
  return Number.isInteger(value) ? String(value) : Math.abs(value) >= 1000 ? fixed(value, 1) : String(Number(value.toPrecision(5)));
}
