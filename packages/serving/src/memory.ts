import type { FixedKv } from '@braess/protocol';
import { type EngineDivision, type GpuSpec, type LinearAttention, type ModelSpec, type Precision, precisionBytes } from './catalogue.js';

/** Share of the GPU memory an engine may use; vLLM's default for `gpu_memory_utilization`. */
export const defaultMemoryUtilisation = 0.9;

/**
 * Memory beside weights and KV: activations of the largest pass, captured graphs, communicators, the runtime itself. Assumed; with it the
 * KV tokens of vLLM 0.10.1.1 (Dynamo's profiles: 224,133 for a 70B FP8 model on 2 H100, 945,029 for an 8B FP8 model on H200) come out within 3 %.
 */
export const defaultReserveBytes = 4e9;

/** KV entries that fill the memory of one engine. */
export interface KvCapacity {
  weightBytesPerGpu: number;
  kvBytesPerGpu: number;
  kvBytesPerTokenPerGpu: number;
  /** Set aside on each GPU for what sequences keep beside blocks: windows and states. */
  sequenceBytesPerGpu: number;
  blocks: number;
  tokens: number;
}

export interface KvCapacityOptions extends EngineDivision {
  gpu: GpuSpec;
  model: ModelSpec;
  weightPrecision: Precision;
  kvPrecision: Precision;
  blockTokens: number;
  memoryUtilisation?: number;
  reserveBytes?: number;
  /** Sequences that have room for what they keep beside blocks; default none. */
  maxSequences?: number;
  /** Takes the place of the derived number; must still fit. */
  blocks?: number;
}

/**
 * KV bytes of one token over the whole model, each head once: 2 (key, value) x layers x KV heads x head size, or for MLA layers x (rank + rope size). Layers
 * that look back over a window, or keep a state, are not among them: {@link fixedKvOf}.
 */
export function kvBytesPerToken(model: ModelSpec, precision: Precision): number {
  return wholeLayers(model) * kvNumbersPerLayer(model, model.keyValueHeads) * precisionBytes[precision];
}

/**
 * KV bytes of one token that each GPU of the group keeps: heads are split, duplicated once there are fewer heads than ranks; MLA is replicated. With
 * data-parallel attention a token lies whole on one of the GPUs: this is the mean.
 */
export function kvBytesPerTokenPerGpu(model: ModelSpec, precision: Precision, { tensorParallel, attention }: EngineDivision): number {
  if (attention === 'data-parallel') return kvBytesPerToken(model, precision) / tensorParallel;
  return wholeLayers(model) * kvNumbersPerLayer(model, keyValueHeadsPerGpu(model, tensorParallel)) * precisionBytes[precision];
}

/** Layers that look back over the whole context. */
export function wholeLayers({ layers, window, linear }: ModelSpec): number {
  return layers - (window?.layers ?? 0) - (linear?.layers ?? 0);
}

/** What a sequence keeps beside its blocks, over all GPUs of an engine. States are kept at 32 bit, the inputs of convolutions at 16. */
export function fixedKvOf(model: ModelSpec, precision: Precision, division: EngineDivision): FixedKv {
  const { window, linear } = model;
  const perLayer = kvBytesPerTokenPerGpu(model, precision, division) / wholeLayers(model);
  return {
    windowTokens: window?.tokens ?? 0,
    windowBytesPerToken: Math.round((window?.layers ?? 0) * perLayer * division.tensorParallel),
    stateBytes: linear === null ? 0 : linear.layers * (4 * stateNumbers(linear) + 2 * convolutionNumbers(linear)),
  };
}

/** Numbers in the state of a sequence in one layer of linear attention. */
export function stateNumbers({ valueHeads, keyHeadSize, valueHeadSize }: LinearAttention): number {
  return valueHeads * keyHeadSize * valueHeadSize;
}

function convolutionNumbers({ keyHeads, valueHeads, keyHeadSize, valueHeadSize, convolutionTokens }: LinearAttention): number {
  return (2 * keyHeads * keyHeadSize + valueHeads * valueHeadSize) * (convolutionTokens - 1);
}

