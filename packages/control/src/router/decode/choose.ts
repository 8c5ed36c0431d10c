import { z } from 'zod';
import type { Random, ReadonlyColumn } from '../../policy/policy.js';
import type { RouterView } from '../../policy/router-policy.js';
import { lowestScore, scoreFault } from '../choice.js';

/** What all decode schedulers take. */
export const choiceParameters = {
  /** Load by the frontend's own account, or by the engines' last load reports. */
  load: z.enum(['account', 'report']).default('account'),
  /** Among equals: any, the one with the fewest active requests, or the first. */
  ties: z.enum(['random', 'least-loaded', 'first']).default('random'),
};

/** A weight: beyond the limit sums of costs overflow. */
export const weight = z.number().nonnegative().max(1e9);

/** For `refine` of parameters with weights: with none of them all candidates cost the same. */
export const anyWeight = (...names: readonly string[]) =>
  [
    (given: object): boolean => names.some((name) => (given as Record<string, unknown>)[name] !== 0),
    { error: `${names.join(', ')} are all 0, so all candidates cost the same: give one of them a weight, or take the policy random` },
  ] as const;

/** The same as a type. */
export interface ChoiceParameters {
  readonly load: 'account' | 'report';
  readonly ties: 'random' | 'least-loaded' | 'first';
}

/** Whether a policy with these parameters goes by load reports. */
export const byReport = ({ load }: Pick<ChoiceParameters, 'load'>): boolean => load === 'report';

/**
 * The candidate with the lowest score under a rule for ties. Scores that stand in a column of the engines are given as `column`, and copied as they are read.
 * @throws RangeError for a NaN score.
 */
export function choose(view: RouterView, ties: ChoiceParameters['ties'], random: Random, column: ReadonlyColumn = view.scores): number {
  if (ties === 'random') return lowestScore(view, random, column);
  const { candidates, count, scores, engines } = view;
  const { activeRequests } = engines;
  let best = -1;
  let low = Number.POSITIVE_INFINITY;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const score = column[engine]!;
    scores[engine] = score;
    if (score > low) continue;
    if (Number.isNaN(score)) throw scoreFault(view, engine);
    if (score === low && best >= 0 && !(ties === 'least-loaded' && activeRequests[engine]! < activeRequests[best]!)) continue;
    low = score;
    best = engine;
  }
  return best;
}
