import { KernelError } from '@braess/kernel';

/** An EWMA regime detector: s_t = w x_t + (1 - w) s_(t-1), thresholds on s, n samples in a row before a change. */
export interface RegimeDetectorOptions {
  /** w in (0, 1]; arXiv 2606.17081 uses 0.3 on TTFT P99 read every 5 s. */
  readonly weight: number;
  /** Rising thresholds in the signal's unit; regime r means r of them are reached (s >= threshold). */
  readonly thresholds: readonly number[];
  /** Samples in a row that must agree on the same new regime. Its controller: 3. */
  readonly samplesInARow: number;
  /** To leave a regime downwards s must fall below releaseFraction x its threshold. 1: as published; less: hysteresis. */
  readonly releaseFraction: number;
}

/** Plain data: an actor may hold it as state. */
export interface RegimeDetector {
  /** s_t; NaN before the first sample, which sets it (no bias towards 0). */
  smoothed: number;
  regime: number;
  candidate: number;
  streak: number;
  samples: number;
  missing: number;
  changes: number;
}

export function createRegimeDetector(): RegimeDetector {
  return { smoothed: Number.NaN, regime: 0, candidate: 0, streak: 0, samples: 0, missing: 0, changes: 0 };
}

/**
 * Feeds one sample; returns true when the regime changed with it. NaN means nothing was measured: the smoothed value and the streak stay.
 * Bias: the detector lags; for a step the lag is ewmaCrossingSamples + samplesInARow - 1 samples.
 */
export function observeRegime(detector: RegimeDetector, options: RegimeDetectorOptions, sample: number): boolean {
  if (Number.isNaN(sample)) {
    detector.missing++;
    return false;
  }
  detector.samples++;
  detector.smoothed = Number.isNaN(detector.smoothed) ? sample : options.weight * sample + (1 - options.weight) * detector.smoothed;
  const seen = classify(detector, options);
  if (seen === detector.regime) {
    detector.candidate = seen;
    detector.streak = 0;
    return false;
  }
  detector.streak = seen === detector.candidate ? detector.streak + 1 : 1;
  detector.candidate = seen;
  if (detector.streak < options.samplesInARow) return false;
  detector.regime = seen;
  detector.streak = 0;
  detector.changes++;
  return true;
}

function classify(detector: RegimeDetector, options: RegimeDetectorOptions): number {
  let reached = 0;
  for (let index = 0; index < options.thresholds.length; index++) {
    // Thresholds at or below the present regime are already passed: they let go only below the release level.
    const level = index < detector.regime ? options.thresholds[index]! * options.releaseFraction : options.thresholds[index]!;
    if (detector.smoothed >= level) reached = index + 1;
  }
  return reached;
}

/**
 * Samples until an EWMA at `from` reaches `threshold` when the signal steps to `to`: the least k with
 * to - (to - from) (1 - w)^k >= threshold, i.e. ceil(ln((to - threshold) / (to - from)) / ln(1 - w)). Infinity if it never does.
 */
export function ewmaCrossingSamples(from: number, to: number, threshold: number, weight: number): number {
  if (!(weight > 0 && weight <= 1)) throw new KernelError('bad-value', `EWMA weight is ${weight}; it must be above 0 and at most 1`);
  if (from >= threshold) return 0;
  if (to < threshold) return Number.POSITIVE_INFINITY;
  if (weight === 1) return 1;
  if (to === threshold) return Number.POSITIVE_INFINITY;
  const exact = Math.log((to - threshold) / (to - from)) / Math.log(1 - weight);
  // The logarithms may land a hair above an integer that is reached exactly.
  return Math.max(1, Math.ceil(exact - 1e-9));
}
