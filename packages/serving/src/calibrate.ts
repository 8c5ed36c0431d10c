import { servingResult, sweepRows } from './accuracy.js';
import type { Catalogue } from './catalogue.js';
import type { EngineProfile } from './catalogue-parse.js';
import type { EngineSweep, Measured } from './measured.js';
import { nelderMead } from './nelder-mead.js';

/** Constants of a profile that are fitted. */
export type FittedConstant =
  | 'gemmEfficiency'
  | 'attentionEfficiency'
  | 'memoryEfficiency'
  | 'kvEfficiency'
  | 'hostPassUs'
  | 'hostSequenceUs'
  | 'prefillPassUs'
  | 'requestUs';

/** A calibration: the profile, and the value of the objective it minimises. */
export interface Calibration {
  profile: EngineProfile;
  objective: number;
}

/**
 * Which constants of which profile each sweep fits. A prompt alone cannot tell time before the engine from a stall of its pass; the surplus being
 * alike for both models (9 and 15 ms) speaks for the former, so `requestUs` is fitted and `prefillPassUs` left at 0. Weight reading and pass overhead cannot be told apart at one TP, so the 8B keeps
 * the former of the 70B.
 */
export const sweepFits: readonly { profile: string; constants: readonly FittedConstant[] }[] = [
  {
    profile: 'vllm-h100-llama-70b',
    constants: ['gemmEfficiency', 'attentionEfficiency', 'memoryEfficiency', 'kvEfficiency', 'hostPassUs', 'hostSequenceUs', 'requestUs'],
  },
  {
    profile: 'vllm-h200-llama-8b',
    constants: ['gemmEfficiency', 'attentionEfficiency', 'kvEfficiency', 'hostPassUs', 'hostSequenceUs', 'requestUs'],
  },
];

/** Fits `constants` of a profile to the fit rows of a sweep, from the profile's own values. */
export function calibrateSweep(
  catalogue: Catalogue,
  sweep: EngineSweep,
  start: EngineProfile,
  constants: readonly FittedConstant[],
  iterations: number,
): Calibration {
  const objective = (point: readonly number[]): number => sweepObjective(catalogue, sweep, scaled(start, constants, point));
  const zero = constants.map(() => 0);
  const minimum = nelderMead(
    objective,
    zero,
    constants.map(() => 0.2),
    iterations,
  );
  return { profile: scaled(start, constants, minimum.point), objective: minimum.value };
}

/** Mean absolute percentage error plus a share of its square against outliers, prefill and decode alike; in percent. */
export function sweepObjective(catalogue: Catalogue, sweep: EngineSweep, profile: EngineProfile): number {
  const rows = sweepRows(catalogue, sweep, profile, 'fit');
  const cost = (kind: string): number => {
    const errors = rows.filter((row) => row.id.includes(kind)).map((row) => Math.abs(row.errorPercent));
    return errors.reduce((sum, error) => sum + error + 0.02 * error * error, 0) / errors.length;
  };
  return (cost('/prefill/') + cost('/decode/')) / 2;
}

/** Fits host overhead and prefill stall of the B200 profile to the medians of the first run (16 clients). */
export function calibrateServing(catalogue: Catalogue, measured: Measured, start: EngineProfile, iterations: number): Calibration {
  const constants: FittedConstant[] = ['hostPassUs', 'prefillPassUs'];
  const objective = (point: readonly number[]): number => servingObjective(catalogue, measured, scaled(start, constants, point));
  const minimum = nelderMead(objective, [0, 0], [0.2, 0.2], iterations);
  return { profile: scaled(start, constants, minimum.point), objective: minimum.value };
}

/** Sum of the absolute percentage errors of both medians of the first run. */
export function servingObjective(catalogue: Catalogue, measured: Measured, profile: EngineProfile): number {
  const run = measured.serving.runs[0]!;
  const result = servingResult(catalogue, measured.serving, 0, profile);
  return 100 * (Math.abs(result.ttftMedianMs / run.ttft_ms.p50 - 1) + Math.abs(result.tpotMedianMs / run.tpot_ms.p50 - 1));
}

/** Each constant times exp(x): stays positive; efficiencies stop at 1. */
function scaled(start: EngineProfile, constants: readonly FittedConstant[], point: readonly number[]): EngineProfile {
  const profile = { ...start };
  for (const [index, key] of constants.entries()) {
    const value = start[key] * Math.exp(point[index]!);
    profile[key] = key.endsWith('Efficiency') ? Math.min(1, value) : value;
  }
  return profile;
}
