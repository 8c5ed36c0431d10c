import { z } from 'zod';
import { defineRouterPolicy, type NetworkView, type RouterRequest, type RouterView, routerStage } from '../../policy/router-policy.js';
import { choiceParameters, choose } from './choose.js';
import { computeSeconds, missingShare, transferSeconds } from './costs.js';

/** The three costs of a candidate: what an oracle that tells them says, else the frontend's own sums. */
function weightedCost(view: RouterView, engine: number, request: RouterRequest, weights: Weights, reported: boolean): number {
  const network = view.network as NetworkView | null;
  const told = network !== null && network.computeCost[engine]! >= 0;
  const compute = told ? network.computeCost[engine]! : computeSeconds(view, engine, request.inputTokens, reported);
  const cache = told ? network.cacheCost[engine]! : missingShare(view, engine, request.inputTokens);
  const move = told ? network.networkCost[engine]! : transferSeconds(view, engine, request.inputTokens);
  return weights.alpha * compute + weights.beta * cache + weights.gamma * move;
}

interface Weights {
  readonly alpha: number;
  readonly beta: number;
  readonly gamma: number;
}

export const weightedRouter = defineRouterPolicy({
  name: 'weighted',
  description:
    'alpha x compute (s of queue and next pass) + beta x cache (share of the prompt not held) + gamma x network (s of transfer).',
  parameters: z.strictObject({
    alpha: z.number().nonnegative().default(1),
    beta: z.number().nonnegative().default(0),
    gamma: z.number().nonnegative().default(1),
    ...choiceParameters,
  }),
  reads: { network: true, overlap: true, decodeOverlap: true },
  choose(view, request, parameters, _state, random) {
    const { candidates, count, scores, engines, stage } = view;
    const reported = parameters.load === 'report';
    for (let place = 0; place < count; place++) {
      const engine = candidates[place]!;
      scores[engine] =
        stage === routerStage.prefill
          ? engines.activePrefillTokens[engine]! - view.overlapBlocks[engine]! * view.blockTokens
          : weightedCost(view, engine, request, parameters, reported);
    }
    return choose(view, parameters.ties, random);
  },
});
