import { z } from 'zod';
import type { LinkObservation, OracleAnswer, OracleQuestion, OracleView } from '../policy/control-policies.js';
import type { ReadonlyColumn } from '../policy/policy.js';
import { type NetworkSite, networkTiers } from './site.js';

/** How the reports of many links become one number a tier. */
export const congestionParameters = {
  /** mean or busiest of the tier's links as last reported, or only the background that the operator knows of. */
  congestion: z.enum(['mean', 'busiest', 'background']).default('mean'),
  /** What a tier or link is said to be loaded at most: at 1 it would move nothing, for ever. */
  ceiling: z.number().gt(0).lt(1).default(0.99),
};

/** The same as a type. */
export interface CongestionParameters {
  readonly congestion: 'mean' | 'busiest' | 'background';
  readonly ceiling: number;
}

/** Links as last reported. Plain data; empty until the first report. */
export interface LinkLoads {
  utilisation: Float64Array;
}

export function createLinkLoads(): LinkLoads {
  return { utilisation: new Float64Array(0) };
}

export function noteLink(links: LinkLoads, { site, link, utilisation }: LinkObservation): void {
  if (links.utilisation.length === 0) links.utilisation = new Float64Array(site.linkTier.length);
  links.utilisation[link] = utilisation;
}

/** What frontends answer from: load of tiers, and of links where a router wants it. Plain data. */
export interface TierKnowledge {
  readonly congestion: Float64Array;
  readonly links: Float64Array | null;
}

export function tierKnowledge(view: OracleView, links: LinkLoads, parameters: CongestionParameters): TierKnowledge {
  return {
    congestion: tierCongestion(view.site, links.utilisation, parameters),
    links: view.paths ? links.utilisation.map((utilisation) => Math.min(parameters.ceiling, utilisation)) : null,
  };
}

/** Load by tier, from the last report of each link. */
function tierCongestion(site: NetworkSite, utilisation: Float64Array, parameters: CongestionParameters): Float64Array {
  const { linkTier, tierLinks, tierBackground } = site;
  const { congestion: by, ceiling } = parameters;
  const congestion = by === 'background' ? Float64Array.from(tierBackground) : new Float64Array(networkTiers);
  for (let link = 0; by !== 'background' && link < utilisation.length; link++) {
    const tier = linkTier[link]!;
    if (tier < 0) continue;
    if (by === 'mean') congestion[tier]! += utilisation[link]! / tierLinks[tier]!;
    else congestion[tier] = Math.max(congestion[tier]!, utilisation[link]!);
  }
  for (let tier = 0; tier < networkTiers; tier++) congestion[tier] = Math.min(ceiling, congestion[tier]!);
  return congestion;
}

/** Answers from what was published, by the distance in the topology. */
export function answerKnown(question: OracleQuestion, answer: OracleAnswer, { congestion, links }: TierKnowledge): void {
  answerByTier(question, answer, question.site.tiersFrom(question.prefillEngine), congestion);
  if (links !== null && links.length > 0) answerPaths(question, answer, links);
}

/** Says tier, bandwidth, latency, congestion and the time they come to, of all candidates; where the tier is unknown (-1), that. */
export function answerByTier(
  question: OracleQuestion,
  answer: OracleAnswer,
  tiers: ReadonlyColumn,
  congestion: ReadonlyColumn,
  bytesPerSecond: ReadonlyColumn = question.site.tierBytesPerSecond,
  latencyNs: ReadonlyColumn = question.site.tierLatencyNs,
): void {
  answer.answerByTier(question, tiers, congestion, bytesPerSecond, latencyNs);
}

/**
 * Load on the way to each engine: at each stage of its equal-cost paths the mean of the links that a hash may choose, and of the stages the fullest. Which of
 * them a transfer's own hash takes nobody knows beforehand.
 */
function answerPaths({ prefillEngine, site }: OracleQuestion, answer: OracleAnswer, links: Float64Array): void {
  let rows = workedOut.get(links);
  if (rows === undefined) {
    rows = new Map();
    workedOut.set(links, rows);
  }
  let row = rows.get(prefillEngine);
  if (row === undefined || row.length < answer.pathCongestion.length) {
    row = answer.pathCongestion.map((_, engine) => fullestStage(site.pathStages(prefillEngine, engine), links));
    rows.set(prefillEngine, row);
  }
  answer.pathCongestion.set(row);
}

function fullestStage(stages: readonly ReadonlyColumn[], links: Float64Array): number {
  let fullest = 0;
  for (const stage of stages) {
    let sum = 0;
    for (let at = 0; at < stage.length; at++) sum += links[stage[at]!]!;
    fullest = Math.max(fullest, sum / stage.length);
  }
  return fullest;
}

/** By what an oracle published, and by prefill engine: what was worked out from it. Published loads never change. */
const workedOut = new WeakMap<Float64Array, Map<number, Float64Array>>();
