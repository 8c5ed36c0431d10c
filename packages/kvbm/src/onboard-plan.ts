import { findNode } from './block-cache.js';
import type { TierStore } from './tier-store.js';

/** One tier a block can be brought from, nearest first in a list of them. */
export interface OnboardSource {
  store: TierStore;
  /** What a new transfer would get now, bytes per second. */
  bytesPerSecond: number;
  /** Fixed time of a transfer, however small. */
  latencyNs: number;
}

export interface OnboardQuestion {
  chain: Float64Array;
  chainLength: number;
  /** Blocks already in HBM; the plan starts behind them. */
  fromBlock: number;
  promptTokens: number;
  blockTokens: number;
  blockBytes: number;
  /** Mean time until the scheduler notices a finished transfer. */
  pollDelayNs: number;
}

/** Bring blocks fromBlock..toBlock-1, block fromBlock + i from `sourceOf[i]` (index into the sources); none when toBlock = fromBlock. */
export interface OnboardPlan {
  fromBlock: number;
  toBlock: number;
  sourceOf: Uint8Array;
  blocksPerSource: number[];
  /** Time to bring them, and to compute the rest after that. */
  transferNs: number;
  prefillNs: number;
  /** Time to compute everything behind fromBlock instead. */
  recomputeNs: number;
}

export function createOnboardPlan(): OnboardPlan {
  return { fromBlock: 0, toBlock: 0, sourceOf: new Uint8Array(64), blocksPerSource: [], transferNs: 0, prefillNs: 0, recomputeNs: 0 };
}

/**
 * Decides how many blocks behind the HBM hit to bring from the tiers: the number that makes transfer + prefill of the rest least, and none unless that beats
 * computing all of it. Each block comes from the first source that holds it; sources transfer side by side, so the slowest counts:
 * transfer = pollDelay + max over used sources of (latency + blocks x blockBytes / bytesPerSecond).
 *
 * `prefillNs(start, end)` is the time to compute tokens start..end-1 with the KV of 0..start-1 present. At least the last prompt token stays to compute.
 * Writes to `plan` and returns it; looks at each block of the chain once. Does not touch or pin anything.
 */
export function planOnboard(
  question: OnboardQuestion,
  sources: readonly OnboardSource[],
  prefillNs: (startToken: number, endToken: number) => number,
  plan: OnboardPlan,
): OnboardPlan {
  const { chain, fromBlock, promptTokens, blockTokens } = question;
  const limit = Math.min(question.chainLength, Math.floor((promptTokens - 1) / blockTokens));
  startPlan(plan, fromBlock, sources.length);
  const recomputeNs = prefillNs(fromBlock * blockTokens, promptTokens);
  plan.recomputeNs = recomputeNs;
  plan.prefillNs = recomputeNs;
  const counts = plan.blocksPerSource;
  let leastNs = recomputeNs;
  for (let block = fromBlock; block < limit; block++) {
    const source = sourceHolding(sources, chain[block]!);
    if (source < 0) break;
    if (block - fromBlock === plan.sourceOf.length) widenPlan(plan);
    plan.sourceOf[block - fromBlock] = source;
    counts[source]!++;
    const transferNs = Math.ceil(question.pollDelayNs + slowestSourceNs(sources, counts, question.blockBytes));
    const restNs = prefillNs((block + 1) * blockTokens, promptTokens);
    if (transferNs + restNs >= leastNs) continue;
    leastNs = transferNs + restNs;
    plan.toBlock = block + 1;
    plan.transferNs = transferNs;
    plan.prefillNs = restNs;
  }
  recount(plan);
  return plan;
}

/** Index of the first source that holds the block, or -1. */
function sourceHolding(sources: readonly OnboardSource[], identity: number): number {
  for (let index = 0; index < sources.length; index++) {
    if (findNode(sources[index]!.store.cache, identity) >= 0) return index;
  }
  return -1;
}

function slowestSourceNs(sources: readonly OnboardSource[], counts: readonly number[], blockBytes: number): number {
  let slowest = 0;
  for (let index = 0; index < sources.length; index++) {
    if (counts[index] === 0) continue;
    const source = sources[index]!;
    slowest = Math.max(slowest, source.latencyNs + (counts[index]! * blockBytes * 1e9) / source.bytesPerSecond);
  }
  return slowest;
}

function startPlan(plan: OnboardPlan, fromBlock: number, sources: number): void {
  plan.fromBlock = fromBlock;
  plan.toBlock = fromBlock;
  plan.transferNs = 0;
  plan.blocksPerSource.length = 0;
  for (let index = 0; index < sources; index++) plan.blocksPerSource.push(0);
}

/** Counts again only what lies before the cut. */
function recount(plan: OnboardPlan): void {
  plan.blocksPerSource.fill(0);
  for (let index = 0; index < plan.toBlock - plan.fromBlock; index++) plan.blocksPerSource[plan.sourceOf[index]!]!++;
}

function widenPlan(plan: OnboardPlan): void {
  const wider = new Uint8Array(plan.sourceOf.length * 2);
  wider.set(plan.sourceOf);
  plan.sourceOf = wider;
}
