import {
  createRoofline,
  gpuNamed,
  kvBytesPerToken,
  kvBytesPerTokenPerGpu,
  kvCapacity,
  loadCatalogue,
  modelNamed,
  profileNamed,
  rooflineMixedNs,
  weightBytesPerGpu,
  windowBytesPerTokenPerGpu,
} from '@braess/serving';
import { describe, expect, it } from 'vitest';

const catalogue = loadCatalogue();
const gpu = gpuNamed(catalogue, 'H100');
const model = modelNamed(catalogue, 'Gemma-3-27B');
/** Keys and values of 16 heads of 128 numbers at 16 bit, in 10 whole layers and in 52 that look back 1,024 tokens. */
const layerBytes = 2 * 16 * 128 * 2;

describe('layers that look back over a window', () => {
  it('keep no KV for each token of the context, but a window for each sequence', () => {
    expect(kvBytesPerToken(model, 'bf16')).toBe(10 * layerBytes);
    const division = { tensorParallel: 4 };
    expect(kvBytesPerTokenPerGpu(model, 'bf16', division)).toBe((10 * layerBytes) / 4);
    expect(windowBytesPerTokenPerGpu(model, 'bf16', division)).toBe((52 * layerBytes) / 4);
    const options = { gpu, model, ...division, weightPrecision: 'bf16', kvPrecision: 'bf16', blockTokens: 16 } as const;
    const weights = weightBytesPerGpu(model, 'bf16', division);
    for (const maxSequences of [8, 64]) {
      const windows = (maxSequences * 1024 * 52 * layerBytes) / 4;
      const capacity = kvCapacity({ ...options, maxSequences });
      expect(capacity.windowBytesPerGpu).toBe(windows);
      expect(capacity.blocks).toBe(Math.floor((0.9 * gpu.hbmBytes - 4e9 - weights - windows) / (16 * ((10 * layerBytes) / 4))));
    }
    expect(() => kvCapacity({ ...options, maxSequences: 1024 })).toThrow(
      /does not fit: .* 111\.7 GB for the windows of 1024 sequences \(maxSequences\)/,
    );
  });

  it('read a window for each sequence that decodes, and score one for each token of a prompt', () => {
    const profile = profileNamed(catalogue, 'default');
    const timing = createRoofline({ gpu, model, profile, tensorParallel: 1, weightPrecision: 'bf16', kvPrecision: 'bf16' });
    const none = {
      decodeSequences: 0,
      decodeContextTokens: 0,
      prefillSequences: 0,
      prefillTokens: 0,
      prefillPairs: 0,
      prefillContextTokens: 0,
      prefillSampled: 0,
    };
    const passNs = (shape: Partial<typeof none>): number => rooflineMixedNs(timing, { ...none, ...shape });
    // What eight times as much context adds is the reading of the whole layers alone.
    const decodes = (context: number): number => passNs({ decodeSequences: 16, decodeContextTokens: 16 * context });
    const kvRate = gpu.hbmBytesPerSecond * profile.kvEfficiency;
    expect(decodes(16_000) - decodes(2000)).toBeCloseTo((16 * 14_000 * 10 * layerBytes * 1e9) / kvRate, 0);
    const dense = createRoofline({
      gpu,
      model: { ...model, window: null },
      profile,
      tensorParallel: 1,
      weightPrecision: 'bf16',
      kvPrecision: 'bf16',
    });
    // Against a model that keeps all: 52 layers fewer of context, less what a window holds.
    const saved = rooflineMixedNs(dense, { ...none, decodeSequences: 16, decodeContextTokens: 16 * 16_000 }) - decodes(16_000);
    expect(saved).toBeCloseTo((16 * (16_000 - 1024) * 52 * layerBytes * 1e9) / kvRate, 0);
    // Pairs of one head of one layer: scores and values, 2 FLOPs a number each.
    const pairNs = ((4 * 128 * 32) / (gpu.denseFlops.bf16 * profile.attentionEfficiency)) * 1e9;
    const tokens = 8192;
    const prompt = { prefillSequences: 1, prefillTokens: tokens, prefillPairs: (tokens * (tokens + 1)) / 2, prefillSampled: 1 };
    expect(rooflineMixedNs(dense, { ...none, ...prompt }) - passNs(prompt)).toBeCloseTo(
      52 * ((tokens * (tokens + 1)) / 2 - tokens * 1024) * pairNs,
      -1,
    );
  });
});
