import { KernelError } from './errors.js';
import { copyFrame, type Frame, type ShardLink } from './shard-link.js';
import { wallMs } from './wall-clock.js';

// Taken before the guards hide it from handlers.
const atomics = Atomics;

/**
 * How long a waiting thread spins before it sleeps. A pure spin collapses on oversubscribed cores; but waking a sleeper takes some 80 us, and one
 * that wakes late makes its peer wait, and sleep, in turn: the spin has to outlast a wake-up, or the shards go on waking each other.
 */
const spinMs = 0.25;
const spinMsWhenOversubscribed = 0.005;
/** A waiting shard comes back this often, though nothing has arrived: it may have records to hand on. */
const longestSleepMs = 50;
/** Looks at the rings between two looks at the clock. */
const looksPerClock = 200;

/** int32 words: the abort word, then one word a participant (1 = asleep). 16 words apart, so that no two share a cache line. */
const padding = 16;

/** The shared words through which threads stop and wake each other. */
export class SharedControl {
  readonly words: Int32Array<SharedArrayBuffer>;

  constructor(buffer: SharedArrayBuffer) {
    this.words = new Int32Array(buffer);
  }

  static bytesFor(participants: number): number {
    return (participants + 1) * padding * 4;
  }

  get aborted(): boolean {
    return atomics.load(this.words, 0) !== 0;
  }

  /** Ends the run: every waiting participant wakes. */
  abort(): void {
    atomics.store(this.words, 0, 1);
    for (let at = padding; at < this.words.length; at += padding) {
      atomics.store(this.words, at, 0);
      atomics.notify(this.words, at);
    }
  }

  wake(participant: number): void {
    const at = (participant + 1) * padding;
    if (atomics.load(this.words, at) === 0) return;
    atomics.store(this.words, at, 0);
    atomics.notify(this.words, at);
  }

  /** Sleeps until woken, `ready` holds or the timeout passes. */
  sleep(participant: number, timeoutMs: number, ready: () => boolean): void {
    const at = (participant + 1) * padding;
    atomics.store(this.words, at, 1);
    if (!ready() && !this.aborted) atomics.wait(this.words, at, 1, timeoutMs);
    atomics.store(this.words, at, 0);
  }
}

const headAt = 0;
const tailAt = 32;
const dataBytes = 256;

/**
 * A single-writer single-reader ring of 8-byte words on shared memory. Counters run modulo 2^32. Each side keeps its own counter and the last
 * value it saw of the other's: the other's cache line is fetched only when that is not enough. So an object serves one side alone.
 */
export class SharedRing {
  private readonly counters: Int32Array<SharedArrayBuffer>;
  private readonly data: Float64Array<SharedArrayBuffer>;
  private readonly integers: Int32Array<SharedArrayBuffer>;
  private readonly mask: number;
  private head: number;
  private tail: number;

  constructor(buffer: SharedArrayBuffer) {
    this.counters = new Int32Array(buffer, 0, dataBytes / 4);
    this.data = new Float64Array(buffer, dataBytes);
    this.integers = new Int32Array(buffer, dataBytes);
    this.mask = this.data.length - 1;
    this.head = atomics.load(this.counters, headAt);
    this.tail = atomics.load(this.counters, tailAt);
  }

  static create(bytes: number): SharedArrayBuffer {
    return new SharedArrayBuffer(dataBytes + 2 ** Math.ceil(Math.log2(bytes)));
  }

  /** For the reader. */
  get isEmpty(): boolean {
    if (this.tail !== this.head) return false;
    this.tail = atomics.load(this.counters, tailAt);
    return this.tail === this.head;
  }

  /** For the writer. */
  get isFull(): boolean {
    if (((this.tail - this.head) | 0) < this.data.length) return false;
    this.head = atomics.load(this.counters, headAt);
    return ((this.tail - this.head) | 0) === this.data.length;
  }

