import type { Measurement } from '../../measure-scenario.js';
import { type StudyCell, signed, table } from '../study.js';
import { changes, mean, runsAt, type StudyPart, tasksOf } from './part.js';

const oracle = 'router.oracle={ policy: periodic, parameters: { seconds: 1 } }';
const routers = [
  { name: 'cla', settings: ['router.decode={ policy: cla }'] },
  { name: 'netkv', settings: ['router.decode={ policy: netkv }', oracle] },
  { name: 'netkv, near for the first tenant', settings: ['router.decode={ policy: netkv, nearPriority: 1 }', oracle] },
] as const;
const tenants = ['interactive', 'batch'] as const;

/** Two tenants: near engines for whom they matter. */
export function tenantsPart(quick: boolean): StudyPart {
  const seeds = quick ? [1, 2, 3] : [1, 2, 3, 4, 5];
  const cases = routers.map(({ settings }) => ({
    settings: [
      `workload.requests=${quick ? 300 : 1000}`,
      'workload.tenants=[{ name: interactive, share: 1, priority: 1 }, { name: batch, share: 2, priority: 0 }]',
      ...settings,
    ],
  }));
  return {
    tasks: tasksOf(cases, seeds),
    evaluate(runs) {
      const at = (router: number): readonly Measurement[] => runsAt(runs, router, seeds);
      const ttftOf =
        (tenant: string) =>
        (run: Measurement): number =>
          run.tenants[tenant]?.ttftMs?.mean ?? Number.NaN;
      const rows = routers.flatMap(({ name }, router) =>
        tenants.map((tenant): StudyCell[] => {
          const change = changes(at(1), at(router), ttftOf(tenant));
          return [
            name,
            tenant,
            mean(at(router).map(ttftOf(tenant))),
            mean(at(router).map((run) => run.tenants[tenant]?.transferMs?.mean ?? Number.NaN)),
            router === 1 ? 0 : change.mean,
            router === 1 ? null : change.halfWidth,
          ];
        }),
      );
      const change = (tenant: string): number => rows.find((row) => row[0] === routers[2].name && row[1] === tenant)![4] as number;

      return {
        table: table(
          'tenants',
          'Two tenants',
          'A third of the requests is interactive. Near for the first tenant: its requests go to the nearest tier only, all others elsewhere. Change: mean TTFT against netkv, +- 95 % over seeds.',
          ['router', 'tenant', 'TTFT (ms)', 'transfer (ms)', 'change (%)', '+-'],
          rows,
        ),
        sentence: `Keeping the near engines for one tenant changed its mean TTFT by ${signed(change('interactive'))} against netkv alone, and the other's by ${signed(change('batch'))}.`,
      };
    },
  };
}
