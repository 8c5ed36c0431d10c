import { networkTiers } from '../../oracle/site.js';
import type { ReadonlyColumn } from '../../policy/policy.js';
import type { NetworkView, RouterView } from '../../policy/router-policy.js';

/** Stands for a transfer that never ends, s: finite, so that an engine that holds the whole prompt still costs nothing. */
const never = 1e9;

/** What slows a transfer down besides its tier. */
export interface Slowing {
  /** Own transfers under way that it shares the bandwidth with, by tier; null: alone. */
  readonly own: ReadonlyColumn | null;
  readonly congestion: 'none' | 'tier' | 'path';
}

/**
 * s (1 + n) / (B (1 - c)) and L, s, for the KV of the whole prompt: by tier + 1 (row 0: an engine of unknown tier, taken for the slowest that a candidate is in). Filled and
 * read within one decision; never state.
 */
export const wholeSeconds = new Float64Array(networkTiers + 1);
export const waySeconds = new Float64Array(networkTiers + 1);
/** The same by place of the candidate. */
export let candidateWhole = new Float64Array(0);
export let candidateWay = new Float64Array(0);

/** Fills the rows of all tiers and returns the tier of each engine; null where the oracle tells engines apart, or the way to each counts. */
export function fillTiers(view: RouterView, { byTier }: NetworkView, slowing: Slowing): ReadonlyColumn | null {
  if (byTier == null || slowing.congestion === 'path') return null;
  const { transferBytes } = view;
  const { bytesPerSecond, latencyNs, transferNs, congestion } = byTier;
  for (let row = 1; row <= networkTiers; row++) {
    const taken = slowing.congestion === 'none' ? 0 : congestion[row]!;
    fill(row, row - 1, slowing.own, transferBytes, bytesPerSecond[row]!, latencyNs[row]!, transferNs[row]!, taken);
  }
  fillUnknown(view, byTier.tier);
  return byTier.tier;
}

/** Row 0: the slowest tier that a candidate is known to be in, zeros where none is. */
function fillUnknown({ candidates, count }: RouterView, tier: ReadonlyColumn): void {
  let known = 0;
  for (let place = 0; place < count; place++) known |= 1 << (tier[candidates[place]!]! + 1);
  wholeSeconds[0] = 0;
  waySeconds[0] = 0;
  for (let row = 1; row <= networkTiers; row++) {
    if ((known & (1 << row)) === 0 || wholeSeconds[row]! + waySeconds[row]! <= wholeSeconds[0]! + waySeconds[0]!) continue;
    wholeSeconds[0] = wholeSeconds[row]!;
    waySeconds[0] = waySeconds[row]!;
  }
}

/**
 * Costs of moving the whole KV to the candidates of a column, where the oracle tells engines apart: `whole` and `way` by place. What it knows nothing of costs as
 * much as the slowest it knows, and nothing where it knows none: nobody should be drawn to what cannot be seen.
 */
export function fillCandidates(view: RouterView, network: NetworkView, slowing: Slowing): void {
  const { candidates, count, transferBytes } = view;
  const { own, congestion: by } = slowing;
  // Read once: an answer by tier fills its columns when they are asked for.
  const { tier, bytesPerSecond, latencyNs, transferNs, congestion, pathCongestion } = network;
  if (candidateWhole.length < count) {
    candidateWhole = new Float64Array(count);
    candidateWay = new Float64Array(count);
  }
  let unknown = 0;
  let slowest = -1;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    let taken = by === 'none' ? 0 : congestion[engine]!;
    if (by === 'path' && pathCongestion[engine]! >= 0) taken = pathCongestion[engine]!;
    const known = fill(0, tier[engine]!, own, transferBytes, bytesPerSecond[engine]!, latencyNs[engine]!, transferNs[engine]!, taken);
    candidateWhole[place] = known ? wholeSeconds[0]! : Number.NaN;
    candidateWay[place] = waySeconds[0]!;
    if (!known) unknown++;
    else if (slowest < 0 || candidateWhole[place]! + candidateWay[place]! > candidateWhole[slowest]! + candidateWay[slowest]!)
      slowest = place;
  }
  for (let place = 0; unknown > 0 && place < count; place++) {
    if (!Number.isNaN(candidateWhole[place]!)) continue;
    candidateWhole[place] = slowest < 0 ? 0 : candidateWhole[slowest]!;
    candidateWay[place] = slowest < 0 ? 0 : candidateWay[slowest]!;
  }
}

function fill(
  row: number,
  tier: number,
  own: ReadonlyColumn | null,
  bytes: number,
  bytesPerSecond: number,
  latencyNs: number,
  transferNs: number,
  congestion: number,
): boolean {
  const flows = own === null || tier < 0 ? 1 : 1 + own[tier]!;
  // Congestion that nobody reported is none.
  const taken = Number.isNaN(congestion) ? 0 : congestion;
  const known = bytesPerSecond >= 0;
  const alone = known ? bytes / (bytesPerSecond * (1 - taken)) : transferNs > 0 ? transferNs * 1e-9 : 0;
  wholeSeconds[row] = Math.min(never, alone * flows);
  // A latency that nobody told is none.
  waySeconds[row] = known && latencyNs > 0 ? latencyNs * 1e-9 : 0;
  return known || transferNs >= 0;
}
