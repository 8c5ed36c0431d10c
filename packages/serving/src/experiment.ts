import { engineRole } from '@braess/protocol';
import { type BlockAccounting, type CountingPool, countingBlocks, createCountingPool } from './blocks.js';
import { advance, nextEventNs, submit } from './engine.js';
import { createEngine, type EngineRules } from './engine-state.js';
import { clearEvents, createEvents, engineEvent } from './events.js';
import type { TimingModel } from './timing.js';

/** What a load generator sees of one burst: means over its requests. */
export interface BurstResult {
  ttftMs: number;
  /** (last token - first token) / (output tokens - 1) of each request, averaged, as AIPerf reports its ITL. */
  itlMs: number;
}

/**
 * The experiment behind profiles of single engines: `requests` prompts of `promptTokens` start together on an idle engine and put out
 * `outputTokens` each, with chunked prefill in passes fused with decoding; `cached` prompts were sent before and sit in the prefix cache.
 */
export function emulateBurst(
  timing: TimingModel,
  rules: EngineRules,
  requests: number,
  promptTokens: number,
  outputTokens: number,
  cached = false,
): BurstResult {
  const accounting = cached ? everythingCached : countingBlocks;
  const engine = createEngine({
    role: engineRole.aggregated,
    rules,
    timing,
    pool: createCountingPool(rules.capacityBlocks, rules.blockTokens),
  });
  const events = createEvents();
  for (let id = 0; id < requests; id++) {
    const slot = submit(engine, accounting, { id, promptTokens, outputTokens, transferred: false }, 0);
    if (slot < 0) throw new Error(`burst of ${requests} x ${promptTokens} tokens: request ${id} refused with code ${slot}`);
  }
  const firstNs = new Float64Array(requests);
  let ttftSumNs = 0;
  let itlSumNs = 0;
  for (let finished = 0; finished < requests; ) {
    advance(engine, accounting, nextEventNs(engine), events);
    for (let i = 0; i < events.count; i++) {
      const id = events.request[i]!;
      if (events.kind[i] === engineEvent.firstToken) {
        firstNs[id] = events.timeNs[i]!;
        ttftSumNs += events.timeNs[i]!;
      } else if (events.kind[i] === engineEvent.finished) {
        itlSumNs += (events.timeNs[i]! - firstNs[id]!) / Math.max(1, outputTokens - 1);
        finished++;
      }
    }
    clearEvents(events);
  }
  return { ttftMs: ttftSumNs / requests / 1e6, itlMs: itlSumNs / requests / 1e6 };
}

/** A warm prefix cache: each prompt is there in whole blocks. */
const everythingCached: BlockAccounting<CountingPool> = {
  ...countingBlocks,
  admit: (pool, requestId, tokens) => (countingBlocks.admit(pool, requestId, tokens) < 0 ? -1 : tokens),
};
