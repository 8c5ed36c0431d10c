import { requireAbove, requireInteger } from './input-check.js';
import type { PoaHat } from './poa-hat.js';

/** Plain-data sliding window over PoA-hat snapshots: an actor may hold it as state. Rings of `capacity` entries. */
export interface PoaWindow {
  readonly durationNs: number;
  readonly timeNs: Float64Array;
  readonly numeratorSeconds: Float64Array;
  readonly denominatorSeconds: Float64Array;
  next: number;
  count: number;
  /** Snapshots that had no value, since the start. */
  undefinedSnapshots: number;
  /** Defined snapshots pushed out of a full ring before they were too old; raise `capacity` when this is not 0. */
  displaced: number;
}

/**
 * `ratio-of-sums`: sum of numerators / sum of denominators, the estimator of least bias when snapshots differ in size.
 * `mean-of-ratios`: mean of the snapshots' values; biased upward (Jensen) when denominators vary.
 */
export type WindowCombination = 'ratio-of-sums' | 'mean-of-ratios';

export function createPoaWindow(durationNs: number, capacity = 256): PoaWindow {
  requireAbove('durationNs', durationNs, 0);
  requireInteger('capacity', capacity, 1, 1 << 20);
  return {
    durationNs,
    timeNs: new Float64Array(capacity),
    numeratorSeconds: new Float64Array(capacity),
    denominatorSeconds: new Float64Array(capacity),
    next: 0,
    count: 0,
    undefinedSnapshots: 0,
    displaced: 0,
  };
}

/** Adds a snapshot; times must not fall. Undefined snapshots are only counted. */
export function pushPoa(window: PoaWindow, timeNs: number, value: PoaHat): void {
  expire(window, timeNs);
  if (value.status === 'undefined') {
    window.undefinedSnapshots++;
    return;
  }
  const capacity = window.timeNs.length;
  if (window.count === capacity) window.displaced++;
  else window.count++;
  window.timeNs[window.next] = timeNs;
  window.numeratorSeconds[window.next] = value.numeratorSeconds;
  window.denominatorSeconds[window.next] = value.denominatorSeconds;
  window.next = (window.next + 1) % capacity;
}

/** PoA-hat over (nowNs - durationNs, nowNs]; undefined when no snapshot in it had a value. Snapshots at fixed times are length-biased: long requests are seen more often. */
export function poaOverWindow(window: PoaWindow, nowNs: number, combination: WindowCombination = 'ratio-of-sums'): number | undefined {
  expire(window, nowNs);
  if (window.count === 0) return undefined;
  const capacity = window.timeNs.length;
  const first = (window.next - window.count + capacity) % capacity;
  let numerator = 0;
  let denominator = 0;
  let ratios = 0;
  for (let offset = 0; offset < window.count; offset++) {
    const index = (first + offset) % capacity;
    numerator += window.numeratorSeconds[index]!;
    denominator += window.denominatorSeconds[index]!;
    ratios += window.numeratorSeconds[index]! / window.denominatorSeconds[index]!;
  }
  return combination === 'ratio-of-sums' ? numerator / denominator : ratios / window.count;
}

function expire(window: PoaWindow, nowNs: number): void {
  const capacity = window.timeNs.length;
  while (window.count > 0 && window.timeNs[(window.next - window.count + capacity) % capacity]! <= nowNs - window.durationNs)
    window.count--;
}
