import type { ReadonlyColumn } from '../../policy/policy.js';
import type { RouterView } from '../../policy/router-policy.js';

/** What a sum of costs is made of; a router's view has it, and an oracle's question. */
type CostView = Pick<RouterView, 'engines' | 'overlapBlocks' | 'blockTokens' | 'candidates' | 'count'>;

/**
 * Adds T_queue + T_dec of NetKV, s, of each candidate to `base` (null: to nothing) and writes it to `out`, both by engine: requests beyond the batch limit wait a pass
 * each, then the request's own first pass. By the frontend's account of the engines, or (`reported`) by their last load reports.
 */
export function addWorkSeconds(
  view: CostView,
  inputTokens: number,
  reported: boolean,
  base: ReadonlyColumn | null,
  out: Float64Array,
): void {
  const { runningSequences, waitingSequences, usedBlocks, activeRequests, activeBlocks } = view.engines;
  if (reported) addWork(view, inputTokens, runningSequences, waitingSequences, usedBlocks, base, out);
  else addWork(view, inputTokens, activeRequests, null, activeBlocks, base, out);
}

/** Runs over all engines for every request. What costs time is the number of columns that a loop reads, so the other costs have loops of their own. */
function addWork(
  { engines, candidates, count, blockTokens }: CostView,
  inputTokens: number,
  running: ReadonlyColumn,
  waiting: ReadonlyColumn | null,
  blocks: ReadonlyColumn,
  base: ReadonlyColumn | null,
  out: Float64Array,
): void {
  const { maxSequences, passNs, passStart, contextTokenNs } = engines;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const most = maxSequences[engine]!;
    const runs = running[engine]!;
    const tokenNs = contextTokenNs[engine]!;
    const contextNs = tokenNs === 0 ? 0 : tokenNs * (blockTokens * blocks[engine]! + inputTokens);
    const start = passStart[engine]!;
    let workNs = passNs[(start + (runs < most ? runs + 1 : most)) | 0]! + contextNs;
    // q - (beta_max - beta), with q + beta all that are there.
    const queued = (waiting === null ? runs : runs + waiting[engine]!) - most;
    if (queued > 0) workNs += queued * (passNs[(start + Math.min(runs, most)) | 0]! + contextNs - tokenNs * inputTokens);
    out[engine] = (base === null ? 0 : base[engine]!) + workNs * 1e-9;
  }
}

/** 1 - h: share of the prompt that the engine does not hold. */
export function missingShare(
  { overlapBlocks, blockTokens }: Pick<CostView, 'overlapBlocks' | 'blockTokens'>,
  engine: number,
  inputTokens: number,
): number {
  return Math.max(0, 1 - (overlapBlocks[engine]! * blockTokens) / inputTokens);
}
