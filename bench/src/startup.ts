import { modelOf, run } from '@braess/kernel';
import { type BenchOptions, peakRssMb } from './measured.js';
import phold from './phold.js';
import { pholdPlan } from './phold-comparison.js';

/** The limit for 100,000 cells. */
const startupTargetMs = 2000;

export interface StartupResult {
  readonly cells: number;
  readonly seed: string;
  /** Building and freezing the model, on this thread. */
  readonly modelMs: number;
  /** From the call until every cell's start has run on its thread, which builds the model too. */
  readonly startMs: number;
  readonly targetMs: number;
  readonly peakRssMb: number;
  readonly fingerprint: string;
  readonly interrupted: boolean;
}

/** How long a run of many cells takes to start: PHOLD that ends right after its actors' `start`. */
export async function measureStartup(options: BenchOptions & { readonly cells: number; readonly seed: string }): Promise<StartupResult> {
  const { cells, seed, signal, progress } = options;
  progress?.(0, `${cells} cells`);
  const { parameters } = pholdPlan({ actors: cells, remote: 0.25, lookahead: 0.1, events: cells }, 0);
  const begun = performance.now();
  const result = await run(phold, parameters, { seed, untilNs: 1 });
  const startMs = performance.now() - begun;
  // Measured after, so that the run's own start is a cold one.
  const modelBegun = performance.now();
  modelOf(phold, parameters);
  const modelMs = performance.now() - modelBegun;
  const interrupted = signal?.aborted === true;
  return {
    cells,
    seed,
    modelMs,
    startMs,
    targetMs: startupTargetMs,
    peakRssMb: peakRssMb(),
    fingerprint: result.fingerprint,
    interrupted,
  };
}
