import { type BoundPolicy, type ControllerPolicy, hasParameters, loadPolicy, type PlannerPolicy, type PolicySpec } from '@braess/control';
import { MOST_WORKERS } from '@braess/kvbm';
import { movesClients } from './client-plan.js';
import type { PolicyPlan } from './policy-plan.js';
import { didYouMean, thereAre } from './scenario/document.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import { refuse } from './scenario/refuse.js';

type Parameters = Readonly<Record<string, unknown>>;

/** A planner that only knows two pools would do nothing, without a word, where all engines are aggregated. @throws ScenarioError. */
export function checkPlanner(read: ReadScenario, { policy }: BoundPolicy<PlannerPolicy>): void {
  if (policy.movesBetweenPools !== true || read.scenario.serving.some(({ role }) => role !== 'aggregated')) return;
  refuse(
    read,
    ['planner', 'policy'],
    `is "${policy.name}", which moves engines between prefill and decode, but all engines are aggregated: use static, or give serving groups of role prefill and decode`,
  );
}

/** Whether the cluster has the engines that a planner's parameters name. @throws ScenarioError. */
export function checkPlannedEngines(
  read: ReadScenario,
  { policy, parameters }: BoundPolicy<PlannerPolicy>,
  known: readonly string[],
): void {
  const missing = policy.engineNames?.(parameters).find((name) => !known.includes(name));
  if (missing === undefined) return;
  const named = `name the engine "${missing}", which this cluster does not have; ${thereAre(known)}`;
  refuse(read, ['planner', 'parameters'], `${named}${didYouMean(missing, known)}`);
}

/** Whether every choice that a controller tells of can be applied: by the routers, or by a frontend that has it. @throws ScenarioError. */
export function checkController(
  read: ReadScenario,
  { policy, parameters }: BoundPolicy<ControllerPolicy>,
  router: PolicySpec,
  baseDirectory: string,
): void {
  const { frontends, frontendParameters } = read.scenario.router;
  const moves = movesClients(read.scenario);
  if (moves && frontendParameters.length === 0)
    refuse(
      read,
      ['controller', 'apply'],
      'is move, but all frontends have the same parameters: set router.frontendParameters, or controller.apply: set',
    );
  const complete = (own: Parameters | undefined): Parameters =>
    loadPolicy('router', { ...router, parameters: { ...router.parameters, ...own } }, { baseDirectory }).parameters as Parameters;
  const held = moves ? Array.from({ length: frontends }, (_, index) => complete(frontendParameters[index])) : [];
  for (const choice of policy.choices?.(parameters) ?? []) {
    const said = `is "${policy.name}", which may choose the router parameters ${JSON.stringify(choice)}`;
    if (moves) {
      if (held.some((own) => hasParameters(own, choice))) continue;
      refuse(
        read,
        ['controller', 'policy'],
        `${said}, but no frontend has them: add them to router.frontendParameters (and to router.frontends), or use controller.apply: set`,
      );
    }
    try {
      complete(choice);
    } catch (error) {
      refuse(
        read,
        ['controller', 'policy'],
        `${said}, which router "${router.policy}" does not take: change router.policy, or the controller's parameters (${(error as Error).message})`,
      );
    }
  }
}

/** Every frontend whose router goes by prefixes has an index over all engines, which is limited. @throws ScenarioError. */
export function checkPrefixIndex(read: ReadScenario, { baseDirectory, prefillRouter, decodeRouter }: PolicyPlan): void {
  const { serving, servingRounds } = read.scenario;
  const engines = serving.reduce((sum, { count }) => sum + count, 0) * servingRounds;
  if (engines <= MOST_WORKERS) return;
  const reader = [prefillRouter, decodeRouter].find((spec, stage) => {
    const { reads } = loadPolicy('router', spec, { baseDirectory }).policy;
    return stage === 0 ? reads?.overlap : reads?.decodeOverlap;
  });
  if (reader === undefined) return;
  const largest = serving.reduce((most, { count }, index) => (count > (serving[most]?.count ?? 0) ? index : most), 0);
  const times = servingRounds === 1 ? '' : ` in ${servingRounds} servingRounds`;
  refuse(
    read,
    ['serving', largest, 'count'],
    `is ${serving[largest]?.count}: with all groups there are ${engines} engines${times}, and a router that goes by prefixes ("${reader.policy}") knows at most ${MOST_WORKERS}; use fewer or larger engines (tensorParallel), or a router that reads no overlap, such as least-loaded`,
  );
}
