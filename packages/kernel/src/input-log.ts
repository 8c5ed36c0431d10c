import { KernelError } from './errors.js';
import type { Model } from './model.js';
import { checkPlainData } from './plain-check.js';
import { checkNs } from './time.js';

/** One external input as it is logged: replaying the log gives the same fingerprint. */
export interface InputEntry {
  /** The simulated time it enters. */
  readonly timeNs: number;
  /** Name of the receiving actor. */
  readonly actor: string;
  /** Name of the message. */
  readonly message: string;
  readonly fields?: readonly number[];
  readonly body?: unknown;
}

/** Resolves an input against a model. @throws KernelError naming the actor, message or field that is wrong. */
export function inputFields(entry: InputEntry, model: Model): { target: number; number: number; fields: Float64Array } {
  checkNs(`the time of an input for '${entry.actor}'`, entry.timeNs);
  const target = model.actorNames.indexOf(entry.actor);
  if (target < 0) throw new KernelError('unknown-actor', `input for '${entry.actor}': no actor has this name`);
  const kind = model.kinds[model.kindOfActor[target] as number] as Model['kinds'][number];
  const type = kind.messages.find((candidate) => candidate.name === entry.message);
  if (type === undefined) {
    throw new KernelError(
      'unknown-message',
      `input for '${entry.actor}': kind '${kind.name}' handles no '${entry.message}'; it handles [${kind.messages.map((known) => known.name).join(', ')}]`,
    );
  }
  const wrong = (entry.fields ?? []).findIndex((value) => typeof value !== 'number' || Number.isNaN(value));
  if (wrong >= 0) {
    throw new KernelError(
      'bad-value',
      `input '${entry.message}' for '${entry.actor}': field '${type.fields[wrong] ?? wrong}' is ${String(entry.fields?.[wrong])}; fields are numbers`,
    );
  }
  const fields = Float64Array.from(entry.fields ?? []);
  if (fields.length !== type.fields.length) {
    throw new KernelError(
      'bad-value',
      `input '${entry.message}' for '${entry.actor}' has ${fields.length} fields; it needs ${type.fields.length} [${type.fields.join(', ')}]`,
    );
  }
  if ((entry.body !== undefined) !== type.hasBody)
    throw new KernelError('bad-value', `input '${entry.message}' for '${entry.actor}' ${type.hasBody ? 'needs' : 'takes no'} body`);
  if (entry.body !== undefined) checkPlainData(entry.body, `the body of input '${entry.message}' for '${entry.actor}'`);
  return { target, number: model.messages.indexOf(type), fields };
}

/** Names the entries of a log that was edited by hand: order and form. */
export function checkInputLog(log: readonly InputEntry[]): void {
  for (let index = 1; index < log.length; index++) {
    if ((log[index] as InputEntry).timeNs < (log[index - 1] as InputEntry).timeNs) {
      throw new KernelError(
        'bad-value',
        `input log entry ${index} is stamped ${(log[index] as InputEntry).timeNs} ns, before the entry in front of it; sort the log by time`,
      );
    }
  }
}
