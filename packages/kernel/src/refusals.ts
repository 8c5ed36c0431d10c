import { KernelError } from './errors.js';
import type { EventQueue } from './event-queue.js';
import { type EventSlab, slotLayout } from './event-slab.js';
import type { MessageType } from './message.js';
import type { Model } from './model.js';
import { timeFault } from './time.js';

const { slotWords, targetOffset } = slotLayout;

// The errors of a running shard, apart from its hot path: each names the actors, the value, the limit and the fix.

/** Sender of what `inject` brings in from outside; it sorts before every actor. */
export const outsideSender = -1;

export function actorName(model: Model, actor: number): string {
  return actor === outsideSender ? '(outside)' : (model.actorNames[actor] ?? `#${actor}`);
}

export function kindOf(model: Model, actor: number): Model['kinds'][number] {
  return model.kinds[model.kindOfActor[actor] as number] as Model['kinds'][number];
}

export function refuseActor(model: Model, self: number, id: number): never {
  throw new KernelError(
    'unknown-actor',
    `'${actorName(model, self)}' addressed actor ${id}; ids run from 0 to ${model.actorNames.length - 1}: use a reference's id or message.sender`,
  );
}

export function refuseMessage(model: Model, self: number, number: number, sender: number): never {
  const kind = kindOf(model, self);
  const handled = kind.messages.map((type) => type.name).join(', ');
  const name = model.messages[number]?.name ?? 'start';
  throw new KernelError(
    'unknown-message',
    `kind '${kind.name}' handles no message '${name}' (sent by '${actorName(model, sender)}'); it handles [${handled}]`,
  );
}

export function refuseDelay(model: Model, self: number, nowNs: number, type: MessageType, delayNs: number): never {
  const late = nowNs + delayNs > Number.MAX_SAFE_INTEGER;
  const fault = late ? `it would arrive at ${nowNs + delayNs} ns, past 2^53 - 1 ns` : timeFault(delayNs);
  throw new KernelError('bad-time', `'${actorName(model, self)}' sends '${type.name}' with delay ${delayNs}: ${fault}`);
}

export function refuseStream(model: Model, self: number, stream: string, names: readonly string[]): never {
  throw new KernelError(
    'bad-value',
    `kind '${kindOf(model, self).name}' declares no random stream '${stream}'; it has [${names.join(', ')}]: add it to 'streams'`,
  );
}

/** @param least the declared lookahead, NaN when there is none. */
export function refuseCrossing(model: Model, self: number, to: number, type: MessageType, delayNs: number, least: number): never {
  const { cellNames, cellOfActor, classOfCell, lookahead } = model;
  const [from, into] = [cellOfActor[self] as number, cellOfActor[to] as number];
  const className = (cell: number): string => `class '${lookahead.classNames[classOfCell[cell] as number]}'`;
  const classes = `${className(from)} to ${className(into)}`;
  const route = `from '${actorName(model, self)}' (cell '${cellNames[from]}') to '${actorName(model, to)}' (cell '${cellNames[into]}')`;
  throw new KernelError(
    'lookahead',
    Number.isNaN(least)
      ? `message '${type.name}' ${route}: no lookahead is declared from ${classes}; declare world.lookahead(...) or world.link(...)`
      : `message '${type.name}' ${route} has a delay of ${delayNs} ns, under the declared lookahead of ${least} ns (${classes}): give it at least that delay, put both actors into one cell, or declare a smaller lookahead`,
  );
}

export function refuseBroken(model: Model, self: number, to: number, type: MessageType, timeNs: number, silentUntilNs: number): never {
  const cell = model.cellNames[model.cellOfActor[to] as number];
  throw new KernelError(
    'promise-broken',
    `'${actorName(model, self)}' sends '${type.name}' to '${actorName(model, to)}' for ${timeNs} ns, but promised cell '${cell}' silence until ${silentUntilNs} ns`,
  );
}

export function refuseClass(model: Model, self: number, to: number, type: MessageType): never {
  const kind = kindOf(model, self);
  const into = model.lookahead.classNames[model.classOfCell[model.cellOfActor[to] as number] as number] as string;
  throw new KernelError(
    'lookahead',
    `'${actorName(model, self)}' sends '${type.name}' to '${actorName(model, to)}' in a cell of class '${into}', but kind '${kind.name}' declares that it sends to [${(kind.sendsTo ?? []).join(', ')}]: add '${into}' to its sendsTo`,
  );
}

/** Notes a link of a long chain of zero-delay messages in `loop`. @throws KernelError `zero-delay-loop` past the limit. */
export function followLoop(
  model: Model,
  loop: string[],
  self: number,
  to: number,
  type: MessageType,
  step: number,
  stepLimit: number,
): void {
  loop.push(`${actorName(model, self)} -${type.name}-> ${actorName(model, to)}`);
  if (step > stepLimit) refuseLoop(loop.splice(0), stepLimit);
  // Long chains that end in time leave their links here: only the last ones are ever shown.
  if (loop.length > 256) loop.splice(0, 128);
}

/** @param chain the last sends of the chain, as text. */
function refuseLoop(chain: readonly string[], stepLimit: number): never {
  const links = [...new Set(chain.slice(-32))].join('; ');
  throw new KernelError(
    'zero-delay-loop',
    `a chain of zero-delay messages passed ${stepLimit} steps at one instant: ${links}; give one of them a delay, or raise limits.zeroDelaySteps`,
  );
}

/** A full queue's error with the actor that has the most pending messages. */
export function nameFullest(model: Model, slab: EventSlab, queue: EventQueue, error: KernelError): KernelError {
  const counts = new Int32Array(model.actorNames.length);
  queue.forEach((slot) => {
    const target = slab.integers[slot * (2 * slotWords) + targetOffset] as number;
    if (target >= 0) counts[target] = (counts[target] as number) + 1;
  });
  let fullest = 0;
  for (let actor = 0; actor < counts.length; actor++) if ((counts[actor] as number) > (counts[fullest] as number)) fullest = actor;
  return new KernelError(
    'limit',
    `${error.reason}. Fullest: actor '${model.actorNames[fullest]}' with ${counts[fullest]} pending messages`,
  );
}
