import { engineRole } from '@braess/protocol';
import { z } from 'zod';
import { definePlannerPolicy } from '../policy/control-policies.js';

export const staticPlanner = definePlannerPolicy({
  name: 'static',
  description: 'Leaves every engine in the role it began with.',
  parameters: z.strictObject({}),
  plan: () => undefined,
});

export const schedulePlanner = definePlannerPolicy({
  name: 'schedule',
  description: 'Changes roles, starts and stops engines at given times.',
  parameters: z.strictObject({
    changes: z.array(
      z.strictObject({
        atMs: z.number().nonnegative(),
        /** Name of the engine, as in the results. */
        engine: z.string(),
        /** Absent: stop the engine. */
        role: z.enum(['aggregated', 'prefill', 'decode']).optional(),
        /** Start an engine that is off instead of switching one that runs. */
        start: z.boolean().default(false),
      }),
    ),
  }),
  timesNs: ({ changes }) => changes.map((change) => Math.round(change.atMs * 1e6)),
  engineNames: ({ changes }) => changes.map(({ engine }) => engine),
  plan(view, actions, { changes }) {
    for (const change of changes) {
      if (Math.round(change.atMs * 1e6) !== view.nowNs) continue;
      const engine = view.engines.names.indexOf(change.engine);
      if (engine < 0)
        throw new RangeError(`no engine is named '${change.engine}'; the first of ${view.engines.count} is '${view.engines.names[0]}'`);
      if (change.role === undefined) actions.stopEngine(engine);
      else if (change.start) actions.startEngine(engine, engineRole[change.role]);
      else actions.changeRole(engine, engineRole[change.role]);
    }
  },
});
