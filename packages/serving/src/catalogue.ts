import { readFileSync } from 'node:fs';
import { type EngineProfile, parseGpu, parseModel, parseProfile } from './catalogue-parse.js';
import { checkpointName, isCheckpointConfig, modelOfCheckpoint } from './checkpoint-config.js';

/** Number formats a weight, a KV entry or a matrix product may use. */
export type Precision = 'bf16' | 'fp8' | 'int8' | 'fp4';

/** Bytes of one number in each precision; block scales of FP8 and FP4 formats are left out (below 2 %). */
export const precisionBytes: Readonly<Record<Precision, number>> = { bf16: 2, fp8: 1, int8: 1, fp4: 0.5 };

/** One GPU of the catalogue. Rates are per second and per direction; `sources` names the origin of every number by its path. */
export interface GpuSpec {
  name: string;
  /** Dense matrix throughput, FLOP/s, of the precisions the GPU has in hardware. */
  denseFlops: { bf16: number; fp8?: number; int8?: number; fp4?: number };
  hbmBytes: number;
  hbmBytesPerSecond: number;
  /** Each way; 0 for a GPU without NVLink. */
  nvlinkBytesPerSecond: number;
  nicBytesPerSecond: number;
  pcieBytesPerSecond: number;
  sources: Record<string, string>;
}

/** Multi-head latent attention: one compressed entry per token, which every tensor-parallel rank keeps whole. */
export interface LatentAttention {
  keyValueRank: number;
  /** 0 where queries are not compressed. */
  queryRank: number;
  ropeHeadSize: number;
  valueHeadSize: number;
}

/** Mixture of experts; `denseLayers` of the layers have an ordinary MLP instead. */
export interface ExpertLayout {
  experts: number;
  expertsPerToken: number;
  sharedExperts: number;
  expertIntermediate: number;
  denseLayers: number;
}

/** Layers that look back over the last `tokens` tokens only: sliding windows and chunks. */
export interface WindowedAttention {
  tokens: number;
  layers: number;
}

/**
 * Layers of linear attention with a gated delta rule (arXiv:2412.06464): each sequence has a state of fixed size, a matrix of key size x value size for every
 * value head, and the last inputs of a convolution over `convolutionTokens` tokens.
 */
export interface LinearAttention {
  layers: number;
  keyHeads: number;
  valueHeads: number;
  keyHeadSize: number;
  valueHeadSize: number;
  convolutionTokens: number;
}

/** One model of the catalogue, with the shapes its published configuration gives; `sources` as in {@link GpuSpec}. */
export interface ModelSpec {
  name: string;
  attention: 'gqa' | 'mla';
  layers: number;
  hidden: number;
  attentionHeads: number;
  keyValueHeads: number;
  headSize: number;
  intermediate: number;
  /** Matrices of one MLP: 3 when gated (SwiGLU), 2 otherwise. */
  mlpMatrices: number;
  vocabulary: number;
  contextTokens: number;
  /** The output head is the input embedding: small models. */
  tiedEmbeddings: boolean;
  mla: LatentAttention | null;
  moe: ExpertLayout | null;
  window: WindowedAttention | null;
  linear: LinearAttention | null;
  /** Queries come with a gate on what attention gives, as large as they are. */
  gatedAttention: boolean;
  /** How the weights of a checkpoint are quantised, in its own words; absent where they are not, or it does not say. */
  quantised?: string;
  /** What the emulation takes otherwise than the model is, one sentence each: of those read from checkpoints. */
  notes: readonly string[];
  sources: Record<string, string>;
}

/**
 * How the GPUs of an engine divide attention. `tensor-parallel`: each has its share of the heads (and of every other matrix). `data-parallel`: each keeps
 * the KV of its own sequences whole, and all weights but those of the routed experts, which are spread over the GPUs (vLLM's data-parallel attention
 * with expert parallelism, SGLang's `enable-dp-attention`). Load is taken as even over the GPUs.
 */
export type AttentionDivision = 'tensor-parallel' | 'data-parallel';

/** The GPUs of one engine and how they share its model. */
export interface EngineDivision {
  readonly tensorParallel: number;
  /** Default `tensor-parallel`. */
  readonly attention?: AttentionDivision;
  /** Further copies of routed experts, with data-parallel attention; default none. Each layer then has so many more, of which a token chooses no more. */
  readonly redundantExperts?: number;
}

/** GPUs, models and engine profiles by name. */
export interface Catalogue {
  gpus: Map<string, GpuSpec>;
  models: Map<string, ModelSpec>;
  profiles: Map<string, EngineProfile>;
}

/** The shape of one data file; every list may be missing. */
interface CatalogueFile {
  gpus?: unknown;
  models?: unknown;
  profiles?: unknown;
}

