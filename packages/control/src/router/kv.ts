import { z } from 'zod';
import { defineRouterPolicy, type RouterRequest, type RouterView, routerStage } from '../policy/router-policy.js';
import { lowestScore, softmaxScore } from './choice.js';

/** Prompt blocks the engine would still have to compute, fractional: (active prefill tokens + ISL) / block size - overlap. */
export function prefillBlocks(view: RouterView, engine: number, request: RouterRequest): number {
  return (view.engines.activePrefillTokens[engine]! + request.inputTokens) / view.blockTokens - view.overlapBlocks[engine]!;
}

/** Blocks in use at the engine, those of this request included. */
export function activeBlocks(view: RouterView, engine: number, request: RouterRequest): number {
  return view.engines.activeBlocks[engine]! + Math.ceil(request.inputTokens / view.blockTokens);
}

/**
 * Writes each candidate's cost in blocks to `view.scores`: omega x prefill blocks + active blocks. Prefill engines ignore active blocks; decode engines
 * ignore prefill and overlap. The same sums as the two functions above, in loops without calls: this runs over all engines for every request.
 */
function scoreKvCosts(view: RouterView, request: RouterRequest, omega: number): void {
  const { candidates, count, scores, overlapBlocks, blockTokens, stage } = view;
  const { activePrefillTokens, activeBlocks: blocks } = view.engines;
  const { inputTokens } = request;
  const ownBlocks = Math.ceil(inputTokens / blockTokens);
  if (stage === routerStage.decode) {
    for (let place = 0; place < count; place++) {
      const engine = candidates[place]!;
      scores[engine] = blocks[engine]! + ownBlocks;
    }
    return;
  }
  const prefillOnly = stage === routerStage.prefill;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const cost = omega * ((activePrefillTokens[engine]! + inputTokens) / blockTokens - overlapBlocks[engine]!);
    scores[engine] = prefillOnly ? cost : cost + blocks[engine]! + ownBlocks;
  }
}

/** The KV-aware router of NVIDIA Dynamo (docs: Router design, "Cost function" and "Worker selection"). */
export const kvRouter = defineRouterPolicy({
  name: 'kv',
  description:
    'Prefix overlap against load, as the KV router of NVIDIA Dynamo: omega x prefill blocks + active blocks, softmax at temperature tau.',
  parameters: z.strictObject({
    /** Weight of the prompt blocks to compute (Dynamo: overlap score weight). */
    omega: z.number().nonnegative().default(1),
    /** Temperature of the choice; 0 takes the lowest cost. */
    tau: z.number().nonnegative().default(0),
  }),
  reads: { overlap: true },
  choose(view, request, { omega, tau }, _state, random) {
    scoreKvCosts(view, request, omega);
    return tau > 0 ? softmaxScore(view, tau, random) : lowestScore(view, random);
  },
});
