import { definedOnly, type RunRecorder, type Scenario } from '@braess/cluster';
import { type RunNames, SERIES_METRICS, type SummaryOptions } from '@braess/telemetry';
import type { RequestTable } from '@braess/workload';

/** The names behind the numbers of a run's tables. */
export function runNames(table: RequestTable, actorNames: readonly string[]): RunNames {
  return {
    actors: [...actorNames],
    tenants: table.tenantNames,
    networkTiers: networkTierNames,
    metrics: SERIES_METRICS,
    policies: [],
    notes: [],
  };
}

/** Network distance between two engines, by the tier numbers of the fabric. */
export const networkTierNames = ['same node', 'same rack', 'same pod', 'across pods', 'across zones'];

/** What the summary of a scenario's run has to know. */
export function summaryOptions(scenario: Scenario, table: RequestTable): SummaryOptions {
  const { slo, tenants } = scenario.workload;
  const tenantSlos = new Map(
    tenants.flatMap((tenant) =>
      tenant.slo === undefined ? [] : [[table.tenantNames.indexOf(tenant.name), definedOnly(tenant.slo)] as const],
    ),
  );
  return {
    warmupNs: Math.round(scenario.warmupSeconds * 1e9),
    ...(slo === undefined ? {} : { slo: definedOnly(slo) }),
    ...(tenantSlos.size === 0 ? {} : { tenantSlos }),
  };
}

/** GPU-hours of the engines' GPUs over the simulated time: those in use (draining, switching and starting ones, too), and those that planners gave back. */
export interface GpuHours {
  readonly used: number;
  readonly givenBack: number;
}

export function gpuHours(recorder: RunRecorder, simulatedSeconds: number): GpuHours {
  const { usedNs, givenBackNs } = recorder.gpuTimeNs(Math.round(simulatedSeconds * 1e9));
  return { used: usedNs / 3600e9, givenBack: givenBackNs / 3600e9 };
}