/** KV heads each rank holds. Throws where the head counts do not divide. */
export function keyValueHeadsPerGpu(model: ModelSpec, tensorParallel: number): number {
  if (!Number.isSafeInteger(tensorParallel) || tensorParallel < 1 || model.attentionHeads % tensorParallel !== 0) {
    throw new Error(
      `${model.name}: tensor parallel ${tensorParallel} does not divide its ${model.attentionHeads} attention heads; choose a divisor`,
    );
  }
  if (model.keyValueHeads >= tensorParallel) {
    if (model.keyValueHeads % tensorParallel !== 0) {
      throw new Error(
        `${model.name}: tensor parallel ${tensorParallel} does not divide its ${model.keyValueHeads} KV heads; choose a divisor`,
      );
    }
    return model.keyValueHeads / tensorParallel;
  }
  if (tensorParallel % model.keyValueHeads !== 0) {
    throw new Error(`${model.name}: ${model.keyValueHeads} KV heads cannot be duplicated evenly over tensor parallel ${tensorParallel}`);
  }
  return 1;
}

function kvNumbersPerLayer(model: ModelSpec, heads: number): number {
  return model.mla !== null ? model.mla.keyValueRank + model.mla.ropeHeadSize : 2 * heads * model.headSize;
}

/** Parameters by where they live; all over the whole model except the `PerGpu` ones. */
export interface ParameterCounts {
  /** Linear layers that tensor parallelism splits, experts left out. */
  shardedLinear: number;
  /** Linear weights each GPU holds whole or duplicated (KV heads beyond their number, MLA down-projections). */
  replicatedPerGpu: number;
  /** One expert of one layer. */
  expert: number;
  /** Layers with experts. */
  expertLayers: number;
  /** Input embedding, or output head: each vocabulary x hidden, kept at 16 bit. */
  vocabularyMatrix: number;
  /** How many of these there are: 1 where both are the same. */
  vocabularyMatrices: number;
}

export function parameterCounts(model: ModelSpec, engine: EngineDivision): ParameterCounts {
  const { tensorParallel } = engine;
  if (engine.attention === 'data-parallel') {
    checkExpertDivision(model, engine);
    const whole = parameterCounts(model, { tensorParallel: 1 });
    return { ...whole, shardedLinear: 0, replicatedPerGpu: whole.shardedLinear + whole.replicatedPerGpu };
  }
  const attention = model.mla !== null ? latentParameters(model, model.mla) : groupedParameters(model, tensorParallel);
  const moe = model.moe;
  const expertLayers = moe === null ? 0 : model.layers - moe.denseLayers;
  const expert = moe === null ? 0 : model.mlpMatrices * model.hidden * moe.expertIntermediate;
  const dense = model.mlpMatrices * model.hidden * model.intermediate;
  const perExpertLayer = moe === null ? 0 : moe.sharedExperts * expert + moe.experts * model.hidden;
  const linearLayers = model.linear?.layers ?? 0;
  const attentionLayers = model.layers - linearLayers;
  const linear = model.linear === null ? 0 : linearParameters(model.hidden, model.linear);
  return {
    shardedLinear:
      attentionLayers * attention.sharded + linearLayers * linear + (model.layers - expertLayers) * dense + expertLayers * perExpertLayer,
    replicatedPerGpu: attentionLayers * attention.replicated,
    expert,
    expertLayers,
    vocabularyMatrix: model.vocabulary * model.hidden,
    vocabularyMatrices: model.tiedEmbeddings ? 1 : 2,
  };
}

function checkExpertDivision({ name, moe }: ModelSpec, engine: EngineDivision): void {
  const { tensorParallel: gpus, redundantExperts = 0 } = engine;
  if (moe === null)
    throw new Error(
      `${name} has no experts to spread over ${gpus} GPUs with data-parallel attention; use tensor-parallel, or more engines`,
    );
  const beyond = (moe.experts + redundantExperts) % gpus;
  if (beyond === 0) return;
  const even = [redundantExperts - beyond, redundantExperts + gpus - beyond].filter((copies) => copies >= 0);
  const held = redundantExperts === 0 ? `${moe.experts} experts` : `${moe.experts} experts and ${redundantExperts} redundant ones`;
  throw new Error(
    `${name}: ${gpus} GPUs do not divide its ${held}; with data-parallel attention choose a divisor, or redundantExperts ${even.join(' or ')}`,
  );
}

/** Experts of a layer that an engine holds, further copies counted. */
export function expertsHeld({ moe }: ModelSpec, { redundantExperts = 0 }: EngineDivision): number {
  return moe === null ? 0 : moe.experts + redundantExperts;
}

function groupedParameters(model: ModelSpec, tensorParallel: number): { sharded: number; replicated: number } {
  const queryAndOutput = (model.gatedAttention ? 3 : 2) * model.hidden * model.attentionHeads * model.headSize;
  return { sharded: queryAndOutput, replicated: 2 * model.hidden * keyValueHeadsPerGpu(model, tensorParallel) * model.headSize };
}

