/** Every value of a latency, kept for exact quantiles: 8 bytes a value. Plain data; the order of adding does not matter to any result. */
export interface ValueList {
  values: Float64Array;
  length: number;
}

export function createValueList(): ValueList {
  return { values: new Float64Array(1024), length: 0 };
}

export function addValue(list: ValueList, value: number): void {
  if (list.length === list.values.length) {
    const grown = new Float64Array(list.values.length * 2);
    grown.set(list.values);
    list.values = grown;
  }
  list.values[list.length++] = value;
}

/** Mean and quantiles of a latency, in the unit that the field of the summary names (ms). */
export interface Distribution {
  mean: number;
  p50: number;
  p90: number;
  p99: number;
}

/** Mean and quantiles times `scale`; null where there is no value. Values must be whole numbers, so that the sum is exact in any order. */
export function distributionOf(list: ValueList, scale: number): Distribution | null {
  if (list.length === 0) return null;
  const sorted = list.values.slice(0, list.length).sort();
  return {
    mean: exactMean(sorted) * scale,
    p50: sortedQuantile(sorted, 0.5) * scale,
    p90: sortedQuantile(sorted, 0.9) * scale,
    p99: sortedQuantile(sorted, 0.99) * scale,
  };
}

/** Quantile of ascending values, linear between order statistics: Hyndman and Fan's type 7, as numpy and DuckDB's quantile_cont. */
export function sortedQuantile(sorted: Float64Array, quantile: number): number {
  const position = quantile * (sorted.length - 1);
  const below = Math.floor(position);
  const low = sorted[below]!;
  if (position === below) return low;
  return low + (sorted[below + 1]! - low) * (position - below);
}

/** Sum in two halves of 26 bits: exact for up to 2^26 whole numbers below 2^53. */
function exactMean(values: Float64Array): number {
  let high = 0;
  let low = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    const upper = Math.floor(value / 67_108_864);
    high += upper;
    low += value - upper * 67_108_864;
  }
  return (high * 67_108_864 + low) / values.length;
}
