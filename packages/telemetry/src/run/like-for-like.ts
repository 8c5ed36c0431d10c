import { join } from 'node:path';
import { readManifest } from './folder.js';
import { openRunDatabase } from './query.js';

/** Why differences between two runs may not come from what was meant to be compared. */
export interface ComparisonNotice {
  /** The run that differs from the first, counted from 0. */
  readonly run: number;
  /** `requests` are in one run only; the rest differ between requests of the same number; `measure`: what counts, and how, was set otherwise. */
  readonly about: 'requests' | 'prompts' | 'outputs' | 'arrivals' | 'tenants' | 'measure';
  /** How many requests; null for `measure`. */
  readonly requests: number | null;
  readonly text: string;
}

/** What each run had to serve, and how it was measured, against the first one: the requests are compared one by one. */
export async function likeForLike(folders: readonly string[]): Promise<ComparisonNotice[]> {
  const [first, ...others] = folders as [string, ...string[]];
  const database = await openRunDatabase(first);
  try {
    const notices: ComparisonNotice[] = [];
    for (const [place, folder] of others.entries()) {
      const run = place + 1;
      // The other's file is found damaged, if it is, with its own name.
      (await openRunDatabase(folder)).close();
      const { rows } = await database.query(differencesSql(join(folder, 'requests.parquet')));
      const counts = (rows[0] as unknown[]).map(Number) as [number, number, number, number, number, number, number];
      notices.push(...requestNotices(run, counts), ...measureNotices(run, readManifest(first).scenario, readManifest(folder).scenario));
    }
    return notices;
  } finally {
    database.close();
  }
}

/** Requests of both, missing in the second, more there, and those with other prompts, outputs (where both completed), arrivals and tenants. */
function differencesSql(otherFile: string): string {
  const columns = 'request_id, tenant, outcome, input_tokens, output_tokens, arrival_ns';
  const both = 'a.request_id is not null and b.request_id is not null';
  return `with a as (select ${columns} from requests),
    b as (select ${columns} from read_parquet('${otherFile.replaceAll("'", "''")}'))
    select count(*) filter (${both}), count(*) filter (b.request_id is null), count(*) filter (a.request_id is null),
      count(*) filter (a.input_tokens <> b.input_tokens),
      count(*) filter (a.outcome = 'completed' and b.outcome = 'completed' and a.output_tokens <> b.output_tokens),
      count(*) filter (a.arrival_ns <> b.arrival_ns), count(*) filter (a.tenant <> b.tenant)
    from a full join b using (request_id)`;
}

function requestNotices(
  run: number,
  [both, missing, more, prompts, outputs, arrivals, tenants]: readonly [number, number, number, number, number, number, number],
): ComparisonNotice[] {
  const notice = (about: ComparisonNotice['about'], requests: number, text: string): ComparisonNotice[] =>
    requests === 0 ? [] : [{ run, about, requests, text }];
  const of = (count: number): string => `${count} of the ${both} requests of both`;
  return [
    ...notice('requests', missing + more, `had other requests: ${missing} of A's missing, ${more} more`),
    ...notice('prompts', prompts, `had other requests: ${of(prompts)} had prompts of another length`),
    ...notice('outputs', outputs, `had other requests: ${of(outputs)} completed with outputs of another length`),
    ...notice('tenants', tenants, `had other requests: ${of(tenants)} were another tenant's`),
    ...notice(
      'arrivals',
      arrivals,
      `had other arrivals: ${of(arrivals)} were sent at another time (another rate or seed, or clients that wait for answers)`,
    ),
  ];
}

/** Settings that change what the numbers mean. */
const measures = [
  ['warmupSeconds', (scenario: Tree) => scenario.warmupSeconds],
  ['untilSeconds', (scenario: Tree) => scenario.untilSeconds],
  ['workload.slo', (scenario: Tree) => tree(scenario.workload).slo],
  ['telemetry.firstTokenAt', (scenario: Tree) => tree(scenario.telemetry).firstTokenAt],
] as const;

type Tree = Readonly<Record<string, unknown>>;

function tree(value: unknown): Tree {
  return typeof value === 'object' && value !== null ? (value as Tree) : {};
}

function measureNotices(run: number, first: unknown, other: unknown): ComparisonNotice[] {
  return measures.flatMap(([path, of]) => {
    const [was, is] = [of(tree(first)), of(tree(other))].map((value) => JSON.stringify(value ?? null));
    return was === is
      ? []
      : [{ run, about: 'measure' as const, requests: null, text: `was measured otherwise: ${path} is ${is}, not ${was}` }];
  });
}
