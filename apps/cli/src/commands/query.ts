import type { QueryResult, RunDatabase } from '@braess/telemetry';
import { Command } from 'commander';
import { checkRunFolder, refuse } from '../arguments.js';
import { exitCodeHelp } from '../exit-codes.js';
import { plainJson } from '../plain-json.js';
import { type Alignment, fixed, textTable } from '../text-output.js';

/** Rows printed as a table; JSON has them all. */
const tableRows = 1000;

const tableHelp = `
Tables: requests, series, decisions. Their columns: braess query RUN "describe requests"`;

export function queryCommand(): Command {
  return new Command('query')
    .description('one SQL query (DuckDB) over the tables of a run')
    .argument('<RUN>', 'folder that a run has written')
    .argument('<SQL>', 'such as "select outcome, count(*) from requests group by outcome"')
    .option('--json', 'print the rows as one JSON array of objects and nothing else')
    .addHelpText('after', tableHelp + exitCodeHelp)
    .action(async (folder: string, sql: string, { json }: { json?: boolean }, command: Command) => {
      checkRunFolder(command, folder);
      const { openRunDatabase } = await import('@braess/telemetry');
      const database = await openRunDatabase(folder);
      try {
        const result = await answer(command, database, sql);
        process.stdout.write(`${json ? plainJson(rowObjects(result)) : describe(result)}\n`);
      } finally {
        database.close();
      }
    });
}

async function answer(command: Command, database: RunDatabase, sql: string): Promise<QueryResult> {
  if (/^[\s;]*$/.test(sql)) refuse(command, `SQL: the query is empty.${tableHelp}`);
  try {
    return await database.query(sql);
  } catch (error) {
    return refuse(command, `SQL: ${(error as Error).message}${tableHelp}`);
  }
}

/** Rows as objects. A column name that comes again gets a number, so that no value is lost. */
function rowObjects({ columns, rows }: QueryResult): Record<string, unknown>[] {
  const seen = new Map<string, number>();
  const names = columns.map((name) => {
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count === 1 ? name : `${name}:${count - 1}`;
  });
  return rows.map((row) => Object.fromEntries(names.map((name, column) => [name, row[column]])));
}

function describe({ columns, rows }: QueryResult): string {
  if (columns.length === 0) return 'done, no rows';
  const shown = rows.slice(0, tableRows);
  const alignments = columns.map((_, column): Alignment => (shown.some((row) => typeof row[column] === 'number') ? 'right' : 'left'));
  const table = textTable(
    columns,
    shown.map((row) => row.map(cellText)),
    alignments,
  );
  const count = `${fixed(rows.length)} row${rows.length === 1 ? '' : 's'}`;
  const left = rows.length - shown.length;
  return left === 0 ? `${table}\n${count}` : `${table}\n${count}, the last ${fixed(left)} not shown: --json prints all`;
}

function cellText(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(10)));
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object' ? plainJson(value) : String(value);
}
