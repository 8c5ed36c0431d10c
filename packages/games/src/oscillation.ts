import { GameInputError, requireAtLeast, requireLength } from './input-check.js';

/**
 * A signal sampled at rising times: a planner's GPUs in prefill, a queue, a latency. Between samples the last value holds.
 * All results are in the signal's own units and nanoseconds; what cannot be measured is NaN.
 */
export interface Signal {
  readonly timeNs: Float64Array;
  readonly values: Float64Array;
}

/** How a signal gets from one level to another after a change. Definitions: K. Ogata, "Modern Control Engineering", transient response. */
export interface StepResponse {
  /** From the change to the first sample within the band around the target. NaN: never reached. */
  readonly transitionTimeNs: number;
  /** Largest excursion past the target / size of the step; 0 without any. NaN when the step has size 0. */
  readonly overshoot: number;
  /** Times the signal crosses the target after the change (samples exactly on it do not count). */
  readonly targetCrossings: number;
  /** From the change to the first sample after which the signal stays within the band to the end. NaN: not settled at the end. */
  readonly settlingTimeNs: number;
}

/**
 * Measures the response to a change at `changeAtNs` from level `from` to level `to`; the band is to +- bandFraction x |to - from|
 * (0.05 by default, the usual 5 % criterion). Bias: times are rounded up to the next sample, overshoot is that of the samples; the end of
 * the record counts as staying, so a record that is cut short reports settling too early.
 */
export function measureStepResponse(
  signal: Signal,
  step: { readonly changeAtNs: number; readonly from: number; readonly to: number; readonly bandFraction?: number },
): StepResponse {
  checkSignal(signal);
  const size = Math.abs(step.to - step.from);
  const band = (step.bandFraction ?? 0.05) * size;
  requireAtLeast('bandFraction', step.bandFraction ?? 0.05, 0);
  const direction = step.to >= step.from ? 1 : -1;
  let transitionTimeNs = Number.NaN;
  let settlingTimeNs = Number.NaN;
  let past = 0;
  let targetCrossings = 0;
  let side = 0;
  for (let index = 0; index < signal.values.length; index++) {
    const sinceNs = signal.timeNs[index]! - step.changeAtNs;
    if (sinceNs < 0) continue;
    const error = signal.values[index]! - step.to;
    const inside = Math.abs(error) <= band;
    if (inside && Number.isNaN(transitionTimeNs)) transitionTimeNs = sinceNs;
    if (!inside) settlingTimeNs = Number.NaN;
    else if (Number.isNaN(settlingTimeNs)) settlingTimeNs = sinceNs;
    past = Math.max(past, direction * error);
    if (error !== 0) {
      if (side !== 0 && Math.sign(error) !== side) targetCrossings++;
      side = Math.sign(error);
    }
  }
  return { transitionTimeNs, overshoot: size > 0 ? past / size : Number.NaN, targetCrossings, settlingTimeNs };
}

/** Back-and-forth of a signal, whatever its target. */
export interface Oscillation {
  /** Full reversals of at least `minimumSwing`: moves between one turning point and the next. */
  readonly swings: number;
  /** Mean size of a swing, peak to trough; NaN without any. */
  readonly meanSwing: number;
  /** Twice the mean time between neighbouring turning points; NaN with fewer than two of them. */
  readonly periodNs: number;
  /** Geometric mean of |swing k+1| / |swing k|: below 1 damped, 1 sustained, above 1 growing. NaN with fewer than two swings. */
  readonly growth: number;
  /** Indices of turning points. */
  readonly turningPoints: readonly number[];
}

/**
 * Finds turning points: extremes from which the signal comes back by at least `minimumSwing` (smaller wiggles are noise or single-GPU
 * steps). Swings are the moves between neighbouring turning points, so a monotone signal has none. Bias: the first and last excursions are
 * cut by the record and not counted.
 */
export function measureOscillation(signal: Signal, minimumSwing: number): Oscillation {
  checkSignal(signal);
  requireAtLeast('minimumSwing', minimumSwing, 0);
  const { timeNs, values } = signal;
  const turningPoints = findTurningPoints(values, minimumSwing);
  const swings = Math.max(0, turningPoints.length - 1);
  let sum = 0;
  let first = 0;
  let last = 0;
  for (let index = 0; index < swings; index++) {
    last = Math.abs(values[turningPoints[index + 1]!]! - values[turningPoints[index]!]!);
    if (index === 0) first = last;
    sum += last;
  }
  const span = swings === 0 ? Number.NaN : timeNs[turningPoints[swings]!]! - timeNs[turningPoints[0]!]!;
  return {
    swings,
    meanSwing: swings === 0 ? Number.NaN : sum / swings,
    periodNs: (2 * span) / swings,
    growth: swings < 2 ? Number.NaN : Math.exp(Math.log(last / first) / (swings - 1)),
    turningPoints,
  };
}

function findTurningPoints(values: Float64Array, minimumSwing: number): number[] {
  const found: number[] = [];
  let highest = 0;
  let lowest = 0;
  let rising = 0;
  for (let index = 1; index < values.length; index++) {
    const value = values[index]!;
    if (value > values[highest]!) highest = index;
    if (value < values[lowest]!) lowest = index;
    const fell = values[highest]! - value;
    const rose = value - values[lowest]!;
    if (rising >= 0 && fell > 0 && fell >= minimumSwing) {
      // The start of the record is an extreme only by being cut off.
      if (rising > 0 || highest > 0) found.push(highest);
      rising = -1;
      lowest = index;
    } else if (rising <= 0 && rose > 0 && rose >= minimumSwing) {
      if (rising < 0 || lowest > 0) found.push(lowest);
      rising = 1;
      highest = index;
    }
  }
  return found;
}

function checkSignal(signal: Signal): void {
  requireLength('values', signal.values.length, signal.timeNs.length, `${signal.timeNs.length} times`);
  for (let index = 0; index < signal.values.length; index++) {
    if (!Number.isFinite(signal.values[index]!))
      throw new GameInputError(`values[${index}] is ${signal.values[index]}; drop samples that have no value`);
    if (index > 0 && !(signal.timeNs[index]! > signal.timeNs[index - 1]!)) {
      throw new GameInputError(
        `timeNs[${index}] is ${signal.timeNs[index]}, not after ${signal.timeNs[index - 1]}; sort samples and merge equal times`,
      );
    }
  }
}
