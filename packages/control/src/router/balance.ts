import { z } from 'zod';
import { defineRouterPolicy, routerStage } from '../policy/router-policy.js';
import { lowestScore } from './choice.js';

const none = z.strictObject({});

export const roundRobinRouter = defineRouterPolicy({
  name: 'round-robin',
  description: 'Each engine in turn.',
  parameters: none,
  createState: () => ({ last: -1 }),
  choose(view, _request, _parameters, state) {
    const { candidates, count } = view;
    let place = 0;
    // Candidates come and go: the next one is the first above the last chosen, not the next place in the list.
    while (place < count && candidates[place]! <= state.last) place++;
    state.last = candidates[place === count ? 0 : place]!;
    return state.last;
  },
});

export const randomRouter = defineRouterPolicy({
  name: 'random',
  description: 'Any engine, each as likely.',
  parameters: none,
  choose(view, _request, _parameters, _state, random) {
    return view.candidates[view.count === 1 ? 0 : Math.floor(random() * view.count)]!;
  },
});

export const powerOfTwoRouter = defineRouterPolicy({
  name: 'power-of-two',
  description: 'The one with fewer active requests of two engines drawn at random.',
  parameters: none,
  choose(view, _request, _parameters, _state, random) {
    const { candidates, count } = view;
    if (count === 1) return candidates[0]!;
    const first = Math.floor(random() * count);
    const drawn = Math.floor(random() * (count - 1));
    const a = candidates[first]!;
    const b = candidates[drawn >= first ? drawn + 1 : drawn]!;
    // The order of the two is random, so keeping the first on a tie favours nobody.
    return view.engines.activeRequests[b]! < view.engines.activeRequests[a]! ? b : a;
  },
});

export const leastLoadedRouter = defineRouterPolicy({
  name: 'least-loaded',
  description: 'The engine with the least load by this frontend’s own account; ties at random.',
  parameters: z.strictObject({
    /** What load is: requests, or what the stage uses up (prompt tokens to compute, else KV blocks). */
    by: z.enum(['requests', 'work']).default('requests'),
  }),
  choose(view, _request, { by }, _state, random) {
    const { engines } = view;
    const work = view.stage === routerStage.prefill ? engines.activePrefillTokens : engines.activeBlocks;
    return lowestScore(view, random, by === 'requests' ? engines.activeRequests : work);
  },
});
