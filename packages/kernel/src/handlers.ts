import type { Context } from './actor.js';
import { KernelError } from './errors.js';
import type { Model } from './model.js';

/** A handler as the dispatch loop calls it. */
export type Handler = (state: unknown, message: unknown, context: Context) => unknown;

/** Handlers by kind * stride + message number; the last column holds `start`. */
export function handlerTable(model: Model, stride: number): (Handler | undefined)[] {
  const table = new Array<Handler | undefined>(model.kinds.length * stride).fill(undefined);
  const numberByName = new Map(model.messages.map((type, number) => [type.name, number]));
  for (const [kindIndex, kind] of model.kinds.entries()) {
    for (const [index, type] of kind.messages.entries()) {
      table[kindIndex * stride + (numberByName.get(type.name) as number)] = kind.handlers[index] as unknown as Handler;
    }
    const start = kind.start as unknown as ((state: unknown, context: Context) => unknown) | undefined;
    if (start !== undefined) table[kindIndex * stride + model.messages.length] = (state, _message, context) => start(state, context);
  }
  return table;
}

// Taken before the guards hide it from handlers.
const { then } = Promise.prototype;

/** Called with what a handler, or another function `what` of a kind, returned, when that is not undefined. */
export function refuseReturned(returned: unknown, what = 'a handler'): void {
  if (typeof (returned as { then?: unknown } | null)?.then !== 'function') return;
  // That it was returned is the error: its own, if it has one, must not end the process.
  if (returned instanceof Promise) void then.call(returned, undefined, () => undefined);
  throw new KernelError('forbidden', `${what} returned a promise; handlers must not await: split the work into messages`);
}
