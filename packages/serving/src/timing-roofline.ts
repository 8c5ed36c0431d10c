import { type GpuSpec, type Precision, precisionBytes } from './catalogue.js';
import type { EngineProfile } from './catalogue-parse.js';
import { allReduceTerms, type CollectiveOptions, type CollectiveTerms, exchangeTerms } from './collectives.js';
import { expertsHeld, fixedKvOf, kvBytesPerTokenPerGpu, parameterCounts, stateNumbers, wholeLayers } from './memory.js';
import { type DecodeCurve, maximumStretchPasses, type PassShape } from './timing.js';

/**
 * Roofline of one engine, reduced to nanoseconds per unit of work on the slowest resource (Williams, Waterman, Patterson 2009): linear layers
 * take the longer of their FLOPs and of reading their weights; attention, collectives and host time come on top, as they are not overlapped. Launches one by one do overlap.
 */
export interface RooflineTiming extends CollectiveTerms {
  kind: 'roofline';
  hostPassNs: number;
  /** No pass is shorter. */
  launchPassNs: number;
  hostSequenceNs: number;
  prefillPassNs: number;
  /** GPUs that keep sequences of their own (data-parallel attention), else 1. Times of tokens and contexts are those of one of them. */
  ranks: number;
  /** Linear layers, FLOPs of one token. */
  tokenNs: number;
  /** The part of it that all GPUs share although they keep sequences of their own: routed experts. */
  sharedTokenNs: number;
  tileTokens: number;
  /** Linear layers, reading all weights but those of routed experts. */
  weightNs: number;
  /** Reading one expert of every expert layer. */
  expertNs: number;
  experts: number;
  expertsPerToken: number;
  /** Output head of one sampled token, FLOPs; its weights are part of weightNs. */
  sampleNs: number;
  /** Decode attention, one token of context. */
  contextNs: number;
  /** Prefill attention, one pair of tokens. */
  pairNs: number;
  /** Prefill attention, reading one token of context. */
  prefillContextNs: number;
  /** Layers that look back over a window, and its length: as the three above, of contexts no longer than that; 0 tokens: there are none. */
  windowTokens: number;
  windowContextNs: number;
  windowPairNs: number;
  /** Layers that keep a state: of a sequence that decodes, and of one token of a prompt. */
  fixedSequenceNs: number;
  fixedTokenNs: number;
  /** A pass is computed in two halves, and the exchanges of one run beside the work of the other. */
  twoBatchOverlap: boolean;
  /** Tokens that a pass without prompts tries for each sequence beside the next one, what drafting them takes, and how many it puts out on average. */
  draftTokens: number;
  draftNs: number;
  passTokens: number;
  /** As `contextNs` and `windowContextNs`, where all of these attend. */
  decodeContextNs: number;
  decodeWindowContextNs: number;
}

/** Decoding several tokens a pass: drafted by heads of the model (multi-token prediction, EAGLE) or by a small one, and verified together. */
export interface Speculation {
  /** Tokens drafted for each sequence and pass. */
  draftTokens: number;
  /** Probability that a drafted token is taken, given that those before it were. */
  acceptance: number;
  /** Time of drafting one token for the whole batch, ms. */
  draftMs: number;
}

export interface RooflineOptions extends CollectiveOptions {
  weightPrecision: Precision;
  kvPrecision: Precision;
  /** Default false; for data-parallel attention. */
  twoBatchOverlap?: boolean;
  /** Default none. */
  speculation?: Speculation;
}

export function createRoofline(options: RooflineOptions): RooflineTiming {
  const { gpu, model, profile, tensorParallel, weightPrecision } = options;
  const isDataParallel = options.attention === 'data-parallel' && tensorParallel > 1;
  const counts = parameterCounts(model, options);
  const moe = model.moe;
  const linear = counts.shardedLinear / tensorParallel + counts.replicatedPerGpu;
  const routed = moe === null ? 0 : (counts.expertLayers * counts.expert) / tensorParallel;
  const weightRate = gpu.hbmBytesPerSecond * profile.memoryEfficiency;
  const gemmRate = gemmFlops(gpu, profile, weightPrecision);
  const headParameters = counts.vocabularyMatrix / tensorParallel;
  const attention = attentionTerms(options);
  const experts = routed * (moe?.expertsPerToken ?? 0);
  return {
    kind: 'roofline',
    hostPassNs: profile.hostPassUs * 1e3,
    launchPassNs: profile.launchPassUs * 1e3,
    hostSequenceNs: profile.hostSequenceUs * 1e3,
    prefillPassNs: profile.prefillPassUs * 1e3,
    ranks: isDataParallel ? tensorParallel : 1,
    tokenNs: ((2 * (isDataParallel ? linear : linear + experts)) / gemmRate) * 1e9,
    sharedTokenNs: isDataParallel ? ((2 * experts) / gemmRate) * 1e9 : 0,
    tileTokens: profile.gemmTileTokens,
    weightNs: ((linear * precisionBytes[weightPrecision] + headParameters * precisionBytes.bf16) / weightRate) * 1e9,
    expertNs: ((routed * precisionBytes[weightPrecision]) / weightRate) * 1e9,
    experts: expertsHeld(model, options),
    expertsPerToken: moe?.expertsPerToken ?? 0,
    sampleNs: ((2 * headParameters) / (gpu.denseFlops.bf16 * profile.gemm16Efficiency)) * 1e9,
    ...attention,
    twoBatchOverlap: isDataParallel && options.twoBatchOverlap === true,
    ...speculationTerms(options.speculation),
    ...(isDataParallel ? exchangeTerms(options) : allReduceTerms(options)),
  };
}

