import { type GpuSpec, type ModelSpec, type Precision, precisionBytes } from './catalogue.js';
import type { EngineProfile } from './catalogue-parse.js';
import { kvBytesPerTokenPerGpu, parameterCounts } from './memory.js';
import { type DecodeCurve, maximumStretchPasses, type PassShape } from './timing.js';

/**
 * Roofline of one engine, reduced to nanoseconds per unit of work on the slowest resource (Williams, Waterman, Patterson 2009): linear layers
 * take the longer of their FLOPs and of reading their weights; attention, collectives and host time come on top, as they are not overlapped. Launches one by one do overlap.
 */
export interface RooflineTiming {
  kind: 'roofline';
  hostPassNs: number;
  /** No pass is shorter. */
  launchPassNs: number;
  hostSequenceNs: number;
  prefillPassNs: number;
  /** Linear layers, FLOPs of one token. */
  tokenNs: number;
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
  /** All-reduces of a pass: fixed part, and part for each token. */
  collectivePassNs: number;
  collectiveTokenNs: number;
}

export interface RooflineOptions {
  gpu: GpuSpec;
  model: ModelSpec;
  profile: EngineProfile;
  tensorParallel: number;
  weightPrecision: Precision;
  kvPrecision: Precision;
}

export function createRoofline(options: RooflineOptions): RooflineTiming {
  const { gpu, model, profile, tensorParallel, weightPrecision } = options;
  const counts = parameterCounts(model, tensorParallel);
  const moe = model.moe;
  const linear = counts.shardedLinear / tensorParallel + counts.replicatedPerGpu;
  const routed = moe === null ? 0 : (counts.expertLayers * counts.expert) / tensorParallel;
  const weightRate = gpu.hbmBytesPerSecond * profile.memoryEfficiency;
  const gemmRate = gemmFlops(gpu, profile, weightPrecision);
  const headParameters = counts.vocabularyMatrix / tensorParallel;
  const attention = attentionTerms(options);
  return {
    kind: 'roofline',
    hostPassNs: profile.hostPassUs * 1e3,
    launchPassNs: profile.launchPassUs * 1e3,
    hostSequenceNs: profile.hostSequenceUs * 1e3,
    prefillPassNs: profile.prefillPassUs * 1e3,
    tokenNs: ((2 * (linear + routed * (moe?.expertsPerToken ?? 0))) / gemmRate) * 1e9,
    tileTokens: profile.gemmTileTokens,
    weightNs: ((linear * precisionBytes[weightPrecision] + headParameters * precisionBytes.bf16) / weightRate) * 1e9,
    expertNs: ((routed * precisionBytes[weightPrecision]) / weightRate) * 1e9,
    experts: moe?.experts ?? 0,
    expertsPerToken: moe?.expertsPerToken ?? 0,
    sampleNs: ((2 * headParameters) / (gpu.denseFlops.bf16 * profile.gemm16Efficiency)) * 1e9,
    ...attention,
    ...collectiveTerms(gpu, model, profile, tensorParallel),
  };
}

/**
 * Decode attention reads the KV entries; prefill attention does 4 x heads x head size FLOPs for each pair (scores and values, 2 FLOPs a
 * multiply-add). MLA decodes in the compressed space: 2 x heads x (2 rank + rope) FLOPs for each token of context, which can exceed its few bytes.
 */
function attentionTerms(options: RooflineOptions): Pick<RooflineTiming, 'contextNs' | 'pairNs' | 'prefillContextNs'> {
  const { gpu, model, profile, tensorParallel, kvPrecision } = options;
  const heads = model.attentionHeads / tensorParallel;
  const attentionRate = gpu.denseFlops.bf16 * profile.attentionEfficiency;
  const kvBytes = kvBytesPerTokenPerGpu(model, kvPrecision, tensorParallel);
  const readNs = (kvBytes / (gpu.hbmBytesPerSecond * profile.kvEfficiency)) * 1e9;
  const mla = model.mla;
  const pairFlops = mla === null ? 4 * model.headSize : 2 * (model.headSize + mla.ropeHeadSize + mla.valueHeadSize);
  const decodeFlops = mla === null ? pairFlops : 2 * (2 * mla.keyValueRank + mla.ropeHeadSize);
  return {
    contextNs: Math.max(readNs, ((model.layers * heads * decodeFlops) / attentionRate) * 1e9),
    pairNs: ((model.layers * heads * pairFlops) / attentionRate) * 1e9,
    prefillContextNs: readNs,
  };
}

