import { spinWork } from './phold.js';

/** About a microsecond's worth, so that a round is timed in calls as long as those the benchmarks make. */
const callRounds = 400;
const calls = 2500;

/** Rounds of `spinWork` that take one microsecond here: the fastest of several, since other load only slows it. */
export function workRoundsPerMicrosecond(): number {
  let fastestMs = Number.POSITIVE_INFINITY;
  let value = 1;
  for (let attempt = 0; attempt < 20; attempt++) {
    const begun = performance.now();
    for (let call = 0; call < calls; call++) value = spinWork(value, callRounds);
    fastestMs = Math.min(fastestMs, performance.now() - begun);
  }
  // Reading the value keeps the work from being skipped.
  return value === 0.5 ? 0 : (callRounds * calls) / (fastestMs * 1000);
}
