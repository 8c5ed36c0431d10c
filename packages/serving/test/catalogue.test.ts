import {
  addCatalogueEntries,
  gpuNamed,
  kvBytesPerToken,
  kvBytesPerTokenPerGpu,
  kvCapacity,
  loadCatalogue,
  modelNamed,
  profileFor,
  weightBytesPerGpu,
} from '@braess/serving';
import { describe, expect, it } from 'vitest';
import { totalParameters } from './support.js';

const catalogue = loadCatalogue();

describe('KV bytes of a token at 16 bit', () => {
  // Published shapes multiplied out by hand: 2 x layers x KV heads x head size x 2 bytes; MLA: layers x (512 + 64) x 2 bytes.
  const cases: [string, number][] = [
    ['Llama-3.1-8B', 131_072],
    ['Llama-3.1-70B', 327_680],
    ['Llama-3.1-405B', 516_096],
    ['Nemotron-4-340B', 589_824],
    ['DeepSeek-R1', 70_272],
    ['Qwen3-32B', 262_144],
    ['Qwen3-235B-A22B', 192_512],
  ];
  for (const [name, bytes] of cases) {
    it(`${name}: ${bytes}`, () => {
      expect(kvBytesPerToken(modelNamed(catalogue, name), 'bf16')).toBe(bytes);
      expect(kvBytesPerToken(modelNamed(catalogue, name), 'fp8')).toBe(bytes / 2);
    });
  }

  it('splits KV heads over ranks, duplicates them beyond their number, replicates MLA', () => {
    expect(kvBytesPerTokenPerGpu(modelNamed(catalogue, 'Llama-3.1-70B'), 'bf16', { tensorParallel: 4 })).toBe(327_680 / 4);
    expect(kvBytesPerTokenPerGpu(modelNamed(catalogue, 'Qwen3-235B-A22B'), 'bf16', { tensorParallel: 4 })).toBe(192_512 / 4);
    expect(kvBytesPerTokenPerGpu(modelNamed(catalogue, 'Qwen3-235B-A22B'), 'bf16', { tensorParallel: 8 })).toBe(192_512 / 4);
    expect(kvBytesPerTokenPerGpu(modelNamed(catalogue, 'DeepSeek-R1'), 'bf16', { tensorParallel: 8 })).toBe(70_272);
    expect(() => kvBytesPerTokenPerGpu(modelNamed(catalogue, 'Llama-3.1-70B'), 'bf16', { tensorParallel: 3 })).toThrow(
      /tensor parallel 3 .*64 attention heads/,
    );
  });
});