function speculationTerms(
  { draftTokens, acceptance, draftMs }: Speculation = { draftTokens: 0, acceptance: 0, draftMs: 0 },
): Pick<RooflineTiming, 'draftTokens' | 'draftNs' | 'passTokens'> {
  return { draftTokens, draftNs: draftTokens * draftMs * 1e6, passTokens: tokensOfPass(draftTokens, acceptance) };
}

/** (1 - a^(k+1)) / (1 - a): the token after those that are taken comes for nothing (Leviathan et al., arXiv:2211.17192, equation 1). */
function tokensOfPass(draftTokens: number, acceptance: number): number {
  let sum = 1;
  for (let drafted = 0, taken = acceptance; drafted < draftTokens; drafted++, taken *= acceptance) sum += taken;
  return sum;
}

/**
 * Decode attention reads the KV entries; prefill attention does 4 x heads x head size FLOPs for each pair (scores and values, 2 FLOPs a
 * multiply-add). MLA decodes in the compressed space: 2 x heads x (2 rank + rope) FLOPs for each token of context, which can exceed its few bytes.
 */
function attentionTerms(options: RooflineOptions): AttentionTerms {
  const { gpu, model, profile, kvPrecision } = options;
  // Of a GPU's own sequences it has the whole.
  const division = options.attention === 'data-parallel' ? { tensorParallel: 1 } : options;
  const heads = model.attentionHeads / division.tensorParallel;
  const attentionRate = gpu.denseFlops.bf16 * profile.attentionEfficiency;
  const kvBytes = kvBytesPerTokenPerGpu(model, kvPrecision, division);
  const readNs = (kvBytes / (gpu.hbmBytesPerSecond * profile.kvEfficiency)) * 1e9;
  const mla = model.mla;
  const pairFlops = mla === null ? 4 * model.headSize : 2 * (model.headSize + mla.ropeHeadSize + mla.valueHeadSize);
  const decodeFlops = mla === null ? pairFlops : 2 * (2 * mla.keyValueRank + mla.ropeHeadSize);
  const layers = wholeLayers(model);
  const contextFlopsNs = ((layers * heads * decodeFlops) / attentionRate) * 1e9;
  const contextNs = Math.max(readNs, contextFlopsNs);
  // Read once for all tokens that are verified.
  const decodeContextNs = Math.max(readNs, ((options.speculation?.draftTokens ?? 0) + 1) * contextFlopsNs);
  const pairNs = ((layers * heads * pairFlops) / attentionRate) * 1e9;
  const state = stateTerms(options, division.tensorParallel, attentionRate);
  const windowLayers = model.window?.layers ?? 0;
  return {
    contextNs,
    decodeContextNs,
    decodeWindowContextNs: (decodeContextNs * windowLayers) / layers,
    pairNs,
    prefillContextNs: readNs,
    windowTokens: model.window?.tokens ?? 0,
    windowContextNs: (contextNs * windowLayers) / layers,
    windowPairNs: (pairNs * windowLayers) / layers,
    fixedSequenceNs: state.sequenceNs,
    fixedTokenNs: state.tokenNs,
  };
}

type AttentionTerms = Pick<
  RooflineTiming,
  | 'contextNs'
  | 'decodeContextNs'
  | 'decodeWindowContextNs'
  | 'pairNs'
  | 'prefillContextNs'
  | 'windowTokens'
  | 'windowContextNs'
  | 'windowPairNs'
  | 'fixedSequenceNs'
  | 'fixedTokenNs'
>;

/**
 * States of linear attention are read and written by each decode pass. Each token decays one, takes out what its key finds, puts its value in, and asks
 * it: 6 FLOPs a number (arXiv:2412.06464; the chunked form of prompts does some more).
 */