  /** Writes as many of the words from..end as fit; returns how many. */
  write(words: Float64Array, from: number, end: number): number {
    const { tail, data } = this;
    let room = data.length - ((tail - this.head) | 0);
    if (room < end - from) {
      this.head = atomics.load(this.counters, headAt);
      room = data.length - ((tail - this.head) | 0);
    }
    const count = Math.min(room, end - from);
    if (count === 0) return 0;
    copyIn(data, this.mask, tail, words, from, count);
    this.tail = (tail + count) | 0;
    atomics.store(this.counters, tailAt, this.tail);
    return count;
  }

  /** First int32 of the next word, without taking it; 0 when the ring is empty. */
  peek(): number {
    if (this.isEmpty) return 0;
    return this.integers[2 * (this.head & this.mask)] as number;
  }

  /** Reads up to `limit` words into `target` from `offset`; returns how many. */
  read(target: Float64Array, offset: number, limit: number): number {
    const { head } = this;
    if (((this.tail - head) | 0) < limit) this.tail = atomics.load(this.counters, tailAt);
    const count = Math.min((this.tail - head) | 0, limit);
    if (count === 0) return 0;
    copyOut(this.data, this.mask, head, target, offset, count);
    this.head = (head + count) | 0;
    atomics.store(this.counters, headAt, this.head);
    return count;
  }
}

/** Up to so many words a loop copies faster than `set`, which has to make a view first, and is slow on shared memory. */
const loopedWords = 256;

function copyIn(data: Float64Array, mask: number, at: number, words: Float64Array, from: number, count: number): void {
  const start = at & mask;
  if (count <= loopedWords || start + count > mask + 1) {
    for (let i = 0; i < count; i++) data[(start + i) & mask] = words[from + i] as number;
  } else data.set(words.subarray(from, from + count), start);
}

function copyOut(data: Float64Array, mask: number, at: number, target: Float64Array, offset: number, count: number): void {
  const start = at & mask;
  if (count <= loopedWords || start + count > mask + 1) {
    for (let i = 0; i < count; i++) target[offset + i] = data[(start + i) & mask] as number;
  } else target.set(data.subarray(start, start + count), offset);
}

/** Puts frames together from the pieces a ring delivers. A frame's first int32 is its length in words. */
export class FrameReader {
  private readonly frame: Frame;
  private have = 0;
  private readonly ring: SharedRing;

  constructor(ring: SharedRing) {
    this.ring = ring;
    const words = new Float64Array(512);
    this.frame = { words, integers: new Int32Array(words.buffer), length: 0 };
  }

  get hasInput(): boolean {
    return !this.ring.isEmpty;
  }

  /** The next complete frame, valid until the next call, or undefined. The same object each time, so a round allocates nothing. */
  poll(): Frame | undefined {
    const frame = this.frame;
    // The length is looked at in place, so that a frame that has arrived whole is taken in one step.
    const length = this.have === 0 ? this.ring.peek() : (frame.integers[0] as number);
    if (length === 0) return undefined;
    if (frame.words.length < length) this.grow(length);
    while (this.have < length) {
      const read = this.ring.read(frame.words, this.have, length - this.have);
      if (read === 0) return undefined;
      this.have += read;
    }
    this.have = 0;
    frame.length = length;
    return frame;
  }

  private grow(length: number): void {
    const words = new Float64Array(2 ** Math.ceil(Math.log2(length)));
    words.set(this.frame.words.subarray(0, this.have));
    this.frame.words = words;
    this.frame.integers = new Int32Array(words.buffer);
  }
}

/** What a thread needs to build its end of the shared-memory transport. */
export interface RingLinkPlan {
  readonly shard: number;
  readonly shardCount: number;
  readonly control: SharedArrayBuffer;
  /** Ring to shard k at index k; the own index is unused. */
  readonly outgoing: readonly SharedArrayBuffer[];
  readonly incoming: readonly SharedArrayBuffer[];
  /** Whom to wake after writing to shard k, and after reading from it: the shard itself, or the bridge between. */
  readonly peers: readonly number[];
  readonly oversubscribed: boolean;
}

