import { z } from 'zod';
import { defineRouterPolicy, type RouterRequest, type RouterView, routerStage } from '../../policy/router-policy.js';
import { byReport, type ChoiceParameters, choiceParameters, choose } from './choose.js';

/** Requests running, queued or on their way. */
function loadOf(view: RouterView, engine: number, load: ChoiceParameters['load']): number {
  const { activeRequests, runningSequences, waitingSequences } = view.engines;
  return load === 'report' ? runningSequences[engine]! + waitingSequences[engine]! : activeRequests[engine]!;
}

/** Share of the prompt's blocks that an engine holds as a prefix. */
function hitShare(view: RouterView, engine: number, request: RouterRequest): number {
  return Math.min(1, (view.overlapBlocks[engine]! * view.blockTokens) / request.inputTokens);
}

const reads = { overlap: true, decodeOverlap: true };

export const cacheAwareRouter = defineRouterPolicy({
  name: 'cache-aware',
  description: 'The engine that holds the longest prefix of the prompt.',
  parameters: z.strictObject(choiceParameters),
  reads,
  choose(view, _request, { ties }, _state, random) {
    const { candidates, count, scores, overlapBlocks } = view;
    for (let place = 0; place < count; place++) scores[candidates[place]!] = -overlapBlocks[candidates[place]!]!;
    return choose(view, ties, random);
  },
});

export const loadAwareRouter = defineRouterPolicy({
  name: 'load-aware',
  description: 'The engine with the fewest requests running and queued.',
  parameters: z.strictObject(choiceParameters),
  readsReports: (given) => byReport(given),
  choose(view, _request, { load, ties }, _state, random) {
    const { candidates, count, scores, engines } = view;
    const prefill = view.stage === routerStage.prefill;
    for (let place = 0; place < count; place++) {
      const engine = candidates[place]!;
      scores[engine] = prefill ? engines.activePrefillTokens[engine]! : loadOf(view, engine, load);
    }
    return choose(view, ties, random);
  },
});

export const claRouter = defineRouterPolicy({
  name: 'cla',
  description: 'Cache and load: cacheWeight x hit share - loadWeight x (running + queued) / batch, the highest wins.',
  parameters: z.strictObject({
    cacheWeight: z.number().nonnegative().default(1),
    loadWeight: z.number().nonnegative().default(5),
    /** What load is measured against; default the most sequences the engine takes into a pass. */
    batch: z.number().positive().optional(),
    ...choiceParameters,
  }),
  reads,
  readsReports: (given) => byReport(given),
  choose(view, request, { cacheWeight, loadWeight, batch, load, ties }, _state, random) {
    const { candidates, count, scores, engines } = view;
    for (let place = 0; place < count; place++) {
      const engine = candidates[place]!;
      const most = batch ?? Math.max(1, engines.maxSequences[engine]!);
      scores[engine] = (loadWeight * loadOf(view, engine, load)) / most - cacheWeight * hitShare(view, engine, request);
    }
    return choose(view, ties, random);
  },
});
