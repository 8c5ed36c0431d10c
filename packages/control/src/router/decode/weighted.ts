import { z } from 'zod';
import { defineRouterPolicy, type NetworkView, type RouterRequest, type RouterView, routerStage } from '../../policy/router-policy.js';
import { choiceParameters, choose } from './choose.js';
import { computeSeconds } from './costs.js';
import { fillEngine, fillTiers, waySeconds, wholeSeconds } from './whole-transfers.js';

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
    const { candidates, count, scores, engines, overlapBlocks, blockTokens, network } = view;
    if (view.stage === routerStage.prefill) {
      for (let place = 0; place < count; place++) {
        const engine = candidates[place]!;
        scores[engine] = engines.activePrefillTokens[engine]! - overlapBlocks[engine]! * blockTokens;
      }
    } else if (network !== null && network.computeCost[candidates[0]!]! >= 0) scoreTold(view, network, parameters);
    else scoreOwn(view, request, parameters, parameters.load === 'report');
    return choose(view, parameters.ties, random);
  },
});

/** The three costs as an oracle tells them. */
function scoreTold({ candidates, count, scores }: RouterView, network: NetworkView, { alpha, beta, gamma }: Weights): void {
  const { computeCost, cacheCost, networkCost } = network;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    scores[engine] = alpha * computeCost[engine]! + beta * cacheCost[engine]! + gamma * networkCost[engine]!;
  }
}

const uncrowded = { own: null, congestion: 'tier' } as const;

/** The three costs by the frontend's own sums. */
function scoreOwn(view: RouterView, { inputTokens }: RouterRequest, { alpha, beta, gamma }: Weights, reported: boolean): void {
  const { candidates, count, scores, network, overlapBlocks } = view;
  const tiers = network === null ? null : fillTiers(view, network, uncrowded);
  const blockShare = view.blockTokens / inputTokens;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const missing = Math.max(0, 1 - overlapBlocks[engine]! * blockShare);
    const row = tiers === null ? 0 : tiers[engine]! + 1;
    if (tiers === null && network !== null) fillEngine(view, network, engine, uncrowded);
    const move = network === null ? 0 : wholeSeconds[row]! * missing + waySeconds[row]!;
    scores[engine] = alpha * computeSeconds(view, engine, inputTokens, reported) + beta * missing + gamma * move;
  }
}
