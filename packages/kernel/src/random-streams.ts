import seedrandom from 'seedrandom';
import type { Model } from './model.js';
import { kindOf } from './refusals.js';

/** Doubles a stream: s0, s1, s2 of alea and its carry plus one (0 marks a stream not yet seeded). */
const streamWords = 4;
const twoToMinus32 = 2.3283064365386963e-10;

/**
 * Random streams in typed columns, bit-equal to seedrandom's `alea` seeded with the stream's name (J. Baagoe's multiply-with-carry
 * generator). A stream is seeded when first drawn from, so 100,000 idle streams cost nothing.
 */
export class RandomStreams {
  private readonly words: Float64Array;
  private readonly seed: (stream: number) => void;

  constructor(count: number, nameOf: (stream: number) => string) {
    const words = new Float64Array(count * streamWords);
    this.words = words;
    this.seed = (stream) => {
      const state = seedrandom.alea(nameOf(stream), { state: true }).state() as seedrandom.State.Alea;
      words.set([state.s0, state.s1, state.s2, state.c + 1], stream * streamWords);
    };
  }

  /** The next number in [0, 1) of a stream. */
  draw(stream: number): number {
    const words = this.words;
    const base = stream * streamWords;
    // Not called directly: each stream's first draw would have the compiler inline seeding into every draw, and then no draw into its handler.
    if (words[base + 3] === 0) Reflect.apply(this.seed, undefined, [stream]);
    const t = 2091639 * (words[base] as number) + ((words[base + 3] as number) - 1) * twoToMinus32;
    words[base] = words[base + 1] as number;
    words[base + 1] = words[base + 2] as number;
    const carry = t | 0;
    words[base + 3] = carry + 1;
    return (words[base + 2] = t - carry);
  }

  isSeeded(stream: number): boolean {
    return this.words[stream * streamWords + 3] !== 0;
  }

  /** Copies the four words of a stream's state out. */
  save(stream: number, target: Float64Array, offset: number): void {
    for (let word = 0; word < streamWords; word++) target[offset + word] = this.words[stream * streamWords + word] as number;
  }

  restore(stream: number, source: Float64Array, offset: number): void {
    for (let word = 0; word < streamWords; word++) this.words[stream * streamWords + word] = source[offset + word] as number;
  }
}

/** Name of a stream of a model: seed/actor/stream. */
export function streamName(model: Model, seed: string, stream: number): string {
  const base = model.streamBase;
  let low = 0;
  let high = model.actorNames.length;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if ((base[middle] as number) <= stream) low = middle;
    else high = middle;
  }
  return `${seed}/${model.actorNames[low]}/${kindOf(model, low).streams[stream - (base[low] as number)]}`;
}