function stateTerms(
  { gpu, model, profile }: RooflineOptions,
  gpus: number,
  attentionRate: number,
): { sequenceNs: number; tokenNs: number } {
  if (model.linear === null) return { sequenceNs: 0, tokenNs: 0 };
  const { stateBytes } = fixedKvOf({ ...model, window: null }, 'bf16', { tensorParallel: 1 });
  const numbers = model.linear.layers * stateNumbers(model.linear);
  return {
    sequenceNs: ((2 * stateBytes) / gpus / (gpu.hbmBytesPerSecond * profile.kvEfficiency)) * 1e9,
    tokenNs: ((6 * numbers) / gpus / attentionRate) * 1e9,
  };
}

/** Weights in a precision the GPU cannot multiply are widened first, so the 16-bit rate holds. */
function gemmFlops(gpu: GpuSpec, profile: EngineProfile, precision: Precision): number {
  const native = gpu.denseFlops[precision];
  if (precision === 'bf16' || native === undefined) return gpu.denseFlops.bf16 * profile.gemm16Efficiency;
  return native * profile.gemmEfficiency;
}

export function rooflineCurve(timing: RooflineTiming, sequences: number, contextTokens: number, curve: DecodeCurve): void {
  const own = busiestShare(timing, sequences, sequences);
  const rows = timing.draftTokens + 1;
  const attentionNs = decodeAttentionNs(timing, contextTokens, sequences, timing.decodeContextNs, timing.decodeWindowContextNs);
  let firstNs: number;
  let leastNs = 0;
  if (overlaps(timing, own)) {
    const hostNs = timing.hostPassNs + timing.draftNs + own * timing.hostSequenceNs;
    firstNs = hostNs + halvesNs(timing, own * rows, sequences * rows, sequences * rows) + attentionNs + own * timing.fixedSequenceNs;
    leastNs = hostNs + exchangesNs(timing, own * rows, timing.decodeCollectiveTokenNs);
  } else {
    const each = timing.hostSequenceNs + rows * timing.decodeCollectiveTokenNs + timing.fixedSequenceNs;
    const fixed = timing.hostPassNs + timing.draftNs + own * each + timing.collectivePassNs;
    firstNs = fixed + linearNs(timing, own * rows, sequences * rows, sequences * rows) + attentionNs;
  }
  growFromFloor(timing, sequences, contextTokens, own, firstNs, leastNs, curve);
  // A step of the curve is one token of each sequence: those of a pass are taken as evenly spaced.
  curve.c0Ns /= timing.passTokens;
  curve.c1Ns /= timing.passTokens;
}

/** A pass of `firstNs` and its successors, whose contexts grow; none is shorter than `leastNs`, nor than its launches. */
function growFromFloor(
  timing: RooflineTiming,
  sequences: number,
  contextTokens: number,
  own: number,
  firstNs: number,
  leastNs: number,
  curve: DecodeCurve,
): void {
  curve.c0Ns = firstNs;
  curve.c1Ns = own * timing.decodeContextNs;
  curve.c2Ns = 0;
  curve.validPasses = maximumStretchPasses;
  const roomTokens = sequences * timing.windowTokens - contextTokens;
  if (roomTokens > 0) {
    // Windows fill up.
    curve.c1Ns += own * timing.decodeWindowContextNs;
    curve.validPasses = Math.min(maximumStretchPasses, Math.floor(roomTokens / sequences) + 1);
  }
  const floorNs = Math.max(leastNs, timing.launchPassNs);
  if (curve.c0Ns >= floorNs) return;
  // Flat until the work of the GPU outgrows the launches, or the exchanges beside it.
  if (curve.c1Ns > 0) curve.validPasses = Math.min(curve.validPasses, Math.ceil((floorNs - curve.c0Ns) / curve.c1Ns));
  curve.c0Ns = floorNs;
  curve.c1Ns = 0;
}

