import { KernelError } from './errors.js';
import { Hash } from './fingerprint.js';
import { type MessageReceiver, readMessages } from './message-batch.js';
import type { Pacer } from './pacing.js';
import type { ShardEngine } from './shard-engine.js';
import { type Frame, frameFrontWords, frameHeaderWords, type ShardLink } from './shard-link.js';
import { wallMs } from './wall-clock.js';
import { WindowBounds } from './window-bounds.js';

/** Version of the frame layout; part of the handshake. */
const frameVersion = 4;

const headerWords = frameHeaderWords;
const stopFlag = 1;

/** Events between two looks at the abort word inside a window. */
const eventsPerLook = 4096;
/** Looking at the clock costs about as much as a short wait: one wait in so many is timed, and stands for the others. */
const roundsPerTimedWait = 16;
/** How long an idle live run without a pace sleeps between two looks. */
const idleWaitMs = 5;
/** A window is cut short for the sake of step only when at least an eighth of it is left. */
const leastShareKept = 8;
const eventsPerOpenWindow = 16 * eventsPerLook;

/** What surrounds the loop: records out, input in, and looks at the wall clock. */
export interface LoopHost {
  /** Called after each window, and while the shard waits for others: every record before `throughNs` is known. May hold the caller. */
  flush(engine: ShardEngine, throughNs: number, isWaiting?: boolean): void;
  /** Takes in external input that arrived, stamped no earlier than `floorNs`. Only called in live runs. */
  takeInput(engine: ShardEngine, floorNs: number): void;
  /** True when this shard wants the run to stop soon at a time all shards agree on. */
  wantsStop(): boolean;
  /** True when a long window should return between two instants, to let the thread do other things. */
  shouldYield(): boolean;
  /** Told how long the shard has waited, for others or for the wall clock. */
  waited(milliseconds: number): void;
  /** After each window, for observers; undefined when nobody looks. */
  readonly onWindow: ((fromNs: number, boundNs: number, events: number) => void) | undefined;
}

export interface LoopPlan {
  readonly shard: number;
  readonly shardCount: number;
  readonly directNs: Float64Array;
  readonly pacer: Pacer | undefined;
  /** Where the run starts: 0, or the time of its checkpoint. */
  readonly startNs: number;
  /** External input may come: idle shards keep publishing a floor instead of jumping ahead. */
  readonly live: boolean;
}

/**
 * The life of a shard, round by round: publish (messages sent, first event, promises), collect the same from every other shard, compute the
 * bound, run the window. One frame a peer and round carries everything; having all frames of a round is the barrier.
 */
export class ShardLoop {
  readonly engine: ShardEngine;
  rounds = 0;
  /** Where the run stopped: all events before it are done, none at or after. */
  stoppedNs = 0;
  readonly #plan: LoopPlan;
  readonly #link: ShardLink;
  readonly #host: LoopHost;
  readonly #bounds: WindowBounds;
  readonly #ownFirstNs: Float64Array;
  readonly #sentNs: Float64Array;
  readonly #silentNs: Float64Array;
  readonly #firstNs: Float64Array;
  readonly #reachedNs: Float64Array;
  readonly #pendingNs: Float64Array;
  readonly #arrived: Uint8Array;
  #missing = 0;
  #stopRequested = false;
  #floorNs = 0;
  /** Every record before this is emitted. */
  #passedNs = 0;
  #stopNs = Number.POSITIVE_INFINITY;
  readonly #digest: number;
  readonly #receive: MessageReceiver;

  constructor(engine: ShardEngine, plan: LoopPlan, link: ShardLink, host: LoopHost) {
    this.engine = engine;
    this.#plan = plan;
    this.#link = link;
    this.#host = host;
    const count = plan.shardCount;
    this.stoppedNs = plan.startNs;
    this.#bounds = new WindowBounds(count, plan.directNs);
    this.#ownFirstNs = new Float64Array(count);
    this.#sentNs = new Float64Array(count * count);
    this.#silentNs = new Float64Array(count * count);
    this.#firstNs = new Float64Array(count);
    this.#reachedNs = new Float64Array(count);
    this.#pendingNs = new Float64Array(count);
    this.#arrived = new Uint8Array(count);
    const hash = new Hash();
    hash.string(`${frameVersion}/${engine.model.digest}/${engine.seed}`);
    this.#digest = hash.a;
    this.#receive = (timeNs, sequence, sender, target, kindWord, words, fieldsAt, fieldCount, body) =>
      engine.receive(timeNs, 0, sequence, sender, target, kindWord, words, fieldsAt, fieldCount, body);
  }

