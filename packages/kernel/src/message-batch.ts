import { KernelError } from './errors.js';
import { slotLayout } from './event-slab.js';
import { packBodies, unpackValue } from './plain-data.js';

const { bodyFlag } = slotLayout;

/** Words of a message in a batch: time, sequence number, (sender, target), (kind word, field count), then its fields. */
const headerWords = 4;

/**
 * A batch as msgpack is [binary columns, bodies]. Its first six bytes, 0x92 (an array of two) and 0xc6 (a binary) with the length, lie at the end of
 * a word, so that the columns begin at the next one: they are written, sent and read in place.
 */
const arrayOfBinary = 0xc6920000 | 0;
const noBodies = 0x90;
const prefixBytes = 6;

/** Messages on their way to one other shard, as columns in one typed array; bodies wait beside it and are packed with the batch. */
export class MessageBatch {
  count = 0;
  /** Earliest arrival in the batch, `Infinity` when empty. */
  earliestNs = Number.POSITIVE_INFINITY;
  /** The first `frontWords` words are the caller's, for what goes before the batch on the way. */
  words = new Float64Array(1024);
  integers = new Int32Array(this.words.buffer);
  private bytes = new Uint8Array(this.words.buffer);
  private readonly limitBytes: number;
  private readonly nameOf: (actor: number) => string;
  private readonly onRefused: (error: KernelError) => void;
  private readonly firstColumn: number;
  private used: number;
  private readonly bodies: unknown[] = [];
  private bodyBytes = 0;

  /** @param nameOf names an actor in errors. @param onRefused is told of a passed limit before it is thrown: the batch is of no use any more. */
  constructor(
    limitBytes: number,
    nameOf: (actor: number) => string = (actor) => `#${actor}`,
    frontWords = 0,
    onRefused: (error: KernelError) => void = () => undefined,
  ) {
    this.limitBytes = limitBytes;
    this.nameOf = nameOf;
    this.onRefused = onRefused;
    this.firstColumn = frontWords + 1;
    this.used = this.firstColumn;
  }

  /** Appends a message; `storeFields` or `appendBody` may complete it. */
  append(timeNs: number, sequence: number, sender: number, target: number, kindWord: number, fieldCount: number): void {
    const at = this.used;
    if (at + headerWords + 6 > this.words.length) this.grow(target);
    const words = this.words;
    words[at] = timeNs;
    words[at + 1] = sequence;
    const integers = this.integers;
    integers[2 * at + 4] = sender;
    integers[2 * at + 5] = target;
    integers[2 * at + 6] = kindWord;
    integers[2 * at + 7] = fieldCount;
    this.used = at + headerWords + fieldCount;
    this.count++;
    if (timeNs < this.earliestNs) this.earliestNs = timeNs;
  }

  /** The fields of the message just appended, `fieldCount` of them; the rest lands where the next message will be written. */
  storeFields(fieldCount: number, a: number, b: number, c: number, d: number, e: number, f: number): void {
    const at = this.used - fieldCount;
    const words = this.words;
    words[at] = a;
    words[at + 1] = b;
    words[at + 2] = c;
    words[at + 3] = d;
    words[at + 4] = e;
    words[at + 5] = f;
  }

  /** The body of the message just appended with the body flag, and about how many bytes it holds. */
  appendBody(body: unknown, bytes = 0, target = -1): void {
    this.bodyBytes += bytes;
    if (this.bodyBytes + 8 * this.used > this.limitBytes) this.refuse(target);
    this.bodies.push(body);
  }

  /** Completes the batch in `words`, from the word after the front; returns its bytes up to the end, 0 for an empty one. `clear` comes next. */
  close(): number {
    if (this.count === 0) return 0;
    const columnBytes = (this.used - this.firstColumn) * 8;
    const packed = this.bodies.length === 0 ? undefined : packBodies(this.bodies);
    const bodyBytes = packed?.byteLength ?? 1;
    while (this.bytes.length < this.used * 8 + bodyBytes) this.widen();
    const prefix = 2 * this.firstColumn - 2;
    this.integers[prefix] = arrayOfBinary;
    this.integers[prefix + 1] = swapBytes(columnBytes);
    if (packed === undefined) this.bytes[this.used * 8] = noBodies;
    else this.bytes.set(packed, this.used * 8);
    return 8 + columnBytes + bodyBytes;
  }

