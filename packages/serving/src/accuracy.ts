import { type Catalogue, gpuNamed, loadCatalogue, modelNamed, type Precision, profileNamed } from './catalogue.js';
import type { EngineProfile } from './catalogue-parse.js';
import { type ClosedLoopResult, emulateClosedLoop } from './closed-loop.js';
import type { EngineRules } from './engine-state.js';
import { emulateBurst } from './experiment.js';
import {
  batchOf,
  type EngineSweep,
  type Measured,
  promptsWereCached,
  readMeasured,
  type ServingRuns,
  sweepOutputTokens,
} from './measured.js';
import { kvCapacity } from './memory.js';
import { createRoofline, type RooflineTiming } from './timing-roofline.js';

/** A measured value beside ours; basis `fit` when it was used for calibration. */
export interface AccuracyRow {
  id: string;
  measured: number;
  predicted: number;
  errorPercent: number;
  basis: 'fit' | 'prediction';
}

/** How a measured engine maps to the catalogue. */
interface Setting {
  gpu: string;
  model: string;
  profile: string;
  weights: Precision;
  kv: Precision;
}

const settings: Readonly<Record<string, Setting>> = {
  'h100_sxm Llama-3.3-70B-Instruct-FP8': {
    gpu: 'H100',
    model: 'Llama-3.1-70B',
    profile: 'vllm-h100-llama-70b',
    weights: 'fp8',
    kv: 'bf16',
  },
  'h200_sxm Llama-3.1-8B-Instruct-FP8': { gpu: 'H200', model: 'Llama-3.1-8B', profile: 'vllm-h200-llama-8b', weights: 'fp8', kv: 'bf16' },
  'b200 Llama-3.3-70B-Instruct-FP4': { gpu: 'B200', model: 'Llama-3.1-70B', profile: 'vllm-b200-llama-70b', weights: 'fp4', kv: 'fp8' },
};

/** Beyond this many sequences vLLM's default max_num_seqs caps the batch, so the row's batch is not what it says. */
const sweepMaxSequences = 1024;

/** vLLM's defaults for max_num_batched_tokens of its server on GPUs of 80 GB and more. */
const vllmBatchedTokens = 8192;

/** Every measured row of the folder against the emulated experiment with the catalogue's constants, computed now. */
export function accuracyRows(measuredFolder: string, catalogue: Catalogue = loadCatalogue()): AccuracyRow[] {
  const measured = readMeasured(measuredFolder);
  return [...sweepRowsOf(measured, catalogue), ...servingRowsOf(measured.serving, catalogue)];
}

function sweepRowsOf(measured: Measured, catalogue: Catalogue): AccuracyRow[] {
  return measured.sweeps.flatMap((sweep) => sweepRows(catalogue, sweep, profileNamed(catalogue, settingOf(sweep).profile), 'all'));
}

function servingRowsOf(serving: ServingRuns, catalogue: Catalogue): AccuracyRow[] {
  const profile = profileNamed(catalogue, settingOf(serving).profile);
  return serving.runs.flatMap((run, index) => {
    const result = servingResult(catalogue, serving, index, profile);
    const basis = index === 0 ? 'fit' : 'prediction';
    const id = `b200-70b-tp8/${run.clients}-clients`;
    return [
      row(`${id}/ttft-median`, run.ttft_ms.p50, result.ttftMedianMs, basis),
      row(`${id}/tpot-median`, run.tpot_ms.p50, result.tpotMedianMs, basis),
    ];
  });
}

