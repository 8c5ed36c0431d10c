import { drawnSpec } from '@braess/fabric';
import { modelOf, Simulation } from '@braess/kernel';
import { lengthRefusal } from '@braess/serving';
import type { RequestTable } from '@braess/workload';
import { loadWorkload } from './load-workload.js';
import { type ClusterPlan, planCluster } from './plan.js';
import clusterProgram from './program.js';
import { seriesPeriodNs } from './recorder-facts.js';
import { estimateSaturation, type Saturation, type WorkloadMeans, workloadMeans } from './saturation.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import { refuse } from './scenario/refuse.js';
import { scenarioWarnings } from './scenario-warnings.js';

/** What `braess validate` prints: what follows from a scenario before anything runs. */
export interface ScenarioReport {
  readonly name: string;
  readonly gpus: number;
  readonly groups: readonly {
    readonly name: string;
    readonly role: string;
    readonly engines: number;
    readonly tensorParallel: number;
    readonly blockTokens: number;
    readonly kvBlocks: number;
    readonly kvTokens: number;
    /** Most blocks of ended requests that stay. */
    readonly cacheBlocks: number;
    readonly weightBytesPerGpu: number;
    readonly kvBytesPerGpu: number;
    readonly kvBytesPerTokenPerGpu: number;
    /** Set aside for what sequences keep beside blocks: windows and states. */
    readonly sequenceBytesPerGpu: number;
    readonly maxModelTokens: number;
    readonly timing: string;
  }[];
  readonly workload: WorkloadMeans;
  readonly saturation: Saturation;
  /** Requests longer than any engine's memory or limit: they would be rejected. */
  readonly unservable: number;
  /** Every default that was derived or filled in, by path. */
  readonly defaults: readonly { readonly path: string; readonly value: unknown }[];
  readonly warnings: readonly string[];
}

/** Checks a scenario, derives what follows from it and estimates where it saturates. @throws ScenarioError, TraceError. */
export async function validateScenario(read: ReadScenario): Promise<ScenarioReport> {
  const plan = planCluster(read);
  const loaded = await loadWorkload(read);
  const { table } = loaded;
  buildOnce(read, plan, table);
  const workload = workloadMeans(table);
  const unservable = countUnservable(plan, table.inputTokens, table.outputTokens);
  const saturation = estimateSaturation(plan, workload);
  const warnings: string[] = [];
  if (unservable > 0)
    warnings.push(`${unservable} of ${table.requestCount} requests exceed every engine's KV memory or maxModelTokens and will be rejected`);
  if (workload.ratePerSecond > saturation.requestsPerSecond) {
    warnings.push(
      `requests come at ${workload.ratePerSecond.toFixed(1)}/s, the cluster saturates near ${saturation.requestsPerSecond.toFixed(1)}/s without prefix hits: queues will grow`,
    );
  }
  warnings.push(...scenarioWarnings(plan, loaded));
  return {
    name: read.scenario.name,
    gpus: plan.engines.reduce((sum, engine) => sum + engine.gpus.length, 0),
    groups: plan.groups.map((group, index) => ({
      name: group.name,
      role: group.role,
      engines: plan.engines.filter((engine) => engine.group === index).length,
      tensorParallel: group.tensorParallel,
      blockTokens: group.blockTokens,
      kvBlocks: group.capacityBlocks,
      kvTokens: group.capacityBlocks * group.blockTokens,
      cacheBlocks: group.cacheBlocks,
      weightBytesPerGpu: group.weightBytesPerGpu,
      kvBytesPerGpu: group.kvBytesPerGpu,
      kvBytesPerTokenPerGpu: group.kvBytesPerTokenPerGpu,
      sequenceBytesPerGpu: group.sequenceBytesPerGpu,
      maxModelTokens: group.maxModelTokens,
      timing: group.timingSource,
    })),
    workload,
    saturation,
    unservable,
    defaults: defaultsOf(read, plan),
    warnings,
  };
}

/** Builds every actor as a run does, so that what would stop a run at its start is found here, too. */
function buildOnce(read: ReadScenario, plan: ClusterPlan, table: RequestTable): void {
  try {
    new Simulation(modelOf(clusterProgram, { plan, table, seriesNs: seriesPeriodNs(read.scenario, table) }));
  } catch (error) {
    refuse(read, [], `cannot be built: ${(error as Error).message}`);
  }
}

function countUnservable(plan: ClusterPlan, inputs: Int32Array, outputs: Int32Array): number {
  let count = 0;
  for (let row = 0; row < inputs.length; row++) {
    const input = inputs[row] as number;
    const output = outputs[row] as number;
    const fits = (roles: readonly string[]): boolean =>
      plan.groups.some((group) => roles.includes(group.role) && lengthRefusal(group, group.role === 'prefill', input, output) === 0);
    if (!(plan.disaggregated ? fits(['prefill']) && fits(['decode']) : fits(['aggregated']))) count++;
  }
  return count;
}

/** Leaves of the resolved scenario and network that the scenario file does not itself give. */
function defaultsOf(read: ReadScenario, plan: ClusterPlan): { path: string; value: unknown }[] {
  const found: { path: string; value: unknown }[] = [];
  const walk = (value: unknown, path: string): void => {
    if (typeof value === 'object' && value !== null && Object.keys(value).length > 0) {
      for (const [key, entry] of Object.entries(value))
        walk(entry, Array.isArray(value) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`);
      return;
    }
    if (value !== undefined && !read.document.places.has(path)) found.push({ path, value });
  };
  walk(read.scenario, '');
  // As it is drawn: what the scenario says of oversubscription stands above.
  walk(drawnSpec(plan.topologySpec), 'network');
  return found;
}
