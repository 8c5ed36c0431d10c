import { z } from 'zod';
import type { Random } from '../../policy/policy.js';
import { defineRouterPolicy, type RouterRequest, type RouterView, routerStage } from '../../policy/router-policy.js';
import { byReport, type ChoiceParameters, choiceParameters, choose } from './choose.js';
import { addWorkSeconds } from './costs.js';
import { moveSeconds, type Slowing } from './moves.js';

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
 * Scores every candidate and takes the lowest. Before the prefill there is no transfer to weigh, and prompt work, in tokens, stands for the time of a
 * pass.
 */
function scoreAndChoose(view: RouterView, { inputTokens }: RouterRequest, given: Parameters, step: Step, random: Random): number {
  const { scores, stage } = view;
  if (stage === routerStage.prefill) return choose(view, given.ties, random, view.engines.activePrefillTokens);
  const slowing: Slowing = { own: step.own ? ownCounts(view, given) : null, congestion: step.congestion };
  moveSeconds(view, stage === routerStage.decode ? view.network : null, slowing, inputTokens, scores);
  addWorkSeconds(view, inputTokens, given.load === 'report', scores, scores);
  return choose(view, given.ties, random);
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
    windowMs: z.number().min(0).max(3.6e6).default(5),
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
