import {
  createCurve,
  createPassShape,
  createRoofline,
  decodeCurve,
  gpuNamed,
  loadCatalogue,
  mixedPassNs,
  modelNamed,
  profileNamed,
} from '@braess/serving';
import { describe, expect, it } from 'vitest';

const catalogue = loadCatalogue();
const gpu = gpuNamed(catalogue, 'H100');
const model = modelNamed(catalogue, 'Llama-3.1-8B');
const profile = profileNamed(catalogue, 'default');
const speculation = { draftTokens: 3, acceptance: 0.8, draftMs: 0.4 };
const options = { gpu, model, profile, tensorParallel: 1, weightPrecision: 'bf16', kvPrecision: 'bf16' } as const;

/** ns until each of so many sequences has its next token, contexts of `each` tokens. */
function stepNs(timing: ReturnType<typeof createRoofline>, sequences: number, each: number): number {
  const curve = createCurve();
  decodeCurve(timing, sequences, sequences * each, 1, curve);
  return curve.c0Ns;
}

describe('decoding with drafted tokens', () => {
  it('puts out as many tokens a pass as a run of accepted drafts is long, and one', () => {
    // Runs of 0, 1, 2 with the draft that ends them, and of 3.
    const runs = [0.2, 0.8 * 0.2, 0.8 * 0.8 * 0.2, 0.8 * 0.8 * 0.8];
    const mean = runs.reduce((sum, probability, length) => sum + probability * (length + 1), 0);
    expect(createRoofline({ ...options, speculation }).passTokens).toBeCloseTo(mean, 12);
    expect(createRoofline({ ...options, speculation: { ...speculation, acceptance: 1 } }).passTokens).toBe(4);
    expect(createRoofline({ ...options, speculation: { ...speculation, acceptance: 0 } }).passTokens).toBe(1);
  });

  it('takes the time of a pass with four times the rows, whose KV is read once, and of three drafts', () => {
    const timing = createRoofline({ ...options, speculation });
    const weights = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14_336);
    const headBytes = 2 * 128_256 * 4096;
    for (const [sequences, each] of [
      [8, 2000],
      [160, 50],
    ] as const) {
      const rows = 4 * sequences;
      const padded = rows <= 64 ? 64 : Math.ceil(rows / profile.gemmTileTokens) * profile.gemmTileTokens;
      const rate = gpu.denseFlops.bf16 * profile.gemm16Efficiency;
      const linearS = Math.max(
        (2 * weights + headBytes) / (gpu.hbmBytesPerSecond * profile.memoryEfficiency),
        (2 * padded * weights + 2 * rows * 128_256 * 4096) / rate,
      );
      const readS = (sequences * each * 131_072) / (gpu.hbmBytesPerSecond * profile.kvEfficiency);
      const scoreS = (rows * each * 32 * 32 * 4 * 128) / (gpu.denseFlops.bf16 * profile.attentionEfficiency);
      const hostS = profile.hostPassUs * 1e-6 + sequences * profile.hostSequenceUs * 1e-6;
      const passS = hostS + 3 * 0.4e-3 + linearS + Math.max(readS, scoreS);
      expect(stepNs(timing, sequences, each) / 1e9).toBeCloseTo(passS / timing.passTokens, 9);
    }
  });

  it('is no quicker where nothing is accepted, and drafts nothing beside prompts', () => {
    const plain = createRoofline(options);
    const none = createRoofline({ ...options, speculation: { draftTokens: 3, acceptance: 0, draftMs: 0 } });
    expect(stepNs(none, 8, 2000)).toBeGreaterThanOrEqual(stepNs(plain, 8, 2000));
    const timing = createRoofline({ ...options, speculation });
    const shape = { ...createPassShape(), decodeSequences: 8, decodeContextTokens: 16_000 };
    expect(mixedPassNs(timing, shape, 1)).toBe(Math.round(stepNs(timing, 8, 2000)));
    const prompts = { ...shape, prefillSequences: 1, prefillTokens: 500, prefillPairs: 125_250, prefillContextTokens: 500 };
    expect(mixedPassNs(timing, prompts, 1)).toBe(mixedPassNs(plain, prompts, 1));
  });
});
