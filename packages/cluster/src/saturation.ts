import { createCurve, createPassShape, decodeCurve, mixedPassNs } from '@braess/serving';
import type { RequestTable } from '@braess/workload';
import type { GroupPlan } from './group-plan.js';
import type { ClusterPlan } from './plan.js';

/** Mean lengths of a workload, tokens, and its mean rate of arrival. */
export interface WorkloadMeans {
  readonly requests: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly ratePerSecond: number;
  /** Input tokens whose hash stood in an earlier request: the most that any prefix cache could save, 0..1. */
  readonly repeatedShare: number;
}

/** Where the cluster stops keeping up, and what stops it. */
export interface Saturation {
  readonly requestsPerSecond: number;
  /** Stage with the least capacity. */
  readonly limit: 'prefill' | 'decode' | 'engine';
  readonly prefillRequestsPerSecond: number;
  readonly decodeRequestsPerSecond: number;
  /** Sequences a decoding engine holds at once, bounded by rules and KV memory. */
  readonly decodeSequences: number;
}

export function workloadMeans(table: RequestTable): WorkloadMeans {
  const { requestCount: requests } = table;
  let inputTokens = 0;
  let outputTokens = 0;
  for (let row = 0; row < requests; row++) {
    inputTokens += table.inputTokens[row] as number;
    outputTokens += table.outputTokens[row] as number;
  }
  const seconds = requests < 2 ? 0 : ((table.arrivalNs[requests - 1] as number) - (table.arrivalNs[0] as number)) * 1e-9;
  const repeatedTokens = (table.blockHashes.length - new Set(table.blockHashes).size) * table.blockTokens;
  return {
    requests,
    inputTokens: inputTokens / Math.max(1, requests),
    outputTokens: outputTokens / Math.max(1, requests),
    ratePerSecond: seconds > 0 ? (requests - 1) / seconds : 0,
    repeatedShare: inputTokens > 0 ? Math.min(1, repeatedTokens / inputTokens) : 0,
  };
}

/**
 * Estimates the arrival rate at which queues begin to grow without end, for requests of mean length without prefix hits: an engine's time for
 * one request is its share of full prefill passes (input / budget x pass time) plus its share of decode passes at the largest batch that rules
 * and KV memory allow (output / batch x pass time). Mixed passes read the weights once for both, so an aggregated engine does somewhat better.
 */
export function estimateSaturation(plan: ClusterPlan, means: WorkloadMeans): Saturation {
  let prefillRate = 0;
  let decodeRate = 0;
  let sharedRate = 0;
  let decodeSequences = 0;
  for (const [index, group] of plan.groups.entries()) {
    const engines = plan.engines.filter((engine) => engine.group === index).length;
    const prefillS = prefillSeconds(group, means);
    const sequences = decodingSequences(group, means);
    const decodeS = decodeSeconds(group, means, sequences);
    if (group.role !== 'prefill') decodeSequences = sequences;
    if (group.role === 'prefill') prefillRate += engines / prefillS;
    else if (group.role === 'decode') decodeRate += engines / decodeS;
    else {
      sharedRate += engines / (prefillS + decodeS);
      prefillRate += engines / prefillS;
      decodeRate += engines / decodeS;
    }
  }
  const requestsPerSecond = plan.disaggregated ? Math.min(prefillRate, decodeRate) : sharedRate;
  const limit = !plan.disaggregated ? 'engine' : prefillRate < decodeRate ? 'prefill' : 'decode';
  return { requestsPerSecond, limit, prefillRequestsPerSecond: prefillRate, decodeRequestsPerSecond: decodeRate, decodeSequences };
}

function prefillSeconds(group: GroupPlan, means: WorkloadMeans): number {
  const input = Math.max(1, means.inputTokens);
  const budget = group.maxBatchedTokens;
  const sequences = Math.min(group.maxSequences, Math.max(1, budget / Math.min(input, group.maxChunkTokens)));
  const shape = createPassShape();
  shape.prefillSequences = Math.max(1, Math.round(sequences));
  shape.prefillTokens = budget;
  // Over whole prompts, the pairs of a token average half the prompt, wherever the chunks are cut.
  shape.prefillPairs = (budget * (input + 1)) / 2;
  shape.prefillContextTokens = budget;
  shape.prefillSampled = Math.max(1, Math.round(budget / input));
  return (mixedPassNs(group.timing, shape, 1) * 1e-9 * input) / budget;
}

function decodingSequences(group: GroupPlan, means: WorkloadMeans): number {
  const tokens = group.capacityBlocks * group.blockTokens;
  const held = means.inputTokens + means.outputTokens / 2;
  return Math.max(1, Math.min(group.maxSequences, Math.floor(tokens / Math.max(1, held))));
}

function decodeSeconds(group: GroupPlan, means: WorkloadMeans, sequences: number): number {
  const curve = createCurve();
  decodeCurve(group.timing, sequences, Math.round(sequences * (means.inputTokens + means.outputTokens / 2)), 1, curve);
  return (curve.c0Ns * 1e-9 * Math.max(1, means.outputTokens)) / sequences;
}
