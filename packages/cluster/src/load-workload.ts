import { assignTenants, checkBlockTokens, DEFAULT_TENANT, hasDelays, type RequestTable, writePlainCsv } from '@braess/workload';
import { goesByArrivals, type LoadedWorkload, loadSource, tenantSpecs } from './load-source.js';
import { uniformStream } from './random-streams.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import { refuse } from './scenario/refuse.js';
import type { Scenario } from './scenario/schema.js';
import { longestNs } from './scenario/times.js';

/**
 * Loads the requests of a scenario: source, number, rate and tenants. @throws ScenarioError for what contradicts itself,
 * TraceError (file and line) for a bad trace.
 */
export async function loadWorkload(read: ReadScenario): Promise<LoadedWorkload> {
  const { scenario } = read;
  const { source, rateFactor } = scenario.workload;
  const loaded = await loadSource(read);
  const { table } = loaded;
  // The two generators have drawn theirs.
  if (source.kind !== 'independent' && source.kind !== 'sessions') giveTenants(read, table);
  if (table.requestCount === 0) {
    const { untilSeconds } = scenario;
    refuse(
      read,
      ['workload'],
      `has no requests${untilSeconds === undefined ? '' : `: none comes within the ${untilSeconds} s of untilSeconds`}`,
    );
  }
  checkBlockSizes(read, table);
  checkDelays(read, table);
  if (rateFactor !== 1) for (const times of [table.arrivalNs, table.delayNs]) shorten(times, rateFactor);
  const lastNs = table.arrivalNs[table.requestCount - 1] as number;
  if (lastNs > longestNs)
    refuse(
      read,
      ['workload'],
      `has its last request at ${lastNs / 1e9} s; at most ${Math.floor(longestNs / 1e9)} s (52 days): times are whole ns`,
    );
  return loaded;
}

/** Makes times that are there (-1: none) so many times as short. */
function shorten(timesNs: Float64Array, factor: number): void {
  for (let row = 0; row < timesNs.length; row++) {
    const timeNs = timesNs[row] as number;
    if (timeNs > 0) timesNs[row] = Math.round(timeNs / factor);
  }
}

/** The tenants of requests that name theirs stay, and must be known; shares are for those that do not. */
function giveTenants(read: ReadScenario, table: RequestTable): void {
  const { scenario } = read;
  const { tenants } = scenario.workload;
  if (tenants.length === 0) return;
  const known = tenants.map(({ name }) => name);
  const unnamed = table.tenantNames.length === 1 && table.tenantNames[0] === DEFAULT_TENANT;
  if (unnamed) drawTenants(read, table);
  else if (table.tenantNames.every((name) => known.includes(name))) nameTenants(table, known);
  else {
    const what = scenario.workload.source.kind === 'trace' ? 'the trace names its own' : 'the parts of the source name their own';
    refuse(
      read,
      ['workload', 'tenants'],
      `are ${known.join(', ')}, but ${what}: ${table.tenantNames.join(', ')}; give all of these, or none`,
    );
  }
}

function drawTenants(read: ReadScenario, table: RequestTable): void {
  const { scenario } = read;
  try {
    assignTenants(table, tenantSpecs(scenario), uniformStream(`${scenario.seed}/workload/tenants`));
  } catch (error) {
    refuse(read, ['workload', 'tenants'], `cannot be told apart: ${(error as Error).message}`);
  }
}

/** Numbers the tenants of requests as the scenario has them. */
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

/** Turns that come a delay after an answer need a client that waits for it. */
function checkDelays(read: ReadScenario, table: RequestTable): void {
  const { client } = read.scenario.workload;
  if (!hasDelays(table) || goesByArrivals(client)) return;
  const what = client.kind === 'policy' ? 'a policy that decides when requests are sent' : 'a loop that takes requests in order';
  refuse(
    read,
    ['workload', 'client'],
    `is ${what}, but turns of the trace come a delay after the answer before; use an open loop, or style: semaphore without a backlog`,
  );
}

/** Writes the requests of a scenario as a plain CSV trace: a run that reads it, at rateFactor 1, sees the same ones. */
export async function writeWorkload(read: ReadScenario, file: string): Promise<void> {
  await writePlainCsv(file, [(await loadWorkload(read)).table]);
}

/** The setting that takes the requests of a scenario from a trace, whatever its source is: what --trace does. */
export function traceSetting(file: string): string {
  return `workload.source=${JSON.stringify({ kind: 'trace', file })}`;
}
