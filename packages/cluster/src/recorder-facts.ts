import { linkName } from '@braess/fabric';
import { engineRole } from '@braess/protocol';
import { MOST_TENANTS } from '@braess/telemetry';
import type { RequestTable } from '@braess/workload';
import { clientAnswers, mayLeaveRequests } from './client-plan.js';
import type { GroupPlan } from './group-plan.js';
import type { ClusterPlan } from './plan.js';
import type { RecorderOptions } from './run-recorder.js';
import type { Scenario } from './scenario/schema.js';
import { topologyOf } from './topology-plan.js';

/** Period of a run's time series, ns, 0 for none: as given, else a 300th of the time of arrivals in whole seconds, at least one. */
export function seriesPeriodNs(scenario: Scenario, table: RequestTable): number {
  const { seriesSeconds } = scenario.telemetry;
  if (seriesSeconds !== undefined) return Math.round(seriesSeconds * 1e9);
  const lastNs = table.requestCount === 0 ? 0 : (table.arrivalNs[table.requestCount - 1] as number);
  return Math.max(1, Math.round(lastNs / 300e9)) * 1e9;
}

/** Tenants whose gaps between tokens are told apart; 0: there is one, or there are more than a summary lists. */
export function gapTenants({ tenantNames }: Pick<RequestTable, 'tenantNames'>): number {
  return tenantNames.length >= 2 && tenantNames.length <= MOST_TENANTS ? tenantNames.length : 0;
}

/** What a recorder has to know of a plan and its requests, given the names of the actors by id. */
export function recorderFacts(
  plan: ClusterPlan,
  requests: RequestTable,
  actorNames: readonly string[],
): Omit<RecorderOptions, 'tables' | 'flush' | 'seriesNs'> {
  const ids = new Map(actorNames.map((name, id) => [name, id]));
  const gpusOfEngine = new Map(
    plan.engines.map((engine) => [ids.get(engine.name) as number, engine.gpuNames.map((name) => ids.get(name) as number)]),
  );
  const { planner } = plan.scenario;
  const rolesOfEngine = new Map(
    planner.policy === 'static'
      ? []
      : plan.engines.map((engine) => [ids.get(engine.name) as number, engineRole[(plan.groups[engine.group] as GroupPlan).role]] as const),
  );
  return {
    actorNames,
    requests,
    gapTenants: gapTenants(requests),
    gpusOfEngine,
    rolesOfEngine,
    linkName: (link) => linkName(topologyOf(plan.topologySpec), link),
    warmupNs: Math.round(plan.scenario.warmupSeconds * 1e9),
    clientDelayNs: Math.round(plan.scenario.delays.clientUs * 1e3),
    byClient: clientAnswers(plan, requests),
    mayAbandon: mayLeaveRequests(plan.scenario),
  };
}
