/** Ctrl-C as a command meets it. */
export interface Interruption {
  /** Aborted by the first Ctrl-C after `listen`. */
  readonly signal: AbortSignal;
  /**
   * From now on Ctrl-C asks for an end with what there is. Before, it ends the process at once: nothing is to be saved, and a policy that never
   * returns while it is loaded would hold the thread that listens.
   */
  listen(): void;
}

/**
 * Does some work that Ctrl-C may interrupt; a second Ctrl-C ends the process in the ordinary way.
 * @param atOnce false for work that calls `listen` itself, when there is something to save.
 */
export async function interruptible<Result>(work: (interruption: Interruption) => Promise<Result>, atOnce = true): Promise<Result> {
  const stopping = new AbortController();
  const interrupt = (): void => stopping.abort(new Error('interrupted'));
  const listen = (): void => void process.once('SIGINT', interrupt);
  if (atOnce) listen();
  try {
    return await work({ signal: stopping.signal, listen });
  } finally {
    process.off('SIGINT', interrupt);
  }
}
