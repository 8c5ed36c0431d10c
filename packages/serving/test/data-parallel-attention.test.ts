import {
  createCurve,
  createPassShape,
  createRoofline,
  decodeCurve,
  type EngineDivision,
  gpuNamed,
  kvBytesPerTokenPerGpu,
  kvCapacity,
  loadCatalogue,
  modelNamed,
  profileNamed,
  rooflineMixedNs,
  weightBytesPerGpu,
} from '@braess/serving';
import { describe, expect, it } from 'vitest';

const catalogue = loadCatalogue();
const gpu = gpuNamed(catalogue, 'H200');
const model = modelNamed(catalogue, 'DeepSeek-R1');
const profile = profileNamed(catalogue, 'default');

/** Parameters of DeepSeek-R1 (arXiv:2412.19437), worked out by hand. */
const r1 = {
  attention: 7168 * (1536 + 576) + 1536 * 128 * 192 + 512 * 128 * 256 + 128 * 128 * 7168,
  denseMlp: 3 * 7168 * 18_432,
  expert: 3 * 7168 * 2048,
  gate: 256 * 7168,
  vocabularyMatrix: 129_280 * 7168,
};
/** What every GPU keeps whole: attention of 61 layers, 3 dense MLPs, and in 58 layers the shared expert and the gate. */
const whole = 61 * r1.attention + 3 * r1.denseMlp + 58 * (r1.expert + r1.gate);

