import { z } from 'zod';
import { networkTiers } from '../../oracle/site.js';
import type { Random, ReadonlyColumn } from '../../policy/policy.js';
import { defineRouterPolicy, type RouterView, routerStage, waitForRoom } from '../../policy/router-policy.js';
import { lowestScore } from '../choice.js';

const roomParameters = {
  /** Share of the most sequences of a pass up to which an engine has room. */
  room: z.number().positive().default(0.8),
};

/** Requests over the most an engine takes into a pass; unknown most: no limit. */
function fullness(view: RouterView, engine: number): number {
  const most = view.engines.maxSequences[engine]!;
  return most === 0 ? 0 : view.engines.activeRequests[engine]! / most;
}

/** Distance by engine, null where nobody tells any. */
function distances({ network }: RouterView): ReadonlyColumn | null {
  return network === null ? null : (network.byTier?.tier ?? network.tier);
}

/** Distance of a candidate; what nobody knows counts as farthest. */
function distance(tiers: ReadonlyColumn | null, engine: number): number {
  const tier = tiers === null ? -1 : tiers[engine]!;
  return tier < 0 ? networkTiers - 1 : tier;
}

/** The nearest distance in [from, limit) with a candidate that has room, -1 for none. */
function nearestWithRoom(view: RouterView, from: number, limit: number, room: number): number {
  const { candidates, count } = view;
  const tiers = distances(view);
  let nearest = limit;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const tier = distance(tiers, engine);
    if (tier >= from && tier < nearest && fullness(view, engine) < room) nearest = tier;
  }
  return nearest < limit ? nearest : -1;
}

/** The least loaded candidate at a distance, of those with room. */
function leastLoadedAt(view: RouterView, tier: number, room: number, random: Random): number {
  const { candidates, count, scores, engines } = view;
  const tiers = distances(view);
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const takes = distance(tiers, engine) === tier && fullness(view, engine) < room;
    scores[engine] = takes ? engines.activeRequests[engine]! : Number.POSITIVE_INFINITY;
  }
  return lowestScore(view, random);
}

function leastLoaded(view: RouterView, random: Random): number {
  const { engines } = view;
  return lowestScore(view, random, view.stage === routerStage.prefill ? engines.activePrefillTokens : engines.activeRequests);
}

export const tierFirstRouter = defineRouterPolicy({
  name: 'tier-first',
  description: 'The nearest tier that has room, the least loaded engine there; far tiers only once a request has waited long enough.',
  parameters: z.strictObject({
    ...roomParameters,
    /** Tiers from here on are far. */
    farTier: z.int().min(1).max(networkTiers).default(3),
    /** Time since its arrival after which a request may go far, ms: what its SLO leaves; 0 at once. */
    farAfterMs: z.number().min(0).default(0),
  }),
  reads: { network: true },
  waits: true,
  choose(view, request, { room, farTier, farAfterMs }, _state, random) {
    if (view.stage !== routerStage.decode) return leastLoaded(view, random);
    const limit = request.ageNs >= farAfterMs * 1e6 ? networkTiers : farTier;
    const tier = nearestWithRoom(view, 0, limit, room);
    if (tier >= 0) return leastLoadedAt(view, tier, room, random);
    // Full everywhere: whoever may not go far waits for room near by.
    return limit < networkTiers ? waitForRoom : leastLoaded(view, random);
  },
});

export const zoneFirstRouter = defineRouterPolicy({
  name: 'zone-first',
  description: 'Two levels: the own zone while it has room, else the others; inside a zone the nearest tier with room.',
  parameters: z.strictObject(roomParameters),
  reads: { network: true },
  choose(view, _request, { room }, _state, random) {
    if (view.stage !== routerStage.decode) return leastLoaded(view, random);
    const far = networkTiers - 1;
    const tier = nearestWithRoom(view, zoneHasRoom(view, far, room) ? 0 : far, networkTiers, room);
    return tier >= 0 ? leastLoadedAt(view, tier, room, random) : leastLoaded(view, random);
  },
});

/** Whether the candidates of the own zone, nearer than `far`, have room between them. */
function zoneHasRoom(view: RouterView, far: number, room: number): boolean {
  const { candidates, count } = view;
  const tiers = distances(view);
  let used = 0;
  let engines = 0;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    if (distance(tiers, engine) >= far) continue;
    used += fullness(view, engine);
    engines++;
  }
  return engines > 0 && used < room * engines;
}
