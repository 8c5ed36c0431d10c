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

/** Takes merged records, as objects or as columns. What it returns may be a promise: the run is held until it settles, nothing is dropped. */
export interface RecordSink {
  write?(records: readonly RunRecord[]): void | Promise<void>;
  /** Instead of `write` where it is there: the same records, to be read with a {@link RecordCursor}, without an object for each. The columns are used again afterwards. */
  writeColumns?(batch: RecordBatch): void | Promise<void>;
  close?(): void | Promise<void>;
}

/** Records one after another, each a header and its fields; see `recordLayout`. */
export interface RecordBatch {
  readonly typeNames: readonly string[];
  readonly columns: Float64Array;
  readonly bodies: readonly unknown[];
}

/** Where a record's header has what: doubles at 0 and 2, else 32-bit integers counted from twice its place; its fields follow. */
export const recordLayout = {
  headerWords: 4,
  timeDouble: 0,
  numberDouble: 2,
  stepInteger: 2,
  actorInteger: 3,
  /** Index in the batch's names; in the upper half the count of fields. */
  typeInteger: 6,
  /** Index in the batch's bodies + 1; 0 for none. */
  bodyInteger: 7,
  typeMask: 0xffff,
} as const;

const { headerWords, timeDouble, numberDouble, stepInteger, actorInteger, typeInteger, bodyInteger, typeMask } = recordLayout;

/** Walks the records of a batch; its fields are those of the record it stands at, once `next` has returned true. */
export class RecordCursor {
  // Starts as a double, so that storing a time never changes its representation.
  timeNs = Number.NaN;
  step = 0;
  actor = 0;
  number = 0;
  /** Index in the batch's `typeNames`. */
  type = 0;
  /** The record's fields are `columns[fieldsAt]` to `columns[fieldsAt + fieldCount - 1]`. */
  fieldsAt = 0;
  fieldCount = 0;
  readonly columns: Float64Array;
  readonly #integers: Int32Array;
  readonly #batch: RecordBatch;
  readonly #length: number;
  #next = 0;
  #body = 0;

  constructor(batch: RecordBatch) {
    this.#batch = batch;
    this.columns = batch.columns;
    this.#integers = integersOf(batch.columns);
    this.#length = batch.columns.length;
  }

  next(): boolean {
    const at = this.#next;
    if (at >= this.#length) return false;
    const integers = this.#integers;
    this.timeNs = this.columns[at + timeDouble] as number;
    this.step = integers[2 * at + stepInteger] as number;
    this.actor = integers[2 * at + actorInteger] as number;
    this.number = this.columns[at + numberDouble] as number;
    const typeWord = integers[2 * at + typeInteger] as number;
    this.type = typeWord & typeMask;
    this.fieldCount = typeWord >>> 16;
    this.#body = integers[2 * at + bodyInteger] as number;
    this.fieldsAt = at + headerWords;
    this.#next = at + headerWords + this.fieldCount;
    return true;
  }

  get body(): unknown {
    return this.#body === 0 ? undefined : this.#batch.bodies[this.#body - 1];
  }

  /** The record as an object of its own. */
  record(): RunRecord {
    const { timeNs, step, actor, number } = this;
    const fields: number[] = [];
    for (let at = this.fieldsAt; at < this.fieldsAt + this.fieldCount; at++) fields.push(this.columns[at] as number);
    return { timeNs, step, actor, number, type: this.#batch.typeNames[this.type] as string, fields, body: this.body };
  }
}

export function recordsOf(batch: RecordBatch): RunRecord[] {
  const records: RunRecord[] = [];
  for (const cursor = new RecordCursor(batch); cursor.next(); ) records.push(cursor.record());
  return records;
}

/** The order of records: time, step, actor, number. */
export function compareRecords(a: RunRecord, b: RunRecord): number {
  return a.timeNs - b.timeNs || a.step - b.step || a.actor - b.actor || a.number - b.number;
}

/** The 32-bit words of columns. */
function integersOf(columns: Float64Array): Int32Array {
  return new Int32Array(columns.buffer, columns.byteOffset, 2 * columns.length);
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
    this.#words[at + timeDouble] = timeNs;
    integers[2 * at + stepInteger] = step;
    integers[2 * at + actorInteger] = actor;
    this.#words[at + numberDouble] = number;
    integers[2 * at + typeInteger] = this.#typeIndex(type) | (type.fields.length << 16);
    integers[2 * at + bodyInteger] = hasBody ? this.#bodies.length + 1 : 0;
    this.#used = at + headerWords + type.fields.length;
    this.count++;
    return at + headerWords;
  }

  /** The body of the record just appended. */
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
