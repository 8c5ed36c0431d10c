import type { ActorId } from '@braess/kernel';
import { answerBegan, engineRole, engineStatus, latencyBucket, latencyBuckets, scraped, trafficStarted } from '@braess/protocol';
import { waitingRequests } from './decode-queues.js';
import type { FrontendSettings } from './options.js';
import type { FrontendContext, FrontendState } from './state.js';
import { createStillness, type Stillness, standsStill } from './stillness.js';

/** What a frontend counts for its controller. Plain data. */
export interface FrontendWatch {
  readonly controller: number;
  /** The controller has been told that there is traffic, and still scrapes. */
  told: boolean;
  /** Counts of TTFTs as seen here, by `latencyBucket`; empty where clients measure them. */
  readonly ttftCounts: Float64Array;
  ttftSumNs: number;
  readonly still: Stillness;
}

export function createWatch({ controller }: Pick<FrontendSettings, 'controller'>): FrontendWatch | null {
  if (controller === undefined) return null;
  return {
    controller: controller.actors[0]!.id,
    told: false,
    ttftCounts: new Float64Array(controller.signal === 'server' ? latencyBuckets : 0),
    ttftSumNs: 0,
    still: createStillness(),
  };
}

/** A request has come: wakes a controller that sleeps. */
export function watchArrival(settings: FrontendSettings, state: FrontendState, context: FrontendContext): void {
  const { watch } = state;
  if (watch === null || watch.told) return;
  watch.told = true;
  context.send(watch.controller as ActorId, trafficStarted, settings.controller!.delayNs);
}

/** A first token has come in: its time counts from the request's arrival here. */
export function watchFirstToken(settings: FrontendSettings, state: FrontendState, context: FrontendContext, slot: number): void {
  const { watch, slots } = state;
  if (watch === null) return;
  if (settings.controller!.signal === 'client') {
    context.send(slots.client[slot]!, answerBegan, settings.clientDelayNs, slots.request[slot]!, slots.firstTokenNs[slot]!);
    return;
  }
  const ttftNs = context.now - slots.arrivalNs[slot]!;
  watch.ttftCounts[latencyBucket(ttftNs)]!++;
  watch.ttftSumNs += ttftNs;
}

/** Answers a scrape. While telemetry is lost the answer only says so. */
export function answerScrape(settings: FrontendSettings, state: FrontendState, context: FrontendContext, round: number): void {
  const watch = state.watch!;
  const inFlight = standsStill(watch.still, state.counters, context.now) ? 0 : state.slotOf.size;
  // The controller stops scraping when nothing is in flight: the next request has to wake it.
  if (inFlight === 0) watch.told = false;
  const metrics = {
    ttftCounts: watch.ttftCounts.length === 0 ? null : watch.ttftCounts.slice(),
    ttftSumNs: watch.ttftSumNs,
    decodeRequests: decodeRequests(state),
    values: new Map<string, number>(),
  };
  context.sendBody(
    watch.controller as ActorId,
    scraped,
    settings.controller!.delayNs,
    metrics,
    round,
    inFlight,
    waitingRequests(state),
    state.telemetryLost ? 1 : 0,
  );
}

function decodeRequests({ engines }: FrontendState): Float64Array {
  const { count, role, status, activeRequests } = engines;
  const requests = new Float64Array(count);
  for (let engine = 0; engine < count; engine++) {
    const decodes = role[engine] !== engineRole.prefill && status[engine] === engineStatus.active;
    requests[engine] = decodes ? activeRequests[engine]! : Number.NaN;
  }
  return requests;
}
