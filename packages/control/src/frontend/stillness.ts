import type { FrontendCounters } from './state.js';

/** Since when no request has come, begun again or ended at a frontend, as far as it has looked. Plain data. */
export interface Stillness {
  steps: number;
  sinceNs: number;
}

/** Where nothing comes or ends for an hour, requests wait for ever: what goes on by the clock alone ends then, or the run would not, to say so. */
const patienceNs = 3600e9;

export function createStillness(): Stillness {
  return { steps: 0, sinceNs: 0 };
}

/** Whether nothing has moved for too long; notes what has. */
export function standsStill(still: Stillness, counters: FrontendCounters, nowNs: number): boolean {
  const { submitted, completed, rejected, failed, cancelled, timedOut, retries } = counters;
  const steps = submitted + completed + rejected + failed + cancelled + timedOut + retries;
  if (steps !== still.steps) {
    still.steps = steps;
    still.sinceNs = nowNs;
  }
  return nowNs - still.sinceNs > patienceNs;
}
