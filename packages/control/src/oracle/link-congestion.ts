import { z } from 'zod';
import type { LinkObservation, OracleAnswer, OracleQuestion } from '../policy/control-policies.js';
import { networkTiers } from './site.js';

/** How the reports of many links become one number a tier. */
export const congestionParameters = {
  /** mean or busiest of the tier's links as last reported, or only the background that the operator knows of. */
  congestion: z.enum(['mean', 'busiest', 'background']).default('mean'),
  /** What a tier reports at most: at 1 it would move nothing, for ever. */
  ceiling: z.number().gt(0).lt(1).default(0.99),
};

export interface CongestionParameters {
  readonly congestion: 'mean' | 'busiest' | 'background';
  readonly ceiling: number;
}

/** Links as last reported. Plain data. */
export interface LinkCongestion {
  /** By link; empty until the first report. */
  utilisation: Float64Array;
  /** By tier. */
  readonly congestion: Float64Array;
  stale: boolean;
}

export function createLinkCongestion(): LinkCongestion {
  return { utilisation: new Float64Array(0), congestion: new Float64Array(networkTiers), stale: true };
}

export function noteLink(links: LinkCongestion, observation: LinkObservation): void {
  const { linkTier } = observation.site;
  if (links.utilisation.length === 0) links.utilisation = new Float64Array(linkTier.length);
  links.utilisation[observation.link] = observation.utilisation;
  links.stale = true;
}

/** Congestion by tier, from the last report of each link. */
export function tierCongestion(
  links: LinkCongestion,
  { site }: Pick<OracleQuestion, 'site'>,
  { congestion: by, ceiling }: CongestionParameters,
): Float64Array {
  const { congestion, utilisation } = links;
  if (!links.stale) return congestion;
  links.stale = false;
  const { linkTier, tierLinks, tierBackground } = site;
  congestion.fill(0);
  for (let link = 0; by !== 'background' && link < utilisation.length; link++) {
    const tier = linkTier[link]!;
    if (tier < 0) continue;
    if (by === 'mean') congestion[tier]! += utilisation[link]! / tierLinks[tier]!;
    else congestion[tier] = Math.max(congestion[tier]!, utilisation[link]!);
  }
  for (let tier = 0; tier < networkTiers; tier++) {
    if (by === 'background') congestion[tier] = tierBackground[tier]!;
    congestion[tier] = Math.min(ceiling, congestion[tier]!);
  }
  return congestion;
}

/** Writes tier, bandwidth, latency, congestion and the time they come to, for each candidate. */
export function answerByTier(
  question: OracleQuestion,
  answer: OracleAnswer,
  tiers: ArrayLike<number>,
  congestion: ArrayLike<number>,
  bytesPerSecond: ArrayLike<number> = question.site.tierBytesPerSecond,
  latencyNs: ArrayLike<number> = question.site.tierLatencyNs,
): void {
  const { candidates, count, transferBytes } = question;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const tier = tiers[engine]!;
    answer.tier[engine] = tier;
    if (tier < 0) continue;
    answer.bytesPerSecond[engine] = bytesPerSecond[tier]!;
    answer.latencyNs[engine] = latencyNs[tier]!;
    answer.congestion[engine] = congestion[tier]!;
    answer.transferNs[engine] = (transferBytes / (bytesPerSecond[tier]! * (1 - congestion[tier]!))) * 1e9 + latencyNs[tier]!;
  }
}
