import type { ActorId, Context } from '@braess/kernel';
import { latencyBucket, latencyBuckets, scraped } from '@braess/protocol';

/** TTFTs as the client sees them, for a controller that scrapes: from the begin of the first attempt to the first token's arrival here. Plain data. */
export interface ClientTtft {
  /** Counts by `latencyBucket`. */
  readonly counts: Float64Array;
  sumNs: number;
}

export function createClientTtft(): ClientTtft {
  return { counts: new Float64Array(latencyBuckets), sumNs: 0 };
}

export function noteTtft(ttft: ClientTtft, ttftNs: number): void {
  ttft.counts[latencyBucket(ttftNs)]!++;
  ttft.sumNs += ttftNs;
}

/** Answers a scrape. What is in flight is counted where it is, at the frontends. */
export function answerScrape(ttft: ClientTtft, context: Context, controller: number, round: number, delayNs: number): void {
  const metrics = { ttftCounts: ttft.counts.slice(), ttftSumNs: ttft.sumNs, decodeRequests: null, values: new Map<string, number>() };
  context.sendBody(controller as ActorId, scraped, delayNs, metrics, round, 0, 0, 0);
}
