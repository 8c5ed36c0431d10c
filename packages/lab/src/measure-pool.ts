import { availableParallelism } from 'node:os';
import { Piscina } from 'piscina';
import type { Measurement, MeasureTask } from './measure-scenario.js';

/** Threads that measure scenarios one after the other, a run a core. They stay between runs, so that only the first pays for compiling. */
export class MeasurePool {
  readonly threads: number;
  readonly #pool: Piscina;

  constructor(threads = Math.max(1, availableParallelism())) {
    this.threads = threads;
    this.#pool = new Piscina({
      filename: new URL('./measure-worker.js', import.meta.url).href,
      minThreads: threads,
      maxThreads: threads,
      idleTimeout: Number.POSITIVE_INFINITY,
    });
  }

  /** @throws what `measureScenario` throws; an AbortError when `signal` ends it, an Error when the pool is closed under it. */
  measure(task: MeasureTask, signal?: AbortSignal): Promise<Measurement> {
    return this.#pool.run(task, signal === undefined ? {} : { signal }) as Promise<Measurement>;
  }

  close(): Promise<void> {
    // A run that fails while the pool is being closed has nobody left to tell.
    this.#pool.on('error', () => undefined);
    return this.#pool.destroy();
  }
}
