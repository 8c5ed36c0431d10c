import type { MessageType, RowType } from './message.js';

/** One emitted record. Records of a run are ordered by (timeNs, step, actor, number). */
export interface RunRecord {
  readonly timeNs: number;
  readonly step: number;
  /** Id of the actor that emitted it. */
  readonly actor: number;
  /** Count of the actor's records before this one. */
  readonly number: number;
  /** Name of the record's declaration. */
  readonly type: string;
  readonly fields: readonly number[];
  readonly body: unknown;
}

/** Takes merged records. `write` may return a promise: the run is held until it settles, nothing is dropped. */
export interface RecordSink {
  write(records: readonly RunRecord[]): void | Promise<void>;
  close?(): void | Promise<void>;
}

/** Words of a record in a batch: time, (step, actor), number, (type, field count), then its fields. */
const headerWords = 4;
const bodyBit = 1 << 16;

/** Records as columns, their bodies beside them. */
export interface RecordBatch {
  readonly typeNames: readonly string[];
  readonly columns: Float64Array;
  readonly bodies: readonly unknown[];
}

/** Records of one shard since the last flush. */
export class RecordBuffer {
  #words = new Float64Array(512);
  #integers = new Int32Array(this.#words.buffer);
  #used = 0;
  #bodies: unknown[] = [];
  readonly #typeNames: string[] = [];
  readonly #typeOfDeclaration: number[] = [];
  count = 0;

  constructor() {
    this.#grow(); // Once at birth, as the event slab does, and why.
  }

  get bytes(): number {
    return this.#used * 8;
  }

  append(
    timeNs: number,
    step: number,
    actor: number,
    number: number,
    type: MessageType,
    hasBody: boolean,
    a: number,
    b: number,
    c: number,
    d: number,
    e: number,
    f: number,
  ): void {
    const at = this.#begin(timeNs, step, actor, number, type, hasBody, 6);
    const words = this.#words;
    words[at] = a;
    words[at + 1] = b;
    words[at + 2] = c;
    words[at + 3] = d;
    words[at + 4] = e;
    words[at + 5] = f;
  }

  appendRow(timeNs: number, step: number, actor: number, number: number, type: RowType, numbers: Float64Array): void {
    const at = this.#begin(timeNs, step, actor, number, type, false, numbers.length);
    for (let column = 0; column < numbers.length; column++) this.#words[at + column] = numbers[column] as number;
  }

