import { checkTree } from './plain-check.js';
import { copyValue } from './plain-copy.js';
import { SharedParts } from './shared-parts.js';

/** What a strict run watches of its actors' states: each is plain data and stays so, and none changes what another holds too. */
export class StrictStates {
  readonly #names: readonly string[];
  readonly #shared = new SharedParts();
  /** Events of an actor until its state is checked again. */
  readonly #unchecked: Int32Array;

  constructor(actorNames: readonly string[]) {
    this.#names = actorNames;
    this.#unchecked = new Int32Array(actorNames.length);
  }

  /** Takes in a state as the program made it; returns the copy that its actor gets. @throws KernelError `bad-value`. */
  separate(actor: number, state: unknown): unknown {
    const copy = copyValue(state, this.#what(actor));
    this.#shared.note(actor, this.#names[actor] as string, state, copy);
    return copy;
  }

  /** After an event: checks a small state every time, a large one as often as its size allows. @throws KernelError `bad-value`. */
  afterEvent(actor: number, state: unknown): void {
    const left = (this.#unchecked[actor] as number) - 1;
    this.#unchecked[actor] = left;
    if (left > 0) return;
    const what = this.#what(actor);
    this.#unchecked[actor] = checkTree(state, what) >> 8;
    this.#shared.check(actor, what);
  }

  #what(actor: number): string {
    return `the state of '${this.#names[actor]}'`;
  }
}
