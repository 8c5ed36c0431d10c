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

/** Cost in blocks: omega x prefill blocks + active blocks; prefill engines ignore active blocks, decode engines prefill and overlap. */
export function kvCost(view: RouterView, engine: number, request: RouterRequest, omega: number): number {
  if (view.stage === routerStage.decode) return activeBlocks(view, engine, request);
  const prefill = omega * prefillBlocks(view, engine, request);
  return view.stage === routerStage.prefill ? prefill : prefill + activeBlocks(view, engine, request);
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
    const { candidates, count, scores } = view;
    for (let place = 0; place < count; place++) {
      const engine = candidates[place]!;
      scores[engine] = kvCost(view, engine, request, omega);
    }
    return tau > 0 ? softmaxScore(view, tau, random) : lowestScore(view, random);
  },
});
