import { receiveMessageOnPort } from 'node:worker_threads';
import { restoreSnapshot, takeSnapshot, unpackCheckpoint } from './checkpoint.js';
import { endFaultsOf } from './end-faults.js';
import { KernelError, toPlainError } from './errors.js';
import { slotLayout } from './event-slab.js';
import { installGuards } from './guards.js';
import { type InputEntry, inputFields } from './input-log.js';
import type { NumberedInput } from './live-inputs.js';
import type { Model } from './model.js';
import { Pacer } from './pacing.js';
import { placeCells, placementDigest } from './placement.js';
import { packWrapped, unpackValue } from './plain-data.js';
import { loadProgram, modelOf, type Program } from './program.js';
import { RecordBlocks } from './record-blocks.js';
import { outsideSender } from './refusals.js';
import { ShardEngine } from './shard-engine.js';
import { type LoopHost, ShardLoop } from './shard-loop.js';
import { emptyResult, type ShardReport, type ShardResult, type ShardTask, WatchWords } from './shard-task.js';
import { RingLink } from './shared-ring.js';
import { modelHasPromises, SilenceGates } from './silence-gates.js';
import { wallMs } from './wall-clock.js';

const { bodyFlag } = slotLayout;

// Taken before the guards hide it from handlers.
const atomics = Atomics;

/** Records are sent on once this many bytes wait, or this much wall time has passed. */
const flushBytes = 1 << 18;
const flushMs = 50;

/** A task ahead of a run: loads its program. A module that cannot be loaded is reported by the run. */
export async function warm(module: string): Promise<void> {
  await loadProgram(module).catch(() => undefined);
}

/** The piscina task: runs one shard from start to stop. Errors come back as data, so that nothing of them is lost between threads. */
export default async function runShard(task: ShardTask): Promise<ShardResult> {
  const { shard, shardCount } = task.link;
  const link = new RingLink(task.link);
  const rejections: unknown[] = [];
  const noteRejection = (reason: unknown): void => void rejections.push(reason);
  process.on('unhandledRejection', noteRejection);
  try {
    const program = await loadProgram(task.module);
    const model = modelOf(program, task.parameters); // Not guarded: a build may load modules, and they may look at anything.
    const shardOfCell = placeCells(model, shardCount);
    if (placementDigest(model, shardOfCell) !== task.digest) refuseOtherModel(program, task);
    const watch = new Int32Array(task.watch);
    const engine = new ShardEngine(model, shard, shardCount, shardOfCell, { ...task, watch });
    if (shardCount > 1 && modelHasPromises(model)) engine.gates = new SilenceGates(model, shard, shardCount, shardOfCell);
    const restoreGuards = task.guards ? installGuards() : () => undefined;
    let result: ShardResult;
    try {
      result = runLoop(task, engine, link, shardOfCell);
    } finally {
      restoreGuards();
    }
    await new Promise((resolve) => setImmediate(resolve)); // Only now are promises that handlers made and dropped known to be rejected.
    if (rejections.length > 0) refuseRejection(rejections[0]);
    return result;
  } catch (error) {
    // The others must not wait for frames that will never come.
    link.control.abort();
    return { ...emptyResult(), error: toPlainError(error, { shard, seed: task.seed }) };
  } finally {
    process.off('unhandledRejection', noteRejection);
    task.port.close();
  }
}

function refuseRejection(reason: unknown): never {
  const text = reason instanceof Error ? reason.message : String(reason);
  throw new KernelError(
    'forbidden',
    `a handler left a promise behind, which was rejected (${text}); handlers must not await: split the work into messages`,
    {},
    reason,
  );
}

function refuseOtherModel(program: Program, { module, link }: ShardTask): never {
  throw new KernelError(
    'handshake',
    `shard ${link.shard} built another model of '${program.name}' than the thread that started the run: the program must be the default export of ${module}, and its build function must declare the same on every thread (no clocks, no Math.random)`,
  );
}

