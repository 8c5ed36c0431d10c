import {
  createCurve,
  createPassShape,
  createPolynomial,
  createRoofline,
  decodeCurve,
  elapsedNs,
  expectedExperts,
  gpuNamed,
  importDynamoProfile,
  loadCatalogue,
  mixedPassNs,
  modelNamed,
  passesWithin,
  profileFor,
  type TimingModel,
  tableWarnings,
} from '@braess/serving';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { plainTiming } from './support.ts';

const profile = {
  prefill_isl: [3000, 100, 1000],
  prefill_ttft: [130, 20, 60],
  x_kv_usage: [0.1, 0.5, 0.9, 0.05, 0.4, 0.8],
  y_context_length: [1000, 1000, 1000, 4000, 4000, 4000],
  z_itl: [8, 12, 20, 9, 11, 25],
  max_kv_tokens: 100_000,
};

const timings: [string, () => TimingModel][] = [
  ['roofline', () => plainTiming()],
  [
    'roofline of GPUs with sequences of their own',
    () => plainTiming({ ranks: 4, sharedTokenNs: 300, fixedSequenceNs: 5000, fixedTokenNs: 40 }),
  ],
  ['roofline of layers with windows', () => plainTiming({ ranks: 4, windowTokens: 1500, windowContextNs: 90, windowPairNs: 0.7 })],
  [
    'roofline of windows and launches one by one',
    () => plainTiming({ launchPassNs: 12_000_000, windowTokens: 1500, windowContextNs: 90, windowPairNs: 0.7 }),
  ],
  ['polynomial', () => createPolynomial(100_000)],
  ['table', () => importDynamoProfile(profile, 'test')],
];

/** The time of one decode pass by itself: a pass with no chunks. */
function singlePassNs(timing: TimingModel, sequences: number, contextTokens: number): number {
  return mixedPassNs(timing, { ...createPassShape(), decodeSequences: sequences, decodeContextTokens: contextTokens }, 1);
}

describe('the closed form', () => {
  for (const [name, timing] of timings) {
    it(`${name}: equals the sum of single passes while it holds`, () => {
      fc.assert(
        fc.property(
          fc.integer({ min: 1, max: 60 }),
          fc.integer({ min: 600, max: 5000 }),
          fc.integer({ min: 1, max: 400 }),
          (sequences, mean, wanted) => {
            const model = timing();
            const context = sequences * mean;
            const curve = createCurve();
            decodeCurve(model, sequences, context, 1, curve);
            const passes = Math.min(wanted, curve.validPasses);
            let sumNs = 0;
            for (let pass = 0; pass < passes; pass++) sumNs += singlePassNs(model, sequences, context + pass * sequences);
            // Each single pass is rounded to 1 ns.
            expect(Math.abs(elapsedNs(curve, passes) - sumNs)).toBeLessThanOrEqual(passes * 0.5 + 1);
            const insideNs = elapsedNs(curve, passes) - 1;
            expect(passesWithin(curve, insideNs, 0, passes)).toBe(passes - 1);
            expect(passesWithin(curve, insideNs + 1, 0, passes)).toBe(passes);
          },
        ),
        { numRuns: 100, seed: 5 },
      );
    });
  }

  it('is rounded to the nearest nanosecond as a whole, not pass by pass', () => {
    const curve = { ...createCurve(), c0Ns: 10.6, c1Ns: 0.1 };
    // 10.6; 21.2 + 0.1; 31.8 + 0.3; 42.4 + 0.6
    expect([1, 2, 3, 4].map((passes) => elapsedNs(curve, passes))).toEqual([11, 21, 32, 43]);
  });

  it('scales with the speed of the slowest GPU', () => {
    const curve = createCurve();
    const half = createCurve();
    decodeCurve(plainTiming(), 4, 4000, 1, curve);
    decodeCurve(plainTiming(), 4, 4000, 0.5, half);
    expect(half.c0Ns).toBe(2 * curve.c0Ns);
    expect(half.c1Ns).toBe(2 * curve.c1Ns);
  });
});

