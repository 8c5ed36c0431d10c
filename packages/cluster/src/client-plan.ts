import type { ClientOptions, RequestTable } from '@braess/workload';
import { definedOnly } from './load-workload.js';
import type { ClusterPlan } from './plan.js';

/** Options of the client actor: how the requests of a table come. */
export function clientOptionsOf(plan: ClusterPlan, table: RequestTable, submitDelayNs: number, promises: boolean): ClientOptions {
  const { scenario } = plan;
  const { client, connections, retry, tenants, sessions } = scenario.workload;
  const priorities = table.tenantNames.map((name) => tenants.find((tenant) => tenant.name === name)?.priority ?? 0);
  return {
    table,
    blockTokens: plan.blockTokens,
    submitDelayNs,
    frontendBy: scenario.router.frontends === 1 ? 'own' : scenario.router.frontendBy,
    ...(promises ? { promiseTo: ['control'] } : {}),
    ...(priorities.some((priority) => priority !== 0) ? { priorities } : {}),
    ...(client.kind === 'open-loop'
      ? {}
      : {
          loop: {
            style: client.style,
            inFlight: client.inFlight,
            meanThinkMs: client.meanThinkMs,
            think: client.think,
            taskLimit: client.taskLimit,
          },
        }),
    ...(connections === undefined ? {} : { connections }),
    ...(retry === undefined ? {} : { retry: definedOnly(retry) }),
    ...(sessions === undefined ? {} : { sessions }),
  };
}

/** Whether the client answers for its requests itself, so that its outcome counts: any feature beyond an open loop. */
export function clientAnswers(plan: ClusterPlan): boolean {
  const { client, connections, retry, sessions } = plan.scenario.workload;
  return client.kind !== 'open-loop' || connections !== undefined || retry !== undefined || sessions !== undefined;
}
