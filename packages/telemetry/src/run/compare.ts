import { type FolderSummary, readManifest, readSummary } from './folder.js';

/** One quantity over several runs. */
export interface ComparisonRow {
  name: string;
  unit: string;
  /** One value a run; null where the run has none. */
  values: (number | null)[];
  /** Value minus the first run's. */
  deltas: (number | null)[];
  /** Delta over the first run's value, in percent; null where that is 0 or absent. */
  deltaPercents: (number | null)[];
  /** Whether more is better, less is better, or neither. */
  better: 'higher' | 'lower' | 'neither';
}

/** Summaries of several runs; rows have a value for each folder, in their order. */
export interface RunComparison {
  folders: string[];
  fingerprints: string[];
  rows: ComparisonRow[];
}

type Getter = (summary: FolderSummary) => number | null;

const ROWS: readonly (readonly [string, string, ComparisonRow['better'], Getter])[] = [
  ['submitted', 'requests', 'neither', (s) => s.submitted],
  ['completed', 'requests', 'higher', (s) => s.completed],
  ['rejected', 'requests', 'lower', (s) => s.rejected],
  ['failed', 'requests', 'lower', (s) => s.failed],
  ['inFlight', 'requests', 'neither', (s) => s.inFlight],
  ['simulatedSeconds', 's', 'neither', (s) => s.simulatedSeconds],
  ['requestsPerSecond', '1/s', 'higher', (s) => s.requestsPerSecond],
  ['outputTokensPerSecond', '1/s', 'higher', (s) => s.outputTokensPerSecond],
  ['goodput', '1/s', 'higher', (s) => s.goodput],
  ['sloAttainment', 'share', 'higher', (s) => s.sloAttainment],
  ['hitRates.total', 'share', 'higher', (s) => s.hitRates.total],
  ['hitRates.g1', 'share', 'neither', (s) => s.hitRates.g1],
  ['hitRates.g2', 'share', 'neither', (s) => s.hitRates.g2],
  ['hitRates.g3', 'share', 'neither', (s) => s.hitRates.g3],
  ['hitRates.g4', 'share', 'neither', (s) => s.hitRates.g4],
  ...(['ttftMs', 'itlMs', 'tpotMs', 'e2eMs', 'transferMs', 'tierFetchMs'] as const).flatMap((latency) =>
    (['mean', 'p50', 'p90', 'p99'] as const).map(
      (part) => [`${latency}.${part}`, 'ms', 'lower', (s: FolderSummary) => s[latency]?.[part] ?? null] as const,
    ),
  ),
  ['wallSeconds', 's', 'lower', (s) => s.wallSeconds],
  ['events', 'events', 'neither', (s) => s.events],
  ['peakRssMb', 'MB', 'lower', (s) => s.peakRssMb],
];

/** Summaries of two or more runs side by side; deltas are against the first. */
export function compareRuns(folders: readonly string[]): RunComparison {
  if (folders.length < 2) throw new RangeError(`compare needs at least two run folders, got ${folders.length}`);
  const summaries = folders.map((folder) => readSummary(folder));
  const rows = ROWS.map(([name, unit, better, get]): ComparisonRow => {
    const values = summaries.map(get);
    const base = values[0] ?? null;
    const deltas = values.map((value) => (value === null || base === null ? null : value - base));
    return {
      name,
      unit,
      better,
      values,
      deltas,
      deltaPercents: deltas.map((delta) => (delta === null || base === null || base === 0 ? null : (delta / base) * 100)),
    };
  });
  return { folders: [...folders], fingerprints: folders.map((folder) => readManifest(folder).fingerprint ?? ''), rows };
}
