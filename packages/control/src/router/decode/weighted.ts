import { z } from 'zod';
import { defineRouterPolicy, type RouterRequest, type RouterView, routerStage } from '../../policy/router-policy.js';
import { anyWeight, byReport, choiceParameters, choose, weight } from './choose.js';
import { addWorkSeconds } from './costs.js';
import { moveSeconds } from './moves.js';

interface Weights {
  readonly alpha: number;
  readonly beta: number;
  readonly gamma: number;
}

export const weightedRouter = defineRouterPolicy({
  name: 'weighted',
  description:
    'alpha x compute (s of queue and next pass) + beta x cache (share of the prompt not held) + gamma x network (s of transfer).',
  parameters: z
    .strictObject({ alpha: weight.default(1), beta: weight.default(0), gamma: weight.default(1), ...choiceParameters })
    .refine(...anyWeight('alpha', 'beta', 'gamma')),
  reads: { network: true, overlap: true, decodeOverlap: true },
  readsReports: (given) => byReport(given),
  choose(view, request, parameters, _state, random) {
    const { candidates, count, scores, engines, overlapBlocks, blockTokens } = view;
    if (view.stage === routerStage.prefill) {
      for (let place = 0; place < count; place++) {
        const engine = candidates[place]!;
        scores[engine] = engines.activePrefillTokens[engine]! - overlapBlocks[engine]! * blockTokens;
      }
    } else score(view, request, parameters, parameters.load === 'report');
    return choose(view, parameters.ties, random);
  },
});

const untold = { computeCost: null, cacheCost: null, networkCost: null };
const uncrowded = { own: null, congestion: 'tier' } as const;

/** By engine; filled and read within one decision, never state. */
let scratch = new Float64Array(0);

/** The three costs as an oracle tells them, each that it does not tell by the frontend's own sums. What weighs nothing is not looked at. */
function score(view: RouterView, { inputTokens }: RouterRequest, { alpha, beta, gamma }: Weights, reported: boolean): void {
  const { candidates, count, scores, network, overlapBlocks } = view;
  if (scratch.length < scores.length) scratch = new Float64Array(scores.length);
  const work = scratch;
  moveSeconds(view, network, uncrowded, inputTokens, scores);
  addWorkSeconds(view, inputTokens, reported, null, work);
  const { computeCost, cacheCost, networkCost } = (network?.costs === undefined ? network : network.costs) ?? untold;
  const blockShare = view.blockTokens / inputTokens;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    let compute = computeCost === null ? Number.NaN : computeCost[engine]!;
    if (Number.isNaN(compute)) compute = work[engine]!;
    let move = networkCost === null ? Number.NaN : networkCost[engine]!;
    if (Number.isNaN(move)) move = scores[engine]!;
    let local = alpha * compute;
    if (beta !== 0) {
      let cache = cacheCost === null ? Number.NaN : cacheCost[engine]!;
      if (Number.isNaN(cache)) cache = Math.max(0, 1 - overlapBlocks[engine]! * blockShare);
      local += beta * cache;
    }
    scores[engine] = local + gamma * move;
  }
}
