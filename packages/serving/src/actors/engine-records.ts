import { body, record } from '@braess/kernel';

/**
 * ITL gaps of one engine: `counts[i]` gaps of `gapNs[i]`. A gap is put in its bucket of 1/1024 of its octave and kept as the mean there, so counts in such
 * buckets and the sum of all gaps are exact. Complete at the end of a run (see `EngineKindOptions.telemetry`).
 */
export interface GapRows {
  readonly gapNs: Float64Array;
  readonly counts: Float64Array;
  /** Whose they are, where tenants are told apart. */
  readonly tenant?: Int32Array;
}
export const itlGaps = record('itlGaps', ['rows'], body<GapRows>());

/** The load of an engine at the time of the record. */
export const engineLoad = record('engineLoad', [
  'runningSequences',
  'waitingSequences',
  'queuedTokens',
  'usedBlocks',
  'totalBlocks',
  'status',
]);

/**
 * What an engine did since its last such record. `flopNs` and `bandwidthNs` are the time its linear layers would take at the achievable FLOP rate, and
 * its weights and KV reads at the achievable HBM rate: divided by the period they are the saturations. -1 where the timing model has no roofline. Of the
 * pass in progress `busyNs` has the time so far, `flopNs` and `bandwidthNs` the tokens and the weights by the share that is over.
 */
export const engineWork = record('engineWork', ['prefillTokens', 'decodeTokens', 'busyNs', 'passes', 'flopNs', 'bandwidthNs']);
/** Lookups of a timing table so far, and those of a prefill length, or of a KV use or context, outside its grid; whenever there were more of these. */
export const timingLookups = record('timingLookups', ['lookups', 'clampedPrefill', 'clampedDecode']);
/** The same, in numbers; goes with `engineWork`. `outputTokens` are those of decode passes and the ones that prompts end with. */
export const engineCounts = record('engineCounts', [
  'finishedRequests',
  'preemptions',
  'hitTokens',
  'transferBytes',
  'sinceNs',
  'outputTokens',
]);
