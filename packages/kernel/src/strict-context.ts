import type { Context } from './actor.js';
import { KernelError } from './errors.js';
import type { ActorId, MessageType, RowType } from './message.js';
import { checkTree } from './plain-check.js';
import { copyValue } from './plain-copy.js';

/** What a strict run shows its handlers: the shard's context behind checks of what is sent, which would cost too much in every run. */
export function strictContext(engine: Context): Context {
  const context = {
    get now() {
      return engine.now;
    },
    get self() {
      return engine.self;
    },
    send(to: ActorId, type: MessageType<string, readonly string[], never>, delayNs: number, ...fields: number[]) {
      checkFields(type, false, fields);
      engine.send(to, type, delayNs, ...fields);
    },
    sendBody(to: ActorId, type: MessageType, delayNs: number, body: unknown, ...fields: number[]) {
      checkFields(type, true, fields);
      if (body !== undefined) checkTree(body, type);
      engine.sendBody(to, type, delayNs, (body === undefined ? undefined : copyValue(body, type.name)) as never, ...fields);
    },
    timer(type: MessageType<string, readonly string[], never>, delayNs: number, ...fields: number[]) {
      checkFields(type, false, fields);
      return engine.timer(type, delayNs, ...fields);
    },
    emit(type: MessageType<string, readonly string[], never>, ...fields: number[]) {
      checkFields(type, false, fields);
      engine.emit(type, ...fields);
    },
    emitBody(type: MessageType, body: unknown, ...fields: number[]) {
      checkFields(type, true, fields);
      engine.emitBody(type, body as never, ...fields);
    },
    emitRow: (type: RowType, numbers: Float64Array) => engine.emitRow(type, numbers),
    cancelTimer: (timer: number) => engine.cancelTimer(timer),
    random: (stream: string) => engine.random(stream),
    promiseSilence: (destination: ActorId<never>, untilNs: number) => engine.promiseSilence(destination, untilNs),
  };
  return Object.freeze(context) as unknown as Context;
}

/** One number for each declared field, a body just where one is declared. */
function checkFields(type: MessageType, hasBody: boolean, values: readonly unknown[]): void {
  if (hasBody !== type.hasBody) {
    throw new KernelError(
      'bad-value',
      `message '${type.name}' ${type.hasBody ? 'is declared with a body; use sendBody' : 'is declared without a body; use send'}`,
    );
  }
  if (values.length !== type.fields.length) {
    throw new KernelError(
      'bad-value',
      `message '${type.name}' was given ${values.length} fields; it needs ${type.fields.length} [${type.fields.join(', ')}]`,
    );
  }
  for (const [index, value] of values.entries()) {
    if (typeof value !== 'number')
      throw new KernelError('bad-value', `message '${type.name}': field '${type.fields[index]}' is ${String(value)}; fields are numbers`);
  }
}