describe('parameters and memory', () => {
  it('gives the published parameter counts', () => {
    // Totals from the model cards and reports, modules for multi-token prediction left out.
    const published: [string, number, number?][] = [
      ['Llama-3.1-8B', 8.03e9],
      ['Llama-3.1-70B', 70.6e9],
      ['Llama-3.1-405B', 405.9e9],
      ['Nemotron-4-340B', 341e9],
      ['DeepSeek-R1', 671e9],
      ['Qwen3-32B', 32.8e9],
      ['Qwen3-235B-A22B', 235e9],
      ['Llama-3.2-3B', 3.21e9],
      ['Llama-3.3-70B', 70.6e9],
      ['Mistral-Small-24B', 23.6e9],
      ['Mixtral-8x7B', 46.7e9],
      ['Mixtral-8x22B', 140.6e9],
      ['Qwen2.5-7B', 7.62e9],
      ['Qwen2.5-32B', 32.8e9],
      ['Qwen2.5-72B', 72.7e9],
      ['Qwen3-8B', 8.2e9],
      ['Qwen3-30B-A3B', 30.5e9],
      ['Qwen3-Coder-480B-A35B', 480e9],
      ['DeepSeek-V3', 671e9],
      // Its report rounds to 1.04 trillion, its card to 1.
      ['Kimi-K2', 1.04e12, 0.015],
      ['GLM-4.5-Air', 106.85e9],
      ['gpt-oss-20b', 20.9e9],
      ['gpt-oss-120b', 116.8e9],
      ['Gemma-3-27B', 27.0e9],
      ['Qwen3-Next-80B-A3B', 79.67e9],
    ];
    expect(published.map(([name]) => name)).toEqual([...catalogue.models.keys()]);
    for (const [name, total, tolerance = 0.01] of published) {
      expect(Math.abs(totalParameters(modelNamed(catalogue, name)) / total - 1), name).toBeLessThan(tolerance);
    }
  });

  it('derives the KV tokens that vLLM reported, within 3 %', () => {
    const options = { weightPrecision: 'fp8', kvPrecision: 'bf16', blockTokens: 128 } as const;
    const h100 = kvCapacity({
      ...options,
      gpu: gpuNamed(catalogue, 'H100'),
      model: modelNamed(catalogue, 'Llama-3.1-70B'),
      tensorParallel: 2,
    });
    const h200 = kvCapacity({
      ...options,
      gpu: gpuNamed(catalogue, 'H200'),
      model: modelNamed(catalogue, 'Llama-3.1-8B'),
      tensorParallel: 1,
    });
    expect(Math.abs(h100.tokens / 224_133 - 1)).toBeLessThan(0.03);
    expect(Math.abs(h200.tokens / 945_029 - 1)).toBeLessThan(0.03);
  });

  it('refuses what does not fit, with the sums', () => {
    const r1 = { model: modelNamed(catalogue, 'DeepSeek-R1'), weightPrecision: 'fp8', kvPrecision: 'bf16', blockTokens: 64 } as const;
    expect(() => kvCapacity({ ...r1, gpu: gpuNamed(catalogue, 'H100'), tensorParallel: 8 })).toThrow(
      /DeepSeek-R1 with fp8 weights on 8 x H100 does not fit: 8\d\.\d GB of weights a GPU/,
    );
    expect(kvCapacity({ ...r1, gpu: gpuNamed(catalogue, 'H200'), tensorParallel: 8 }).blocks).toBeGreaterThan(1000);
  });

  it('takes a given number of blocks, but not more than fit', () => {
    const options = {
      gpu: gpuNamed(catalogue, 'H100'),
      model: modelNamed(catalogue, 'Llama-3.1-8B'),
      tensorParallel: 1,
      weightPrecision: 'bf16',
      kvPrecision: 'bf16',
      blockTokens: 16,
    } as const;
    const derived = kvCapacity(options);
    expect(kvCapacity({ ...options, blocks: 100 }).tokens).toBe(1600);
    expect(() => kvCapacity({ ...options, blocks: derived.blocks + 1 })).toThrow(new RegExp(`leaves room for ${derived.blocks}`));
    expect(kvCapacity({ ...options, memoryUtilisation: 0.5 }).blocks).toBeLessThan(derived.blocks);
    expect(kvCapacity({ ...options, reserveBytes: 0 }).blocks).toBe(derived.blocks + Math.floor(4e9 / (131_072 * 16)));
  });

  it('keeps weight and KV precision apart', () => {
    const model = modelNamed(catalogue, 'Llama-3.1-70B');
    expect(weightBytesPerGpu(model, 'fp8', { tensorParallel: 4 })).toBeLessThan(
      0.52 * weightBytesPerGpu(model, 'bf16', { tensorParallel: 4 }),
    );
    const options = { gpu: gpuNamed(catalogue, 'H100'), model, tensorParallel: 4, weightPrecision: 'fp8', blockTokens: 64 } as const;
    const ratio = kvCapacity({ ...options, kvPrecision: 'fp8' }).blocks / kvCapacity({ ...options, kvPrecision: 'bf16' }).blocks;
    expect(Math.abs(ratio - 2)).toBeLessThan(0.001);
  });
});

