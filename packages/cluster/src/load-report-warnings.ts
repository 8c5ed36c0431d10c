import { loadPolicy, type PlannerPolicy, type Policy, type PolicySpec } from '@braess/control';
import type { ClusterPlan } from './plan.js';

/** Who goes by load reports that no engine sends, one sentence each: a load that nobody reported reads 0, the same of every engine. */
export function loadReportWarnings({ scenario, policies }: ClusterPlan): string[] {
  const { router } = scenario;
  if (router.loadReportMs > 0) return [];
  const { baseDirectory, prefillRouter, decodeRouter, admission, oracle, planner } = policies;
  const asked: (readonly [path: string, kind: 'router' | 'admission' | 'oracle' | 'planner', spec: PolicySpec | null])[] = [
    ['router', 'router', prefillRouter],
    ...router.frontendParameters.map(
      (own, index) =>
        [
          `router.frontendParameters[${index}]`,
          'router',
          { ...prefillRouter, parameters: { ...prefillRouter.parameters, ...own } },
        ] as const,
    ),
    ['router.decode', 'router', router.decode === undefined ? null : decodeRouter],
    ['router.admission', 'admission', admission],
    ['router.oracle', 'oracle', oracle],
    ['planner', 'planner', planner],
  ];
  return asked.flatMap(([path, kind, spec]) => {
    if (spec === null) return [];
    const { policy, parameters } = loadPolicy(kind, spec, { baseDirectory });
    if (!goesByReports(policy, parameters)) return [];
    const effect = kind === 'planner' ? 'it never plans' : 'all loads read 0';
    return [`${path}: '${policy.name}' goes by load reports and no engine sends any, so ${effect}; set router.loadReportMs, e.g. to 100`];
  });
}

function goesByReports(policy: Policy, parameters: unknown): boolean {
  // A planner with a period plans while reports come in.
  return policy.readsReports?.(parameters) === true || (policy.kind === 'planner' && (policy as PlannerPolicy).periodNs !== undefined);
}
