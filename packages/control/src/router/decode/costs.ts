import type { RouterView } from '../../policy/router-policy.js';

/** What a sum of costs is made of; a router's view has it, and an oracle's question. */
type CostView = Pick<RouterView, 'engines' | 'overlapBlocks' | 'blockTokens'>;

/**
 * T_queue + T_dec of NetKV, s: requests beyond the batch limit wait a pass each, then the request's own first pass. By the frontend's account of the engine, or
 * (`reported`) by its last load report.
 */
export function computeSeconds({ engines, blockTokens }: CostView, engine: number, inputTokens: number, reported: boolean): number {
  const { passNs } = engines;
  const most = engines.maxSequences[engine]!;
  const running = reported ? engines.runningSequences[engine]! : engines.activeRequests[engine]!;
  const all = reported ? running + engines.waitingSequences[engine]! : running;
  const batch = Math.min(running, most);
  const tokenNs = engines.contextTokenNs[engine]!;
  const contextNs = tokenNs * blockTokens * (reported ? engines.usedBlocks[engine]! : engines.activeBlocks[engine]!);
  const at = (engines.passStart[engine]! + batch) | 0;
  // q - (beta_max - beta), with q + beta = all. No branch on whether there is a queue: of a random engine nobody can predict it.
  const queueNs = Math.max(0, all - most) * (passNs[at]! + contextNs);
  return (queueNs + passNs[batch < most ? at + 1 : at]! + contextNs + tokenNs * inputTokens) * 1e-9;
}

/** 1 - h: share of the prompt that the engine does not hold. */
export function missingShare({ overlapBlocks, blockTokens }: CostView, engine: number, inputTokens: number): number {
  return Math.max(0, 1 - (overlapBlocks[engine]! * blockTokens) / inputTokens);
}
