import { z } from 'zod';
import { defineRouterPolicy, routerStage } from '../../policy/router-policy.js';
import { anyWeight, byReport, choiceParameters, choose, weight } from './choose.js';

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
    if (view.stage === routerStage.prefill) return choose(view, ties, random, engines.activePrefillTokens);
    if (load === 'account') return choose(view, ties, random, engines.activeRequests);
    const { runningSequences, waitingSequences } = engines;
    for (let place = 0; place < count; place++)
      scores[candidates[place]!] = runningSequences[candidates[place]!]! + waitingSequences[candidates[place]!]!;
    return choose(view, ties, random);
  },
});

export const claRouter = defineRouterPolicy({
  name: 'cla',
  description: 'Cache and load: cacheWeight x hit share - loadWeight x (running + queued) / batch, the highest wins.',
  parameters: z
    .strictObject({
      cacheWeight: weight.default(1),
      loadWeight: weight.default(5),
      /** What load is measured against; default the most sequences the engine takes into a pass. */
      batch: z.number().positive().optional(),
      ...choiceParameters,
    })
    .refine(...anyWeight('cacheWeight', 'loadWeight')),
  reads,
  readsReports: (given) => byReport(given),
  choose(view, request, { cacheWeight, loadWeight, batch, load, ties }, _state, random) {
    const { candidates, count, scores, engines, overlapBlocks, blockTokens } = view;
    const { maxSequences, waitingSequences } = engines;
    const { inputTokens } = request;
    const reported = load === 'report';
    const requests = reported ? engines.runningSequences : engines.activeRequests;
    for (let place = 0; place < count; place++) {
      const engine = candidates[place]!;
      const most = batch ?? Math.max(1, maxSequences[engine]!);
      const there = reported ? requests[engine]! + waitingSequences[engine]! : requests[engine]!;
      // Share of the prompt's blocks that the engine holds as a prefix.
      const held = Math.min(1, (overlapBlocks[engine]! * blockTokens) / inputTokens);
      scores[engine] = (loadWeight * there) / most - cacheWeight * held;
    }
    return choose(view, ties, random);
  },
});