describe('catalogue files', () => {
  it('holds the GPUs of the field, every number with a source', () => {
    expect([...catalogue.gpus.keys()]).toEqual(expect.arrayContaining(['A100-80G', 'H100', 'H200', 'B200', 'GB200', 'L40S', 'RTX-4090']));
    for (const gpu of catalogue.gpus.values()) {
      const numbers = Object.keys(gpu.denseFlops).length + 5;
      expect(Object.values(gpu.sources).filter((source) => source.length > 5)).toHaveLength(numbers);
    }
    expect(gpuNamed(catalogue, 'H100').nvlinkBytesPerSecond).toBe(450e9);
    expect(gpuNamed(catalogue, 'B200').nvlinkBytesPerSecond).toBe(900e9);
    expect(gpuNamed(catalogue, 'H200').nicBytesPerSecond).toBe(50e9);
    expect(gpuNamed(catalogue, 'GB200').nicBytesPerSecond).toBe(100e9);
    // KV goes over PCIe to the NIC: a slower bus would be what transfers get.
    for (const gpu of catalogue.gpus.values()) expect(gpu.pcieBytesPerSecond, gpu.name).toBeGreaterThanOrEqual(gpu.nicBytesPerSecond);
  });

  it('takes entries of users, the later replacing the earlier', () => {
    const own = loadCatalogue();
    const model = {
      name: 'mine',
      source: 'me',
      attention: 'gqa',
      layers: 2,
      hidden: 64,
      attentionHeads: 4,
      keyValueHeads: 2,
      headSize: 16,
    };
    addCatalogueEntries(
      own,
      JSON.stringify({ models: [{ ...model, intermediate: 128, mlpMatrices: 3, vocabulary: 100, contextTokens: 512 }] }),
      'mine.json',
    );
    expect(kvBytesPerToken(modelNamed(own, 'mine'), 'bf16')).toBe(2 * 2 * 2 * 16 * 2);
  });

  it('names place, field, value and what is allowed', () => {
    const own = loadCatalogue();
    const add = (text: string) => () => addCatalogueEntries(own, text, 'mine.json');
    expect(add('{')).toThrow(/mine\.json: not valid JSON/);
    expect(add('[]')).toThrow(/must be an object/);
    expect(add('{"gpu": []}')).toThrow(/unknown list "gpu"; allowed are gpus, models, profiles/);
    expect(add('{"gpus": [{"name": "X", "denseFlops": {"bf16": {"value": -1, "source": "s"}}}]}')).toThrow(
      /gpus\[0\] \(X\)\.denseFlops\.bf16\.value: is -1/,
    );
    expect(add('{"gpus": [{"name": "X", "denseFlops": {"bf16": {"value": 1}}}]}')).toThrow(/bf16\.source: must be a non-empty text/);
    expect(add('{"models": [{"name": "X", "source": "s", "attention": "mha"}]}')).toThrow(
      /attention: is "mha"; allowed are "gqa" and "mla"/,
    );
    expect(add('{"models": [{"name": "X", "source": "s", "attention": "gqa", "layers": 1.5}]}')).toThrow(
      /layers: is 1\.5; must be an integer/,
    );
    const shape = '"layers": 2, "hidden": 64, "attentionHeads": 4, "keyValueHeads": 2, "headSize": 16, "intermediate": 128';
    const model = (more: string) =>
      add(
        `{"models": [{"name": "X", "source": "s", "attention": "gqa", ${shape}, "mlpMatrices": 3, "vocabulary": 100, "contextTokens": 512, ${more}}]}`,
      );
    expect(model('"tiedEmbeddings": "yes"')).toThrow(/\(X\)\.tiedEmbeddings: is "yes"; must be true or false/);
    expect(model('"window": {"tokens": 8, "layers": 2}')).toThrow(/windows and linear attention have 2 of 2 layers; at least one must/);
    expect(model('"window": {"tokens": 8, "layers": 1}')).not.toThrow();
    expect(() => gpuNamed(own, 'H1000')).toThrow(/unknown GPU "H1000"; known are A100-80G, H100/);
  });

  it('finds the fitted profile, else the nearest', () => {
    expect(profileFor(catalogue, 'H100', 'Llama-3.1-70B').name).toBe('vllm-h100-llama-70b');
    expect(profileFor(catalogue, 'B200', 'Llama-3.1-70B').name).toBe('vllm-b200-llama-70b');
    expect(profileFor(catalogue, 'H100', 'Llama-3.1-8B').name).toBe('vllm-h200-llama-8b');
    expect(profileFor(catalogue, 'L40S', 'Qwen3-32B').name).toBe('default');
    for (const profile of catalogue.profiles.values()) expect(Object.keys(profile.bases)).toHaveLength(12);
  });
});
