import { networkTiers } from '../../oracle/site.js';
import type { ReadonlyColumn } from '../../policy/policy.js';
import type { NetworkView, RouterView } from '../../policy/router-policy.js';

/** What slows a transfer down besides its tier. */
export interface Slowing {
  /** Own transfers under way that it shares the bandwidth with, by tier; null: alone. */
  readonly own: ReadonlyColumn | null;
  readonly congestion: 'none' | 'tier' | 'path';
}

/**
 * s (1 + n) / (B (1 - c)) and L, s, for the KV of the whole prompt: by tier + 1, or in row 0 those of one engine. Zeros where the oracle knows nothing. Filled
 * and read within one decision; never state.
 */
export const wholeSeconds = new Float64Array(networkTiers + 1);
export const waySeconds = new Float64Array(networkTiers + 1);

/** Fills the rows of all tiers and returns the tier of each engine; null where the oracle tells engines apart, or the way to each counts. */
export function fillTiers({ transferBytes }: RouterView, { byTier }: NetworkView, slowing: Slowing): ReadonlyColumn | null {
  if (byTier == null || slowing.congestion === 'path') return null;
  const { bytesPerSecond, latencyNs, transferNs, congestion } = byTier;
  for (let row = 0; row <= networkTiers; row++) {
    const taken = slowing.congestion === 'none' ? 0 : congestion[row]!;
    fill(row, row - 1, slowing.own, transferBytes, bytesPerSecond[row]!, latencyNs[row]!, transferNs[row]!, taken);
  }
  return byTier.tier;
}

/** Fills row 0 with what the oracle says of one engine. */
export function fillEngine({ transferBytes }: RouterView, network: NetworkView, engine: number, { own, congestion }: Slowing): void {
  let taken = congestion === 'none' ? 0 : network.congestion[engine]!;
  if (congestion === 'path' && network.pathCongestion[engine]! >= 0) taken = network.pathCongestion[engine]!;
  const { tier, bytesPerSecond, latencyNs, transferNs } = network;
  fill(0, tier[engine]!, own, transferBytes, bytesPerSecond[engine]!, latencyNs[engine]!, transferNs[engine]!, taken);
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
): void {
  const flows = own === null || tier < 0 ? 1 : 1 + own[tier]!;
  // Congestion that nobody reported is none.
  const taken = Number.isNaN(congestion) ? 0 : congestion;
  const known = bytesPerSecond > 0;
  const alone = known ? bytes / (bytesPerSecond * (1 - taken)) : transferNs > 0 ? transferNs * 1e-9 : 0;
  wholeSeconds[row] = alone * flows;
  waySeconds[row] = known ? latencyNs * 1e-9 : 0;
}
