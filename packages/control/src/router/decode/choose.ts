import { z } from 'zod';
import type { Random } from '../../policy/policy.js';
import type { RouterView } from '../../policy/router-policy.js';
import { lowestScore } from '../choice.js';

/** What all decode schedulers take. */
export const choiceParameters = {
  /** Load by the frontend's own account, or by the engines' last load reports. */
  load: z.enum(['account', 'report']).default('account'),
  /** Among equals: any, the one with the fewest active requests, or the first. */
  ties: z.enum(['random', 'least-loaded', 'first']).default('random'),
};

export interface ChoiceParameters {
  readonly load: 'account' | 'report';
  readonly ties: 'random' | 'least-loaded' | 'first';
}

/** Whether a policy with these parameters goes by load reports. */
export const byReport = ({ load }: Pick<ChoiceParameters, 'load'>): boolean => load === 'report';

/** The candidate with the lowest score under a rule for ties. */
export function choose(view: RouterView, ties: ChoiceParameters['ties'], random: Random): number {
  if (ties === 'random') return lowestScore(view, random);
  const { candidates, count, scores, engines } = view;
  const { activeRequests } = engines;
  let best = candidates[0]!;
  for (let place = 1; place < count; place++) {
    const engine = candidates[place]!;
    const closer = scores[engine]! - scores[best]!;
    if (closer < 0 || (closer === 0 && ties === 'least-loaded' && activeRequests[engine]! < activeRequests[best]!)) best = engine;
  }
  return best;
}
