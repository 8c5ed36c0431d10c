import {
  createCurve,
  createPassShape,
  createRoofline,
  decodeCurve,
  fixedKvOf,
  gpuNamed,
  kvBytesPerToken,
  kvBytesPerTokenPerGpu,
  kvCapacity,
  loadCatalogue,
  modelNamed,
  type PassShape,
  profileNamed,
  rooflineMixedNs,
  weightBytesPerGpu,
} from '@braess/serving';
import { describe, expect, it } from 'vitest';

const catalogue = loadCatalogue();
const gpu = gpuNamed(catalogue, 'H100');
const profile = profileNamed(catalogue, 'default');
const model = modelNamed(catalogue, 'Gemma-3-27B');
/** Keys and values of 16 heads of 128 numbers at 16 bit, in 10 whole layers and in 52 that look back 1,024 tokens. */
const layerBytes = 2 * 16 * 128 * 2;

describe('layers that look back over a window', () => {
  const parts = { gpu, profile, tensorParallel: 1, weightPrecision: 'bf16', kvPrecision: 'bf16' } as const;
  const windowed = createRoofline({ ...parts, model });
  /** The same model, all of whose layers keep the whole context. */
  const dense = createRoofline({ ...parts, model: { ...model, window: null } });

  it('keep no KV for each token of the context, but a window for each sequence', () => {
    expect(kvBytesPerToken(model, 'bf16')).toBe(10 * layerBytes);
    const division = { tensorParallel: 4 };
    expect(kvBytesPerTokenPerGpu(model, 'bf16', division)).toBe((10 * layerBytes) / 4);
    expect(fixedKvOf(model, 'bf16', division)).toEqual({ windowTokens: 1024, windowBytesPerToken: 52 * layerBytes, stateBytes: 0 });
    const options = { gpu, model, ...division, weightPrecision: 'bf16', kvPrecision: 'bf16', blockTokens: 16 } as const;
    const weights = weightBytesPerGpu(model, 'bf16', division);
    for (const maxSequences of [8, 64]) {
      const windows = (maxSequences * 1024 * 52 * layerBytes) / 4;
      const capacity = kvCapacity({ ...options, maxSequences });
      expect(capacity.sequenceBytesPerGpu).toBe(windows);
      expect(capacity.blocks).toBe(Math.floor((0.9 * gpu.hbmBytes - 4e9 - weights - windows) / (16 * ((10 * layerBytes) / 4))));
    }
    expect(() => kvCapacity({ ...options, maxSequences: 1024 })).toThrow(
      /does not fit: .* 111\.7 GB for windows and states of 1024 sequences \(maxSequences\) .*; use .*fewer maxSequences/,
    );
  });

  it('read and score no more than there is where sequences are shorter than the window', () => {
    const shape = { ...createPassShape(), decodeSequences: 16, decodeContextTokens: 16 * 500 };
    const prompts = { prefillSequences: 2, prefillTokens: 2 * 600, prefillPairs: 600 * 601, prefillContextTokens: 2 * 600 };
    for (const pass of [shape, { ...createPassShape(), ...prompts }])
      expect(rooflineMixedNs(windowed, pass)).toBeCloseTo(rooflineMixedNs(dense, pass), 3);
    // A stretch of decodes ends with the pass in which the windows are full; up to there each pass reads one token more in all 62 layers.
    const curve = createCurve();
    decodeCurve(windowed, 16, 16 * 500, 1, curve);
    expect(curve.validPasses).toBe(1024 - 500 + 1);
    expect(curve.c1Ns).toBeCloseTo((16 * 62 * layerBytes * 1e9) / (gpu.hbmBytesPerSecond * profile.kvEfficiency), 3);
  });

  it('read a window for each sequence that decodes, and score one for each token of a prompt', () => {
    const none = createPassShape();
    const passNs = (shape: Partial<PassShape>): number => rooflineMixedNs(windowed, { ...none, ...shape });
    // What eight times as much context adds is the reading of the whole layers alone.
    const decodes = (context: number): number => passNs({ decodeSequences: 16, decodeContextTokens: 16 * context });
    const kvRate = gpu.hbmBytesPerSecond * profile.kvEfficiency;
    expect(decodes(16_000) - decodes(2000)).toBeCloseTo((16 * 14_000 * 10 * layerBytes * 1e9) / kvRate, 0);
    // Against a model that keeps all: 52 layers fewer of context, less what a window holds.
    const saved = rooflineMixedNs(dense, { ...none, decodeSequences: 16, decodeContextTokens: 16 * 16_000 }) - decodes(16_000);
    expect(saved).toBeCloseTo((16 * (16_000 - 1024) * 52 * layerBytes * 1e9) / kvRate, 0);
    // Pairs of one head of one layer: scores and values, 2 FLOPs a number each.
    const pairNs = ((4 * 128 * 32) / (gpu.denseFlops.bf16 * profile.attentionEfficiency)) * 1e9;
    const tokens = 8192;
    const pairs = (tokens * (tokens + 1)) / 2;
    const prompt = { prefillSequences: 1, prefillTokens: tokens, prefillPairs: pairs, prefillSampled: 1 };
    expect(rooflineMixedNs(dense, { ...none, ...prompt }) - passNs(prompt)).toBeCloseTo(52 * (pairs - tokens * 1024) * pairNs, -1);
  });
});

describe('layers of linear attention', () => {
  const next = modelNamed(catalogue, 'Qwen3-Next-80B-A3B');
  /** Of 36 layers: 32 matrices of 128 x 128 at 32 bit, and three inputs of the convolution of queries, keys and values at 16. */
  const stateBytes = 36 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2);

  it('keep a state for each sequence, whatever its length', () => {
    expect(kvBytesPerToken(next, 'bf16')).toBe(12 * 2 * 2 * 256 * 2);
    expect(fixedKvOf(next, 'bf16', { tensorParallel: 2 })).toEqual({ windowTokens: 0, windowBytesPerToken: 0, stateBytes });
    const options = { gpu, model: next, tensorParallel: 2, weightPrecision: 'fp8', kvPrecision: 'bf16', blockTokens: 16 } as const;
    const at = (maxSequences: number): number => kvCapacity({ ...options, maxSequences }).sequenceBytesPerGpu;
    expect(at(256)).toBe((256 * stateBytes) / 2);
  });

  it('read and write the state of each sequence that decodes', () => {
    const timing = createRoofline({ gpu, model: next, profile, tensorParallel: 1, weightPrecision: 'fp8', kvPrecision: 'bf16' });
    expect(timing.fixedSequenceNs).toBeCloseTo((2 * stateBytes * 1e9) / (gpu.hbmBytesPerSecond * profile.kvEfficiency), 3);
    // Decay, what the key finds, the new value, the answer to the query: 6 FLOPs a number of the state.
    expect(timing.fixedTokenNs).toBeCloseTo((6 * 36 * 32 * 128 * 128 * 1e9) / (gpu.denseFlops.bf16 * profile.attentionEfficiency), 6);
  });
});
