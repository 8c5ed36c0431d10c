import { networkTiers } from '../../oracle/site.js';
import type { ReadonlyColumn } from '../../policy/policy.js';
import type { NetworkView, RouterView, TierRows } from '../../policy/router-policy.js';

/** Stands for a transfer that never ends, s: finite, so that an engine that holds the whole prompt still costs nothing. */
const never = 1e9;

/** What slows a transfer down besides its tier. */
export interface Slowing {
  /** Own transfers under way that it shares the bandwidth with, by tier; null: alone. */
  readonly own: ReadonlyColumn | null;
  readonly congestion: 'none' | 'tier' | 'path';
}

/**
 * By tier + 1 (row 0: unknown tier), and where the oracle tells engines apart by place of the candidate, one behind the other, as each array that a loop reads costs:
 * s (1 + n) / (B (1 - c)) and L for the KV of the whole prompt, s (NaN: nothing is known); B; 1 + n. Filled and read within one decision; never state.
 */
const width = 4;
const tierCosts = new Float64Array(width * (networkTiers + 1));
let candidateCosts = new Float64Array(0);

/**
 * Writes T_xfer of NetKV, s, of each candidate to `out`, by engine: for the KV that it does not hold. What nobody knows anything of costs as much as the slowest
 * candidate that is known, and nothing where none is: nobody should be drawn to what cannot be seen. Without a network nothing costs anything.
 */
export function moveSeconds(view: RouterView, network: NetworkView | null, slowing: Slowing, inputTokens: number, out: Float64Array): void {
  const { candidates, count, transferBytes, fixedBytes } = view;
  if (network === null) {
    for (let place = 0; place < count; place++) out[candidates[place]!] = 0;
    return;
  }
  // Of the whole, what a block that is there spares.
  const growing = fixedBytes === 0 ? 1 : 1 - fixedBytes / transferBytes;
  const blockShare = (growing * view.blockTokens) / inputTokens;
  const rows = network.byTier ?? null;
  if (rows !== null) fillTiers(transferBytes, rows, slowing);
  if (rows !== null) {
    const paths = slowing.congestion === 'path' ? network.pathCongestion : null;
    const present = movesByTier(view, rows.tier, paths, blockShare, out);
    if (!isUnknown(present)) return;
    if (paths === null) {
      settle(tierCosts, networkTiers + 1, present);
      movesByTier(view, rows.tier, null, blockShare, out);
      return;
    }
  }
  if (candidateCosts.length < width * count) candidateCosts = new Float64Array(width * count);
  fillCandidates(view, network, slowing, candidateCosts);
  settle(candidateCosts, count);
  movesByPlace(view, candidateCosts, blockShare, out);
}

/** Whether any of these rows is one of which nothing is known. */
function isUnknown(rows: number): boolean {
  for (let row = 0; row <= networkTiers; row++) if ((rows & (1 << row)) !== 0 && Number.isNaN(tierCosts[width * row]!)) return true;
  return false;
}

/** Returns which rows there were, as bits. `paths`: load on the way to each engine, in place of its tier's where it is known. */
function movesByTier(view: RouterView, tier: ReadonlyColumn, paths: ReadonlyColumn | null, blockShare: number, out: Float64Array): number {
  const { candidates, count, overlapBlocks, transferBytes } = view;
  let present = 0;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const row = tier[engine]! + 1;
    const at = width * row;
    present |= 1 << row;
    let whole = tierCosts[at]!;
    const widest = tierCosts[at + 2]!;
    if (paths !== null && paths[engine]! >= 0 && widest >= 0)
      whole = Math.min(never, (transferBytes / (widest * (1 - paths[engine]!))) * tierCosts[at + 3]!);
    out[engine] = whole * Math.max(0, 1 - overlapBlocks[engine]! * blockShare) + tierCosts[at + 1]!;
  }
  return present;
}

function movesByPlace({ candidates, count, overlapBlocks }: RouterView, costs: Float64Array, blockShare: number, out: Float64Array): void {
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const at = width * place;
    out[engine] = costs[at]! * Math.max(0, 1 - overlapBlocks[engine]! * blockShare) + costs[at + 1]!;
  }
}

/** By tier + 1. */
function fillTiers(bytes: number, rows: TierRows, { own, congestion: by }: Slowing): void {
  const { bytesPerSecond, latencyNs, transferNs, congestion } = rows;
  for (let row = 0; row <= networkTiers; row++) {
    const taken = by === 'none' ? 0 : congestion[row]!;
    const flows = own === null || row === 0 ? 1 : 1 + own[row - 1]!;
    tierCosts[width * row] = wholeSeconds(bytes, bytesPerSecond[row]!, transferNs[row]!, taken, flows);
    tierCosts[width * row + 1] = waySeconds(bytesPerSecond[row]!, latencyNs[row]!);
    tierCosts[width * row + 2] = bytesPerSecond[row]!;
    tierCosts[width * row + 3] = flows;
  }
}

/** Where the oracle tells engines apart. */
function fillCandidates(view: RouterView, network: NetworkView, { own, congestion: by }: Slowing, costs: Float64Array): void {
  const { candidates, count, transferBytes } = view;
  const { tier, bytesPerSecond, latencyNs, transferNs, congestion, pathCongestion } = network;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    let taken = by === 'none' ? 0 : congestion[engine]!;
    if (by === 'path' && pathCongestion[engine]! >= 0) taken = pathCongestion[engine]!;
    const flows = own === null || tier[engine]! < 0 ? 1 : 1 + own[tier[engine]!]!;
    costs[width * place] = wholeSeconds(transferBytes, bytesPerSecond[engine]!, transferNs[engine]!, taken, flows);
    costs[width * place + 1] = waySeconds(bytesPerSecond[engine]!, latencyNs[engine]!);
  }
}

/** Gives rows of which nothing is known what the slowest known one costs, of those in `which` (bits; -1 all). */
function settle(costs: Float64Array, rows: number, which = -1): void {
  let slowest = -1;
  let unknown = 0;
  for (let row = 0; row < rows; row++) {
    if (which !== -1 && (which & (1 << row)) === 0) continue;
    const at = width * row;
    const cost = costs[at]! + costs[at + 1]!;
    if (Number.isNaN(cost)) unknown++;
    else if (slowest < 0 || cost > costs[slowest]! + costs[slowest + 1]!) slowest = at;
  }
  for (let row = 0; unknown > 0 && row < rows; row++) {
    const at = width * row;
    if (!Number.isNaN(costs[at]!)) continue;
    costs[at] = slowest < 0 ? 0 : costs[slowest]!;
    costs[at + 1] = slowest < 0 ? 0 : costs[slowest + 1]!;
  }
}

/** NaN where neither bandwidth nor time is known. Congestion that nobody reported is none. */
function wholeSeconds(bytes: number, bytesPerSecond: number, transferNs: number, congestion: number, flows: number): number {
  const taken = Number.isNaN(congestion) ? 0 : congestion;
  const alone = bytesPerSecond >= 0 ? bytes / (bytesPerSecond * (1 - taken)) : transferNs * 1e-9;
  return Math.min(never, alone * flows);
}

/** A latency that nobody told is none. */
function waySeconds(bytesPerSecond: number, latencyNs: number): number {
  return bytesPerSecond >= 0 && latencyNs > 0 ? latencyNs * 1e-9 : 0;
}