/** The shared-memory transport of one shard thread. */
export class RingLink implements ShardLink {
  readonly control: SharedControl;
  private readonly shard: number;
  private readonly shardCount: number;
  private readonly outgoing: SharedRing[];
  private readonly readers: FrameReader[];
  private readonly peers: readonly number[];
  /** Frames taken off their rings while this shard was held up by a full ring of its own. */
  private readonly early: Frame[][];
  private readonly spinMs: number;
  private readonly anyInput = (): boolean => this.hasInput();

  constructor(plan: RingLinkPlan) {
    this.control = new SharedControl(plan.control);
    this.shard = plan.shard;
    this.shardCount = plan.shardCount;
    this.outgoing = plan.outgoing.map((buffer) => new SharedRing(buffer));
    this.readers = plan.incoming.map((buffer) => new FrameReader(new SharedRing(buffer)));
    this.peers = plan.peers;
    this.early = plan.incoming.map(() => []);
    this.spinMs = plan.oversubscribed ? spinMsWhenOversubscribed : spinMs;
  }

  get aborted(): boolean {
    return this.control.aborted;
  }

  send(toShard: number, frame: Float64Array<ArrayBuffer>, wordCount: number): void {
    const ring = this.outgoing[toShard] as SharedRing;
    const peer = this.peers[toShard] as number;
    let written = ring.write(frame, 0, wordCount);
    this.control.wake(peer);
    while (written < wordCount) {
      const more = ring.write(frame, written, wordCount);
      written += more;
      if (more > 0) this.control.wake(peer);
      else this.whileFull(ring);
    }
  }

  receive(fromShard: number): Frame | undefined {
    const early = this.early[fromShard] as Frame[];
    if (early.length > 0) return early.shift();
    return this.poll(fromShard);
  }

  wait(): void {
    for (let endMs = 0; ; ) {
      for (let look = 0; look < looksPerClock; look++) if (this.hasInput()) return;
      const nowMs = wallMs(); // Most waits are shorter than a look at the clock, and end before the first.
      if (endMs === 0) endMs = nowMs + this.spinMs;
      else if (nowMs > endMs) break;
    }
    if (this.aborted) throw new KernelError('stopped', 'the run was stopped');
    this.control.sleep(this.shard, longestSleepMs, this.anyInput);
    if (this.aborted) throw new KernelError('stopped', 'the run was stopped');
  }

  pause(untilMs: number): void {
    const timeoutMs = untilMs - wallMs();
    if (timeoutMs > 0) this.control.sleep(this.shard, timeoutMs, () => false);
  }

  /** A full ring: take in what others send meanwhile, else two shards that both write more than a ring holds would wait for ever. */
  private whileFull(ring: SharedRing): void {
    if (this.aborted) throw new KernelError('stopped', 'the run was stopped');
    let took = false;
    for (let from = 0; from < this.shardCount; from++) {
      if (from === this.shard) continue;
      const frame = this.poll(from);
      if (frame === undefined) continue;
      (this.early[from] as Frame[]).push(copyFrame(frame.words, frame.length));
      took = true;
    }
    if (took) return;
    this.control.sleep(this.shard, 100, () => !ring.isFull || this.hasInput());
  }

  private poll(fromShard: number): Frame | undefined {
    const reader = this.readers[fromShard] as FrameReader;
    if (!reader.hasInput) return undefined;
    const frame = reader.poll();
    this.control.wake(this.peers[fromShard] as number);
    return frame;
  }

  private hasInput(): boolean {
    for (let from = 0; from < this.shardCount; from++) {
      if (from !== this.shard && (this.readers[from] as FrameReader).hasInput) return true;
    }
    return false;
  }
}
