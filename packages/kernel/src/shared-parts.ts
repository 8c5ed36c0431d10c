import { KernelError } from './errors.js';
import { Hash } from './fingerprint.js';

/** A part of a state that another place holds too: this actor's copy, and what it held when the run began. */
interface WatchedPart {
  readonly copy: object;
  readonly digest: string;
  readonly alsoIn: string;
}

/** Where an object of the program was found first. */
interface Holder {
  readonly actor: number;
  readonly name: string;
  readonly copy: object;
}

/**
 * What the states of a strict run share when they begin: with each other, or within one. That is harmless while nobody changes it (a table, a
 * specification), but a change would reach the others on one thread and not on two.
 */
export class SharedParts {
  readonly #holders = new Map<object, Holder>();
  readonly #watched = new Map<number, WatchedPart[]>();

  /** Takes in an actor's state as the program made it, and the copy the actor gets. */
  note(actor: number, name: string, original: unknown, copy: unknown): void {
    if (typeof original !== 'object' || original === null) return;
    const own = copy as object;
    const holder = this.#holders.get(original);
    if (holder !== undefined) {
      this.#watch(actor, own, holder.name);
      this.#watch(holder.actor, holder.copy, name);
      return;
    }
    this.#holders.set(original, { actor, name, copy: own });
    if (ArrayBuffer.isView(original)) return;
    const copies = partsOf(own);
    for (const [index, part] of partsOf(original).entries()) this.note(actor, name, part, copies[index]);
  }

  /** @throws KernelError `bad-value` when the actor has changed what another place holds too. */
  check(actor: number, what: string): void {
    for (const { copy, digest, alsoIn } of this.#watched.get(actor) ?? []) {
      if (digestOf(copy) === digest) continue;
      throw new KernelError(
        'bad-value',
        `${what} has changed an object that it shares with the state of '${alsoIn}': there the change would be seen on one shard and not on two; give each its own copy`,
      );
    }
  }

  #watch(actor: number, copy: object, alsoIn: string): void {
    const parts = this.#watched.get(actor) ?? [];
    if (parts.some((part) => part.copy === copy)) return;
    parts.push({ copy, digest: digestOf(copy), alsoIn });
    this.#watched.set(actor, parts);
  }
}

/** The values an object holds, in the same order for a copy. */
function partsOf(value: object): unknown[] {
  if (value instanceof Map) return [...value].flat(1);
  return value instanceof Set ? [...value] : Object.values(value);
}

function digestOf(value: object): string {
  const hash = new Hash();
  hash.value(value);
  return hash.digest();
}