/**
 * Reads the built-in data files and then `userFiles`: JSON with `gpus`, `models`, `profiles` lists, or the `config.json` of a checkpoint (a model named
 * after its folder, or after the file). Later entries replace earlier ones of the same name, but two checkpoints of one name are refused.
 */
export function loadCatalogue(userFiles: readonly string[] = []): Catalogue {
  const catalogue: Catalogue = { gpus: new Map(), models: new Map(), profiles: new Map() };
  for (const name of ['gpus', 'models', 'profiles']) {
    const url = new URL(`../data/${name}.json`, import.meta.url);
    addCatalogueEntries(catalogue, readFileSync(url, 'utf8'), `data/${name}.json`);
  }
  const checkpoints = new Map<string, string>();
  for (const file of userFiles) {
    const name = addCatalogueEntries(catalogue, readFileSync(file, 'utf8'), file);
    if (name === undefined) continue;
    const other = checkpoints.get(name);
    if (other !== undefined && other !== file)
      throw new Error(
        `${file}: a checkpoint is named after its folder, "${name}" like ${other}; copy one of them to NAME.json, and give that`,
      );
    checkpoints.set(name, file);
  }
  return catalogue;
}

/** Adds the entries of one JSON text; the name of the model where it is one checkpoint. Throws with `place`, entry and field on anything unknown, missing or out of range. */
export function addCatalogueEntries(catalogue: Catalogue, json: string, place: string): string | undefined {
  let file: CatalogueFile;
  try {
    // Some editors begin a file with a byte order mark.
    file = JSON.parse(json.replace(/^\uFEFF/, '')) as CatalogueFile;
  } catch (error) {
    throw new Error(`${place}: not valid JSON (${(error as Error).message}); a catalogue file holds lists named gpus, models, profiles`);
  }
  if (file === null || typeof file !== 'object' || Array.isArray(file)) {
    throw new Error(`${place}: must be an object with lists named gpus, models, profiles`);
  }
  if (isCheckpointConfig(file)) {
    const model = modelOfCheckpoint(file, checkpointName(place), place);
    catalogue.models.set(model.name, model);
    return model.name;
  }
  for (const key of Object.keys(file)) {
    if (key !== 'gpus' && key !== 'models' && key !== 'profiles') {
      throw new Error(`${place}: unknown list "${key}"; allowed are gpus, models, profiles (or a whole config.json of a checkpoint)`);
    }
  }
  for (const [index, entry] of listOf(file.gpus, `${place}: gpus`).entries()) {
    const gpu = parseGpu(entry, `${place}: gpus[${index}]`);
    catalogue.gpus.set(gpu.name, gpu);
  }
  for (const [index, entry] of listOf(file.models, `${place}: models`).entries()) {
    const model = parseModel(entry, `${place}: models[${index}]`);
    catalogue.models.set(model.name, model);
  }
  for (const [index, entry] of listOf(file.profiles, `${place}: profiles`).entries()) {
    const profile = parseProfile(entry, `${place}: profiles[${index}]`);
    catalogue.profiles.set(profile.name, profile);
  }
  return undefined;
}

/** The GPU of that name, or an error naming the known ones. */
export function gpuNamed(catalogue: Catalogue, name: string): GpuSpec {
  return named(catalogue.gpus, name, 'GPU');
}

/** The model of that name, or an error naming the known ones. */
export function modelNamed(catalogue: Catalogue, name: string): ModelSpec {
  return named(catalogue.models, name, 'model');
}

/** The engine profile of that name, or an error naming the known ones. */
export function profileNamed(catalogue: Catalogue, name: string): EngineProfile {
  return named(catalogue.profiles, name, 'engine profile');
}

/**
 * The profile fitted to that GPU and model; else to the model on another GPU (host times follow the layers of the model), else to the GPU,
 * else `default`.
 */
export function profileFor(catalogue: Catalogue, gpu: string, model: string): EngineProfile {
  const profiles = [...catalogue.profiles.values()];
  return (
    profiles.find((profile) => profile.gpu === gpu && profile.model === model) ??
    profiles.find((profile) => profile.model === model) ??
    profiles.find((profile) => profile.gpu === gpu) ??
    profileNamed(catalogue, 'default')
  );
}

function named<T>(entries: Map<string, T>, name: string, what: string): T {
  const entry = entries.get(name);
  if (entry === undefined) {
    throw new Error(`unknown ${what} "${name}"; known are ${[...entries.keys()].join(', ')}; add your own in a catalogue file`);
  }
  return entry;
}

function listOf(value: unknown, place: string): unknown[] {
  if (value === undefined) return [];
  if (!Array.isArray(value)) throw new Error(`${place}: must be a list`);
  return value;
}
