import { createRoofline, gpuNamed, loadCatalogue, modelNamed, profileNamed, type RooflineOptions } from '@braess/serving';
import { describe, expect, it } from 'vitest';

const catalogue = loadCatalogue();
const h100 = gpuNamed(catalogue, 'H100');
const profile = profileNamed(catalogue, 'default');
const r1 = modelNamed(catalogue, 'DeepSeek-R1');

function collectives(options: Partial<RooflineOptions> & Pick<RooflineOptions, 'tensorParallel'>) {
  return createRoofline({ gpu: h100, model: r1, profile, weightPrecision: 'fp8', kvPrecision: 'bf16', ...options });
}

describe('exchanges between the experts of DeepSeek-R1', () => {
  // Dispatch and combine together, us: DeepEP's low-latency kernels on H800 with 128 tokens a GPU (docs/legacy.md of its repository).
  const published = new Map([
    [8, 77 + 114],
    [16, 118 + 195],
    [32, 155 + 273],
    [64, 173 + 314],
    [128, 192 + 369],
    [256, 194 + 360],
  ]);
  // Its NVLink reaches 160 GB/s there.
  const h800 = { ...h100, name: 'H800', nvlinkBytesPerSecond: 160e9 / profile.collectiveEfficiency };

  function layerUs(gpus: number): number {
    const servers = gpus / 8;
    const timing = collectives({ gpu: h800, tensorParallel: gpus, attention: 'data-parallel', servers });
    return (timing.collectivePassNs + 128 * timing.decodeCollectiveTokenNs) / 58 / 1e3;
  }

  it('take the published times: up to 64 GPUs by a fit of their fixed part, beyond by prediction', () => {
    for (const gpus of [8, 16, 32, 64]) expect(Math.abs(layerUs(gpus) / published.get(gpus)! - 1)).toBeLessThan(0.02);
    for (const gpus of [128, 256]) expect(Math.abs(layerUs(gpus) / published.get(gpus)! - 1)).toBeLessThan(0.1);
  });

  it('send a copy for each expert in a pass of decodes, and one to each server in a pass with prompts', () => {
    const timing = collectives({ tensorParallel: 32, attention: 'data-parallel', servers: 4 });
    const copyNs = ((58 * 7168 * 3) / h100.nicBytesPerSecond) * 1e9;
    expect(timing.decodeCollectiveTokenNs).toBeCloseTo(8 * (3 / 4) * copyNs, 3);
    // Eight experts in four servers alike: so many of the other three have one or more.
    const reached = 3 * (1 - (3 / 4) ** 8);
    expect(timing.collectiveTokenNs).toBeCloseTo(reached * copyNs, 3);
  });

  it('go over NVLink alone within a server', () => {
    const timing = collectives({ tensorParallel: 8, attention: 'data-parallel', networkBytesPerSecond: 1 });
    const copyNs = ((58 * 7168 * 3) / (h100.nvlinkBytesPerSecond * profile.collectiveEfficiency)) * 1e9;
    expect(timing.decodeCollectiveTokenNs).toBeCloseTo(7 * copyNs, 3);
    expect(timing.collectiveTokenNs).toBeCloseTo(7 * (1 - (7 / 8) ** 8) * copyNs, 3);
  });
});

describe('all-reduces of tensor parallelism over several servers', () => {
  const model = modelNamed(catalogue, 'Llama-3.1-405B');

  it('move at what the NICs of a server carry together, where that is less than an NVLink', () => {
    const sentBytes = 2 * 126 * 16_384 * 2 * 2 * (15 / 16);
    const nvlink = h100.nvlinkBytesPerSecond * profile.collectiveEfficiency;
    const at = (networkBytesPerSecond: number) => collectives({ model, tensorParallel: 16, servers: 2, networkBytesPerSecond });
    expect(at(25e9).collectiveTokenNs).toBeCloseTo((sentBytes / (8 * 25e9)) * 1e9, 3);
    expect(at(50e9).collectiveTokenNs).toBeCloseTo((sentBytes / nvlink) * 1e9, 3);
    expect(at(25e9).decodeCollectiveTokenNs).toBe(at(25e9).collectiveTokenNs);
  });

  it('take two hops of 5 us more for each level of a tree of servers', () => {
    const passUs = (servers: number): number =>
      collectives({ model, tensorParallel: 8 * servers, servers }).collectivePassNs / (2 * 126) / 1e3;
    expect([1, 2, 4, 8].map(passUs)).toEqual([10, 20, 30, 40]);
  });
});
