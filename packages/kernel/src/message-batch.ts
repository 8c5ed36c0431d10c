import { KernelError } from './errors.js';
import { slotLayout } from './event-slab.js';
import { packBatch, unpackBatch } from './plain-data.js';

const { bodyFlag } = slotLayout;

/** Words of a message in a batch: time, sequence number, (sender, target), (kind word, field count), then its fields. */
const headerWords = 4;

/**
 * Messages on their way to one other shard, as columns in one typed array; bodies wait beside it and are packed with the batch.
 * On the wire a batch is the msgpack array [binary columns, bodies].
 */
export class MessageBatch {
  count = 0;
  /** Earliest arrival in the batch, `Infinity` when empty. */
  earliestNs = Number.POSITIVE_INFINITY;
  private readonly limitBytes: number;
  private readonly nameOf: (actor: number) => string;
  private words = new Float64Array(1024);
  private integers = new Int32Array(this.words.buffer);
  private used = 0;
  private readonly bodies: unknown[] = [];
  private bodyBytes = 0;

  /** @param nameOf names an actor in errors. */
  constructor(limitBytes: number, nameOf: (actor: number) => string = (actor) => `#${actor}`) {
    this.limitBytes = limitBytes;
    this.nameOf = nameOf;
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

  /** The batch as msgpack bytes (a view that the next pack may overwrite); the batch is empty afterwards. */
  pack(): Uint8Array {
    const bytes = packBatch(new Uint8Array(this.words.buffer, 0, this.used * 8), this.bodies);
    this.clear();
    return bytes;
  }

  clear(): void {
    this.count = 0;
    this.used = 0;
    this.bodies.length = 0;
    this.bodyBytes = 0;
    this.earliestNs = Number.POSITIVE_INFINITY;
  }

  private grow(target: number): void {
    if (this.words.byteLength * 2 + this.bodyBytes > this.limitBytes) this.refuse(target);
    const words = new Float64Array(this.words.length * 2);
    words.set(this.words);
    this.words = words;
    this.integers = new Int32Array(words.buffer);
  }

  private refuse(target: number): never {
    throw new KernelError(
      'limit',
      `a batch of ${this.count} messages to another shard, the last of them to '${this.nameOf(target)}', passes ${this.limitBytes} bytes; raise limits.batchBytes`,
    );
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

let copied = new Float64Array(1024);
let copiedBytes = new Uint8Array(copied.buffer);
let copiedIntegers = new Int32Array(copied.buffer);

/** Unpacks a batch. The receiver must not unpack another one meanwhile. */
export function unpackMessages(packed: Uint8Array, receive: MessageReceiver): void {
  const [columns, bodies] = unpackBatch(packed);
  if (columns.byteLength > copiedBytes.byteLength) {
    copied = new Float64Array(2 ** Math.ceil(Math.log2(columns.byteLength / 8 + 1)));
    copiedBytes = new Uint8Array(copied.buffer);
    copiedIntegers = new Int32Array(copied.buffer);
  }
  copiedBytes.set(columns); // The packed bytes need not be aligned to doubles.
  const end = columns.byteLength / 8;
  let nextBody = 0;
  for (let at = 0; at < end; ) {
    const kindWord = copiedIntegers[2 * at + 6] as number;
    const fieldCount = copiedIntegers[2 * at + 7] as number;
    const body = (kindWord & bodyFlag) === 0 ? undefined : bodies[nextBody++];
    receive(
      copied[at] as number,
      copied[at + 1] as number,
      copiedIntegers[2 * at + 4] as number,
      copiedIntegers[2 * at + 5] as number,
      kindWord,
      copied,
      at + headerWords,
      fieldCount,
      body,
    );
    at += headerWords + fieldCount;
  }
}
