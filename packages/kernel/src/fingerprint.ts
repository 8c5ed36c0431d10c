/**
 * Fingerprints are two rolling 32-bit lanes. An actor's fingerprint folds in, for each message it received: the time (two words), the hash of
 * the message's name, the sender, every numeric field (two words each, NaN canonical), and the body. The run's fingerprint folds the
 * actors' lanes in the order of their ids.
 */
export function mixA(lane: number, word: number): number {
  const mixed = Math.imul(lane ^ word, 0x9e3779b1);
  return mixed ^ (mixed >>> 15);
}

export function mixB(lane: number, word: number): number {
  return (Math.imul((lane << 5) | (lane >>> 27), 0x85ebca6b) + word) | 0;
}

const scratch = new Float64Array(1);
const scratchWords = new Int32Array(scratch.buffer);

const rowLength = 32;
const row = new Float64Array(rowLength);
const rowWords = new Int32Array(row.buffer);

/** A running pair of lanes over words, numbers, strings and plain-data values. */
export class Hash {
  a: number;
  b: number;

  constructor(a = 0x243f6a88, b = 0x13198a2e) {
    this.a = a | 0;
    this.b = b | 0;
  }

  word(word: number): void {
    this.a = mixA(this.a, word);
    this.b = mixB(this.b, word);
  }

  number(value: number): void {
    scratch[0] = Number.isNaN(value) ? Number.NaN : value;
    this.word(Number.isNaN(value) ? 0 : (scratchWords[0] as number));
    this.word(Number.isNaN(value) ? 0x7ff80000 : (scratchWords[1] as number));
  }

  /** The same as `number` of each. */
  numbers(values: Float64Array): void {
    for (let from = 0; from < values.length; from += rowLength) {
      const count = Math.min(rowLength, values.length - from);
      for (let i = 0; i < count; i++) row[i] = values[from + i] as number;
      let { a, b } = this;
      for (let i = 0; i < 2 * count; i += 2) {
        let low = rowWords[i] as number;
        let high = rowWords[i + 1] as number;
        if ((high & 0x7ff00000) === 0x7ff00000 && ((high & 0xfffff) !== 0 || low !== 0)) {
          low = 0; // NaN comes in many bit patterns.
          high = 0x7ff80000;
        }
        a = mixA(mixA(a, low), high);
        b = mixB(mixB(b, low), high);
      }
      this.a = a;
      this.b = b;
    }
  }

  string(text: string): void {
    this.word(text.length);
    for (let i = 0; i < text.length; i++) this.word(text.charCodeAt(i));
  }

  bytes(bytes: Uint8Array): void {
    this.word(bytes.length);
    let i = 0;
    if (bytes.byteOffset % 4 === 0 && bytes.length >= 64) {
      // Word by word, as the loop below would build them on the little-endian platforms of Node.
      const words = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length >> 2);
      // Lanes in registers: in the object each word would wait for the one before to be stored.
      let { a, b } = this;
      for (; i < words.length; i++) {
        const word = words[i] as number;
        a = mixA(a, word);
        b = mixB(b, word);
      }
      this.a = a;
      this.b = b;
      i *= 4;
    }
    for (; i + 4 <= bytes.length; i += 4) {
      this.word(
        (bytes[i] as number) | ((bytes[i + 1] as number) << 8) | ((bytes[i + 2] as number) << 16) | ((bytes[i + 3] as number) << 24),
      );
    }
    for (; i < bytes.length; i++) this.word(bytes[i] as number);
  }

  /** Folds in a plain-data value (see plain-data.ts), its structure included. */
  value(value: unknown): void {
    switch (typeof value) {
      case 'number':
        this.word(1);
        this.number(value);
        return;
      case 'string':
        this.word(2);
        this.string(value);
        return;
      case 'boolean':
        this.word(value ? 3 : 4);
        return;
      case 'bigint':
        this.word(5);
        this.string(value.toString());
        return;
      case 'undefined':
        this.word(6);
        return;
      default:
        this.#object(value as object | null);
    }
  }

  #object(value: object | null): void {
    if (value === null) {
      this.word(7);
    } else if (Array.isArray(value)) {
      this.word(8);
      this.word(value.length);
      for (const item of value) this.value(item);
    } else if (value instanceof Map) {
      this.word(9);
      this.word(value.size);
      for (const [key, item] of value) {
        this.value(key);
        this.value(item);
      }
    } else if (value instanceof Set) {
      this.word(10);
      this.word(value.size);
      for (const item of value) this.value(item);
    } else if (ArrayBuffer.isView(value)) {
      this.word(11);
      this.string(value.constructor.name);
      this.bytes(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
    } else {
      this.word(12);
      for (const key in value) {
        this.word(nameHash(key));
        this.value((value as Record<string, unknown>)[key]);
      }
      this.word(13); // Where it ends: { a: { b: 1 }, c: 2 } is not { a: { b: 1, c: 2 } }.
    }
  }

  /** Sixteen hexadecimal digits. */
  digest(): string {
    return ((this.a >>> 0).toString(16).padStart(8, '0') + (this.b >>> 0).toString(16).padStart(8, '0')) as string;
  }
}

/** Names seen before; bounded, since the keys of a body may be anything. */
const nameHashes = new Map<string, number>();
const rememberedNames = 4096;

/** 32-bit hash of a name, the same in every process. */
export function nameHash(name: string): number {
  const known = nameHashes.get(name);
  if (known !== undefined) return known;
  const hash = new Hash();
  hash.string(name);
  const word = hash.a ^ hash.b;
  if (nameHashes.size < rememberedNames) nameHashes.set(name, word);
  return word;
}

/** Folds per-actor lanes (a, b alternating, in the order of the ids) into one fingerprint. */
export function combineLanes(lanes: Int32Array): string {
  const hash = new Hash();
  for (let i = 0; i < lanes.length; i++) hash.word(lanes[i] as number);
  return hash.digest();
}