  /** Writes the header of a record and takes its room, with place for `written` numbers; returns where its numbers go. */
  #begin(
    timeNs: number,
    step: number,
    actor: number,
    number: number,
    type: Pick<RowType, 'name' | 'fields' | 'declaration'>,
    hasBody: boolean,
    written: number,
  ): number {
    const at = this.#used;
    while (at + headerWords + written > this.#words.length) this.#grow();
    const integers = this.#integers;
    this.#words[at] = timeNs;
    integers[2 * at + 2] = step;
    integers[2 * at + 3] = actor;
    this.#words[at + 2] = number;
    integers[2 * at + 6] = this.#typeIndex(type) | (hasBody ? bodyBit : 0);
    integers[2 * at + 7] = type.fields.length;
    this.#used = at + headerWords + type.fields.length;
    this.count++;
    return at + headerWords;
  }

  appendBody(body: unknown): void {
    this.#bodies.push(body);
  }

  /** The records, whose columns the next record overwrites; empties the buffer. */
  take(): RecordBatch {
    const batch = { typeNames: [...this.#typeNames], columns: this.#words.subarray(0, this.#used), bodies: this.#bodies };
    this.#used = 0;
    this.#bodies = [];
    this.count = 0;
    return batch;
  }

  #typeIndex(type: { readonly name: string; readonly declaration: number }): number {
    const known = this.#typeOfDeclaration[type.declaration];
    if (known !== undefined) return known;
    const index = this.#typeNames.length;
    this.#typeNames.push(type.name);
    this.#typeOfDeclaration[type.declaration] = index;
    return index;
  }

  #grow(): void {
    const words = new Float64Array(this.#words.length * 2);
    words.set(this.#words);
    this.#words = words;
    this.#integers = new Int32Array(words.buffer);
  }
}

export function recordsOf({ typeNames, columns: words, bodies }: RecordBatch): RunRecord[] {
  const integers = new Int32Array(words.buffer, words.byteOffset, 2 * words.length);
  const records: RunRecord[] = [];
  let nextBody = 0;
  for (let at = 0; at < words.length; ) {
    const typeWord = integers[2 * at + 6] as number;
    const fieldCount = integers[2 * at + 7] as number;
    records.push({
      timeNs: words[at] as number,
      step: integers[2 * at + 2] as number,
      actor: integers[2 * at + 3] as number,
      number: words[at + 2] as number,
      type: typeNames[typeWord & ~bodyBit] as string,
      fields: numbersOf(words, at + headerWords, fieldCount),
      body: (typeWord & bodyBit) === 0 ? undefined : bodies[nextBody++],
    });
    at += headerWords + fieldCount;
  }
  return records;
}

/** An array of numbers only. `Array.from` of a part would go through its iterator. */
function numbersOf(words: Float64Array, from: number, count: number): number[] {
  const numbers: number[] = [];
  for (let at = from; at < from + count; at++) numbers.push(words[at] as number);
  return numbers;
}

/** The order of records: time, step, actor, number. */
export function compareRecords(a: RunRecord, b: RunRecord): number {
  return a.timeNs - b.timeNs || a.step - b.step || a.actor - b.actor || a.number - b.number;
}

/**
 * Merges the records of all shards and hands them to the sink in order. A record is final once every shard has passed its time. After a
 * restart from a checkpoint the run emits some records again; those already written are recognised by their key and left out.
 */
export class RecordMerger {
  readonly #sink: RecordSink;
  #waiting: RunRecord[][] = [];
  #through = new Float64Array(0);
  #last: RunRecord | undefined;
  ended = false;
  count = 0;

  constructor(sink: RecordSink) {
    this.#sink = sink;
  }

  /** Begins a stretch on this many shards; all of the stretch before is released. */
  begin(shardCount: number): void {
    const left = this.#waiting.flat();
    this.#waiting = Array.from({ length: shardCount }, () => []);
    this.#waiting[0] = left.sort(compareRecords);
    this.#through = new Float64Array(shardCount);
  }

  /** Forgets what is not yet written: the run starts again from a checkpoint and emits it anew. */
  rewind(): void {
    this.#waiting = [];
  }

  /** Adds a shard's batch: all its records before `throughNs` are now known. */
  async add(shard: number, records: readonly RunRecord[], throughNs: number): Promise<void> {
    const waiting = this.#waiting[shard];
    if (waiting === undefined) return; // A late batch of a stretch that was given up.
    const sorted =
      waiting.length === 0 || records.length === 0 || compareRecords(waiting[waiting.length - 1] as RunRecord, records[0] as RunRecord) < 0;
    for (const record of records) waiting.push(record);
    if (!sorted) waiting.sort(compareRecords); // Interleaved shards share one batch.
    this.#through[shard] = throughNs;
    await this.#release(Math.min(...this.#through));
  }

  /** Everything is known: writes the rest and closes the sink. */
  async close(): Promise<void> {
    await this.#release(Number.POSITIVE_INFINITY);
    await this.end();
  }

  /** Closes the sink with what was final; nothing is written twice or after it. */
  async end(): Promise<void> {
    if (this.ended) return;
    this.ended = true;
    this.#waiting = [];
    await this.#sink.close?.();
  }

  async #release(beforeNs: number): Promise<void> {
    const ready: RunRecord[] = [];
    for (const [shard, waiting] of this.#waiting.entries()) {
      let count = 0;
      while (count < waiting.length && (waiting[count] as RunRecord).timeNs < beforeNs) count++;
      if (count === 0) continue;
      for (let i = 0; i < count; i++) ready.push(waiting[i] as RunRecord);
      this.#waiting[shard] = waiting.slice(count);
    }
    ready.sort(compareRecords);
    const last = this.#last;
    const fresh = last === undefined ? ready : ready.filter((record) => compareRecords(record, last) > 0);
    if (fresh.length === 0) return;
    this.#last = fresh[fresh.length - 1] as RunRecord;
    this.count += fresh.length;
    await this.#sink.write(fresh);
  }
}
