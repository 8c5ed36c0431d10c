import { modelOf, Simulation } from '@braess/kernel';
import { type BenchOptions, peakRssMb } from './measured.js';
import phold from './phold.js';
import { pholdPlan } from './phold-comparison.js';

/** The limit for 10,000 actors. */
const forkTargetMs = 50;
/** Simulated time before the forks: actors have then drawn, sent and received. */
const forkedAtMeanDelays = 5;

export interface ForkResult {
  readonly actors: number;
  readonly seed: string;
  /** Each fork's time in the order they were made; the first runs code that has not been compiled yet. */
  readonly forkMs: readonly number[];
  readonly targetMs: number;
  /** To one buffer, as a file has it, and a simulation from it. */
  readonly checkpointMs: number;
  readonly checkpointBytes: number;
  readonly restoreMs: number;
  /** Whether the last fork, run on, ends like the run it was forked from. */
  readonly sameEnd: boolean;
  readonly fingerprint: string;
  readonly peakRssMb: number;
  readonly interrupted: boolean;
}

/** How long a fork in memory takes, from the first of a process on: PHOLD, forked at one moment. */
export async function measureForks(
  options: BenchOptions & { readonly actors: number; readonly forks: number; readonly seed: string },
): Promise<ForkResult> {
  const { actors, forks, seed, signal, progress } = options;
  const { parameters } = pholdPlan({ actors, remote: 0.25, lookahead: 0.1, events: actors }, 0);
  const simulation = new Simulation(modelOf(phold, parameters), { seed });
  simulation.runUntil(forkedAtMeanDelays * parameters.meanDelayNs);
  const forkMs: number[] = [];
  let fork = simulation;
  for (let index = 0; index < forks && signal?.aborted !== true; index++) {
    progress?.(index / forks, `fork ${index + 1} of ${forks}`);
    const begun = performance.now();
    fork = simulation.fork();
    forkMs.push(performance.now() - begun);
    await new Promise(setImmediate); // So that Ctrl-C is heard.
  }
  const checkpointBegun = performance.now();
  const checkpoint = simulation.checkpoint();
  const checkpointMs = performance.now() - checkpointBegun;
  const restoreBegun = performance.now();
  const restored = new Simulation(simulation.model, { seed, from: checkpoint });
  const restoreMs = performance.now() - restoreBegun;
  const runs = [simulation, fork, restored];
  for (const run of runs) run.runUntil(2 * forkedAtMeanDelays * parameters.meanDelayNs);
  return {
    actors,
    seed,
    forkMs,
    targetMs: forkTargetMs,
    checkpointMs,
    checkpointBytes: checkpoint.bytes.length,
    restoreMs,
    sameEnd: runs.every((run) => run.fingerprint === simulation.fingerprint),
    fingerprint: simulation.fingerprint,
    peakRssMb: peakRssMb(),
    interrupted: signal?.aborted === true,
  };
}
