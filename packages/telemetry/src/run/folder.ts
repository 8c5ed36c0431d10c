import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type ParquetColumn, ParquetWriter } from '../parquet/writer.js';
import { createDecisionColumns, type DecisionColumns } from '../records/decisions.js';
import { createRequestColumns, type RequestColumns } from '../records/requests.js';
import { createSeriesColumns, type SeriesColumns } from '../records/series.js';
import { type ColumnTable, drainSegments, hasFullSegment } from '../records/table.js';
import { histogramCdf, type LatencyHistogram } from '../statistics/histogram.js';
import {
  addSegmentToSummary,
  createSummaryState,
  finishSummary,
  type RunSummary,
  type SummaryOptions,
  type SummaryState,
} from '../statistics/summary.js';
import { writing } from '../writing.js';
import { columnValues, DECISION_COLUMNS, type FieldColumn, REQUEST_COLUMNS, type RunNames, SERIES_COLUMNS } from './tables.js';

/** Version of the run folder's layout, in manifest.json. 2: requests have `tier_fetch_ns` and `tier_fetch_bytes`. */
export const RUN_FORMAT = 2;

/** manifest.json: what was run, with what, and what came of it. */
export interface RunManifest {
  format: number;
  /** `running` until the folder is closed: a run that was killed keeps it. */
  status: 'running' | 'complete' | 'interrupted' | 'failed';
  /** The scenario as it ran, every default filled in. */
  scenario: unknown;
  seed: string;
  versions: Record<string, string>;
  /** Absolute path of the scenario file, and the settings over it: what a fork of the run starts from. Null where it came from elsewhere. */
  source?: { file: string; settings: readonly string[] } | null;
  /** Names of all engines and their GPUs, also of those that never work; absent where there are none. */
  engines?: readonly string[];
  gpus?: readonly string[];
  fingerprint: string | null;
  /** Rows and bytes of each table. */
  tables: Record<string, { rows: number; bytes: number }>;
}

/** Facts of the run that only the caller knows; they join the summary in summary.json. */
export interface RunFacts {
  fingerprint: string;
  wallSeconds: number;
  events: number;
  peakRssMb: number;
  /** Time in which frontends with requests in flight did without their network oracle, mean of the frontends; absent where there is no oracle. */
  oracleFallbackSeconds?: number;
}

/** summary.json of a run folder. */
export type FolderSummary = RunSummary & RunFacts;

/** What a run folder begins with; what came of the run is given when it is closed. */
export interface RunFolderOptions {
  folder: string;
  scenario: unknown;
  seed: string;
  versions: Record<string, string>;
  source?: { file: string; settings: readonly string[] };
  engines?: readonly string[];
  gpus?: readonly string[];
  names: RunNames;
  /** Tenants are told apart by `names`. */
  summary?: Omit<SummaryOptions, 'tenantNames'>;
  /** `gzip` makes the files about a third of the size and writing about ten times slower. */
  compression?: 'none' | 'gzip';
}

/** The tables of a run: those of a run folder, or kept in memory. */
export interface RunTables {
  readonly requests: RequestColumns;
  readonly series: SeriesColumns;
  readonly decisions: DecisionColumns;
  readonly names: RunNames;
}

/** Empty tables that stay in memory; `names` may grow. */
export function createRunTables(names: RunNames): RunTables {
  return { requests: createRequestColumns(), series: createSeriesColumns(), decisions: createDecisionColumns(), names };
}

/** A run folder being written. Append to the three tables and call `flushRunFolder` now and then: memory stays at one segment a table. */
export interface RunFolder extends RunTables {
  readonly folder: string;
  readonly summary: SummaryState;
  readonly manifest: RunManifest;
  readonly writers: { requests: ParquetWriter; series: ParquetWriter; decisions: ParquetWriter };
}

/**
 * Makes a folder and those above it, level by level: where a file system takes no folders (/proc), Node's recursive way never returns.
 * @throws Error that names what cannot be made and why.
 */
export function makeFolder(folder: string): void {
  if (existsSync(folder)) {
    if (statSync(folder).isDirectory()) return;
    throw new Error(`folder ${folder} cannot be made: ${folder} is a file; give another folder`);
  }
  makeFolder(dirname(folder));
  try {
    mkdirSync(folder);
  } catch (error) {
    if (!existsSync(folder)) throw new Error(`folder ${folder} cannot be made: ${(error as Error).message}; give another folder`);
  }
}

/** Makes `<start>-<number>` with the least number that is free, and gives its path: of those who ask at the same time each gets another. */
export function makeFreeFolder(start: string): string {
  makeFolder(dirname(start));
  for (let number = 1; ; number++) {
    const folder = `${start}-${number}`;
    try {
      mkdirSync(folder);
      return folder;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') continue;
      throw new Error(`folder ${folder} cannot be made: ${(error as Error).message}; give another folder`);
    }
  }
}

