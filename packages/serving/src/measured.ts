import { readFileSync } from 'node:fs';

/** One sweep of a single engine: prompts alone, and decodes by batch and context. */
export interface EngineSweep {
  gpu: string;
  model: string;
  tp: number;
  engine: string;
  block_size: number;
  max_kv_tokens: number;
  prefill: { input_tokens: number; ttft_ms: number }[];
  decode: { kv_usage: number; context_tokens: number; itl_ms: number; tokens_per_s_per_gpu: number }[];
}

/** Runs of chat clients against one engine. */
export interface ServingRuns {
  gpu: string;
  model: string;
  tp: number;
  runs: {
    clients: number;
    requests: number;
    requests_per_s: number;
    ttft_ms: { p50: number };
    tpot_ms: { p50: number };
    prefix_hit_percent: number;
    input_tokens: { mean: number; p50: number };
    output_tokens: { mean: number; p50: number };
  }[];
}

export interface Measured {
  sweeps: EngineSweep[];
  serving: ServingRuns;
}

/** Reads `engine_latency.json` and `serving_b200_70b_fp4_tp8.json` of a folder. */
export function readMeasured(folder: string): Measured {
  return {
    sweeps: JSON.parse(readFileSync(`${folder}/engine_latency.json`, 'utf8')) as EngineSweep[],
    serving: JSON.parse(readFileSync(`${folder}/serving_b200_70b_fp4_tp8.json`, 'utf8')) as ServingRuns,
  };
}

/** Sequences of a decode row: its KV tokens over its context. */
export function batchOf(sweep: EngineSweep, row: EngineSweep['decode'][number]): number {
  return Math.round((row.kv_usage * sweep.max_kv_tokens) / row.context_tokens);
}

/** The profiler asks each request of a decode row for this many output tokens. */
export const sweepOutputTokens = 500;

/**
 * Whether the prompts of the decode rows sat in the prefix cache: the throughput of a request alone gives its whole time, less its
 * tokens the time of its prompt, to be held against the measured prefill. Throughput is first scaled so that the shortest row has rate 1 / ITL.
 */
export function promptsWereCached(sweep: EngineSweep): boolean {
  const alone = sweep.decode.filter((row) => batchOf(sweep, row) === 1).sort((a, b) => a.context_tokens - b.context_tokens);
  const shortest = alone[0];
  const longest = alone[alone.length - 1];
  if (shortest === undefined || longest === undefined) throw new Error(`${sweep.model} TP${sweep.tp}: no decode row of a single request`);
  const scale = Math.round(1000 / (shortest.itl_ms * shortest.tokens_per_s_per_gpu));
  const wholeMs = (sweepOutputTokens * 1000) / (longest.tokens_per_s_per_gpu * scale);
  const promptMs = wholeMs - (sweepOutputTokens - 1) * longest.itl_ms;
  const reference = [...sweep.prefill].reverse().find((row) => row.input_tokens <= longest.context_tokens);
  if (reference === undefined) throw new Error(`${sweep.model} TP${sweep.tp}: no prefill row up to ${longest.context_tokens} tokens`);
  return promptMs < reference.ttft_ms / 2;
}
