import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { refuse } from './arguments.js';

/** What `--measured` expects; shown by its errors and `--help`. */
export const measuredFormat = `DIR holds two JSON files, described in docs/accuracy.md:
  engine_latency.json             an array of sweeps {gpu, model, tp, block_size, max_kv_tokens, prefill: [{input_tokens, ttft_ms}],
                                  decode: [{kv_usage, context_tokens, itl_ms, tokens_per_s_per_gpu}]}
  serving_b200_70b_fp4_tp8.json   {gpu, model, tp, runs: [{clients, requests, ttft_ms: {p50}, tpot_ms: {p50}, prefix_hit_percent,
                                  input_tokens: {mean, p50}, output_tokens: {mean, p50}}]}`;

type Shape = 'text' | 'positive' | 'share' | { readonly [key: string]: Shape } | readonly [Shape];

const sweeps: Shape = [
  {
    gpu: 'text',
    model: 'text',
    tp: 'positive',
    block_size: 'positive',
    max_kv_tokens: 'positive',
    prefill: [{ input_tokens: 'positive', ttft_ms: 'positive' }],
    decode: [{ kv_usage: 'positive', context_tokens: 'positive', itl_ms: 'positive', tokens_per_s_per_gpu: 'positive' }],
  },
];
const lengths: Shape = { mean: 'positive', p50: 'positive' };
const serving: Shape = {
  gpu: 'text',
  model: 'text',
  tp: 'positive',
  runs: [
    {
      clients: 'positive',
      requests: 'positive',
      ttft_ms: { p50: 'positive' },
      tpot_ms: { p50: 'positive' },
      prefix_hit_percent: 'share',
      input_tokens: lengths,
      output_tokens: lengths,
    },
  ],
};

/** Refuses a folder without the two files. @throws Error naming file, place and value where their content is wrong. */
export function checkMeasuredFolder(command: Command, folder: string): void {
  for (const [name, shape] of [
    ['engine_latency.json', sweeps],
    ['serving_b200_70b_fp4_tp8.json', serving],
  ] as const) {
    const path = join(folder, name);
    if (!existsSync(path)) refuse(command, `--measured: '${folder}' has no ${name}. ${measuredFormat}`);
    checkShape(path, '', parse(path), shape);
  }
}

function parse(path: string): unknown {
  try {
    return JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new Error(`${path} is not valid JSON: ${(error as Error).message}`);
  }
}

function checkShape(path: string, place: string, value: unknown, shape: Shape): void {
  const expected = expectation(value, shape);
  if (expected !== undefined)
    throw new Error(`${path}: ${place || 'the whole'} is ${JSON.stringify(value)?.slice(0, 60) ?? 'missing'}, expected ${expected}`);
  if (Array.isArray(shape)) {
    for (const [index, item] of (value as unknown[]).entries()) checkShape(path, `${place}[${index}]`, item, shape[0] as Shape);
  } else if (typeof shape === 'object') {
    const fields = value as Record<string, unknown>;
    for (const [key, inner] of Object.entries(shape)) checkShape(path, place === '' ? key : `${place}.${key}`, fields[key], inner);
  }
}

/** What the value should have been; undefined when it is that. */
function expectation(value: unknown, shape: Shape): string | undefined {
  if (shape === 'text') return typeof value === 'string' ? undefined : 'a text';
  if (shape === 'positive') return typeof value === 'number' && value > 0 ? undefined : 'a number above 0';
  if (shape === 'share') return typeof value === 'number' && value >= 0 && value <= 100 ? undefined : 'a percentage from 0 to 100';
  if (Array.isArray(shape)) return Array.isArray(value) ? undefined : 'an array';
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? undefined : 'an object';
}
