import type { EngineEvents } from './events.js';
import { createCurve, type DecodeCurve, elapsedNs } from './timing.js';

/** Takes `count` gaps that fall in one bucket and sum to `sumNs`. */
export type GapSink = (bucket: number, count: number, sumNs: number) => void;

/** The curve of the stretch being read; reused, never state. */
const curve: DecodeCurve = createCurve();

/**
 * Sorts the ITL gaps of one stretch into buckets, exactly, at a cost that follows the number of buckets they span rather than the number of
 * tokens: gaps of neighbouring passes are nearly equal. `bucketOf` must not fall as its gap (ns) rises. Counts are gaps of single sequences.
 */
export function forEachGapRun(events: EngineEvents, stretch: number, bucketOf: (gapNs: number) => number, sink: GapSink): void {
  readCurve(events, stretch);
  const from = events.stretchFrom[stretch]!;
  const to = events.stretchTo[stretch]!;
  const sequences = events.stretchSequences[stretch]!;
  // A quadratic turns once, so there are at most two monotone parts.
  const turn = curve.c2Ns === 0 ? from : Math.min(to, Math.max(from, Math.round(-curve.c1Ns / (2 * curve.c2Ns))));
  sinkRange(from, turn, sequences, bucketOf, sink);
  sinkRange(turn, to, sequences, bucketOf, sink);
}

/** The gap of pass `pass` (from..to-1) of a stretch, as every sequence of it saw it. */
export function gapNs(events: EngineEvents, stretch: number, pass: number): number {
  readCurve(events, stretch);
  return elapsedNs(curve, pass + 1) - elapsedNs(curve, pass);
}

/** Time of the token at the end of pass `pass` of a stretch. */
export function tokenNs(events: EngineEvents, stretch: number, pass: number): number {
  readCurve(events, stretch);
  return events.stretchAnchorNs[stretch]! + elapsedNs(curve, pass + 1);
}

function readCurve(events: EngineEvents, stretch: number): void {
  curve.c0Ns = events.stretchC0Ns[stretch]!;
  curve.c1Ns = events.stretchC1Ns[stretch]!;
  curve.c2Ns = events.stretchC2Ns[stretch]!;
}

function sinkRange(from: number, to: number, sequences: number, bucketOf: (gapNs: number) => number, sink: GapSink): void {
  if (to <= from) return;
  const sumNs = elapsedNs(curve, to) - elapsedNs(curve, from);
  if (to - from === 1) {
    sink(bucketOf(sumNs), sequences, sequences * sumNs);
    return;
  }
  const first = passNs(from);
  const last = passNs(to - 1);
  // Rounding both ends of a gap moves it by less than 1 ns; 2 also covers the floating-point error of the sums.
  const bucket = bucketOf(Math.min(first, last) - 2);
  if (bucket === bucketOf(Math.max(first, last) + 2)) {
    sink(bucket, sequences * (to - from), sequences * sumNs);
    return;
  }
  const middle = from + ((to - from) >> 1);
  sinkRange(from, middle, sequences, bucketOf, sink);
  sinkRange(middle, to, sequences, bucketOf, sink);
}

function passNs(pass: number): number {
  return curve.c0Ns + pass * (curve.c1Ns + pass * curve.c2Ns);
}
