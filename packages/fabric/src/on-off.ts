/** A background source that sends at `bytesPerSecond` for exponential times and is silent for exponential times. Plain data. */
export interface OnOffSource {
  source: number;
  destination: number;
  bytesPerSecond: number;
  meanOnNs: number;
  meanOffNs: number;
  on: boolean;
  nextChangeNs: number;
}

/** A source in its stationary state: on with probability meanOn / (meanOn + meanOff). Draws twice from `uniform` (in [0, 1)). */
export function createOnOffSource(
  source: number,
  destination: number,
  bytesPerSecond: number,
  meanOnNs: number,
  meanOffNs: number,
  nowNs: number,
  uniform: () => number,
): OnOffSource {
  for (const [name, value] of Object.entries({ bytesPerSecond, meanOnNs, meanOffNs })) {
    if (!(value > 0 && value < Number.POSITIVE_INFINITY)) throw new Error(`${name} of an on-off source is ${value}; it must be above 0`);
  }
  const on = uniform() < meanOnNs / (meanOnNs + meanOffNs);
  const made = { source, destination, bytesPerSecond, meanOnNs, meanOffNs, on, nextChangeNs: 0 };
  // Exponential times have no memory, so what is left of the present one is exponential as well.
  made.nextChangeNs = nowNs + exponentialNs(on ? meanOnNs : meanOffNs, uniform);
  return made;
}

/** Switches the source at its `nextChangeNs` and sets the next one (one draw). The caller starts or removes the flow. */
export function toggleOnOff(source: OnOffSource, uniform: () => number): void {
  source.on = !source.on;
  source.nextChangeNs += exponentialNs(source.on ? source.meanOnNs : source.meanOffNs, uniform);
}

/** Inverse CDF of the exponential distribution, in whole ns, at least 1. */
function exponentialNs(meanNs: number, uniform: () => number): number {
  return Math.max(1, Math.round(-meanNs * Math.log(1 - uniform())));
}