/** Emulates the rows of one sweep; `which` leaves out those that are only predicted. Fit rows: 70B at TP4, and the even-indexed of the 8B. */
export function sweepRows(catalogue: Catalogue, sweep: EngineSweep, profile: EngineProfile, which: 'all' | 'fit'): AccuracyRow[] {
  const setting = settingOf(sweep);
  const timing = timingOf(catalogue, setting, sweep.tp, profile);
  const rules = sweepRules(catalogue, setting, sweep);
  const cached = promptsWereCached(sweep);
  const name = `${setting.gpu}-${setting.model}-tp${sweep.tp}`.toLowerCase();
  const basisOf = (index: number): AccuracyRow['basis'] =>
    (setting.model === 'Llama-3.1-8B' ? index % 2 === 0 : sweep.tp === 4) ? 'fit' : 'prediction';
  const rows: AccuracyRow[] = [];
  for (const [index, point] of sweep.prefill.entries()) {
    if (which === 'fit' && basisOf(index) !== 'fit') continue;
    const predicted = emulateBurst(timing, rules, 1, point.input_tokens, 1).ttftMs + profile.requestUs / 1e3;
    rows.push(row(`${name}/prefill/${point.input_tokens}`, point.ttft_ms, predicted, basisOf(index)));
  }
  for (const [index, point] of sweep.decode.entries()) {
    const batch = batchOf(sweep, point);
    if (batch > sweepMaxSequences || (which === 'fit' && basisOf(index) !== 'fit')) continue;
    const predicted = emulateBurst(timing, rules, batch, point.context_tokens, sweepOutputTokens, cached).itlMs;
    rows.push(row(`${name}/decode/${batch}x${point.context_tokens}`, point.itl_ms, predicted, basisOf(index)));
  }
  return rows;
}

/** Emulates one run of the chat clients. Lengths come from a fixed stream, so a run is repeatable. */
export function servingResult(catalogue: Catalogue, serving: ServingRuns, index: number, profile: EngineProfile): ClosedLoopResult {
  const run = serving.runs[index]!;
  const setting = settingOf(serving);
  const timing = timingOf(catalogue, setting, serving.tp, profile);
  const rules = { ...rulesOf(catalogue, setting, serving.tp, 16), maxSequences: run.clients };
  const load = {
    clients: run.clients,
    requests: run.requests,
    inputMeanTokens: run.input_tokens.mean,
    inputMedianTokens: run.input_tokens.p50,
    outputMeanTokens: run.output_tokens.mean,
    outputMedianTokens: run.output_tokens.p50,
    hitShare: run.prefix_hit_percent / 100,
    requestNs: profile.requestUs * 1e3,
  };
  return emulateClosedLoop(timing, rules, load, congruential(run.clients));
}

/** Linear congruential generator (Knuth; constants of Numerical Recipes), enough for lengths of a calibration run. */
function congruential(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
}

function settingOf(measured: { gpu: string; model: string }): Setting {
  const key = `${measured.gpu} ${measured.model}`;
  const setting = settings[key];
  if (setting === undefined) throw new Error(`measured engine "${key}" is not known; known are ${Object.keys(settings).join(', ')}`);
  return setting;
}

function timingOf(catalogue: Catalogue, setting: Setting, tensorParallel: number, profile: EngineProfile): RooflineTiming {
  return createRoofline({
    gpu: gpuNamed(catalogue, setting.gpu),
    model: modelNamed(catalogue, setting.model),
    profile,
    tensorParallel,
    weightPrecision: setting.weights,
    kvPrecision: setting.kv,
  });
}

function sweepRules(catalogue: Catalogue, setting: Setting, sweep: EngineSweep): EngineRules {
  return rulesOf(catalogue, setting, sweep.tp, sweep.block_size);
}

function rulesOf(catalogue: Catalogue, setting: Setting, tensorParallel: number, blockTokens: number): EngineRules {
  const capacity = kvCapacity({
    gpu: gpuNamed(catalogue, setting.gpu),
    model: modelNamed(catalogue, setting.model),
    tensorParallel,
    weightPrecision: setting.weights,
    kvPrecision: setting.kv,
    blockTokens,
  });
  return {
    blockTokens,
    maxSequences: sweepMaxSequences,
    maxBatchedTokens: vllmBatchedTokens,
    maxModelTokens: modelNamed(catalogue, setting.model).contextTokens,
    maxWaiting: sweepMaxSequences,
    capacityBlocks: capacity.blocks,
    blockEvents: false,
    stepwise: false,
  };
}

function row(id: string, measured: number, predicted: number, basis: AccuracyRow['basis']): AccuracyRow {
  return { id, measured, predicted, errorPercent: (100 * (predicted - measured)) / measured, basis };
}
