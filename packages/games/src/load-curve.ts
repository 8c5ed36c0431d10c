import { GameInputError, requireAtLeast, requireInteger, requireWithin } from './input-check.js';
import { findKnee, type Knee } from './regime.js';

/** Latency against load, gathered in classes of load while a run goes on. Plain data: an actor may hold it as state. */
export interface LoadCurve {
  /** Lower bounds of the classes, rising; the last class is open. */
  readonly lowerBounds: Float64Array;
  /** Weighted counts and sums per class. */
  readonly weight: Float64Array;
  readonly loadSum: Float64Array;
  readonly latencySum: Float64Array;
  /** Factor on what a class holds when a sample joins it: 1 keeps everything, less forgets (memory of about 1 / (1 - retention) samples). */
  readonly retention: number;
  /** Samples below the first bound, which no class takes. */
  belowRange: number;
}

/** @throws GameInputError on bounds that do not rise or a retention outside (0, 1]. */
export function createLoadCurve(lowerBounds: ArrayLike<number>, retention = 1): LoadCurve {
  requireInteger('number of load classes', lowerBounds.length, 3, 4096);
  requireWithin('retention', retention, Number.MIN_VALUE, 1);
  for (let index = 0; index < lowerBounds.length; index++) {
    requireAtLeast(`lowerBounds[${index}]`, lowerBounds[index]!, 0);
    if (index > 0 && lowerBounds[index]! <= lowerBounds[index - 1]!) {
      throw new GameInputError(`lowerBounds[${index}] is ${lowerBounds[index]} after ${lowerBounds[index - 1]}; bounds must rise`);
    }
  }
  const classes = lowerBounds.length;
  return {
    lowerBounds: Float64Array.from(lowerBounds),
    weight: new Float64Array(classes),
    loadSum: new Float64Array(classes),
    latencySum: new Float64Array(classes),
    retention,
    belowRange: 0,
  };
}

/** Adds one sample: the load when it was taken, in requests, and the latency then, in seconds. */
export function observeLoad(curve: LoadCurve, load: number, latencySeconds: number): void {
  let index = curve.lowerBounds.length - 1;
  while (index >= 0 && load < curve.lowerBounds[index]!) index--;
  if (index < 0) {
    curve.belowRange++;
    return;
  }
  curve.weight[index] = curve.weight[index]! * curve.retention + 1;
  curve.loadSum[index] = curve.loadSum[index]! * curve.retention + load;
  curve.latencySum[index] = curve.latencySum[index]! * curve.retention + latencySeconds;
}

/**
 * The knee of the gathered curve: findKnee on the mean load and mean latency of classes that hold at least `minimumWeight` samples.
 * Undefined with fewer than three such classes. Bias: means inside a class smooth the bend; a load that moves fast within a sample's
 * latency lands in the wrong class.
 */
export function kneeOfLoadCurve(curve: LoadCurve, minimumWeight = 3, minimumBend = 3): Knee | undefined {
  const loads: number[] = [];
  const latencies: number[] = [];
  for (let index = 0; index < curve.weight.length; index++) {
    const weight = curve.weight[index]!;
    if (weight === 0 || weight < minimumWeight) continue;
    loads.push(curve.loadSum[index]! / weight);
    latencies.push(curve.latencySum[index]! / weight);
  }
  return loads.length < 3 ? undefined : findKnee(loads, latencies, minimumBend);
}
