import {
  type BoundPolicy,
  type ControllerPolicy,
  createControllerKind,
  createPlannerKind,
  type EngineEntry,
  type PlannerPolicy,
} from '@braess/control';
import type { ActorReference } from '@braess/kernel';
import type { Delays } from './cell-delays.js';
import { movesClients } from './client-plan.js';
import type { ClusterPlan } from './plan.js';
import { profilesOf } from './speed-profile.js';

/** The planner of a scenario. `engines` may be filled until the run begins. */
export function plannerKindOf(plan: ClusterPlan, delays: Delays, policy: BoundPolicy<PlannerPolicy>, engines: readonly EngineEntry[]) {
  const { planner } = plan.scenario;
  return createPlannerKind({
    engines,
    policy,
    engineDelayNs: delays.controlNs,
    switchNs: Math.round(planner.switchSeconds * 1e9),
    startNs: Math.round(planner.startSeconds * 1e9),
    profiles: profilesOf(plan),
    blockTokens: plan.blockTokens,
    contextTokens: Math.min(...plan.groups.map(({ maxModelTokens }) => maxModelTokens)),
  });
}

/** Whom a controller scrapes and tells. */
export interface ControllerSurroundings {
  readonly frontends: readonly ActorReference[];
  readonly clients: readonly ActorReference[];
  /** Further actors that answer a scrape. */
  readonly sources: readonly ActorReference[];
  /** A router's parameters with every default filled in. */
  complete(parameters: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>;
}

/** The controller of a scenario; undefined where it has none. */
export function controllerKindOf(plan: ClusterPlan, delays: Delays, policy: BoundPolicy<ControllerPolicy>, around: ControllerSurroundings) {
  const { controller, router } = plan.scenario;
  if (controller === undefined) return undefined;
  const periodNs = Math.round(controller.periodSeconds * 1e9);
  const { parameters } = plan.policies.prefillRouter;
  return createControllerKind({
    policy,
    periodNs,
    windowNs: controller.windowSeconds === undefined ? periodNs : Math.round(controller.windowSeconds * 1e9),
    signal: controller.signal,
    apply: movesClients(plan.scenario) ? 'move' : 'set',
    frontends: around.frontends,
    frontendParameters: around.frontends.map((_, index) => around.complete({ ...parameters, ...router.frontendParameters[index] })),
    check: (own) => void around.complete({ ...parameters, ...own }),
    clients: around.clients,
    sources: around.sources,
    controlDelayNs: delays.controlNs,
    clientDelayNs: delays.clientNs,
  });
}
