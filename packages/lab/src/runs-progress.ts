import { performance } from 'node:perf_hooks';

/** How far a set of runs is. */
export interface RunsProgress {
  readonly runsDone: number;
  readonly runs: number;
  /** Wall seconds left at the pace so far; undefined before the first run has ended. */
  readonly secondsLeft: number | undefined;
}

/** Counts the runs of a set as they end, each with its share of the whole work, and tells how far they are. */
export class RunsCount {
  readonly #startedMs = performance.now();
  readonly #runs: number;
  readonly #cost: number;
  readonly #tell: ((progress: RunsProgress) => void) | undefined;
  #runsDone = 0;
  #costDone = 0;

  /** `cost` of all runs, in the unit of `advance`. */
  constructor(runs: number, cost: number, tell: ((progress: RunsProgress) => void) | undefined) {
    this.#runs = runs;
    this.#cost = cost;
    this.#tell = tell;
    tell?.({ runsDone: 0, runs, secondsLeft: undefined });
  }

  advance(cost = 1): void {
    this.#runsDone++;
    this.#costDone += cost;
    const seconds = (performance.now() - this.#startedMs) / 1e3;
    const secondsLeft = (seconds * (this.#cost - this.#costDone)) / this.#costDone;
    this.#tell?.({ runsDone: this.#runsDone, runs: this.#runs, secondsLeft });
  }
}
