import {
  assignTenants,
  checkBlockTokens,
  createTraceReport,
  generateRequests,
  joinRequestTables,
  pullsRequests,
  type RequestTable,
  sliceRequests,
  streamTrace,
  type TenantSpec,
  type TraceReport,
  type WorkloadSpec,
  writePlainCsv,
} from '@braess/workload';
import { uniformStream, workloadStreams } from './random-streams.js';
import { definedOnly } from './scenario/defined-only.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import { besideScenario, refuse } from './scenario/refuse.js';
import type { Scenario } from './scenario/schema.js';
import { longestNs } from './scenario/times.js';

/** The requests of a run, and what reading them came across (null: they were generated). */
export interface LoadedWorkload {
  readonly table: RequestTable;
  readonly report: TraceReport | null;
}

/** Rows a batch of a trace; larger than any usual trace, so that there is nothing to join. */
const batchRequests = 262_144;

/**
 * Reads or generates the requests of a scenario: source, number, rate and tenants. @throws ScenarioError for what contradicts itself,
 * TraceError (file and line) for a bad trace.
 */
export async function loadWorkload(read: ReadScenario): Promise<LoadedWorkload> {
  const { scenario } = read;
  const { source } = scenario.workload;
  const loaded = source.kind === 'trace' ? await readSource(read, source) : { table: generate(read), report: null };
  const { table } = loaded;
  const { tenants, rateFactor } = scenario.workload;
  if (source.kind !== 'independent' && source.kind !== 'sessions' && tenants.length > 0) {
    const known = new Set(tenants.map(({ name }) => name));
    const own = table.tenantNames.length > 1;
    if (own && table.tenantNames.some((name) => !known.has(name))) {
      refuse(
        read,
        ['workload', 'tenants'],
        `are ${[...known].join(', ')}, but the trace names its own: ${table.tenantNames.join(', ')}; give all of these, or none`,
      );
    }
    // A trace that names them keeps its own: shares are for those that do not.
    if (own) nameTenants(table, [...known]);
    else assignTenants(table, tenantSpecs(scenario), uniformStream(`${scenario.seed}/workload/tenants`));
  }
  if (table.requestCount === 0) {
    const { untilSeconds } = scenario;
    refuse(
      read,
      ['workload'],
      `has no requests${untilSeconds === undefined ? '' : `: none comes within the ${untilSeconds} s of untilSeconds`}`,
    );
  }
  checkBlockSizes(read, table);
  if (rateFactor !== 1)
    for (const times of [table.arrivalNs, table.delayNs])
      for (let row = 0; row < times.length; row++)
        if ((times[row] as number) > 0) times[row] = Math.round((times[row] as number) / rateFactor);
  const lastNs = table.arrivalNs[table.requestCount - 1] as number;
  if (lastNs > longestNs)
    refuse(
      read,
      ['workload'],
      `has its last request at ${lastNs / 1e9} s; at most ${Math.floor(longestNs / 1e9)} s (52 days): times are whole ns`,
    );
  return loaded;
}

/** Numbers the tenants of a trace as the scenario has them. */
function nameTenants(table: RequestTable, names: string[]): void {
  const numbers = table.tenantNames.map((name) => names.indexOf(name));
  for (let row = 0; row < table.requestCount; row++) table.tenant[row] = numbers[table.tenant[row] as number] as number;
  table.tenantNames = names;
}

function checkBlockSizes(read: ReadScenario, table: RequestTable): void {
  const { blockTokens } = read.scenario.serving[0] as Scenario['serving'][number];
  try {
    checkBlockTokens(table.blockTokens, blockTokens);
  } catch (error) {
    refuse(read, ['serving', 0, 'blockTokens'], `cannot serve these requests: ${(error as Error).message}`);
  }
}

/** Writes the requests of a scenario as a plain CSV trace: a run that reads it, at rateFactor 1, sees the same ones. */
export async function writeWorkload(read: ReadScenario, file: string): Promise<void> {
  await writePlainCsv(file, [(await loadWorkload(read)).table]);
}

/** The setting that takes the requests of a scenario from a trace, whatever its source is: what --trace does. */
export function traceSetting(file: string): string {
  return `workload.source=${JSON.stringify({ kind: 'trace', file })}`;
}

