import { Piscina } from 'piscina';

/** A call of an exported function in a thread. */
export interface ThreadTask {
  /** URL of an ES module. */
  readonly module: string;
  /** Name of the function it exports. */
  readonly name: string;
  /** Its one argument; crosses by structured clone. */
  readonly task: unknown;
}

export interface ThreadPoolOptions {
  readonly maxOldGenerationSizeMb?: number | undefined;
}

export interface ThreadTaskOptions extends Partial<Pick<ThreadTask, 'module' | 'name'>> {
  readonly transfer?: readonly (ArrayBuffer | import('node:worker_threads').MessagePort)[];
  /** Ends the task's thread; the pool starts another. */
  readonly signal?: AbortSignal | undefined;
}

/** A fixed number of worker threads, all started at once, each with `module` loaded. They may be ended at any moment, also while they load. */
export class ThreadPool {
  readonly threads: number;
  readonly #module: string;
  readonly #pool: Piscina;
  #ended: Promise<void> | undefined;

  /** `module` is the URL of the module whose default export is the task, unless a task names another. */
  constructor(module: string, threads: number, { maxOldGenerationSizeMb }: ThreadPoolOptions = {}) {
    this.threads = threads;
    this.#module = module;
    this.#pool = new Piscina({
      filename: new URL('./thread-entry.cjs', import.meta.url).href,
      workerData: { module },
      minThreads: threads,
      maxThreads: threads,
      idleTimeout: Number.POSITIVE_INFINITY,
      atomics: 'disabled',
      ...(maxOldGenerationSizeMb === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb } }),
    });
    this.#pool.on('error', () => undefined); // A thread lost between tasks; the next task reports what it misses.
  }

  /** @throws what the task throws; an AbortError when `signal` ends it, an Error when its thread or the pool ends under it. */
  run<Result>(task: unknown, options: ThreadTaskOptions = {}): Promise<Result> {
    const { module = this.#module, name = 'default', transfer = [], signal } = options;
    const call: ThreadTask = { module, name, task };
    return this.#pool.run(call, { transferList: [...transfer], ...(signal === undefined ? {} : { signal }) }) as Promise<Result>;
  }

  get isEnded(): boolean {
    return this.#ended !== undefined;
  }

  /** Ends every thread, also one stuck in a task. Called again, it gives the same promise: a second call of piscina's would start new threads. */
  destroy(): Promise<void> {
    this.#ended ??= this.#pool.destroy();
    return this.#ended;
  }
}
