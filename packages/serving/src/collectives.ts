import { type EngineDivision, type GpuSpec, type ModelSpec, precisionBytes } from './catalogue.js';
import type { EngineProfile } from './catalogue-parse.js';
import { parameterCounts } from './memory.js';

/** What the GPUs of an engine have between them. */
export interface CollectiveOptions extends EngineDivision {
  gpu: GpuSpec;
  model: ModelSpec;
  profile: EngineProfile;
  /** Servers that the GPUs are spread over, as many in each; default 1. */
  servers?: number;
  /** What each GPU can send to other servers, bytes/s; default that of the GPU's NIC in the catalogue. */
  networkBytesPerSecond?: number;
}

/** Time of the collectives of a pass, ns: a fixed part, and a part for each token of a pass with prompts, or of one that only decodes. */
export interface CollectiveTerms {
  collectivePassNs: number;
  collectiveTokenNs: number;
  decodeCollectiveTokenNs: number;
}

/** One hop of a small all-reduce between servers: NCCL's model of a tree with its LL protocol (hwLat of its tuning.cc). */
const networkHopUs = 5;

/**
 * Fixed time of one exchange of tokens between experts, within a server and between servers: fit to the times that DeepEP publishes of its low-latency kernels
 * on H800 (docs/legacy.md of its repository), 8 GPUs, and 16 to 64; docs/accuracy.md has all rows.
 */
const exchangeUs = { within: 35, between: 49 };

/**
 * Two ring all-reduces a layer: each GPU sends 2 (n - 1) / n of the 16-bit activations (Patarasuk, Yuan 2009). Over several servers there is a ring for each
 * NIC, so a server's NICs together carry what each of its NVLinks does; a small one goes up and down a tree of servers.
 */
export function allReduceTerms(options: CollectiveOptions): CollectiveTerms {
  const { model, profile, tensorParallel, servers = 1 } = options;
  if (tensorParallel === 1) return { collectivePassNs: 0, collectiveTokenNs: 0, decodeCollectiveTokenNs: 0 };
  const networkRate = servers === 1 ? Number.POSITIVE_INFINITY : (tensorParallel / servers) * networkRateOf(options);
  const rate = Math.min(nvlinkRateOf(options), networkRate);
  const tokenBytes = model.hidden * precisionBytes.bf16 * ((2 * (tensorParallel - 1)) / tensorParallel);
  const latencyUs = profile.collectiveLatencyUs + 2 * treeDepth(servers) * networkHopUs;
  const collectiveTokenNs = ((2 * model.layers * tokenBytes) / rate) * 1e9;
  return {
    collectivePassNs: 2 * model.layers * latencyUs * 1e3,
    collectiveTokenNs,
    decodeCollectiveTokenNs: collectiveTokenNs,
  };
}

/**
 * Two exchanges a layer of experts, over two GPUs or more: a token goes to its experts (8 bit) and comes back (16 bit), as in DeepSeek-V3 (arXiv:2412.19437,
 * section 3.3). A pass that only decodes sends a copy for each expert straight to its GPU; one with prompts sends one copy to each server with any of them, which
 * hands it on, and one to each GPU (the two kinds of kernels of DeepEP). NVLink and network work side by side; each GPU sends for its own tokens.
 */
export function exchangeTerms(options: CollectiveOptions): CollectiveTerms {
  const { model, tensorParallel, servers = 1 } = options;
  const { expertLayers } = parameterCounts(model, options);
  const chosen = model.moe?.expertsPerToken ?? 0;
  const copyBytes = expertLayers * model.hidden * (precisionBytes.fp8 + precisionBytes.bf16);
  const sendNs = (withinCopies: number, betweenCopies: number): number =>
    copyBytes * Math.max(withinCopies / nvlinkRateOf(options), betweenCopies / networkRateOf(options)) * 1e9;
  return {
    collectivePassNs: 2 * expertLayers * (servers === 1 ? exchangeUs.within : exchangeUs.between) * 1e3,
    collectiveTokenNs: sendNs(othersReached(tensorParallel, chosen), othersReached(servers, chosen)),
    decodeCollectiveTokenNs: sendNs(chosen * (1 / servers - 1 / tensorParallel), chosen * (1 - 1 / servers)),
  };
}

/** Of the other places among `places`, how many have one of so many experts or more, on average. */
function othersReached(places: number, experts: number): number {
  return places === 1 ? 0 : (places - 1) * (1 - Math.exp(experts * Math.log(1 - 1 / places)));
}

/** Over PCIe where there is no NVLink. */
function nvlinkRateOf({ gpu, profile }: CollectiveOptions): number {
  return (gpu.nvlinkBytesPerSecond > 0 ? gpu.nvlinkBytesPerSecond : gpu.pcieBytesPerSecond) * profile.collectiveEfficiency;
}

/** The whole rate of a GPU's NIC: RDMA writes of DeepEP come to it. */
function networkRateOf({ gpu, networkBytesPerSecond }: CollectiveOptions): number {
  return networkBytesPerSecond ?? gpu.nicBytesPerSecond;
}

/** Levels of a binary tree with so many leaves: its logarithm, rounded up. */
function treeDepth(leaves: number): number {
  return 32 - Math.clz32(leaves - 1);
}