/** Creates the folder and its open files. Refuses a folder that already holds a run, also one that began a moment ago. */
export function openRunFolder(options: RunFolderOptions): RunFolder {
  const { folder } = options;
  makeFolder(folder);
  const manifest: RunManifest = {
    format: RUN_FORMAT,
    status: 'running',
    scenario: options.scenario,
    seed: options.seed,
    versions: options.versions,
    source: options.source ?? null,
    ...(options.engines === undefined ? {} : { engines: options.engines }),
    ...(options.gpus === undefined ? {} : { gpus: options.gpus }),
    fingerprint: null,
    tables: {},
  };
  try {
    writeJson(join(folder, 'manifest.json'), manifest, 'wx');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new Error(`run folder ${folder} already holds a run (manifest.json); give another folder or remove it first`);
  }
  const open = (name: string, columns: readonly ParquetColumn[]): ParquetWriter =>
    new ParquetWriter(join(folder, `${name}.parquet`), columns, { compression: options.compression ?? 'none' });
  return {
    ...createRunTables(options.names),
    folder,
    summary: createSummaryState({ ...options.summary, tenantNames: options.names.tenants }),
    manifest,
    writers: {
      requests: open('requests', REQUEST_COLUMNS),
      series: open('series', SERIES_COLUMNS),
      decisions: open('decisions', DECISION_COLUMNS),
    },
  };
}

/** Writes the segments that are full. Cheap when none is. */
export function flushRunFolder(run: RunFolder): void {
  if (hasFullSegment(run.requests) || hasFullSegment(run.series) || hasFullSegment(run.decisions)) flush(run, false);
}

/** Writes the rest, closes the Parquet files and writes summary.json and manifest.json. Returns the summary. */
export function closeRunFolder(
  run: RunFolder,
  itl: LatencyHistogram,
  facts: RunFacts | (() => RunFacts),
  options: { simulatedNs?: number; status?: 'complete' | 'interrupted' | 'failed'; itlOfTenants?: readonly LatencyHistogram[] } = {},
): FolderSummary {
  flush(run, true);
  for (const writer of Object.values(run.writers)) writer.close();
  // Wall time ends when the files are closed, so a caller can measure it inside `facts`.
  const known = typeof facts === 'function' ? facts() : facts;
  const summary: FolderSummary = { ...finishSummary(run.summary, itl, options.simulatedNs, options.itlOfTenants), ...known };
  run.manifest.status = options.status ?? 'complete';
  run.manifest.fingerprint = known.fingerprint;
  for (const [name, writer] of Object.entries(run.writers)) run.manifest.tables[name] = { rows: writer.rows, bytes: writer.bytes };
  writeJson(join(run.folder, 'summary.json'), summary);
  // Gaps are too many to store one by one, so their distribution is kept: (ms, share of gaps at or below).
  const gaps = join(run.folder, 'itl.json');
  writing(gaps, () => writeFileSync(gaps, JSON.stringify({ unit: 'ms', points: cdfPoints(itl) })));
  writeJson(join(run.folder, 'manifest.json'), run.manifest);
  return summary;
}

/** manifest.json of a folder. Errors name the folder and what is wrong with it. */
export function readManifest(folder: string): RunManifest {
  const manifest = readJson<RunManifest>(folder, 'manifest.json');
  if (manifest.format !== RUN_FORMAT) {
    throw new Error(
      `run folder ${folder} has format ${manifest.format}, this version reads format ${RUN_FORMAT}; run it again with this version`,
    );
  }
  return manifest;
}

/** summary.json of a folder. */
export function readSummary(folder: string): FolderSummary {
  return readJson<FolderSummary>(folder, 'summary.json');
}

function cdfPoints(histogram: LatencyHistogram): [number, number][] {
  const points = histogramCdf(histogram);
  const step = Math.max(1, Math.ceil(points.length / 400));
  return points.filter((_, i) => i % step === 0 || i === points.length - 1).map(({ valueNs, share }) => [valueNs / 1e6, share]);
}

function flush(run: RunFolder, all: boolean): void {
  drainTable(run.requests, all, run.writers.requests, REQUEST_COLUMNS, run.names, (segment) => addSegmentToSummary(run.summary, segment));
  drainTable(run.series, all, run.writers.series, SERIES_COLUMNS, run.names);
  drainTable(run.decisions, all, run.writers.decisions, DECISION_COLUMNS, run.names);
}

function drainTable<Segment extends { rows: number }>(
  table: ColumnTable<Segment>,
  all: boolean,
  writer: ParquetWriter,
  columns: readonly FieldColumn<Segment>[],
  names: RunNames,
  alsoUse?: (segment: Segment) => void,
): void {
  drainSegments(table, all, (segment) => {
    writer.writeRowGroup(segment.rows, columnValues(segment, columns, names));
    alsoUse?.(segment);
  });
}

function writeJson(path: string, value: unknown, flag: 'w' | 'wx' = 'w'): void {
  writing(path, () => writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`, { flag }));
}

function readJson<T>(folder: string, file: string): T {
  const path = join(folder, file);
  if (!existsSync(path))
    throw new Error(`${folder} is not a finished run folder: ${file} is missing; give the folder a run has written (--out)`);
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as T;
  } catch (error) {
    throw new Error(`${path} is not valid JSON (${(error as Error).message}); the run folder is damaged`);
  }
}