/** Passes with prompts draft nothing. One without is a step of the curve of its decodes. */
export function rooflineMixedNs(timing: RooflineTiming, shape: PassShape): number {
  const { decodeSequences, prefillSequences } = shape;
  if (shape.prefillTokens === 0) {
    rooflineCurve(timing, decodeSequences, shape.decodeContextTokens, step);
    return step.c0Ns;
  }
  const tokens = decodeSequences + shape.prefillTokens;
  // The GPU with most to do has prompts beside its decodes: they are dealt out one by one.
  const ownDecodes = busiestShare(timing, decodeSequences, decodeSequences);
  const ownPromptTokens = busiestShare(timing, shape.prefillTokens, prefillSequences);
  const ownTokens = ownDecodes + ownPromptTokens;
  const host =
    timing.hostPassNs +
    (ownDecodes + busiestShare(timing, prefillSequences, prefillSequences)) * timing.hostSequenceNs +
    timing.prefillPassNs;
  const decodeAttention =
    decodeAttentionNs(timing, shape.decodeContextTokens, decodeSequences, timing.contextNs, timing.windowContextNs) +
    ownDecodes * timing.fixedSequenceNs;
  // Exact for a prompt within the window and for chunks beyond it; a prompt twice as long comes to a third too much, the most there is for one.
  const windowPairs = Math.min(shape.prefillPairs, shape.prefillTokens * timing.windowTokens);
  const prefillAttention = Math.max(
    busiestShare(timing, shape.prefillPairs, prefillSequences) * timing.pairNs +
      busiestShare(timing, windowPairs, prefillSequences) * timing.windowPairNs +
      ownPromptTokens * timing.fixedTokenNs,
    busiestShare(timing, shape.prefillContextTokens, prefillSequences) * timing.prefillContextNs,
  );
  const sampled = decodeSequences + shape.prefillSampled;
  if (overlaps(timing, ownTokens)) {
    const workNs = halvesNs(timing, ownTokens, tokens, sampled) + decodeAttention + prefillAttention;
    return Math.max(timing.launchPassNs, host + Math.max(workNs, exchangesNs(timing, ownTokens, timing.collectiveTokenNs)));
  }
  return Math.max(
    timing.launchPassNs,
    host +
      linearNs(timing, ownTokens, tokens, sampled) +
      decodeAttention +
      prefillAttention +
      timing.collectivePassNs +
      ownTokens * timing.collectiveTokenNs,
  );
}

/** Reused; never state. */
const step: DecodeCurve = { c0Ns: 0, c1Ns: 0, c2Ns: 0, validPasses: 0 };

/** One token alone cannot be halved. */
function overlaps(timing: RooflineTiming, ownTokens: number): boolean {
  return timing.twoBatchOverlap && ownTokens >= 2;
}

/** Linear layers of both halves of a pass, each of which reads the weights. */
function halvesNs(timing: RooflineTiming, ownTokens: number, tokens: number, sampled: number): number {
  return 2 * linearNs(timing, ownTokens / 2, tokens / 2, sampled / 2);
}

/** Collectives of both halves. */
function exchangesNs(timing: RooflineTiming, ownTokens: number, tokenNs: number): number {
  return 2 * timing.collectivePassNs + ownTokens * tokenNs;
}

/** Windows are as full as those of sequences of equal length. */
function decodeAttentionNs(
  timing: RooflineTiming,
  contextTokens: number,
  sequences: number,
  contextNs: number,
  windowContextNs: number,
): number {
  const inWindows = Math.min(contextTokens, sequences * timing.windowTokens);
  return busiestShare(timing, contextTokens, sequences) * contextNs + busiestShare(timing, inWindows, sequences) * windowContextNs;
}

/**
 * Of what so many sequences bring, the part of the GPU that has most of them: all of it, or where GPUs keep sequences of their own as little as even
 * dealing leaves it.
 */
function busiestShare(timing: RooflineTiming, amount: number, sequences: number): number {
  return timing.ranks === 1 || sequences === 0 ? amount : (amount / sequences) * Math.ceil(sequences / timing.ranks);
}

function linearNs(timing: RooflineTiming, ownTokens: number, tokens: number, sampled: number): number {
  const compute = paddedTokens(ownTokens, timing.tileTokens) * timing.tokenNs + tokens * timing.sharedTokenNs + sampled * timing.sampleNs;
  return Math.max(compute, timing.weightNs + expectedExperts(timing.experts, timing.expertsPerToken, tokens) * timing.expertNs);
}

/** Rows of the tiles a matrix product is cut into; small products use tiles of 64 and 128 rows (vLLM's CUTLASS FP8 configurations for Hopper). */
function paddedTokens(tokens: number, tileTokens: number): number {
  if (tileTokens <= 1) return tokens;
  if (tokens <= 64) return Math.min(64, tileTokens);
  if (tokens <= 128) return Math.min(128, Math.ceil(tokens / tileTokens) * tileTokens);
  return Math.ceil(tokens / tileTokens) * tileTokens;
}

/** Distinct experts that `tokens` tokens hit, each choosing `chosen` of `experts` alike: experts x (1 - (1 - chosen / experts)^tokens). */
export function expectedExperts(experts: number, chosen: number, tokens: number): number {
  if (experts === 0 || tokens === 0) return 0;
  if (chosen >= experts) return experts;
  return experts * (1 - Math.exp(tokens * Math.log(1 - chosen / experts)));
}
