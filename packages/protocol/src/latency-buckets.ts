/**
 * Buckets of a latency histogram as actors count and send it: 32 of equal width to each octave of whole microseconds, so a bucket is at most 1/32 of
 * its value wide; up to 2^31 us. Integer arithmetic, the same on every machine.
 */
export const latencyBuckets = 27 * 32;

const stepBits = 5;
const longestUs = 0x7fff_ffff;

/** The bucket of a latency. */
export function latencyBucket(latencyNs: number): number {
  const us = latencyNs < 1000 ? 0 : Math.min(longestUs, Math.floor(latencyNs / 1000));
  const shift = 31 - Math.clz32(us) - stepBits;
  return shift <= 0 ? us : (shift << stepBits) + (us >>> shift);
}

/** Where a bucket begins, ns. */
export function latencyBucketStartNs(bucket: number): number {
  if (bucket < 2 << stepBits) return bucket * 1000;
  const shift = (bucket >>> stepBits) - 1;
  return (bucket - (shift << stepBits)) * (1 << shift) * 1000;
}

/** A quantile of counted latencies, interpolated within its bucket as Prometheus' histogram_quantile does; NaN without any. */
export function bucketQuantileNs(counts: Float64Array, quantile: number): number {
  let total = 0;
  for (let bucket = 0; bucket < counts.length; bucket++) total += counts[bucket]!;
  if (total === 0) return Number.NaN;
  const rank = quantile * total;
  let below = 0;
  for (let bucket = 0; bucket < counts.length; bucket++) {
    const count = counts[bucket]!;
    if (count === 0 || below + count < rank) {
      below += count;
      continue;
    }
    const startNs = latencyBucketStartNs(bucket);
    return startNs + (latencyBucketStartNs(bucket + 1) - startNs) * ((rank - below) / count);
  }
  return Number.NaN;
}
