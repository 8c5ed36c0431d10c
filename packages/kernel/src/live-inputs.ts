import type { InputEntry } from './input-log.js';

/** An input with the number that orders it among inputs of one instant. */
export interface NumberedInput extends InputEntry {
  readonly sequence: number;
}

interface TakenInput extends NumberedInput {
  /** The stretch (between two restarts) and segment that took it in. */
  readonly segment: number;
}

/**
 * The external input of a live run: what waits to be taken in, and the log of what was. Shards take input in while a segment runs; what a
 * segment ends without taking is handed to the next, and what a lost segment took is put back at its old time.
 */
export class LiveInputs {
  readonly #waiting = new Map<number, InputEntry>();
  #taken: TakenInput[] = [];
  #next: number;
  #segment = 0;

  constructor(first: number) {
    this.#next = first;
  }

  /** Accepts an input and returns its number. */
  add(entry: InputEntry): number {
    const sequence = this.#next++;
    this.#waiting.set(sequence, entry);
    return sequence;
  }

  /** Numbers for a log that is replayed from the start. */
  number(log: readonly InputEntry[]): NumberedInput[] {
    return log.map((entry) => ({ ...entry, sequence: this.#next++ }));
  }

  get waiting(): ReadonlyMap<number, InputEntry> {
    return this.#waiting;
  }

  beginSegment(): void {
    this.#segment++;
  }

  /** A shard took an input in, at the time it now bears. */
  noteTaken(sequence: number, timeNs: number): void {
    const entry = this.#waiting.get(sequence);
    if (entry === undefined) return;
    this.#waiting.delete(sequence);
    this.#taken.push({ ...entry, timeNs, sequence, segment: this.#segment });
  }

  /** The running segment is lost: what it took must enter again, at the same time and with the same number. */
  takeBack(): NumberedInput[] {
    const lost = this.#taken.filter((input) => input.segment === this.#segment);
    this.#taken = this.#taken.filter((input) => input.segment !== this.#segment);
    for (const input of lost) this.#taken.push({ ...input, segment: this.#segment + 1 });
    return lost;
  }

  /** What was taken in, in the order of the run: replaying it gives the same run. */
  log(): InputEntry[] {
    const ordered = [...this.#taken].sort((a, b) => a.timeNs - b.timeNs || a.sequence - b.sequence);
    return ordered.map(({ sequence: _sequence, segment: _segment, ...entry }) => entry);
  }
}
