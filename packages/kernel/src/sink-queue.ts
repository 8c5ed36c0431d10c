import { KernelError } from './errors.js';

/**
 * What waits to be written (records, the trace's end): one thing after another, and the first failure of any. A sink may take its time, but not
 * once the run is to end: `hurry` gives it up when it does not answer in time, so that neither `stop` nor a failure hangs on it.
 */
export class SinkQueue {
  error: KernelError | undefined;
  readonly #onFailure: (error: KernelError) => void;
  #work: Promise<void> = Promise.resolve();
  #giveUp: () => void = () => undefined;
  readonly #givenUp = new Promise<void>((resolve) => {
    this.#giveUp = resolve;
  });
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** @param onFailure is told the first failure, and ends what is running. */
  constructor(onFailure: (error: KernelError) => void) {
    this.#onFailure = onFailure;
  }

  /** Does this after all that was put in before, whether or not that failed. `finished` settles with it, and never rejects. */
  add(work: () => void | Promise<void>): { readonly finished: Promise<void> } {
    this.#work = this.#work
      .then(work)
      .catch((error: unknown) => this.fail('the record sink failed', error))
      .finally(() => this.#timer?.refresh());
    return { finished: this.#work };
  }

  /** All that was put in is done. @throws KernelError `sink-failed`. */
  async drained(): Promise<void> {
    await Promise.race([this.#work, this.#givenUp]);
    if (this.error !== undefined) throw this.error;
  }

  fail(what: string, cause: unknown): void {
    if (this.error !== undefined) return;
    const text = cause instanceof Error ? cause.message : String(cause);
    this.error = new KernelError('sink-failed', `${what}: ${text}`, {}, cause);
    this.#onFailure(this.error);
  }

  /** The run is to end: from now on the sink may take this long and no longer. */
  hurry(limitMs: number): void {
    if (this.#isClosed) return;
    this.#timer ??= setTimeout(() => {
      this.fail('the run is to end and its record sink still holds it', `nothing came back for ${limitMs} ms (limits.handlerLimitMs)`);
      this.#giveUp();
    }, limitMs);
  }

  /** Nothing more is expected of it. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }
}
