import type { SpeedProfile } from '@braess/control';
import { createCurve, createPassShape, decodeCurve, mixedPassNs, type TimingModel } from '@braess/serving';
import type { ClusterPlan } from './plan.js';

/** Prompt lengths, batches and contexts that are profiled: inside what chat and document loads use. */
const promptTokens = [1024, 4096] as const;
const sequences = 64;
const contextTokens = [512, 4096] as const;

/** What a profiler would find: lines through two prompts alone, and a plane through three decode batches. */
function profileSpeed(timing: TimingModel): SpeedProfile {
  const [short, long] = [prefillNs(timing, promptTokens[0]), prefillNs(timing, promptTokens[1])];
  const prefillTokenNs = (long - short) / (promptTokens[1] - promptTokens[0]);
  const one = decodeNs(timing, 1, contextTokens[0]);
  const many = decodeNs(timing, sequences, contextTokens[0]);
  const deep = decodeNs(timing, sequences, contextTokens[1]);
  const decodeContextTokenNs = (deep - many) / (sequences * (contextTokens[1] - contextTokens[0]));
  const decodeSequenceNs = (many - one) / (sequences - 1) - decodeContextTokenNs * contextTokens[0];
  return {
    prefillBaseNs: short - prefillTokenNs * promptTokens[0],
    prefillTokenNs,
    decodeBaseNs: one - decodeSequenceNs - decodeContextTokenNs * contextTokens[0],
    decodeSequenceNs,
    decodeContextTokenNs,
  };
}

function prefillNs(timing: TimingModel, tokens: number): number {
  const shape = createPassShape();
  shape.prefillSequences = 1;
  shape.prefillTokens = tokens;
  shape.prefillPairs = (tokens * (tokens + 1)) / 2;
  shape.prefillContextTokens = tokens;
  shape.prefillSampled = 1;
  return mixedPassNs(timing, shape, 1);
}

function decodeNs(timing: TimingModel, batch: number, context: number): number {
  const curve = createCurve();
  decodeCurve(timing, batch, batch * context, 1, curve);
  return curve.c0Ns;
}

/** Of every engine, by its number. */
export function profilesOf({ groups, engines }: ClusterPlan): SpeedProfile[] {
  const ofGroup = groups.map(({ timing }) => profileSpeed(timing));
  return engines.map(({ group }) => ofGroup[group] as SpeedProfile);
}
