import { z } from 'zod';
import { defineRouterPolicy, type NetworkView, type RouterRequest, type RouterView, routerStage } from '../../policy/router-policy.js';
import { type ChoiceParameters, choiceParameters, choose } from './choose.js';

/**
 * The decode scheduler of NetKV (arXiv 2606.03910): the least T_xfer + T_queue + T_dec, in seconds and without weights, over the candidates that can hold the
 * KV. The three steps of the paper differ in what slows a transfer down: its tier alone, also this scheduler's own transfers under way, also congestion.
 *
 *   s_eff = s (1 - h)    B_eff = B (1 - c) / (1 + n)    T_xfer = s_eff / B_eff + L
 *   T_queue = max(0, q - (beta_max - beta)) x t_iter(beta)    T_dec = t_iter(beta + 1)
 */
const parameters = z.strictObject({
  /** Which own transfers n counts: those of the same prefill engine on the same tier (as published), or all of the tier. */
  inFlight: z.enum(['source-tier', 'tier']).default('source-tier'),
  /** Share of its KV memory that a candidate must keep free. */
  reserve: z.number().min(0).lt(1).default(0.02),
  ...choiceParameters,
});

type Parameters = z.output<typeof parameters>;

interface Step {
  readonly own: boolean;
  readonly congestion: boolean;
}

/** Network part of each candidate's cost, s, into `scores`. Without a word about a candidate the network costs nothing. */
function scoreTransfers(view: RouterView, request: RouterRequest, inFlight: Parameters['inFlight'], step: Step): void {
  const { candidates, count, scores, overlapBlocks, blockTokens, transferBytes } = view;
  const { tier, bytesPerSecond, latencyNs, congestion, transferNs } = view.network as NetworkView;
  const own = inFlight === 'tier' ? view.tierTransfers : view.sourceTransfers;
  const blockShare = blockTokens / request.inputTokens;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const missing = Math.max(0, 1 - overlapBlocks[engine]! * blockShare);
    const bandwidth = bytesPerSecond[engine]!;
    const flows = step.own && tier[engine]! >= 0 ? 1 + own[tier[engine]!]! : 1;
    if (bandwidth > 0) {
      // NaN compares as false: congestion that nobody reported is none.
      const taken = step.congestion && congestion[engine]! > 0 ? congestion[engine]! : 0;
      scores[engine] = (transferBytes * missing * flows) / (bandwidth * (1 - taken)) + latencyNs[engine]! / 1e9;
    } else if (transferNs[engine]! > 0) scores[engine] = (transferNs[engine]! * missing * flows) / 1e9;
    else scores[engine] = 0;
  }
}

/** Adds queueing and the next pass, s, by the scheduler's own account of the engines (or their reports). */
function addCompute(view: RouterView, request: RouterRequest, load: ChoiceParameters['load']): void {
  const { candidates, count, scores, engines, blockTokens } = view;
  const { activeRequests, activeBlocks, runningSequences, waitingSequences, usedBlocks, maxSequences } = engines;
  const { passNs, passStart, contextTokenNs } = engines;
  const reported = load === 'report';
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const most = maxSequences[engine]!;
    const all = reported ? runningSequences[engine]! + waitingSequences[engine]! : activeRequests[engine]!;
    const batch = reported ? runningSequences[engine]! : Math.min(all, most);
    const start = passStart[engine]!;
    const contextNs = contextTokenNs[engine]! * blockTokens * (reported ? usedBlocks[engine]! : activeBlocks[engine]!);
    // q - (beta_max - beta), with q + beta = all.
    const queued = Math.max(0, all - most);
    const queueNs = queued === 0 ? 0 : queued * (passNs[start + Math.min(batch, most)]! + contextNs);
    const ownNs = contextTokenNs[engine]! * request.inputTokens;
    scores[engine]! += (queueNs + passNs[start + Math.min(batch + 1, most)]! + contextNs + ownNs) / 1e9;
  }
}

function netkv(name: string, description: string, step: Step) {
  return defineRouterPolicy({
    name,
    description,
    parameters,
    reads: { network: true, decodeOverlap: true },
    reserve: (given: Parameters) => given.reserve,
    choose(view, request, given, _state, random) {
      const { candidates, count, scores } = view;
      if (view.stage === routerStage.decode && view.network !== null) scoreTransfers(view, request, given.inFlight, step);
      else for (let place = 0; place < count; place++) scores[candidates[place]!] = 0;
      if (view.stage === routerStage.prefill) addPrefill(view);
      else addCompute(view, request, given.load);
      return choose(view, given.ties, random);
    },
  });
}

/** Before the prefill there is no transfer to weigh: the least prompt work. */
function addPrefill(view: RouterView): void {
  const { candidates, count, scores, engines } = view;
  for (let place = 0; place < count; place++) scores[candidates[place]!]! += engines.activePrefillTokens[candidates[place]!]!;
}

export const netkvStaticRouter = netkv('netkv-static', 'NetKV with static tiers only: seconds of transfer, queue and next pass.', {
  own: false,
  congestion: false,
});
export const netkvSelfRouter = netkv('netkv-self', 'NetKV with static tiers shared by the own transfers under way.', {
  own: true,
  congestion: false,
});
export const netkvRouter = netkv('netkv', 'NetKV (arXiv 2606.03910): tiers, own transfers under way and reported congestion.', {
  own: true,
  congestion: true,
});
