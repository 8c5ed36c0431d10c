import { type RecordBatch, type RecordSink, recordLayout, recordsOf } from './records.js';

const { headerWords, timeDouble, numberDouble, stepInteger, actorInteger, typeInteger, bodyInteger, typeMask } = recordLayout;

/** Records of a shard that are not yet written, in the order they came. */
class RecordQueue {
  words = new Float64Array(1024);
  integers = new Int32Array(this.words.buffer);
  used = 0;
  bodies: unknown[] = [];
  /** All its records before this time are known. */
  throughNs = 0;
  /** Places of the records to be written next, in their order; and where those that wait begin. */
  starts = new Int32Array(256);
  startCount = 0;
  waitingFrom = 0;
  /** What is listed stands in order as it is. */
  isSorted = true;

  /** Adds a batch, whose types have these numbers in the run. */
  append({ columns, bodies }: RecordBatch, typeOf: readonly number[]): void {
    const from = this.used;
    this.#reserve(from + columns.length);
    this.words.set(columns, from);
    this.used = from + columns.length;
    const { integers } = this;
    const bodiesBefore = this.bodies.length;
    for (let at = from; at < this.used; ) {
      const typeWord = integers[2 * at + typeInteger] as number;
      integers[2 * at + typeInteger] = (typeOf[typeWord & typeMask] as number) | (typeWord & ~typeMask);
      const body = integers[2 * at + bodyInteger] as number;
      if (body > 0) integers[2 * at + bodyInteger] = body + bodiesBefore;
      at += headerWords + (typeWord >>> 16);
    }
    for (const body of bodies) this.bodies.push(body);
  }

  clear(): void {
    this.used = 0;
    this.bodies = [];
  }

  /** Lists the records before a time, in order, and returns how many there are. A shard emits in the order of time and step, but not of actors within them. */
  list(beforeNs: number): number {
    const { words, integers } = this;
    this.startCount = 0;
    this.isSorted = true;
    let at = 0;
    let groupFrom = 0;
    while (at < this.used && (words[at + timeDouble] as number) < beforeNs) {
      if (this.startCount === this.starts.length) {
        const starts = new Int32Array(2 * this.startCount);
        starts.set(this.starts);
        this.starts = starts;
      }
      const place = this.startCount++;
      if (place > groupFrom && !this.#areTogether(this.starts[place - 1] as number, at)) {
        this.#sortGroup(groupFrom, place);
        groupFrom = place;
      }
      this.starts[place] = at;
      at += headerWords + ((integers[2 * at + typeInteger] as number) >>> 16);
    }
    this.#sortGroup(groupFrom, this.startCount);
    this.waitingFrom = at;
    return this.startCount;
  }

  #areTogether(one: number, other: number): boolean {
    return (
      this.words[one + timeDouble] === this.words[other + timeDouble] &&
      this.integers[2 * one + stepInteger] === this.integers[2 * other + stepInteger]
    );
  }

  /** Sorts what was listed from one place to another, which has one time and step: mostly a few records, but all actors may emit at one instant. */
  #sortGroup(from: number, end: number): void {
    const { starts } = this;
    let at = from + 1;
    while (at < end && !isBefore(this, starts[at] as number, this, starts[at - 1] as number)) at++;
    if (at >= end) return;
    this.isSorted = false;
    starts.subarray(from, end).sort((one, other) => (isBefore(this, one, this, other) ? -1 : 1));
  }

  /** Adds one record of another queue. */
  appendRecord(from: RecordQueue, at: number): void {
    const length = headerWords + ((from.integers[2 * at + typeInteger] as number) >>> 16);
    const place = this.used;
    this.#reserve(place + length);
    for (let word = 0; word < length; word++) this.words[place + word] = from.words[at + word] as number;
    const body = from.integers[2 * at + bodyInteger] as number;
    if (body > 0) this.integers[2 * place + bodyInteger] = this.bodies.push(from.bodies[body - 1]);
    this.used = place + length;
  }

  /** Forgets what was listed. */
  drop(): void {
    const { integers } = this;
    let taken = 0;
    for (let index = 0; index < this.startCount; index++)
      if ((integers[2 * (this.starts[index] as number) + bodyInteger] as number) > 0) taken++;
    this.words.copyWithin(0, this.waitingFrom, this.used);
    this.used -= this.waitingFrom;
    this.startCount = 0;
    if (taken === 0) return;
    this.bodies.splice(0, taken);
    for (let at = 0; at < this.used; at += headerWords + ((integers[2 * at + typeInteger] as number) >>> 16))
      if ((integers[2 * at + bodyInteger] as number) > 0) integers[2 * at + bodyInteger]! -= taken;
  }

  #reserve(length: number): void {
    if (length <= this.words.length) return;
    const words = new Float64Array(Math.max(length, 2 * this.words.length));
    words.set(this.words.subarray(0, this.used));
    this.words = words;
    this.integers = new Int32Array(words.buffer);
  }
}

/**
 * Merges the records of all shards and hands them to the sink in order. A record is final once every shard has passed its time. After a
 * restart from a checkpoint the run emits some records again; those already written are recognised by their key and left out.
 */
