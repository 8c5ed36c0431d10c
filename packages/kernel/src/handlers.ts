import type { Context } from './actor.js';
import { KernelError } from './errors.js';
import { bodyFlag } from './event-slab.js';
import type { MessageType } from './message.js';
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

/** Called with what a handler returned, when that is not undefined. */
export function refuseReturned(returned: unknown): void {
  if (typeof (returned as { then?: unknown } | null)?.then === 'function') {
    throw new KernelError('forbidden', 'a handler returned a promise; handlers must not await: split the work into messages');
  }
}

/** Strict mode's check of what is sent: every field a number, a body just where one is declared. */
export function checkFields(type: MessageType, flags: number, ...values: readonly unknown[]): void {
  for (const [index, value] of values.entries()) {
    if (typeof value !== 'number') {
      throw new KernelError(
        'bad-value',
        `message '${type.name}': field '${type.fields[index] ?? index}' is ${String(value)}; fields are numbers`,
      );
    }
  }
  if (((flags & bodyFlag) !== 0) !== type.hasBody) {
    throw new KernelError(
      'bad-value',
      `message '${type.name}' ${type.hasBody ? 'is declared with a body; use sendBody' : 'is declared without a body; use send'}`,
    );
  }
}
