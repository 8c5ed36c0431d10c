import type { Measurement, MeasureTask } from '../measure-scenario.js';
import { boundPart } from './oracle/bound.js';
import { collisionsPart } from './oracle/collisions.js';
import { incastPart } from './oracle/incast.js';
import { kindsPart } from './oracle/kinds.js';
import { tenantsPart } from './oracle/tenants.js';
import { variantsPart } from './oracle/variants.js';
import type { Study, StudyContext, StudyResult } from './study.js';

/** Which oracle is good enough, what one number a tier hides, and what else decides whether the network is worth looking at? */
export const oracleStudy: Study = {
  name: 'oracle',
  title: 'The network oracle: what it must know',
  async run({ quick, measureAll }: StudyContext): Promise<StudyResult> {
    const parts = [kindsPart(quick), boundPart(quick), collisionsPart(quick), incastPart(), variantsPart(quick), tenantsPart(quick)];
    const results = await measureOnce(
      parts.flatMap(({ tasks }) => tasks),
      measureAll,
    );
    let first = 0;
    const evaluated = parts.map(({ tasks, evaluate }) => {
      const runs = results.slice(first, first + tasks.length);
      first += tasks.length;
      return evaluate(runs);
    });
    return { tables: evaluated.map(({ table }) => table), finding: evaluated.map(({ sentence }) => sentence).join(' ') };
  },
};

/** Results in the order of the tasks; equal tasks are run once. */
async function measureOnce(tasks: readonly MeasureTask[], measureAll: StudyContext['measureAll']): Promise<Measurement[]> {
  const keys = tasks.map((task) => JSON.stringify(task));
  const places = new Map<string, number>();
  const unique = tasks.filter((_, index) => {
    const key = keys[index]!;
    if (places.has(key)) return false;
    places.set(key, places.size);
    return true;
  });
  const results = await measureAll(unique);
  return keys.map((key) => results[places.get(key)!]!);
}