export class RecordMerger {
  readonly #sink: RecordSink;
  #queues: RecordQueue[] = [];
  /** Of all shards. */
  readonly #typeNames: string[] = [];
  readonly #merged = new RecordQueue();
  /** Holds the record written last. */
  readonly #last = new RecordQueue();
  /** The run was rewound: records may come that were written before. */
  #mayRepeat = false;
  ended = false;
  count = 0;

  constructor(sink: RecordSink) {
    this.#sink = sink;
  }

  /** Begins a stretch on this many shards; all of the stretch before is known. */
  begin(shardCount: number): void {
    const left = this.#queues.filter(({ used }) => used > 0);
    this.#queues = Array.from({ length: shardCount }, () => new RecordQueue());
    if (left.length === 0) return;
    for (const queue of left) queue.list(Number.POSITIVE_INFINITY);
    for (const [queue, at] of inOrder(left)) this.#queues[0]?.appendRecord(queue, at);
  }

  /** Forgets what is not yet written: the run starts again from a checkpoint and emits it anew. */
  rewind(): void {
    this.#queues = [];
    this.#mayRepeat = true;
  }

  /** Adds records of a shard, copied. */
  add(shard: number, batch: RecordBatch): void {
    const typeOf = batch.typeNames.map((name) => {
      const known = this.#typeNames.indexOf(name);
      return known >= 0 ? known : this.#typeNames.push(name) - 1;
    });
    // One of a stretch that was given up may come late.
    this.#queues[shard]?.append(batch, typeOf);
  }

  /** All records of the shard before this time were added: writes what is final by that. */
  async pass(shard: number, throughNs: number): Promise<void> {
    const queue = this.#queues[shard];
    if (queue === undefined) return;
    queue.throughNs = throughNs;
    await this.#release(Math.min(...this.#queues.map((each) => each.throughNs)));
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
    this.#queues = [];
    await this.#sink.close?.();
  }

  async #release(beforeNs: number): Promise<void> {
    const queues = this.#queues.filter((queue) => queue.list(beforeNs) > 0);
    if (queues.length === 0) return;
    const only = queues[0] as RecordQueue;
    const batch = queues.length === 1 && only.isSorted && !this.#mayRepeat ? this.#asItIs(only) : this.#merge(queues);
    try {
      if (batch.columns.length > 0) await this.#write(batch);
    } finally {
      for (const queue of queues) queue.drop();
    }
  }

  #write(batch: RecordBatch): void | Promise<void> {
    return this.#sink.writeColumns === undefined ? this.#sink.write?.(recordsOf(batch)) : this.#sink.writeColumns(batch);
  }

  #asItIs(queue: RecordQueue): RecordBatch {
    this.count += queue.startCount;
    this.#note(queue, queue.starts[queue.startCount - 1] as number);
    return { typeNames: this.#typeNames, columns: queue.words.subarray(0, queue.waitingFrom), bodies: queue.bodies };
  }

  #merge(queues: readonly RecordQueue[]): RecordBatch {
    const merged = this.#merged;
    merged.clear();
    for (const [queue, at] of inOrder(queues)) {
      if (this.#mayRepeat && this.#last.used > 0 && !isBefore(this.#last, 0, queue, at)) continue;
      merged.appendRecord(queue, at);
      this.count++;
    }
    if (merged.list(Number.POSITIVE_INFINITY) > 0) this.#note(merged, merged.starts[merged.startCount - 1] as number);
    return { typeNames: this.#typeNames, columns: merged.words.subarray(0, merged.used), bodies: merged.bodies };
  }

  #note(queue: RecordQueue, at: number): void {
    this.#last.clear();
    this.#last.appendRecord(queue, at);
  }
}

/** What the queues have listed, in order. */
function* inOrder(queues: readonly RecordQueue[]): Generator<readonly [RecordQueue, number]> {
  const heads = queues.map(() => 0);
  for (;;) {
    let first = -1;
    for (const [index, queue] of queues.entries()) {
      const head = heads[index] as number;
      if (head >= queue.startCount) continue;
      const best = queues[first];
      if (best === undefined || isBefore(queue, queue.starts[head] as number, best, best.starts[heads[first] as number] as number))
        first = index;
    }
    const queue = queues[first];
    if (queue === undefined) return;
    yield [queue, queue.starts[heads[first] as number] as number];
    heads[first]!++;
  }
}

function isBefore(one: RecordQueue, at: number, other: RecordQueue, otherAt: number): boolean {
  const time = (one.words[at + timeDouble] as number) - (other.words[otherAt + timeDouble] as number);
  if (time !== 0) return time < 0;
  const step = (one.integers[2 * at + stepInteger] as number) - (other.integers[2 * otherAt + stepInteger] as number);
  if (step !== 0) return step < 0;
  const actor = (one.integers[2 * at + actorInteger] as number) - (other.integers[2 * otherAt + actorInteger] as number);
  if (actor !== 0) return actor < 0;
  return (one.words[at + numberDouble] as number) < (other.words[otherAt + numberDouble] as number);
}