function runLoop(task: ShardTask, engine: ShardEngine, link: RingLink, shardOfCell: Int32Array): ShardResult {
  const { shard, shardCount } = task.link;
  const { model } = engine;
  const snapshot = task.from === undefined ? undefined : unpackCheckpoint(task.from, model, task.seed);
  const watch = new Int32Array(task.watch);
  watch[WatchWords.inHandler] = 1; // A state function that does not return is named like a handler.
  if (snapshot === undefined) engine.begin();
  else restoreSnapshot(engine, snapshot);
  watch[WatchWords.inHandler] = 0;
  for (const entry of unpackValue(task.inputs) as NumberedInput[]) placeInput(engine, model, entry, entry.sequence);
  const directNs = model.lookahead.betweenShards(shardOfCell, model.classOfCell, shardCount);
  const pacer = task.pace === undefined ? undefined : new Pacer(task.pace, snapshot?.timeNs ?? 0, task.pacer);
  const host = new WorkerHost(task, engine, link);
  const loop = new ShardLoop(engine, { shard, shardCount, directNs, pacer, startNs: snapshot?.timeNs ?? 0, live: task.live }, link, host);
  const eventsBefore = engine.eventCount;
  const begun = wallMs();
  watch[WatchWords.events] = eventsBefore | 0;
  atomics.store(watch, WatchWords.looping, 1);
  try {
    loop.run(task.untilNs);
  } catch (error) {
    // What was emitted before the failing instant is complete and must reach the sink.
    host.finish(engine, Number.isNaN(engine.now) ? 0 : engine.now);
    throw error;
  }
  const loopMs = wallMs() - begun;
  host.finish(engine, loop.stoppedNs);
  const actors = engine.ownActors();
  const isDrained = !loop.wasStopped && engine.queue.peekTimeNs() === Number.POSITIVE_INFINITY;
  watch[WatchWords.inHandler] = 1; // So is an `atEnd`.
  const endFaults = isDrained ? endFaultsOf(engine) : [];
  watch[WatchWords.inHandler] = 0;
  return {
    actors,
    lanes: Int32Array.from(
      { length: 2 * actors.length },
      (_, i) => engine.actorLines[(actors[i >> 1] as number) * 8 + 4 + (i & 1)] as number,
    ),
    recordLanes: Int32Array.from(
      { length: 3 * actors.length },
      (_, i) => engine.recordLines[(actors[Math.floor(i / 3)] as number) * 3 + (i % 3)] as number,
    ),
    eventCount: engine.eventCount,
    stoppedNs: loop.stoppedNs,
    lastNs: loop.lastNs,
    rounds: loop.rounds,
    loopMs,
    stretchEvents: engine.eventCount - eventsBefore,
    isDrained,
    endFaults,
    pacer: pacer?.state,
    snapshot:
      task.snapshot === 'at its end' || (task.snapshot === 'if stopped' && loop.wasStopped)
        ? packWrapped(takeSnapshot(engine, loop.stoppedNs, 'checkpoint'), 'the checkpoint')
        : undefined,
  };
}

function placeInput(engine: ShardEngine, model: Model, entry: InputEntry, sequence: number): void {
  const { target, number, fields } = inputFields(entry, model);
  if (!engine.owns(target)) return;
  const kindWord = number | (entry.body === undefined ? 0 : bodyFlag);
  engine.receive(entry.timeNs, 0, sequence, outsideSender, target, kindWord, fields, 0, fields.length, entry.body);
}

/** What surrounds the shard loop in a thread: the port to the coordinator, and the shared words it watches. */
class WorkerHost implements LoopHost {
  readonly onWindow: LoopHost['onWindow'];
  readonly #task: ShardTask;
  readonly #link: RingLink;
  readonly #watch: Int32Array;
  readonly #watchDoubles: Float64Array;
  #lastFlushMs = 0;
  #looks = 0;
  #windows: number[] = [];
  #traced: number[] = [];
  readonly #messageNames: readonly string[];
  readonly #blocks: RecordBlocks;

  constructor(task: ShardTask, engine: ShardEngine, link: RingLink) {
    this.#task = task;
    this.#link = link;
    this.#watch = new Int32Array(task.watch);
    this.#watchDoubles = new Float64Array(task.watch);
    this.#blocks = new RecordBlocks(task.recordBlocks);
    this.#messageNames = [...engine.model.messages.map((type) => type.name), 'start'];
    this.onWindow = task.reportWindows ? (fromNs, boundNs, events) => this.#windows.push(fromNs, boundNs, events) : undefined;
    if (task.traced !== undefined) this.#traceEvents(engine, task.traced);
  }