  /** The batch as msgpack bytes (a view that the next message overwrites); the batch is empty afterwards. */
  pack(): Uint8Array {
    const end = this.firstColumn * 8 - 8 + this.close();
    const packed = this.bytes.subarray(this.firstColumn * 8 - prefixBytes, end);
    this.clear();
    return packed;
  }

  clear(): void {
    this.count = 0;
    this.used = this.firstColumn;
    this.bodies.length = 0;
    this.bodyBytes = 0;
    this.earliestNs = Number.POSITIVE_INFINITY;
  }

  private grow(target: number): void {
    if (this.words.byteLength * 2 + this.bodyBytes > this.limitBytes) this.refuse(target);
    this.widen();
  }

  private widen(): void {
    const words = new Float64Array(this.words.length * 2);
    words.set(this.words);
    this.words = words;
    this.integers = new Int32Array(words.buffer);
    this.bytes = new Uint8Array(words.buffer);
  }

  private refuse(target: number): never {
    const error = new KernelError(
      'limit',
      `a batch of ${this.count} messages to another shard, the last of them to '${this.nameOf(target)}', passes ${this.limitBytes} bytes; raise limits.batchBytes`,
    );
    this.onRefused(error);
    throw error;
  }
}

/** Receives the messages of a batch one by one; `words` and `integers` are valid during the call, fields start at `fieldsAt`. */
export type MessageReceiver = (
  timeNs: number,
  sequence: number,
  sender: number,
  target: number,
  kindWord: number,
  words: Float64Array,
  fieldsAt: number,
  fieldCount: number,
  body: unknown,
) => void;

/** Reads the batch that begins at word `at` of a frame, in place. */
export function readMessages(words: Float64Array, integers: Int32Array, at: number, byteLength: number, receive: MessageReceiver): void {
  const columnBytes = swapBytes(integers[2 * at + 1] as number);
  const first = at + 1;
  const end = first + columnBytes / 8;
  if (integers[2 * at] !== arrayOfBinary || columnBytes < 0 || 8 + columnBytes >= byteLength)
    throw new KernelError('handshake', `a batch of ${byteLength} bytes does not begin with its columns`);
  const bodyBytes = byteLength - 8 - columnBytes;
  const bodies = bodyBytes > 1 ? (unpackValue(new Uint8Array(words.buffer, words.byteOffset + end * 8, bodyBytes)) as unknown[]) : [];
  let nextBody = 0;
  for (let message = first; message < end; ) {
    const kindWord = integers[2 * message + 6] as number;
    const fieldCount = integers[2 * message + 7] as number;
    const body = (kindWord & bodyFlag) === 0 ? undefined : bodies[nextBody++];
    receive(
      words[message] as number,
      words[message + 1] as number,
      integers[2 * message + 4] as number,
      integers[2 * message + 5] as number,
      kindWord,
      words,
      message + headerWords,
      fieldCount,
      body,
    );
    message += headerWords + fieldCount;
  }
}

/** Unpacks a batch from msgpack bytes. */
export function unpackMessages(packed: Uint8Array, receive: MessageReceiver): void {
  const byteLength = packed.byteLength + 8 - prefixBytes;
  const words = new Float64Array(Math.ceil(byteLength / 8));
  new Uint8Array(words.buffer).set(packed, 8 - prefixBytes);
  readMessages(words, new Int32Array(words.buffer), 0, byteLength, receive);
}

/** A length between the byte order of msgpack (big-endian) and that of typed arrays here. */
function swapBytes(value: number): number {
  return (value << 24) | ((value & 0xff00) << 8) | ((value >>> 8) & 0xff00) | (value >>> 24);
}
