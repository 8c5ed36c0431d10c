import type { EngineView, RouterView } from '../../policy/router-policy.js';

/** What a sum of costs is made of; a router's view has it, and an oracle's question. */
type CostView = Pick<RouterView, 'engines' | 'overlapBlocks' | 'blockTokens'>;

/**
 * T_queue + T_dec of NetKV, s: requests beyond the batch limit wait a pass each, then the request's own first pass. By the frontend's account of the engine, or
 * (`reported`) by its last load report.
 */
export function computeSeconds({ engines, blockTokens }: CostView, engine: number, inputTokens: number, reported: boolean): number {
  const all = reported ? engines.runningSequences[engine]! + engines.waitingSequences[engine]! : engines.activeRequests[engine]!;
  const most = engines.maxSequences[engine]!;
  const batch = reported ? engines.runningSequences[engine]! : Math.min(all, most);
  const blocks = reported ? engines.usedBlocks[engine]! : engines.activeBlocks[engine]!;
  const contextTokens = blocks * blockTokens;
  // q - (beta_max - beta), with q + beta = all.
  const queued = Math.max(0, all - most);
  const queueNs = queued === 0 ? 0 : queued * passNs(engines, engine, batch, contextTokens);
  return (queueNs + passNs(engines, engine, batch + 1, contextTokens + inputTokens)) / 1e9;
}

/** Time of a decode pass by the engine's profile, ns; 0 without one. */
function passNs(engines: EngineView, engine: number, sequences: number, contextTokens: number): number {
  const row = Math.min(sequences, engines.maxSequences[engine]!);
  return engines.passNs[engines.passStart[engine]! + row]! + contextTokens * engines.contextTokenNs[engine]!;
}

/** 1 - h: share of the prompt that the engine does not hold. */
export function missingShare({ overlapBlocks, blockTokens }: CostView, engine: number, inputTokens: number): number {
  return Math.max(0, 1 - (overlapBlocks[engine]! * blockTokens) / inputTokens);
}

/** s (1 - h) / (B (1 - c)) + L, s; 0 where the oracle knows nothing of the engine. */
export function transferSeconds(view: RouterView, engine: number, inputTokens: number): number {
  const { network, transferBytes } = view;
  if (network === null) return 0;
  const missing = missingShare(view, engine, inputTokens);
  const bandwidth = network.bytesPerSecond[engine]!;
  if (bandwidth > 0) {
    const told = network.congestion[engine]!;
    // Congestion that nobody reported is none.
    const taken = Number.isNaN(told) ? 0 : told;
    return (transferBytes * missing) / (bandwidth * (1 - taken)) + network.latencyNs[engine]! / 1e9;
  }
  return network.transferNs[engine]! > 0 ? (network.transferNs[engine]! * missing) / 1e9 : 0;
}