describe('roofline', () => {
  const catalogue = loadCatalogue();
  const h100 = gpuNamed(catalogue, 'H100');
  const rooflineOf = (name: string, tensorParallel = 8) => {
    const model = modelNamed(catalogue, name);
    return createRoofline({
      gpu: h100,
      model,
      profile: profileFor(catalogue, 'H100', name),
      tensorParallel,
      weightPrecision: 'fp8',
      kvPrecision: 'bf16',
    });
  };

  it('at batch 1 reads all weights once, by hand', () => {
    const timing = rooflineOf('Llama-3.1-70B', 4);
    // 68.45e9 linear parameters at 1 byte and the head of 128,256 x 8,192 at 2 bytes, over 4 GPUs, at the fitted share of 3.35 TB/s.
    const linear = 80 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672);
    const share = profileFor(catalogue, 'H100', 'Llama-3.1-70B').memoryEfficiency;
    expect(timing.weightNs / 1e6).toBeCloseTo(((linear + 2 * 128256 * 8192) / 4 / (3.35e12 * share)) * 1e3, 6);
  });

  it('reads KV at its own precision and head count', () => {
    const share = profileFor(catalogue, 'H100', 'Llama-3.1-70B').kvEfficiency;
    expect(rooflineOf('Llama-3.1-70B', 4).contextNs).toBeCloseTo((327_680 / 4 / (3.35e12 * share)) * 1e9, 9);
    // Four KV heads on eight ranks: each reads one whole head.
    expect(rooflineOf('Qwen3-235B-A22B', 8).contextNs).toBe(rooflineOf('Qwen3-235B-A22B', 4).contextNs);
  });

  it('a MoE pass reads the distinct experts hit in expectation', () => {
    // Exact for one token; the limit is all experts; in between against the chance that an expert is missed by every token.
    expect(expectedExperts(256, 8, 1)).toBeCloseTo(8, 10);
    expect(expectedExperts(256, 8, 100_000)).toBeCloseTo(256, 6);
    let missed = 1;
    for (let token = 0; token < 40; token++) missed *= 1 - 8 / 256;
    expect(expectedExperts(256, 8, 40)).toBeCloseTo(256 * (1 - missed), 9);
    const timing = rooflineOf('DeepSeek-R1');
    const curve = createCurve();
    decodeCurve(timing, 1, 1000, 1, curve);
    const one = curve.c0Ns;
    decodeCurve(timing, 16, 1000, 1, curve);
    const sixteenReads = expectedExperts(256, 8, 16) - 8;
    expect((curve.c0Ns - one - 15 * (timing.hostSequenceNs + timing.decodeCollectiveTokenNs)) / 1e6).toBeCloseTo(
      (sixteenReads * timing.expertNs) / 1e6,
      6,
    );
  });
});

describe('polynomial', () => {
  it("gives the values of Dynamo's mocker", () => {
    const timing = createPolynomial(1_000);
    const prefill = { ...createPassShape(), prefillSequences: 1, prefillTokens: 1000, prefillContextTokens: 1000 };
    expect(mixedPassNs(timing, prefill, 1)).toBe(Math.round((4.209989e-7 * 1e6 + 1.518344e-2 * 1000 + 16.50142) * 1e6));
    expect(singlePassNs(timing, 1, 500)).toBe(Math.round((-25.74 * 0.25 + 54.01 * 0.5 + 5.74) * 1e6));
    expect(singlePassNs(timing, 1, 0)).toBe(5_740_000);
  });

  it('never goes below its floor', () => {
    const curve = createCurve();
    const timing = { ...createPolynomial(1_000), decodeFloorMs: 10 };
    decodeCurve(timing, 2, 20, 1, curve);
    expect(curve.c0Ns).toBe(10e6);
    // 5.74 + 54.01 u - 25.74 u^2 = 10 at u = 0.0820: the floor holds while 20 + 2 j < 82.0.
    expect(curve.validPasses).toBe(32);
  });
});

describe('table', () => {
  it('returns measured points, and the mean of four in the middle of a cell', () => {
    const grid = { ...profile, x_kv_usage: [0.1, 0.5, 0.1, 0.5], y_context_length: [1000, 1000, 3000, 3000], z_itl: [8, 12, 10, 20] };
    const timing = importDynamoProfile(grid, 'test');
    expect(singlePassNs(timing, 10, 10_000)).toBe(8e6);
    // KV use 0.3 and context 2,000.
    expect(singlePassNs(timing, 15, 30_000)).toBe(12_500_000);
    expect(tableWarnings(timing)).toEqual([]);
    expect(timing.lookups).toBe(2);
  });

  it('clamps, counts and warns outside', () => {
    const timing = importDynamoProfile(profile, 'test');
    expect(singlePassNs(timing, 1, 500)).toBe(8e6);
    expect(singlePassNs(timing, 96, 96_000)).toBe(20e6);
    mixedPassNs(timing, { ...createPassShape(), prefillSequences: 1, prefillTokens: 5000, prefillContextTokens: 5000 }, 1);
    expect(timing.clampedDecodeLookups).toBe(2);
    expect(timing.clampedPrefillLookups).toBe(1);
    expect(tableWarnings(timing).join(' ')).toMatch(
      /1 of 3 lookups .*outside 100\.\.3000 \(last 5000\).*2 of 3 lookups .*\(last use 0\.96, context 1000\)/,
    );
  });

  it('a chunk takes the difference of the times at its ends', () => {
    const timing = importDynamoProfile(profile, 'test');
    const chunk = { ...createPassShape(), prefillSequences: 1, prefillTokens: 1000, prefillContextTokens: 2000 };
    expect(mixedPassNs(timing, chunk, 1)).toBe(35e6);
  });

  it('names what is wrong in a profile', () => {
    const bad = (change: object) => () => importDynamoProfile({ ...profile, ...change }, 'p.json');
    expect(bad({ z_itl: [1, 2] })).toThrow(/p\.json: x_kv_usage, y_context_length, z_itl have 6, 6, 2 values/);
    expect(bad({ prefill_ttft: [1, Number.NaN, 2] })).toThrow(/prefill_ttft\[1\]/);
    expect(bad({ prefill_isl: [1, 1, 2] })).toThrow(/prefill_isl has 1 twice/);
    expect(bad({ max_kv_tokens: 0 })).toThrow(/max_kv_tokens is 0/);
    expect(bad({ prefill_isl: [] })).toThrow(/needs at least 2/);
  });
});
