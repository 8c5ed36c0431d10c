import { availableParallelism } from 'node:os';
import { ThreadPool } from '@braess/kernel';
import type { Measurement, MeasureTask } from './measure-scenario.js';

/** Threads that measure scenarios one after the other, a run a core. They stay between runs, so that only the first pays for compiling. */
export class MeasurePool {
  readonly #pool: ThreadPool;

  constructor(threads = Math.max(1, availableParallelism())) {
    this.#pool = new ThreadPool(new URL('./measure-worker.js', import.meta.url).href, threads);
  }

  get threads(): number {
    return this.#pool.threads;
  }

  /** @throws what `measureScenario` throws; an AbortError when `signal` ends it, an Error when the pool is closed under it. */
  measure(task: MeasureTask, signal?: AbortSignal): Promise<Measurement> {
    return this.#pool.run(task, { signal });
  }

  close(): Promise<void> {
    return this.#pool.destroy();
  }
}
