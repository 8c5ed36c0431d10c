import { spinWork } from './phold.js';

const rounds = 1_000_000;

/** Rounds of `spinWork` that take one microsecond here: the fastest of several, since other load only slows it. */
export function workRoundsPerMicrosecond(): number {
  let fastestMs = Number.POSITIVE_INFINITY;
  let value = 1;
  for (let attempt = 0; attempt < 20; attempt++) {
    const begun = performance.now();
    value = spinWork(value, rounds);
    fastestMs = Math.min(fastestMs, performance.now() - begun);
  }
  // Reading the value keeps the work from being skipped.
  return value === 0.5 ? 0 : rounds / (fastestMs * 1000);
}
