import { type DecodeCurve, maximumStretchPasses, type PassShape } from './timing.js';

/** Times that are straight lines: a prompt's in its tokens, a decode pass's in its sequences. */
export interface LinearTiming {
  kind: 'linear';
  /** Milliseconds of a pass that holds prompt chunks: constant, and per token of them. */
  prefillMs: number;
  prefillMsPerToken: number;
  /** Milliseconds of a decode pass: constant, and per sequence. */
  decodeMs: number;
  decodeMsPerSequence: number;
}

/** @throws Error naming the value that is out of its limits. */
export function createLinear(values: Omit<LinearTiming, 'kind'>): LinearTiming {
  for (const [name, value] of Object.entries(values)) {
    if (!(value >= 0 && value < 1e9)) throw new Error(`linear timing: ${name} is ${value}; it must be 0 or more milliseconds`);
  }
  return { kind: 'linear', ...values };
}

export function linearCurve(timing: LinearTiming, sequences: number, curve: DecodeCurve): void {
  curve.c0Ns = (timing.decodeMs + timing.decodeMsPerSequence * sequences) * 1e6;
  curve.c1Ns = 0;
  curve.c2Ns = 0;
  curve.validPasses = maximumStretchPasses;
}

/** Chunks and decodes of a pass run one after the other. */
export function linearMixedNs(timing: LinearTiming, shape: PassShape): number {
  const prefill = shape.prefillTokens > 0 ? timing.prefillMs + timing.prefillMsPerToken * shape.prefillTokens : 0;
  const decode = shape.decodeSequences > 0 ? timing.decodeMs + timing.decodeMsPerSequence * shape.decodeSequences : 0;
  return (prefill + decode) * 1e6;
}
