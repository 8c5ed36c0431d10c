import type { TenantFigures } from '../statistics/tenants.js';
import type { Distribution } from '../statistics/values.js';
import { type FolderSummary, readManifest, readSummary } from './folder.js';

/** One quantity over several runs. */
export interface ComparisonRow {
  name: string;
  /** Whose it is, where it is one tenant's alone. */
  tenant?: string;
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

type Quantity<Summary> = readonly [name: string, unit: string, better: ComparisonRow['better'], get: (summary: Summary) => number | null];

const OUTCOMES: readonly Quantity<TenantFigures>[] = [
  ['submitted', 'requests', 'neither', (s) => s.submitted],
  ['completed', 'requests', 'higher', (s) => s.completed],
  ['rejected', 'requests', 'lower', (s) => s.rejected],
  ['failed', 'requests', 'lower', (s) => s.failed],
  ['inFlight', 'requests', 'neither', (s) => s.inFlight],
];

const RATES: readonly Quantity<TenantFigures>[] = [
  ['requestsPerSecond', '1/s', 'higher', (s) => s.requestsPerSecond],
  ['outputTokensPerSecond', '1/s', 'higher', (s) => s.outputTokensPerSecond],
  ['goodput', '1/s', 'higher', (s) => s.goodput],
  ['sloAttainment', 'share', 'higher', (s) => s.sloAttainment],
];

function latencyQuantities<Key extends string>(keys: readonly Key[]): Quantity<Readonly<Record<Key, Distribution | null>>>[] {
  return keys.flatMap((key) =>
    (['mean', 'p50', 'p90', 'p99'] as const).map((part) => [`${key}.${part}`, 'ms', 'lower', (s) => s[key]?.[part] ?? null] as const),
  );
}

const QUANTITIES: readonly Quantity<FolderSummary>[] = [
  ...OUTCOMES,
  ['simulatedSeconds', 's', 'neither', (s) => s.simulatedSeconds],
  ...RATES,
  ['hitRates.total', 'share', 'higher', (s) => s.hitRates.total],
  ['hitRates.g1', 'share', 'neither', (s) => s.hitRates.g1],
  ['hitRates.g2', 'share', 'neither', (s) => s.hitRates.g2],
  ['hitRates.g3', 'share', 'neither', (s) => s.hitRates.g3],
  ['hitRates.g4', 'share', 'neither', (s) => s.hitRates.g4],
  ...latencyQuantities(['ttftMs', 'itlMs', 'tpotMs', 'e2eMs', 'transferMs', 'tierFetchMs']),
  ['wallSeconds', 's', 'lower', (s) => s.wallSeconds],
  ['events', 'events', 'neither', (s) => s.events],
  ['peakRssMb', 'MB', 'lower', (s) => s.peakRssMb],
];

const TENANT_QUANTITIES: readonly Quantity<TenantFigures>[] = [
  ...OUTCOMES,
  ...RATES,
  ...latencyQuantities(['ttftMs', 'itlMs', 'tpotMs', 'e2eMs']),
];

/** Summaries of two or more runs side by side; deltas are against the first. */
export function compareRuns(folders: readonly string[]): RunComparison {
  if (folders.length < 2) throw new RangeError(`compare needs at least two run folders, got ${folders.length}`);
  const summaries = folders.map((folder) => readSummary(folder));
  const rows = [...comparisonRows(QUANTITIES, summaries), ...tenantRows(summaries)];
  return { folders: [...folders], fingerprints: folders.map((folder) => readManifest(folder).fingerprint ?? ''), rows };
}

/** The rows of each tenant that a run tells of; null where another does not. */
function tenantRows(summaries: readonly FolderSummary[]): ComparisonRow[] {
  const byName = summaries.map(({ tenants = [] }) => new Map(tenants.map((tenant) => [tenant.name, tenant])));
  const names = new Set(byName.flatMap((tenants) => [...tenants.keys()]));
  return [...names].flatMap((tenant) => {
    const figures = byName.map((tenants) => tenants.get(tenant) ?? null);
    return comparisonRows(TENANT_QUANTITIES, figures).map((row) => ({ ...row, name: `tenants.${tenant}.${row.name}`, tenant }));
  });
}

function comparisonRows<Summary>(quantities: readonly Quantity<Summary>[], summaries: readonly (Summary | null)[]): ComparisonRow[] {
  return quantities.map(([name, unit, better, get]): ComparisonRow => {
    const values = summaries.map((summary) => (summary === null ? null : get(summary)));
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
}
