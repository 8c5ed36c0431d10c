import type { MeasureListener } from '@braess/protocol';
import {
  type ClientBehaviour,
  type ClientDriver,
  type ClientMove,
  type ClientOptions,
  hasDelays,
  isPlainOpenLoop,
  type RequestTable,
} from '@braess/workload';
import type { ClusterPlan } from './plan.js';
import { definedOnly } from './scenario/defined-only.js';
import type { Scenario } from './scenario/schema.js';

/** Options of the client actor: how the requests of a table come. */
export function clientOptionsOf(
  plan: ClusterPlan,
  table: RequestTable,
  submitDelayNs: number,
  promises: boolean,
  { listener, driver }: { readonly listener?: MeasureListener | undefined; readonly driver?: ClientDriver } = {},
): ClientOptions {
  const { scenario } = plan;
  const { tenants } = scenario.workload;
  const priorities = table.tenantNames.map((name) => tenants.find((tenant) => tenant.name === name)?.priority ?? 0);
  return {
    table,
    blockTokens: plan.blockTokens,
    submitDelayNs,
    frontendBy:
      scenario.router.frontends === 1 || plannedMoves(plan).length > 0 || movesClients(scenario) ? 'own' : scenario.router.frontendBy,
    ...(promises ? { promiseTo: ['control'] } : {}),
    ...(priorities.some((priority) => priority !== 0) ? { priorities } : {}),
    ...clientBehaviourOf(scenario),
    ...(scenario.untilSeconds === undefined ? {} : { endNs: Math.round(scenario.untilSeconds * 1e9) }),
    ...(listener === undefined ? {} : { listener }),
    ...(driver === undefined ? {} : { driver }),
    ...(scenario.controller?.signal === 'client' ? { measuresTtft: true } : {}),
  };
}

/** How the client of a scenario behaves, whatever its requests are. */
export function clientBehaviourOf(scenario: Scenario): Omit<ClientBehaviour, 'clients'> {
  const { client, connections, retry, sessions } = scenario.workload;
  return {
    ...(client.kind !== 'closed-loop'
      ? {}
      : {
          loop: {
            style: client.style,
            inFlight: client.inFlight,
            meanThinkMs: client.meanThinkMs,
            think: client.think,
            taskLimit: client.taskLimit,
            backlog: client.backlog,
            ...(client.phases === undefined ? {} : { phases: client.phases }),
          },
          moves: client.moves,
          permitsLostByMove: client.permitsLostByMove,
          answerJitterUs: client.answerJitterUs,
        }),
    ...(connections === undefined ? {} : { connections }),
    ...(retry === undefined ? {} : { retry: definedOnly(retry) }),
    ...(sessions === undefined ? {} : { sessions }),
  };
}

/** When the client moves to another frontend by plan; until then it is at the first. */
function plannedMoves({ scenario }: ClusterPlan): readonly ClientMove[] {
  const { client } = scenario.workload;
  return client.kind === 'closed-loop' ? client.moves : [];
}

/** Whether a run may end before every request of its workload was sent. */
export function mayLeaveRequests({ workload }: ClusterPlan['scenario']): boolean {
  const { client, sessions } = workload;
  if (client.kind === 'policy') return true;
  return sessions?.afterFailure === 'abandon' || (client.kind === 'closed-loop' && client.phases !== undefined);
}

/**
 * Whether the client answers for its requests itself, so that its outcome counts: any feature beyond an open loop, turns that wait for answers, or somebody
 * who hears of them from it.
 */
export function clientAnswers({ scenario }: ClusterPlan, table: RequestTable): boolean {
  const { workload, controller, telemetry } = scenario;
  return !isPlainOpenLoop({
    ...clientBehaviourOf(scenario),
    delays: hasDelays(table),
    ...(telemetry.poa === undefined ? {} : { listener: true }),
    ...(workload.client.kind === 'policy' ? { driver: true } : {}),
    ...(controller?.signal === 'client' ? { measuresTtft: true } : {}),
  });
}

/** Whether the controller moves clients between frontends, rather than changing the frontends' parameters. */
export function movesClients({ controller, router }: Scenario): boolean {
  return controller !== undefined && (controller.apply ?? (router.frontendParameters.length > 0 ? 'move' : 'set')) === 'move';
}
