/**
 * A latency histogram over integer nanoseconds with buckets of constant relative width: values below 2^(precisionBits + 1) ns are exact, above
 * that a power of two is cut into 2^precisionBits buckets, so a reported value is within 2^-(precisionBits + 1) of the recorded one (0.049 % at
 * the default 10). The layout is that of HDR histograms (Gil Tene, HdrHistogram). Counts, the sum and the extremes are exact integers: recording in any
 * order gives the same histogram. Plain data; only the octaves in use take memory (8 KB each).
 */
export interface LatencyHistogram {
  precisionBits: number;
  /** Bucket index of counts[0], a multiple of 2^precisionBits. */
  firstBucket: number;
  counts: Float64Array;
  /** Number of values. */
  total: number;
  /** Sum of the values = sumHigh * 2^26 + sumLow, sumLow < 2^26: exact beyond 2^53. */
  sumHigh: number;
  sumLow: number;
  /** Smallest and largest value, -1 when empty. */
  minNs: number;
  maxNs: number;
}

const SUM_BASE = 2 ** 26;
/** Largest number of equal values in one call: keeps `low part x count` an exact integer. */
const MAX_COUNT = 2 ** 26;
/** Products below this can be added to a low part and stay exact. */
const EXACT_LIMIT = 2 ** 52;
/** Powers of two by exponent: the operator ** costs twenty times more. */
const POWER_OF_TWO = Float64Array.from({ length: 54 }, (_, exponent) => 2 ** exponent);

export function createLatencyHistogram(precisionBits = 10): LatencyHistogram {
  if (!Number.isInteger(precisionBits) || precisionBits < 4 || precisionBits > 16) {
    throw new RangeError(`histogram precisionBits is ${precisionBits}; give an integer from 4 to 16 (10 means 0.05 % error)`);
  }
  return { precisionBits, firstBucket: 0, counts: new Float64Array(0), total: 0, sumHigh: 0, sumLow: 0, minNs: -1, maxNs: -1 };
}

/** Adds `count` values of `valueNs` each: a run of equal gaps costs one call. Throws on a negative, fractional or non-finite value. */
export function recordLatency(histogram: LatencyHistogram, valueNs: number, count = 1): void {
  if (count === 0) return;
  if (!(valueNs >= 0 && valueNs <= Number.MAX_SAFE_INTEGER) || Math.floor(valueNs) !== valueNs || !(count > 0 && count <= MAX_COUNT)) {
    throw new RangeError(
      `histogram: ${count} values of ${valueNs} ns; the value must be a whole number of ns from 0 to 2^53 - 1, the count from 0 to 2^26`,
    );
  }
  let slot = bucketOf(valueNs, histogram.precisionBits) - histogram.firstBucket;
  if (slot < 0 || slot >= histogram.counts.length) {
    coverBucket(histogram, slot + histogram.firstBucket);
    slot = bucketOf(valueNs, histogram.precisionBits) - histogram.firstBucket;
  }
  histogram.counts[slot]! += count;
  histogram.total += count;
  if (histogram.minNs < 0 || valueNs < histogram.minNs) histogram.minNs = valueNs;
  if (valueNs > histogram.maxNs) histogram.maxNs = valueNs;
  const product = valueNs * count;
  if (product < EXACT_LIMIT) {
    addToSum(histogram, 0, product);
  } else {
    const high = Math.floor(valueNs / SUM_BASE);
    addToSum(histogram, high * count, (valueNs - high * SUM_BASE) * count);
  }
}

/** Mean in ns of the exact sum; NaN when empty. */
export function histogramMean(histogram: LatencyHistogram): number {
  return (histogram.sumHigh * SUM_BASE + histogram.sumLow) / histogram.total;
}

/**
 * Quantile in ns by linear interpolation between order statistics (Hyndman and Fan's type 7, as numpy and DuckDB's quantile_cont), each order statistic
 * known to its bucket. NaN when empty.
 */
export function histogramQuantile(histogram: LatencyHistogram, quantile: number): number {
  if (!(quantile >= 0 && quantile <= 1)) throw new RangeError(`quantile ${quantile} is outside 0..1`);
  if (histogram.total === 0) return Number.NaN;
  const position = quantile * (histogram.total - 1);
  const below = Math.floor(position);
  const low = orderStatistic(histogram, below);
  if (position === below) return low;
  return low + (orderStatistic(histogram, below + 1) - low) * (position - below);
}

/** (upper edge ns, cumulative share) per bucket in use: what a CDF is drawn from. */
export function histogramCdf(histogram: LatencyHistogram): { valueNs: number; share: number }[] {
  const points: { valueNs: number; share: number }[] = [];
  let seen = 0;
  for (let slot = 0; slot < histogram.counts.length; slot++) {
    const count = histogram.counts[slot]!;
    if (count === 0) continue;
    seen += count;
    points.push({ valueNs: valueOfBucket(histogram, slot + histogram.firstBucket), share: seen / histogram.total });
  }
  return points;
}

function orderStatistic(histogram: LatencyHistogram, rank: number): number {
  if (rank <= 0) return histogram.minNs;
  if (rank >= histogram.total - 1) return histogram.maxNs;
  let seen = 0;
  for (let slot = 0; slot < histogram.counts.length; slot++) {
    seen += histogram.counts[slot]!;
    if (seen > rank) return valueOfBucket(histogram, slot + histogram.firstBucket);
  }
  return histogram.maxNs;
}

/** Bucket number of a value: exponent and the leading bits, as one increasing index. */
function bucketOf(valueNs: number, precisionBits: number): number {
  if (valueNs < 2_147_483_648) {
    const shift = 31 - Math.clz32(valueNs) - precisionBits;
    return shift <= 0 ? valueNs : (shift << precisionBits) + (valueNs >>> shift);
  }
  const exponent = 63 - Math.clz32(Math.floor(valueNs / 4_294_967_296)) - precisionBits;
  return exponent * POWER_OF_TWO[precisionBits]! + Math.floor(valueNs / POWER_OF_TWO[exponent]!);
}

/** Middle of a bucket, held inside what was recorded. */
function valueOfBucket(histogram: LatencyHistogram, bucket: number): number {
  const perOctave = 2 ** histogram.precisionBits;
  if (bucket < 2 * perOctave) return bucket;
  const exponent = Math.floor(bucket / perOctave) - 1;
  const width = 2 ** exponent;
  const middle = (bucket - exponent * perOctave) * width + (width - 1) / 2;
  return Math.min(Math.max(middle, histogram.minNs), histogram.maxNs);
}

/** Grows the counts by whole octaves so that `bucket` is inside. The layout depends only on the extremes, not on the order of growth. */
function coverBucket(histogram: LatencyHistogram, bucket: number): void {
  const perOctave = 2 ** histogram.precisionBits;
  const octave = Math.floor(bucket / perOctave) * perOctave;
  const { counts, firstBucket } = histogram;
  const first = counts.length === 0 ? octave : Math.min(firstBucket, octave);
  const end = Math.max(counts.length === 0 ? 0 : firstBucket + counts.length, octave + perOctave);
  if (first === firstBucket && end === firstBucket + counts.length) return;
  const grown = new Float64Array(end - first);
  if (counts.length > 0) grown.set(counts, firstBucket - first);
  histogram.counts = grown;
  histogram.firstBucket = first;
}

function addToSum(histogram: LatencyHistogram, high: number, low: number): void {
  const sum = histogram.sumLow + low;
  const carry = Math.floor(sum / SUM_BASE);
  histogram.sumLow = sum - carry * SUM_BASE;
  histogram.sumHigh += high + carry;
}