/** Two ring all-reduces a layer: each GPU sends 2 (n - 1) / n of the 16-bit activations (Patarasuk, Yuan 2009), over PCIe where there is no NVLink. */
function collectiveTerms(
  gpu: GpuSpec,
  model: ModelSpec,
  profile: EngineProfile,
  tensorParallel: number,
): Pick<RooflineTiming, 'collectivePassNs' | 'collectiveTokenNs'> {
  if (tensorParallel === 1) return { collectivePassNs: 0, collectiveTokenNs: 0 };
  const rate = (gpu.nvlinkBytesPerSecond > 0 ? gpu.nvlinkBytesPerSecond : gpu.pcieBytesPerSecond) * profile.collectiveEfficiency;
  const tokenBytes = model.hidden * precisionBytes.bf16 * ((2 * (tensorParallel - 1)) / tensorParallel);
  return {
    collectivePassNs: 2 * model.layers * profile.collectiveLatencyUs * 1e3,
    collectiveTokenNs: ((2 * model.layers * tokenBytes) / rate) * 1e9,
  };
}

/** Weights in a precision the GPU cannot multiply are widened first, so the 16-bit rate holds. */
function gemmFlops(gpu: GpuSpec, profile: EngineProfile, precision: Precision): number {
  const native = gpu.denseFlops[precision];
  if (precision === 'bf16' || native === undefined) return gpu.denseFlops.bf16 * profile.gemm16Efficiency;
  return native * profile.gemmEfficiency;
}

export function rooflineCurve(timing: RooflineTiming, sequences: number, contextTokens: number, curve: DecodeCurve): void {
  const fixed = timing.hostPassNs + sequences * (timing.hostSequenceNs + timing.collectiveTokenNs) + timing.collectivePassNs;
  curve.c0Ns = fixed + linearNs(timing, sequences, sequences) + contextTokens * timing.contextNs;
  curve.c1Ns = sequences * timing.contextNs;
  curve.c2Ns = 0;
  curve.validPasses = maximumStretchPasses;
  if (curve.c0Ns >= timing.launchPassNs) return;
  // Flat until the work of the GPU outgrows the launches.
  if (curve.c1Ns > 0) curve.validPasses = Math.min(maximumStretchPasses, Math.ceil((timing.launchPassNs - curve.c0Ns) / curve.c1Ns));
  curve.c0Ns = timing.launchPassNs;
  curve.c1Ns = 0;
}

export function rooflineMixedNs(timing: RooflineTiming, shape: PassShape): number {
  const tokens = shape.decodeSequences + shape.prefillTokens;
  const host =
    timing.hostPassNs +
    (shape.decodeSequences + shape.prefillSequences) * timing.hostSequenceNs +
    (shape.prefillTokens > 0 ? timing.prefillPassNs : 0);
  const prefillAttention = Math.max(shape.prefillPairs * timing.pairNs, shape.prefillContextTokens * timing.prefillContextNs);
  return Math.max(
    timing.launchPassNs,
    host +
      linearNs(timing, tokens, shape.decodeSequences + shape.prefillSampled) +
      shape.decodeContextTokens * timing.contextNs +
      prefillAttention +
      timing.collectivePassNs +
      tokens * timing.collectiveTokenNs,
  );
}

function linearNs(timing: RooflineTiming, tokens: number, sampled: number): number {
  const compute = paddedTokens(tokens, timing.tileTokens) * timing.tokenNs + sampled * timing.sampleNs;
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
