import { z } from 'zod';
import type { Random } from '../../policy/policy.js';
import { defineRouterPolicy, type RouterRequest, type RouterView, routerStage } from '../../policy/router-policy.js';
import { oneOfTied } from '../choice.js';
import { byReport, type ChoiceParameters, choiceParameters, choose } from './choose.js';
import { candidateWay, candidateWhole, fillCandidates, fillTiers, type Slowing, waySeconds, wholeSeconds } from './whole-transfers.js';

/**
 * The decode scheduler of NetKV (arXiv 2606.03910): the least T_xfer + T_queue + T_dec, in seconds and without weights, over the candidates that can hold the
 * KV. The three steps of the paper differ in what slows a transfer down: its tier alone, also this scheduler's own transfers under way, also congestion.
 *
 *   s_eff = s (1 - h)    B_eff = B (1 - c) / (1 + n)    T_xfer = s_eff / B_eff + L
 *   T_queue = max(0, q - (beta_max - beta)) x t_iter(beta)    T_dec = t_iter(beta + 1)
 */
const parameters = {
  /** Which own transfers n counts: those of the same prefill engine on the same tier (as published), or all of the tier. */
  inFlight: z.enum(['source-tier', 'tier']).default('source-tier'),
  /** How long one counts: until its KV has arrived (as published), or, with a scheduler that keeps its account by the request, until the request has ended. */
  counts: z.enum(['transfers', 'requests']).default('transfers'),
  /** Share of its KV memory that a candidate must keep free. */
  reserve: z.number().min(0).lt(1).default(0.02),
  ...choiceParameters,
};

interface Parameters extends ChoiceParameters {
  readonly inFlight: 'source-tier' | 'tier';
  readonly counts: 'transfers' | 'requests';
  readonly reserve: number;
}

interface Step {
  /** Whether own transfers under way count. */
  readonly own: boolean;
  readonly congestion: Slowing['congestion'];
}

/** n by tier. */
function ownCounts(view: RouterView, { inFlight, counts }: Parameters): RouterView['tierTransfers'] {
  if (counts === 'requests') return inFlight === 'tier' ? view.tierRequests : view.sourceRequests;
  return inFlight === 'tier' ? view.tierTransfers : view.sourceTransfers;
}

/**
 * Scores every candidate and takes the lowest, in one pass without calls where the oracle goes by tier: it runs over all engines for every request. Without a
 * word about a candidate the network costs it nothing; before the prefill there is no transfer to weigh, and prompt work stands for the time of a pass.
 */
function scoreAndChoose(view: RouterView, request: RouterRequest, given: Parameters, step: Step, random: Random): number {
  const { candidates, count, scores, overlapBlocks, blockTokens, engines } = view;
  const { activeRequests, activeBlocks, runningSequences, waitingSequences, usedBlocks, maxSequences } = engines;
  const { passNs, passStart, contextTokenNs } = engines;
  const network = view.stage === routerStage.decode ? view.network : null;
  const own = step.own ? ownCounts(view, given) : null;
  const slowing: Slowing = { own, congestion: step.congestion };
  const tiers = network === null ? null : fillTiers(view, network, slowing);
  if (network !== null && tiers === null) fillCandidates(view, network, slowing);
  const whole = tiers === null ? candidateWhole : wholeSeconds;
  const way = tiers === null ? candidateWay : waySeconds;
  const reported = given.load === 'report';
  const { inputTokens } = request;
  const tokenShare = blockTokens / inputTokens;
  const prefillTokens = view.stage === routerStage.prefill ? engines.activePrefillTokens : null;
  let best = -1;
  let low = Number.POSITIVE_INFINITY;
  let ties = 0;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    let seconds = 0;
    if (network !== null) {
      const row = tiers === null ? place : tiers[engine]! + 1;
      seconds = whole[row]! * Math.max(0, 1 - overlapBlocks[engine]! * tokenShare) + way[row]!;
    }
    // As `computeSeconds`.
    const most = maxSequences[engine]!;
    const all = reported ? runningSequences[engine]! + waitingSequences[engine]! : activeRequests[engine]!;
    const batch = Math.min(reported ? runningSequences[engine]! : all, most);
    const tokenNs = contextTokenNs[engine]!;
    const contextNs = tokenNs * (blockTokens * (reported ? usedBlocks[engine]! : activeBlocks[engine]!) + inputTokens);
    const at = (passStart[engine]! + batch) | 0;
    // Without a branch on whether there is a queue: nobody can predict that of a random engine, and a wrong guess costs more than the sum.
    const queuedNs = Math.max(0, all - most) * (passNs[at]! + contextNs - tokenNs * inputTokens);
    let ns = passNs[batch < most ? at + 1 : at]! + contextNs + queuedNs;
    if (prefillTokens !== null) ns = prefillTokens[engine]!;
    const score = seconds + ns * 1e-9;
    scores[engine] = score;
    if (score < low) {
      low = score;
      best = engine;
      ties = 1;
    } else if (score === low) ties++;
  }
  if (ties === 1) return best;
  // No candidate at all has a score that is a number: `choose` says which.
  return ties > 1 && given.ties === 'random' ? oneOfTied(view, low, ties, random) : choose(view, given.ties, random);
}

function netkv(name: string, description: string, step: Step) {
  return defineRouterPolicy({
    name,
    description,
    parameters: z.strictObject(parameters),
    reads: { network: true, decodeOverlap: true, paths: step.congestion === 'path' },
    readsReports: (given) => byReport(given),
    reserve: (given: Parameters) => given.reserve,
    choose(view, request, given, _state, random) {
      return scoreAndChoose(view, request, given, step, random);
    },
  });
}

export const netkvStaticRouter = netkv('netkv-static', 'NetKV with static tiers only: seconds of transfer, queue and next pass.', {
  own: false,
  congestion: 'none',
});
export const netkvSelfRouter = netkv('netkv-self', 'NetKV with static tiers shared by the own transfers under way.', {
  own: true,
  congestion: 'none',
});
export const netkvRouter = netkv('netkv', 'NetKV (arXiv 2606.03910): tiers, own transfers under way and reported congestion.', {
  own: true,
  congestion: 'tier',
});
export const netkvPathRouter = netkv('netkv-path', 'NetKV with the load of the links on the way to each candidate in place of its tier.', {
  own: true,
  congestion: 'path',
});

const whole: Step = { own: true, congestion: 'tier' };

export const netkvJointRouter = defineRouterPolicy({
  name: 'netkv-joint',
  description: 'The costs of NetKV, for all requests that wait at a moment together: the assignment with the least sum.',
  parameters: z.strictObject({
    ...parameters,
    /** How long decisions are gathered, ms; 0: those of one instant, and whoever waits for room. */
    windowMs: z.number().min(0).default(5),
    /** Requests assigned together at most. */
    together: z.int().min(1).max(1024).default(64),
  }),
  reads: { network: true, decodeOverlap: true },
  readsReports: (given) => byReport(given),
  reserve: (given) => given.reserve,
  joint: ({ windowMs, together, ties }) => ({ windowNs: Math.round(windowMs * 1e6), together, ties }),
  choose(view, request, given, _state, random) {
    return scoreAndChoose(view, request, given, whole, random);
  },
});