type TraceSource = Extract<Scenario['workload']['source'], { kind: 'trace' }>;

async function readSource(read: ReadScenario, source: TraceSource): Promise<LoadedWorkload> {
  const file = besideScenario(read, ['workload', 'source', 'file'], source.file);
  const limit = read.scenario.workload.requests ?? Number.POSITIVE_INFINITY;
  const report = createTraceReport(file);
  const batches: RequestTable[] = [];
  let rows = 0;
  const options = {
    arrivals: source.arrivals,
    badRows: source.badRows,
    prefixBlockTokens: source.prefixBlockTokens,
    hashTokens: source.hashTokens,
    ...(source.turnPrompts === undefined ? {} : { turnPrompts: source.turnPrompts }),
    batchRequests: source.slice === undefined ? Math.min(limit, batchRequests) : batchRequests,
    ...(source.format === undefined ? {} : { format: source.format }),
  };
  const { fromSeconds = 0, minInputTokens = 1, maxInputTokens = Number.POSITIVE_INFINITY } = source.slice ?? {};
  const slice = { fromNs: Math.round(fromSeconds * 1e9), minInputTokens, maxInputTokens };
  for await (const whole of streamTrace(file, options, report)) {
    const batch = source.slice === undefined ? whole : sliceRequests(whole, slice);
    batches.push(rows + batch.requestCount > limit ? firstRows(batch, limit - rows) : batch);
    rows += batch.requestCount;
    if (rows >= limit) break;
  }
  if (rows === 0 && source.slice !== undefined) refuse(read, ['workload', 'source', 'slice'], `holds no request of ${file}; widen it`);
  return { table: joinRequestTables(batches), report };
}

function firstRows(table: RequestTable, count: number): RequestTable {
  return {
    ...table,
    requestCount: count,
    arrivalNs: table.arrivalNs.slice(0, count),
    delayNs: table.delayNs.slice(0, count),
    inputTokens: table.inputTokens.slice(0, count),
    outputTokens: table.outputTokens.slice(0, count),
    tenant: table.tenant.slice(0, count),
    session: table.session.slice(0, count),
    blockOffsets: table.blockOffsets.slice(0, count + 1),
    blockHashes: table.blockHashes.slice(0, table.blockOffsets[count]),
    requestNames: table.requestNames.slice(0, count),
  };
}

function generate(read: ReadScenario): RequestTable {
  const { scenario } = read;
  const { source, requests } = scenario.workload;
  const spec = {
    ...source,
    ...(source.kind !== 'mooncake-like' && scenario.workload.tenants.length > 0 ? { tenants: tenantSpecs(scenario) } : {}),
  };
  // Arrivals are made faster afterwards, so the generator has to go on for as much longer.
  const untilNs = scenario.untilSeconds === undefined ? undefined : Math.round(scenario.untilSeconds * scenario.workload.rateFactor * 1e9);
  if (requests === undefined && untilNs === undefined) {
    refuse(read, ['workload'], 'generates requests without end; give workload.requests or untilSeconds');
  }
  const byArrival = comeAtArrival(scenario);
  if (requests === undefined && !byArrival) {
    refuse(
      read,
      ['workload'],
      'has a client that does not go by arrival times, so untilSeconds does not say how many requests it takes; give workload.requests, as many as it may take or more',
    );
  }
  try {
    return generateRequests(spec as WorkloadSpec, workloadStreams(scenario.seed), {
      ...(requests === undefined ? {} : { requests }),
      ...(untilNs === undefined || !byArrival ? {} : { untilNs }),
    });
  } catch (error) {
    refuse(read, ['workload', 'source'], `cannot be generated: ${(error as Error).message}`);
  }
}

/** Whether every request comes at its arrival time or later: a client that takes one when it likes may come by one that arrives after the end of the run. */
function comeAtArrival({ workload: { client, sessions } }: Scenario): boolean {
  if (client.kind === 'policy' || sessions?.next === 'think') return false;
  return client.kind !== 'closed-loop' || !pullsRequests(client);
}

function tenantSpecs(scenario: Scenario): TenantSpec[] {
  return scenario.workload.tenants.map(({ name, share, priority, slo }) => ({
    name,
    share,
    ...(priority === undefined ? {} : { priority }),
    ...(slo === undefined ? {} : { slo: definedOnly(slo) }),
  }));
}