  /** Runs until `stopNs` or until nothing is left to do anywhere, holding the thread. */
  run(stopNs: number): void {
    this.begin(stopNs);
    for (;;) {
      this.publish();
      if (!this.collect()) this.#awaitFrames();
      if (!this.advance()) return;
    }
  }

  #awaitFrames(): void {
    const isTimed = this.rounds % roundsPerTimedWait === 0;
    const begunMs = isTimed ? wallMs() : 0;
    this.#link.wait();
    while (!this.collect()) {
      // A long wait: what this shard has passed may be all that the records of the others wait for.
      this.#host.flush(this.engine, this.#passedNs, true);
      this.#link.wait();
    }
    if (isTimed) this.#host.waited(roundsPerTimedWait * (wallMs() - begunMs));
  }

  /** Some shard asked for the stop before the run was over: known from the frames, so all shards say the same. */
  get wasStopped(): boolean {
    return this.#stopRequested;
  }

  begin(stopNs: number): void {
    this.#stopNs = stopNs;
    this.#stopRequested = false;
    this.#floorNs = Math.max(this.#floorNs, this.stoppedNs);
  }

  /** First half of a round: sends this shard's frame to every other. */
  publish(): void {
    const { shard, shardCount, live, pacer } = this.#plan;
    const { engine } = this;
    if (live) {
      this.#floorNs = Math.max(this.#floorNs, Math.min(this.#stopNs, pacer?.dueNs() ?? 0));
      // Not at an instant that has run: replayed, the input would come first there.
      this.#host.takeInput(engine, Math.max(this.#floorNs, this.lastNs));
    }
    const firstNs = engine.queue.peekTimeNs();
    this.#reachedNs[shard] = Math.max(this.#floorNs, this.lastNs);
    this.#pendingNs[shard] = firstNs;
    this.#ownFirstNs[shard] = live ? Math.min(firstNs, this.#floorNs) : firstNs;
    for (let to = 0; to < shardCount; to++) {
      const at = shard * shardCount + to;
      this.#sentNs[at] = (engine.batches[to] as { earliestNs: number }).earliestNs;
      this.#silentNs[at] = engine.gates?.untilNs[to] ?? 0;
    }
    const wantsStop = this.#host.wantsStop();
    this.#stopRequested = wantsStop;
    this.#missing = shardCount - 1;
    for (let to = 0; to < shardCount; to++) {
      this.#arrived[to] = 0;
      if (to !== shard) this.#sendFrame(to, wantsStop);
    }
  }

  /** Takes in the frames of this round that have arrived; true when all have. */
  collect(): boolean {
    for (let from = 0; this.#missing > 0 && from < this.#plan.shardCount; from++) {
      if (from === this.#plan.shard || this.#arrived[from] === 1) continue;
      const frame = this.#link.receive(from);
      if (frame === undefined) continue;
      this.#arrived[from] = 1;
      this.#missing--;
      this.#readFrame(from, frame);
    }
    return this.#missing === 0;
  }

  /** Second half of a round: runs the window; false when the run is over for every shard alike. */
  advance(): boolean {
    const { shard, pacer, live } = this.#plan;
    const globalNs = this.#combineFirst();
    if (this.#stopRequested) this.#agreeOnStop();
    const pendingNs = live ? this.#firstPendingNs() : globalNs;
    if (this.#isOver(globalNs, pendingNs)) return this.#finish();
    this.#bounds.compute(this.#firstNs, this.#silentNs);
    let boundNs = Math.min(this.#stopNs, this.#inStep(this.#bounds.boundNs[shard] as number));
    if (pacer !== undefined || pendingNs === Number.POSITIVE_INFINITY) {
      pacer?.start();
      const begunMs = wallMs();
      if (pacer === undefined) this.#link.pause(begunMs + idleWaitMs);
      else pacer.waitFor(pendingNs, (untilMs) => this.#link.pause(untilMs));
      this.#host.waited(wallMs() - begunMs);
      if (pacer !== undefined) boundNs = Math.min(boundNs, pacer.dueNs() + 1);
    }
    if (this.#link.aborted) throw new KernelError('stopped', 'the run was stopped');
    const firstNs = this.engine.queue.peekTimeNs();
    let events = 0;
    if (firstNs < boundNs) {
      pacer?.note(firstNs);
      events = this.#runWindow(boundNs, this.#plan.shardCount);
    }
    this.rounds++;
    // Without a pace, simulated time moves with the events alone: what all shards have before them, or else what the last of them has behind it,
    // is the earliest an input can enter.
    if (live && pacer === undefined) {
      const earliestNs = pendingNs < Number.POSITIVE_INFINITY ? pendingNs : this.#furthestNs();
      this.#floorNs = Math.max(this.#floorNs, Math.min(earliestNs, this.#stopNs));
    }
    this.#host.onWindow?.(firstNs, boundNs, events);
    this.#passedNs = this.#completeNs(boundNs);
    this.#host.flush(this.engine, this.#passedNs);
    return true;
  }

  /** A run is over when nothing is left before its end; a live one that is idle waits for input, unless time itself runs on (a pace) or it is to stop. */
  #isOver(globalNs: number, pendingNs: number): boolean {
    const { live, pacer } = this.#plan;
    if (!live) return globalNs >= this.#stopNs || globalNs === Number.POSITIVE_INFINITY;
    if (pacer !== undefined) return globalNs >= this.#stopNs;
    return pendingNs >= this.#stopNs && (pendingNs < Number.POSITIVE_INFINITY || this.#stopRequested);
  }

  /**
   * Keeps shards in step. One that lags may run up to twice as far as the others in a round, is then ahead, and has to wait while they do the
   * same: the shards take turns instead of working together. So none runs past every other's bound, unless that would cut its window to a sliver.
   */
  #inStep(boundNs: number): number {
    const { shard, shardCount } = this.#plan;
    let furthestNs = 0;
    for (let other = 0; other < shardCount; other++) {
      if (other !== shard) furthestNs = Math.max(furthestNs, this.#bounds.boundNs[other] as number);
    }
    const firstNs = this.#firstNs[shard] as number;
    const keepsEnough = (furthestNs - firstNs) * leastShareKept >= boundNs - firstNs;
    return shardCount > 1 && furthestNs < boundNs && keepsEnough ? furthestNs : boundNs;
  }

  /** First pending event of all shards, messages under way included. */
  #firstPendingNs(): number {
    let firstNs = Number.POSITIVE_INFINITY;
    for (const pendingNs of this.#pendingNs) firstNs = Math.min(firstNs, pendingNs);
    const count = this.#plan.shardCount;
    for (let at = 0; at < count * count; at++) if (at % (count + 1) !== 0) firstNs = Math.min(firstNs, this.#sentNs[at] as number);
    return firstNs;
  }

  #runWindow(boundNs: number, shardCount: number): number {
    let events = 0;
    for (;;) {
      const ran = this.engine.runBefore(boundNs, eventsPerLook);
      events += ran;
      if (ran < eventsPerLook) return events;
      if (this.#link.aborted) throw new KernelError('stopped', 'the run was stopped');
      if (shardCount > 1) {
        this.#host.flush(this.engine, this.#completeNs(boundNs));
        if (this.#host.wantsStop() || this.#host.shouldYield()) return events;
        // Nobody can reach this shard: without a limit it would run to the end before it listens again.
        if (boundNs === Number.POSITIVE_INFINITY && events >= eventsPerOpenWindow) return events;
        continue;
      }
      // Alone, a window is the whole run: let records out, and stop between two instants when asked to.
      events += this.#finishInstant();
      const nextNs = this.engine.queue.peekTimeNs();
      this.#host.flush(this.engine, this.#completeNs(nextNs));
      if (this.#plan.live || this.#plan.pacer !== undefined || this.#host.shouldYield()) return events;
      if (this.#host.wantsStop()) {
        this.#stopNs = Math.min(this.#stopNs, nextNs);
        return events;
      }
    }
  }

  /** Runs on to the end of the instant that the last look cut: a model whose actors all tick together might never be met between two. */
  #finishInstant(): number {
    const { engine } = this;
    const instantNs = engine.now;
    let events = 0;
    while (engine.queue.peekTimeNs() === instantNs) {
      events += engine.runBefore(instantNs + 1, eventsPerLook);
      if (this.#link.aborted) throw new KernelError('stopped', 'the run was stopped');
    }
    return events;
  }

  #finish(): false {
    this.stoppedNs = this.#stopNs === Number.POSITIVE_INFINITY ? Math.max(this.stoppedNs, this.lastNs) : this.#stopNs;
    this.#host.flush(this.engine, this.stoppedNs);
    return false;
  }

  /** Every record before this is emitted, when nothing arrives from other shards before `boundNs`: input may still enter. */
  #completeNs(boundNs: number): number {
    const nextNs = Math.min(boundNs, this.engine.queue.peekTimeNs());
    return this.#plan.live ? Math.min(nextNs, Math.max(this.#floorNs, this.lastNs)) : nextNs;
  }

  /** Just after the last event that ran; each shard knows its own, the coordinator takes the greatest. */
  get lastNs(): number {
    return Number.isNaN(this.engine.now) ? this.#plan.startNs : this.engine.now + 1;
  }

  /** Some shard asked to stop: the first instant that no shard has passed yet, the same for all. */
  #agreeOnStop(): void {
    this.#stopNs = Math.min(this.#stopNs, this.#furthestNs());
  }

  #furthestNs(): number {
    let furthestNs = 0;
    for (const reachedNs of this.#reachedNs) furthestNs = Math.max(furthestNs, reachedNs);
    return furthestNs;
  }

  /** First event of every shard, messages under way included; returns the least. */
  #combineFirst(): number {
    const count = this.#plan.shardCount;
    let globalNs = Number.POSITIVE_INFINITY;
    for (let to = 0; to < count; to++) {
      let firstNs = this.#ownFirstNs[to] as number;
      for (let from = 0; from < count; from++) {
        const sentNs = this.#sentNs[from * count + to] as number;
        if (from !== to && sentNs < firstNs) firstNs = sentNs;
      }
      this.#firstNs[to] = firstNs;
      if (firstNs < globalNs) globalNs = firstNs;
    }
    return globalNs;
  }

  #sendFrame(to: number, wantsStop: boolean): void {
    const { shard, shardCount } = this.#plan;
    const batch = this.engine.batches[to] as ShardEngine['batches'][number];
    const batchAt = frameFrontWords(shardCount);
    const batchBytes = batch.close();
    const length = batchAt + Math.ceil(batchBytes / 8);
    const { words: frame, integers } = batch;
    integers[0] = length;
    integers[1] = batchBytes;
    frame[1] = this.#ownFirstNs[shard] as number;
    integers[4] = this.rounds | 0;
    integers[5] = wantsStop ? stopFlag : 0;
    integers[6] = frameVersion;
    integers[7] = this.#digest;
    frame[4] = this.#reachedNs[shard] as number;
    frame[5] = this.#pendingNs[shard] as number;
    for (let k = 0; k < shardCount; k++) {
      frame[headerWords + k] = this.#sentNs[shard * shardCount + k] as number;
      frame[headerWords + shardCount + k] = this.#silentNs[shard * shardCount + k] as number;
    }
    this.#link.send(to, frame, length);
    batch.clear();
  }

  #readFrame(from: number, { words: frame, integers }: Frame): void {
    const { shardCount } = this.#plan;
    this.#checkHandshake(from, integers);
    this.#ownFirstNs[from] = frame[1] as number;
    this.#reachedNs[from] = frame[4] as number;
    this.#pendingNs[from] = frame[5] as number;
    if (((integers[5] as number) & stopFlag) !== 0) this.#stopRequested = true;
    for (let k = 0; k < shardCount; k++) {
      this.#sentNs[from * shardCount + k] = frame[headerWords + k] as number;
      this.#silentNs[from * shardCount + k] = frame[headerWords + shardCount + k] as number;
    }
    const batchBytes = integers[1] as number;
    if (batchBytes > 0) readMessages(frame, integers, frameFrontWords(shardCount), batchBytes, this.#receive);
  }

  #checkHandshake(from: number, integers: Int32Array): void {
    if (integers[6] !== frameVersion) {
      throw new KernelError(
        'handshake',
        `shard ${from} sends frames of version ${integers[6]}, this one reads ${frameVersion}: run the same version everywhere`,
      );
    }
    if (integers[7] !== this.#digest) {
      throw new KernelError(
        'handshake',
        `shard ${from} built another model than shard ${this.#plan.shard}: the program's build function must declare the same on every thread (no clocks, no Math.random)`,
      );
    }
    if (integers[4] !== (this.rounds | 0))
      throw new KernelError('handshake', `shard ${from} sent round ${integers[4]}, expected ${this.rounds}: a frame was lost or doubled`);
  }
}
