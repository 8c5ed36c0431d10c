import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { readManifest } from './folder.js';

/** A query's result: column names and rows of plain values (64-bit integers as numbers where exact, else as text). */
export interface QueryResult {
  columns: string[];
  rows: unknown[][];
}

/** An open run: several queries without loading the database again. Close it. */
export interface RunDatabase {
  query(sql: string): Promise<QueryResult>;
  close(): void;
}

/** Rows a query may return; more belongs into a file (`copy (select ...) to 'file.csv'`). */
const MAX_RESULT_ROWS = 1_000_000;

/** Latencies in ms next to the stored times, defined as in `RunSummary`. The parts of TTFT end with it, also where the first token is the prefill's. */
const REQUEST_VIEW = `select *,
  arrival_ns / 1e9 as arrival_s,
  (first_token_ns - arrival_ns) / 1e6 as ttft_ms,
  (last_token_ns - arrival_ns) / 1e6 as e2e_ms,
  case when output_tokens > 1 then round((last_token_ns - first_token_ns) / (output_tokens - 1)) / 1e6 end as tpot_ms,
  max_itl_ns / 1e6 as max_itl_ms,
  (prefill_start_ns - arrival_ns) / 1e6 as queue_ms,
  tier_fetch_ns / 1e6 as tier_fetch_ms,
  (prefill_end_ns - prefill_start_ns - tier_fetch_ns) / 1e6 as prefill_ms,
  (coalesce(least(transfer_end_ns, first_token_ns), prefill_end_ns) - prefill_end_ns) / 1e6 as handover_ms,
  (transfer_end_ns - transfer_start_ns) / 1e6 as transfer_ms,
  (first_token_ns - coalesce(least(transfer_end_ns, first_token_ns), prefill_end_ns)) / 1e6 as first_decode_ms,
  cached_tokens_g1 + cached_tokens_g2 + cached_tokens_g3 + cached_tokens_g4 as cached_tokens`;

const VIEWS: Readonly<Record<string, string>> = {
  requests: REQUEST_VIEW,
  series: 'select *, time_ns / 1e9 as time_s',
  decisions: 'select *, time_ns / 1e9 as time_s, view_age_ns / 1e6 as view_age_ms',
};

/** Opens a run folder for SQL: the views `requests`, `series` and `decisions`, the stored columns plus times in s and latencies in ms. */
export async function openRunDatabase(folder: string): Promise<RunDatabase> {
  readManifest(folder);
  for (const table of Object.keys(VIEWS)) {
    if (!existsSync(join(folder, `${table}.parquet`))) {
      throw new Error(`run folder ${folder} has no ${table}.parquet: the run was killed before it closed its files; run it again`);
    }
  }
  // Loaded only here: it costs about 70 ms and 60 MB, which a run that only writes must not pay.
  const { DuckDBInstance } = await import('@duckdb/node-api');
  const instance = await DuckDBInstance.create(':memory:', {
    threads: '2',
    autoinstall_known_extensions: 'false',
    autoload_known_extensions: 'false',
  });
  const connection = await instance.connect();
  for (const [table, select] of Object.entries(VIEWS)) {
    const path = join(folder, `${table}.parquet`).replaceAll("'", "''");
    try {
      await connection.run(`create view ${table} as ${select} from read_parquet('${path}')`);
    } catch (error) {
      const [reason] = (error as Error).message.split('\n');
      throw new Error(`run folder ${folder}: ${table}.parquet is damaged (${reason}); run it again`, { cause: error });
    }
  }
  // One query at a time: a second one would end the first one's result.
  let last: Promise<unknown> = Promise.resolve();
  const run = async (sql: string): Promise<QueryResult> => {
    // What is no SQL at all is for the query itself to say.
    const count = await connection.extractStatements(sql).then(
      (statements) => statements.count,
      () => 1,
    );
    if (count > 1) throw new RangeError(`these are ${count} statements, of which one result would be seen; ask one at a time`);
    const reader = await connection.runAndReadUntil(sql, MAX_RESULT_ROWS + 1);
    if (reader.currentRowCount > MAX_RESULT_ROWS) {
      throw new RangeError(`the query returns more than ${MAX_RESULT_ROWS} rows; aggregate, add a limit, or use copy (...) to 'file.csv'`);
    }
    return { columns: reader.columnNames(), rows: reader.getRowsJS().map((row) => row.map(plainValue)) };
  };
  return {
    query(sql) {
      const result = last.then(() => run(sql));
      last = result.catch(() => undefined);
      return result;
    },
    close() {
      connection.closeSync();
      instance.closeSync();
    },
  };
}

/** One query over one run folder. A mistake in the SQL is reported with DuckDB's own message. */
export async function queryRun(folder: string, sql: string): Promise<QueryResult> {
  const database = await openRunDatabase(folder);
  try {
    return await database.query(sql);
  } finally {
    database.close();
  }
}

function plainValue(value: unknown): unknown {
  if (typeof value !== 'bigint') return value;
  return value <= BigInt(Number.MAX_SAFE_INTEGER) && value >= BigInt(Number.MIN_SAFE_INTEGER) ? Number(value) : String(value);
}