/** Queries, keys, values, the gate of the output, two numbers a value head (decay and rate), and the output. */
function linearParameters(hidden: number, { keyHeads, valueHeads, keyHeadSize, valueHeadSize }: LinearAttention): number {
  return hidden * (2 * keyHeads * keyHeadSize + 3 * valueHeads * valueHeadSize + 2 * valueHeads);
}

/** DeepSeek-V3's projections (arXiv:2412.19437, section 2.1.1): the down-projections are small and stay whole on every rank. */
function latentParameters(model: ModelSpec, mla: LatentShape): { sharded: number; replicated: number } {
  const queryHead = model.headSize + mla.ropeHeadSize;
  const queryRows = mla.queryRank === 0 ? model.hidden : mla.queryRank;
  const up = model.attentionHeads * (queryRows * queryHead + mla.keyValueRank * (model.headSize + mla.valueHeadSize));
  const output = model.attentionHeads * mla.valueHeadSize * model.hidden;
  return { sharded: up + output, replicated: model.hidden * (mla.queryRank + mla.keyValueRank + mla.ropeHeadSize) };
}

type LatentShape = NonNullable<ModelSpec['mla']>;

/** Bytes of weights on each GPU of an engine; embeddings and the output head stay at 16 bit, as published FP8 and FP4 checkpoints have them. */
export function weightBytesPerGpu(model: ModelSpec, precision: Precision, division: EngineDivision): number {
  const { tensorParallel } = division;
  const counts = parameterCounts(model, division);
  const experts = counts.expertLayers * expertsHeld(model, division) * counts.expert;
  const linear = (counts.shardedLinear + experts) / tensorParallel + counts.replicatedPerGpu;
  return linear * precisionBytes[precision] + (counts.vocabularyMatrices * counts.vocabularyMatrix * precisionBytes.bf16) / tensorParallel;
}

/** KV blocks of one engine from its memory, or the given number. Throws, with the sums, when weights or blocks do not fit. */
export function kvCapacity(options: KvCapacityOptions): KvCapacity {
  const { gpu, model, tensorParallel, weightPrecision, kvPrecision, blockTokens } = options;
  const utilisation = options.memoryUtilisation ?? defaultMemoryUtilisation;
  const reserveBytes = options.reserveBytes ?? defaultReserveBytes;
  if (!(utilisation > 0 && utilisation <= 1)) throw new Error(`memory utilisation is ${utilisation}; must be above 0 and at most 1`);
  if (!Number.isSafeInteger(blockTokens) || blockTokens < 1)
    throw new Error(`block size is ${blockTokens} tokens; must be a positive integer`);
  const weights = weightBytesPerGpu(model, weightPrecision, options);
  const perToken = kvBytesPerTokenPerGpu(model, kvPrecision, options);
  const usable = gpu.hbmBytes * utilisation;
  const { windowTokens, windowBytesPerToken, stateBytes } = fixedKvOf(model, kvPrecision, options);
  const { maxSequences = 0 } = options;
  const sequences = (maxSequences * (windowTokens * windowBytesPerToken + stateBytes)) / tensorParallel;
  const free = usable - weights - reserveBytes - sequences;
  const setting = `${model.name} with ${weightPrecision} weights on ${tensorParallel} x ${gpu.name}`;
  const aside = sequences === 0 ? '' : `, ${gigabytes(sequences)} for windows and states of ${maxSequences} sequences (maxSequences)`;
  const sums = `${gigabytes(weights)} of weights a GPU${aside} and a reserve of ${gigabytes(reserveBytes)} in ${gigabytes(usable)} (${utilisation} of ${gigabytes(gpu.hbmBytes)})`;
  const fitting = Math.floor(free / (perToken * blockTokens));
  if (fitting < 1) {
    throw new Error(
      `${setting} does not fit: ${sums} leaves no room for KV; use more GPUs, a larger GPU, ${sequences === 0 ? '' : 'fewer maxSequences, '}or a smaller weight precision`,
    );
  }
  const blocks = options.blocks ?? fitting;
  if (!Number.isSafeInteger(blocks) || blocks < 1) throw new Error(`KV blocks is ${blocks}; must be a positive integer`);
  if (blocks > fitting) {
    throw new Error(`${setting}: ${blocks} KV blocks of ${blockTokens} tokens do not fit: ${sums} leaves room for ${fitting}`);
  }
  return {
    weightBytesPerGpu: weights,
    kvBytesPerGpu: blocks * blockTokens * perToken,
    kvBytesPerTokenPerGpu: perToken,
    sequenceBytesPerGpu: sequences,
    blocks,
    tokens: blocks * blockTokens,
  };
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}