describe('data-parallel attention with the experts spread over the GPUs', () => {
  it('keeps everything but the experts on every GPU, and each token on one', () => {
    const eight: EngineDivision = { tensorParallel: 8, attention: 'data-parallel' };
    expect(kvBytesPerTokenPerGpu(model, 'bf16', eight)).toBe(70_272 / 8);
    const weights = whole + (58 * 256 * r1.expert) / 8 + (2 * 2 * r1.vocabularyMatrix) / 8;
    expect(weightBytesPerGpu(model, 'fp8', eight)).toBeCloseTo(weights, 0);
    const options = { gpu, model, weightPrecision: 'fp8', kvPrecision: 'bf16', blockTokens: 64 } as const;
    // 90 % of the memory, less 4 GB, and each GPU has tokens of its own.
    const tokens = (8 * (0.9 * gpu.hbmBytes - 4e9 - weights)) / 70_272;
    expect(kvCapacity({ ...options, ...eight }).tokens).toBe(Math.floor(tokens / 64) * 64);
    // With tensor parallelism all eight keep the same: more weights fit, but the KV only once.
    expect(kvCapacity({ ...options, ...eight }).tokens / kvCapacity({ ...options, tensorParallel: 8 }).tokens).toBeGreaterThan(5);
  });

  const eightGpus = {
    gpu,
    model,
    profile,
    tensorParallel: 8,
    attention: 'data-parallel',
    weightPrecision: 'fp8',
    kvPrecision: 'bf16',
  } as const;
  const timing = createRoofline(eightGpus);
  const none = createPassShape();
  const gemmRate = (gpu.denseFlops.fp8 as number) * profile.gemmEfficiency;
  const memoryRate = gpu.hbmBytesPerSecond * profile.memoryEfficiency;
  const attentionRate = gpu.denseFlops.bf16 * profile.attentionEfficiency;
  /** Linear layers of the GPU that has so many of all tokens: what it keeps whole, and its eighth of the experts. */
  const linearS = (own: number, tokens: number, sampled: number): number => {
    // Rows are padded to whole tiles.
    const rows = own > 128 ? Math.ceil(own / profile.gemmTileTokens) * profile.gemmTileTokens : 64;
    const experts = (256 * (1 - (1 - 8 / 256) ** tokens)) / 8;
    const readS = (whole + 58 * experts * r1.expert + (2 * r1.vocabularyMatrix) / 8) / memoryRate;
    const headS = (2 * sampled * (r1.vocabularyMatrix / 8)) / (gpu.denseFlops.bf16 * profile.gemm16Efficiency);
    return Math.max(readS, (2 * (rows * whole + (tokens * 8 * 58 * r1.expert) / 8)) / gemmRate + headS);
  };
  /** So many copies of each token go to other GPUs, and back; a fixed 35 us each way. */
  const exchangeS = (own: number, copies: number): number => {
    const sentBytes = 58 * own * copies * 7168 * (1 + 2);
    return 58 * 2 * 35e-6 + sentBytes / (gpu.nvlinkBytesPerSecond * profile.collectiveEfficiency);
  };
  /** One for each of eight experts that is elsewhere; or one for each GPU that has any of them. */
  const copiesOfDecode = 8 * (7 / 8);
  const copiesOfPrompt = 7 * (1 - (7 / 8) ** 8);
  /** Reading and scoring of the contexts of the sequences that a GPU has. */
  const decodeAttentionS = (own: number, each: number): number =>
    Math.max(
      (own * each * 70_272) / (gpu.hbmBytesPerSecond * profile.kvEfficiency),
      (own * each * 61 * 128 * 2 * (2 * 512 + 64)) / attentionRate,
    );
  const hostS = (own: number): number => profile.hostPassUs * 1e-6 + own * profile.hostSequenceUs * 1e-6;

  it('takes the time that the GPU with most sequences takes', () => {
    for (const [sequences, own] of [
      [64, 8],
      [1032, 129],
      [65, 9],
      [3, 1],
    ] as const) {
      const each = 3000;
      const passNs = rooflineMixedNs(timing, { ...none, decodeSequences: sequences, decodeContextTokens: sequences * each });
      const workS = linearS(own, sequences, sequences) + decodeAttentionS(own, each);
      expect(passNs / 1e9).toBeCloseTo(hostS(own) + workS + exchangeS(own, copiesOfDecode), 9);
    }
  });

  it('computes a prompt on one GPU, whose experts all help, and eight in the time of one but for these', () => {
    const tokens = 4096;
    const pairs = (tokens * (tokens + 1)) / 2;
    const prompts = (count: number): number =>
      rooflineMixedNs(timing, {
        ...none,
        prefillSequences: count,
        prefillTokens: count * tokens,
        prefillPairs: count * pairs,
        prefillSampled: count,
      }) / 1e9;
    const promptHostS = hostS(1) + profile.prefillPassUs * 1e-6;
    const attentionS = (pairs * 61 * 128 * 2 * (128 + 64 + 128)) / attentionRate;
    for (const count of [1, 8])
      expect(prompts(count)).toBeCloseTo(
        promptHostS + linearS(tokens, count * tokens, count) + attentionS + exchangeS(tokens, copiesOfPrompt),
        9,
      );
  });

  it('hides exchanges behind the work of the other half of a pass, which reads the weights again', () => {
    const halved = createRoofline({ ...eightGpus, twoBatchOverlap: true });
    const passS = (sequences: number, each: number): number =>
      rooflineMixedNs(halved, { ...none, decodeSequences: sequences, decodeContextTokens: sequences * each }) / 1e9;
    // Each half has exchanges of its own.
    const exchangesS = (own: number): number => exchangeS(own, copiesOfDecode) + 58 * 2 * 35e-6;
    for (const [sequences, each] of [
      [1024, 3000],
      [1024, 1],
      [16, 10],
    ] as const) {
      const own = sequences / 8;
      const workS = 2 * linearS(own / 2, sequences / 2, sequences / 2) + decodeAttentionS(own, each);
      expect(passS(sequences, each)).toBeCloseTo(hostS(own) + Math.max(workS, exchangesS(own)), 9);
    }
    // One token of a GPU is no two halves.
    expect(passS(8, 3000)).toBeCloseTo(hostS(1) + linearS(1, 8, 8) + decodeAttentionS(1, 3000) + exchangeS(1, copiesOfDecode), 9);
    const curve = createCurve();
    decodeCurve(halved, 1024, 1024, 1, curve);
    expect(curve.c0Ns / 1e9).toBeCloseTo(passS(1024, 1), 9);
  });

  it('is tensor parallelism where there is one GPU', () => {
    const small = modelNamed(catalogue, 'Qwen3-30B-A3B');
    const one = (attention: 'tensor-parallel' | 'data-parallel') =>
      createRoofline({ gpu, model: small, profile, tensorParallel: 1, attention, weightPrecision: 'fp8', kvPrecision: 'bf16' });
    expect(one('data-parallel')).toEqual(one('tensor-parallel'));
  });

  it('is refused where there are no experts to spread, or not as many on each GPU', () => {
    const weights = (name: string, tensorParallel: number) => () =>
      weightBytesPerGpu(modelNamed(catalogue, name), 'fp8', { tensorParallel, attention: 'data-parallel' });
    expect(weights('Llama-3.1-70B', 4)).toThrow(/Llama-3\.1-70B has no experts to spread over 4 GPUs/);
    expect(weights('DeepSeek-R1', 72)).toThrow(
      /72 GPUs do not divide its 256 experts; with data-parallel attention choose a divisor, or redundantExperts 32$/,
    );
    const engine = { tensorParallel: 32, attention: 'data-parallel', redundantExperts: 5 } as const;
    expect(() => weightBytesPerGpu(modelNamed(catalogue, 'DeepSeek-R1'), 'fp8', engine)).toThrow(
      /32 GPUs do not divide its 256 experts and 5 redundant ones; .* or redundantExperts 0 or 32$/,
    );
  });

  it('keeps redundant experts, of which a pass reads those that are chosen', () => {
    const wide = { tensorParallel: 72, attention: 'data-parallel', redundantExperts: 32 } as const;
    // Four experts on each of 72 GPUs.
    const weights = whole + 58 * 4 * r1.expert + (2 * 2 * r1.vocabularyMatrix) / 72;
    expect(weightBytesPerGpu(model, 'fp8', wide)).toBeCloseTo(weights, 0);
    const roofline = createRoofline({ gpu, model, profile, ...wide, servers: 9, weightPrecision: 'fp8', kvPrecision: 'bf16' });
    // One token chooses eight of 288 places; its FLOPs are those of eight experts.
    expect(roofline.experts).toBe(288);
    expect(roofline.expertNs * 72).toBeCloseTo(((58 * r1.expert) / memoryRate) * 1e9, 3);
    expect(roofline.sharedTokenNs * 72).toBeCloseTo(((2 * 8 * 58 * r1.expert) / gemmRate) * 1e9, 3);
  });
});
