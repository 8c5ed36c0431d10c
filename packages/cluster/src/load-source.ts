import { statSync } from 'node:fs';
import {
  createTraceReport,
  generatedRequests,
  generateRequests,
  joinRequestTables,
  type MixturePart,
  mixRequests,
  pullsRequests,
  type RequestTable,
  sliceRequests,
  streamTrace,
  type TenantSpec,
  type TraceReport,
  tableRequests,
  type WorkloadLimit,
  type WorkloadSpec,
} from '@braess/workload';
import { workloadStreams } from './random-streams.js';
import { definedOnly } from './scenario/defined-only.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import { besideScenario, refuse } from './scenario/refuse.js';
import type { Scenario } from './scenario/schema.js';

/** The requests of a run, and what reading traces came across (none where all were generated). */
export interface LoadedWorkload {
  readonly table: RequestTable;
  readonly reports: readonly TraceReport[];
}

type Source = Scenario['workload']['source'];
type TraceSource = Extract<Source, { kind: 'trace' }>;
type MixtureSource = Extract<Source, { kind: 'mixture' }>;
type GeneratedSource = Exclude<Source, TraceSource | MixtureSource>;
type Path = readonly PropertyKey[];

const sourcePath: Path = ['workload', 'source'];

/** Rows a batch of a trace; larger than any usual trace, so that there is nothing to join. */
const batchRequests = 262_144;

/** Reads, generates or mixes the requests of a scenario's source. @throws ScenarioError, TraceError as `loadWorkload`. */
export async function loadSource(read: ReadScenario): Promise<LoadedWorkload> {
  const { source } = read.scenario.workload;
  if (source.kind === 'trace') {
    const { table, report } = await readTrace(read, source, sourcePath);
    return { table, reports: [report] };
  }
  if (source.kind === 'mixture') return mixSources(read, source);
  return { table: generate(read, source), reports: [] };
}

async function readTrace(read: ReadScenario, source: TraceSource, path: Path): Promise<{ table: RequestTable; report: TraceReport }> {
  const file = traceFile(read, [...path, 'file'], source.file);
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
  if (rows === 0 && source.slice !== undefined) refuse(read, [...path, 'slice'], `holds no request of ${file}; widen it`);
  return { table: joinRequestTables(batches), report };
}

/** @throws ScenarioError where no file stands. */
function traceFile(read: ReadScenario, path: Path, name: string): string {
  const file = besideScenario(read, path, name);
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined) refuse(read, path, `is "${name}": there is no file ${file}; check the path`);
  if (found.isDirectory()) refuse(read, path, `is "${name}": ${file} is a folder; give a file`);
  return file;
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

function generate(read: ReadScenario, source: GeneratedSource): RequestTable {
  const { scenario } = read;
  const tenants = source.kind !== 'mooncake-like' && scenario.workload.tenants.length > 0 ? { tenants: tenantSpecs(scenario) } : {};
  const limit = generatorLimit(read);
  return generating(read, sourcePath, () =>
    generateRequests({ ...source, ...tenants } as WorkloadSpec, workloadStreams(scenario.seed), limit),
  );
}

/** Each part by itself, with random streams of its own: a change to one leaves the others as they are. */
async function mixSources(read: ReadScenario, { parts }: MixtureSource): Promise<LoadedWorkload> {
  const { seed, workload } = read.scenario;
  const reports: TraceReport[] = [];
  const mixed: MixturePart[] = [];
  for (const [index, { tenant, source }] of parts.entries()) {
    const path = [...sourcePath, 'parts', index, 'source'];
    const named = tenant === undefined ? {} : { tenant };
    if (source.kind === 'trace') {
      const { table, report } = await readTrace(read, source, path);
      reports.push(report);
      mixed.push({ requests: tableRequests(table), ...named });
    } else {
      const streams = workloadStreams(seed, `parts[${index}]`);
      mixed.push({ requests: generating(read, path, () => generatedRequests(source as WorkloadSpec, streams)), ...named });
    }
  }
  const allEnd = parts.every(({ source }) => source.kind === 'trace');
  const limit = allEnd ? definedOnly({ requests: workload.requests }) : generatorLimit(read);
  return { table: generating(read, sourcePath, () => mixRequests(mixed, limit)), reports };
}

function generating<T>(read: ReadScenario, path: Path, make: () => T): T {
  try {
    return make();
  } catch (error) {
    refuse(read, path, `cannot be generated: ${(error as Error).message}`);
  }
}

/** Where generators stop. */
function generatorLimit(read: ReadScenario): WorkloadLimit {
  const { scenario } = read;
  const { requests } = scenario.workload;
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
  return { ...(requests === undefined ? {} : { requests }), ...(untilNs === undefined || !byArrival ? {} : { untilNs }) };
}

/** Whether every request comes at its arrival time or later: a client that takes one when it likes may come by one that arrives after the end of the run. */
function comeAtArrival({ workload: { client, sessions } }: Scenario): boolean {
  return sessions?.next !== 'think' && goesByArrivals(client);
}

/** Whether a client lets requests come at their times, rather than take them in an order of its own. */
export function goesByArrivals(client: Scenario['workload']['client']): boolean {
  return client.kind === 'open-loop' || (client.kind === 'closed-loop' && !pullsRequests(client));
}

/** The tenants of a scenario as generators take them. */
export function tenantSpecs(scenario: Scenario): TenantSpec[] {
  return scenario.workload.tenants.map(({ name, share, priority, slo }) => ({
    name,
    share,
    ...(priority === undefined ? {} : { priority }),
    ...(slo === undefined ? {} : { slo: definedOnly(slo) }),
  }));
}
