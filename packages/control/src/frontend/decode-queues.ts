import type { FrontendDesk, FrontendState } from './state.js';
import type { WaitingQueue } from './waiting-queue.js';

/** Where a prefilled request waits for a decode engine. */
export function decodeQueueOf({ settings }: FrontendDesk, state: FrontendState, slot: number): WaitingQueue {
  return state.slots.inputTokens[slot]! >= settings.decodeStage.longTokens ? state.longQueue : state.decodeQueue;
}

/** Requests that wait for any engine. */
export function waitingRequests({ firstQueue, decodeQueue, longQueue }: FrontendState): number {
  return firstQueue.count + decodeQueue.count + longQueue.count;
}