  flush(engine: ShardEngine, throughNs: number, isWaiting = false): void {
    this.#watchDoubles[WatchWords.eventCount] = engine.eventCount;
    if (!this.#task.keepRecords && this.#windows.length === 0 && this.#traced.length === 0) return;
    // A look at the clock costs as much as a small window: take one in sixteen. Whoever waits has time for it.
    const isFull = engine.records.bytes >= flushBytes || this.#traced.length * 8 >= flushBytes;
    if (!isFull && !isWaiting && (++this.#looks & 15) !== 0) return;
    const nowMs = wallMs();
    if (!isFull && nowMs - this.#lastFlushMs < flushMs) return;
    this.#lastFlushMs = nowMs;
    this.#sendOn(engine, throughNs);
  }

  /** Everything still held, at the end. */
  finish(engine: ShardEngine, throughNs: number): void {
    this.#watchDoubles[WatchWords.eventCount] = engine.eventCount;
    this.#sendOn(engine, throughNs);
  }

  takeInput(engine: ShardEngine, floorNs: number): void {
    for (let received = receiveMessageOnPort(this.#task.port); received !== undefined; received = receiveMessageOnPort(this.#task.port)) {
      const entry = unpackValue(received.message as Uint8Array) as NumberedInput;
      const timeNs = Math.max(entry.timeNs, floorNs);
      placeInput(engine, engine.model, { ...entry, timeNs }, entry.sequence);
      this.#post({ kind: 'input', timeNs, sequence: entry.sequence });
    }
  }

  wantsStop(): boolean {
    return atomics.load(this.#watch, WatchWords.stopRequested) !== 0;
  }

  shouldYield(): boolean {
    return false;
  }

  waited(milliseconds: number): void {
    this.#watchDoubles[WatchWords.waitedMs] = (this.#watchDoubles[WatchWords.waitedMs] as number) + milliseconds;
  }

  #sendOn(engine: ShardEngine, throughNs: number): void {
    if (this.#task.keepRecords) {
      const { typeNames, columns, bodies } = engine.records.take();
      const packed = bodies.length === 0 ? undefined : packWrapped(bodies, 'the bodies of records');
      const bytes = columns.byteLength + (packed?.byteLength ?? 0);
      this.#post({ kind: 'records', typeNames, columns: this.#blocks.put(columns), bodies: packed, bytes, throughNs });
      this.#holdForSink(bytes);
    }
    if (this.#windows.length > 0) this.#post({ kind: 'windows', columns: Float64Array.from(this.#windows) });
    this.#windows = [];
    if (this.#traced.length === 0) return;
    const columns = Float64Array.from(this.#traced);
    this.#traced = [];
    this.#post({ kind: 'events', columns, messageNames: this.#messageNames });
    this.#holdForSink(columns.byteLength);
  }

  /** A slow sink holds the run: the shard sleeps until the coordinator has taken in enough. */
  #holdForSink(bytes: number): void {
    const limit = this.#task.limits.recordBytes;
    let underWay = atomics.add(this.#watch, WatchWords.recordBytes, bytes) + bytes;
    while (underWay > limit) {
      if (this.#link.aborted) throw new KernelError('stopped', 'the run was stopped');
      this.#link.control.sleep(this.#task.link.shard, 100, () => atomics.load(this.#watch, WatchWords.recordBytes) <= limit);
      underWay = atomics.load(this.#watch, WatchWords.recordBytes);
    }
  }

  #traceEvents(engine: ShardEngine, traced: Int32Array): void {
    const wanted = new Uint8Array(engine.model.actorNames.length);
    for (const actor of traced) wanted[actor] = 1;
    engine.tap = (timeNs, step, sender, target, name) => {
      if (wanted[target] === 1) this.#traced.push(timeNs, step, sender, target, this.#messageNames.indexOf(name));
    };
  }

  /**
   * Reports are copied, never transferred: the first array buffer that is detached takes all code that V8 has optimised for typed arrays on this
   * thread with it, and what is compiled afterwards checks every access.
   */
  #post(report: ShardReport): void {
    this.#task.port.postMessage(report);
  }
}
