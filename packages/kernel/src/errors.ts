/** What went wrong, as a word a program can compare. */
export type KernelErrorCode =
  | 'bad-time'
  | 'bad-model'
  | 'bad-option'
  | 'bad-value'
  | 'unknown-actor'
  | 'unknown-message'
  | 'lookahead'
  | 'promise-broken'
  | 'zero-delay-loop'
  | 'limit'
  | 'forbidden'
  | 'handler-failed'
  | 'handler-stalled'
  | 'sink-failed'
  | 'worker-lost'
  | 'bad-checkpoint'
  | 'handshake'
  | 'stopped';

/** Where in a run an error arose; every field is plain data, so that it crosses threads. */
export interface FailureSite {
  readonly actor?: string;
  readonly message?: string;
  readonly timeNs?: number;
  readonly shard?: number;
  readonly seed?: string;
  /** A shell command that replays the failure. */
  readonly replay?: string;
}

/** The one error class of the kernel: a code, a sentence with object, value, limit and fix, and the place in the run. */
export class KernelError extends Error {
  override readonly name = 'KernelError';
  readonly code: KernelErrorCode;
  readonly site: FailureSite;
  /** The sentence without the place. */
  readonly reason: string;

  constructor(code: KernelErrorCode, reason: string, site: FailureSite = {}, cause?: unknown) {
    super(reason + describeSite(site), cause === undefined ? undefined : { cause });
    this.code = code;
    this.reason = reason;
    this.site = site;
  }

  /** The same error with more of its place known; what is already known stays. */
  at(site: FailureSite): KernelError {
    const error = new KernelError(this.code, this.reason, { ...site, ...this.site }, this.cause);
    if (this.stack !== undefined) error.stack = this.stack.replace(this.message, error.message);
    return error;
  }
}

function describeSite(site: FailureSite): string {
  const parts: string[] = [];
  if (site.actor !== undefined) parts.push(`actor ${site.actor}`);
  if (site.message !== undefined) parts.push(`message '${site.message}'`);
  if (site.timeNs !== undefined) parts.push(`simulated time ${site.timeNs} ns`);
  if (site.shard !== undefined) parts.push(`shard ${site.shard}`);
  if (site.seed !== undefined) parts.push(`seed '${site.seed}'`);
  const place = parts.length === 0 ? '' : `\n  at ${parts.join(', ')}`;
  return site.replay === undefined ? place : `${place}\n  replay: ${site.replay}`;
}

/** An error as plain data, for the way between threads. */
export interface PlainError {
  readonly code: KernelErrorCode;
  readonly reason: string;
  readonly site: FailureSite;
  readonly stack: string;
}

export function toPlainError(error: unknown, site: FailureSite = {}): PlainError {
  const kernelError = error instanceof KernelError ? error.at(site) : fromUnknown(error, site);
  return { code: kernelError.code, reason: kernelError.reason, site: kernelError.site, stack: kernelError.stack ?? '' };
}

export function fromPlainError(plain: PlainError): KernelError {
  const error = new KernelError(plain.code, plain.reason, plain.site);
  if (plain.stack !== '') error.stack = plain.stack;
  return error;
}

/** Anything can be thrown, also what cannot be turned into text. */
function textOf(error: unknown): string {
  try {
    return error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  } catch {
    return `something was thrown that has no text (a ${typeof error})`;
  }
}

export function fromUnknown(error: unknown, site: FailureSite): KernelError {
  const text = textOf(error);
  const wrapped = new KernelError('handler-failed', text, site, error);
  if (error instanceof Error && error.stack !== undefined) {
    wrapped.stack = `${wrapped.name}: ${wrapped.message}\n${error.stack.split('\n').slice(1).join('\n')}`;
  }
  return wrapped;
}
