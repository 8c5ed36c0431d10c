import { availableParallelism } from 'node:os';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import type { BridgeTask } from './bridge-worker.js';
import { mergeSnapshots, type Snapshot } from './checkpoint.js';
import { fromPlainError, type KernelError } from './errors.js';
import type { InputEntry } from './input-log.js';
import type { Limits } from './limits.js';
import type { NumberedInput } from './live-inputs.js';
import type { Model } from './model.js';
import type { PacerState } from './pacing.js';
import { placeCells, placementDigest } from './placement.js';
import { packWrapped, unpackValue } from './plain-data.js';
import { RecordBlocks } from './record-blocks.js';
import type { RecordBatch } from './records.js';
import { emptyResult, type ShardReport, type ShardResult, type ShardTask, type SnapshotWish, WatchWords, workName } from './shard-task.js';
import { SharedControl, SharedRing } from './shared-ring.js';
import { ThreadPool, type ThreadPoolOptions } from './thread-pool.js';

/** How shards on threads are connected. */
export type ThreadTransport = 'threads' | 'bridged';

/** One stretch of a run on a fixed number of shard threads. */
export interface SegmentPlan {
  readonly model: Model;
  readonly module: string;
  readonly parameters: unknown;
  readonly seed: string;
  readonly shards: number;
  readonly transport: ThreadTransport;
  readonly bridgeDelayMs: number;
  readonly strict: boolean;
  readonly limits: Limits;
  /** Bytes of each ring. */
  readonly ringBytes: number;
  readonly keepRecords: boolean;
  readonly untilNs: number;
  readonly from: Uint8Array | undefined;
  readonly snapshot: SnapshotWish;
  readonly pace: number | undefined;
  /** By shard, from the stretch before. */
  readonly pacers: readonly PacerState[] | undefined;
  readonly live: boolean;
  readonly traced: Int32Array | undefined;
  readonly reportWindows: boolean;
  readonly guards: boolean;
  readonly inputs: readonly NumberedInput[];
}

/** What its shards came to together: lanes of all actors, by id. */
export interface SegmentResult extends Omit<ShardResult, 'error' | 'actors' | 'pacer' | 'snapshot'> {
  /** By shard; empty for a run that is not paced. */
  readonly pacers: readonly PacerState[];
  readonly snapshot: Snapshot | undefined;
}

/** What a shard reports; its records are lent for as long as `read` runs, which must be called. */
export type SegmentReport =
  | Exclude<ShardReport, { readonly kind: 'records' }>
  | { readonly kind: 'records'; readonly lend: (read: (batch: RecordBatch) => void) => void; readonly throughNs: number };

export interface SegmentListener {
  onReport(shard: number, report: SegmentReport, done: () => void): void;
}

/** How one shard is doing, as read from shared memory. */
export interface ShardWatch {
  readonly events: number;
  readonly nowNs: number;
  /** Count of events, low 32 bits; changes with every event. */
  readonly pulse: number;
  readonly looping: boolean;
  readonly waitedMs: number;
  readonly inHandler: boolean;
  readonly actor: number;
  readonly message: number;
}

/** Threads that live as long as a run; segments use the first `shards` of them. */
export class ShardPool {
  readonly #pool: ThreadPool;
  #isTaken = false;

  constructor(threads: number, options: ThreadPoolOptions = {}) {
    this.#pool = new ThreadPool(new URL('./shard-worker.js', import.meta.url).href, threads, options);
  }

  get threads(): number {
    return this.#pool.threads;
  }

  /** Whether a run can have the threads, as the end of a sentence about them. */
  get state(): 'free' | 'belong to another run' | 'have been ended' {
    if (this.#isTaken) return 'belong to another run';
    return this.#pool.isEnded ? 'have been ended' : 'free';
  }

  /** Gives the threads to a run. */
  take(): void {
    this.#isTaken = true;
  }

  runShard(task: ShardTask): Promise<ShardResult> {
    return this.#pool.run(task, { transfer: [task.port] });
  }

  /** Has every thread load a program, so that a run finds it there. */
  async warm(module: string): Promise<void> {
    await Promise.all(Array.from({ length: this.threads }, () => this.#pool.run(module, { name: 'warm' })));
  }

  runBridge(task: BridgeTask): Promise<void> {
    return this.#pool.run(task, { module: new URL('./bridge-worker.js', import.meta.url).href });
  }

  /** Ends every thread, also one stuck in a handler. */
  destroy(): Promise<void> {
    return this.#pool.destroy();
  }
}

/** A segment under way. */
export class Segment {
  readonly result: Promise<SegmentResult>;
  readonly #plan: SegmentPlan;
  /** Where it runs each cell. */
  readonly shardOfCell: Int32Array;
  readonly #digest: string;
  readonly #control: SharedControl;
  readonly #watches: SharedArrayBuffer[];
  readonly #recordBlocks: SharedArrayBuffer[];
  readonly #ports: MessagePort[] = [];
  #killed: KernelError | undefined;
  #rejectKilled: (error: KernelError) => void = () => undefined;

  constructor(plan: SegmentPlan, pool: ShardPool, listener: SegmentListener) {
    this.#plan = plan;
    this.shardOfCell = placeCells(plan.model, plan.shards);
    this.#digest = placementDigest(plan.model, this.shardOfCell);
    const participants = plan.shards + 1;
    const control = new SharedArrayBuffer(SharedControl.bytesFor(participants));
    this.#control = new SharedControl(control);
    this.#watches = Array.from({ length: plan.shards }, () => new SharedArrayBuffer(WatchWords.bytes));
    this.#recordBlocks = Array.from({ length: plan.shards }, () => RecordBlocks.create());
    this.result = this.#run(pool, control, listener);
  }

  /** Ends the segment at once, results lost. */
  abort(): void {
    this.#control.abort();
  }

  /** Asks the shards to stop at the first instant they can agree on. */
  requestStop(): void {
    for (const watch of this.#watches) Atomics.store(new Int32Array(watch), WatchWords.stopRequested, 1);
    for (let shard = 0; shard < this.#plan.shards; shard++) this.#control.wake(shard);
  }

  watch(shard: number): ShardWatch {
    const words = new Int32Array(this.#watches[shard] as SharedArrayBuffer);
    const doubles = new Float64Array(this.#watches[shard] as SharedArrayBuffer);
    return {
      events: doubles[WatchWords.eventCount] as number,
      nowNs: doubles[WatchWords.nowNs] as number,
      pulse: Atomics.load(words, WatchWords.events),
      looping: Atomics.load(words, WatchWords.looping) === 1,
      waitedMs: doubles[WatchWords.waitedMs] as number,
      inHandler: Atomics.load(words, WatchWords.inHandler) === 1,
      actor: Atomics.load(words, WatchWords.actor),
      message: Atomics.load(words, WatchWords.message),
    };
  }

  /** Hands external input to the shard that owns its actor. */
  sendInput(shard: number, entry: InputEntry, sequence: number): void {
    (this.#ports[shard] as MessagePort).postMessage(packWrapped({ ...entry, sequence }, 'an input'));
    this.#control.wake(shard);
  }

  /** Ends the segment with an error because a thread no longer answers; the caller then destroys the pool. */
  kill(error: KernelError): void {
    this.#killed = error;
    this.#control.abort();
    this.#rejectKilled(error);
  }

  async #run(pool: ShardPool, control: SharedArrayBuffer, listener: SegmentListener): Promise<SegmentResult> {
    const rings = connectRings(this.#plan);
    const inputs = packWrapped(this.#plan.inputs, 'the inputs'); // Once: every shard picks its own.
    const reports: Promise<void>[] = [];
    const tasks = this.#watches.map((watch, shard) => {
      const { port1, port2 } = new MessageChannel();
      this.#ports.push(port1);
      reports.push(this.#listen(port1, shard, listener));
      const task = this.#taskOf(shard, control, rings, watch, port2, inputs);
      return pool.runShard(task).catch((error: unknown) => this.#lost(shard, error));
    });
    const bridge =
      this.#plan.transport === 'bridged' && this.#plan.shards > 1 ? pool.runBridge(this.#bridgeTask(control, rings)) : undefined;
    const killed = new Promise<never>((_, reject) => {
      this.#rejectKilled = reject;
    });
    try {
      const results = await Promise.race([Promise.all(tasks), killed]);
      const failed = firstFailure(results);
      // What the shards reported before they ended counts, also in a failed run; a lost thread may never close its port.
      const patience = failed === undefined ? [] : [new Promise((resolve) => setTimeout(resolve, 1000).unref())];
      await Promise.race([Promise.all(reports), killed, ...patience]);
      if (failed !== undefined) throw failed;
      return merge(results, this.#plan.model);
    } finally {
      this.#control.abort(); // Ends the bridge; the shards have ended.
      if (this.#killed === undefined) await bridge;
      for (const port of this.#ports) port.close();
    }
  }

  /** A thread ended without an answer: out of memory, process.exit, a crash. */
  #lost(shard: number, error: unknown): ShardResult {
    this.#control.abort();
    const { nowNs, actor, message, inHandler } = this.watch(shard);
    const { model, seed } = this.#plan;
    const text = error instanceof Error ? error.message : String(error);
    const cannotClone = error instanceof Error && error.name === 'DataCloneError';
    const reason = cannotClone
      ? `the parameters of program '${model.programName}' cannot be sent to a thread: ${text}; they must be plain data`
      : `the worker thread of shard ${shard} was lost: ${text}`;
    const site = {
      shard,
      seed,
      timeNs: nowNs,
      ...(inHandler ? { actor: model.actorNames[actor] as string, message: workName(model, message) } : {}),
    };
    const lost = { code: cannotClone ? ('bad-option' as const) : ('worker-lost' as const), reason, site, stack: '' };
    return { ...emptyResult(), error: lost };
  }

  #listen(port: MessagePort, shard: number, listener: SegmentListener): Promise<void> {
    return new Promise((resolve) => {
      port.on('message', (report: ShardReport) => {
        const bytes = report.kind === 'records' ? report.bytes : report.kind === 'events' ? report.columns.byteLength : 0;
        const done = bytes > 0 ? this.#creditBack(shard, bytes) : () => undefined;
        listener.onReport(shard, report.kind === 'records' ? this.#readRecords(shard, report) : report, done);
      });
      port.on('close', resolve);
    });
  }

  #readRecords(shard: number, { typeNames, columns, bodies, throughNs }: ShardReport & { kind: 'records' }): SegmentReport {
    const unpacked = bodies === undefined ? [] : (unpackValue(bodies) as unknown[]);
    const blocks = new RecordBlocks(this.#recordBlocks[shard] as SharedArrayBuffer);
    const lend = (read: (batch: RecordBatch) => void): void =>
      blocks.take(columns, (words) => read({ typeNames, columns: words, bodies: unpacked }));
    return { kind: 'records', lend, throughNs };
  }

  #creditBack(shard: number, bytes: number): () => void {
    return () => {
      Atomics.sub(new Int32Array(this.#watches[shard] as SharedArrayBuffer), WatchWords.recordBytes, bytes);
      this.#control.wake(shard);
    };
  }

  #taskOf(
    shard: number,
    control: SharedArrayBuffer,
    rings: Rings,
    watch: SharedArrayBuffer,
    port: MessagePort,
    inputs: Uint8Array,
  ): ShardTask {
    const { shards, transport, module, parameters, seed, strict, limits, keepRecords, untilNs, from } = this.#plan;
    const { snapshot, pace, live, traced, reportWindows, guards } = this.#plan;
    const link = {
      shard,
      shardCount: shards,
      control,
      outgoing: rings.outgoing[shard] as SharedArrayBuffer[],
      incoming: rings.incoming[shard] as SharedArrayBuffer[],
      peers: Array.from({ length: shards }, (_, peer) => (transport === 'bridged' ? shards : peer)),
      oversubscribed: shards > availableParallelism(),
    };
    return {
      link,
      module,
      digest: this.#digest,
      parameters,
      seed,
      strict,
      limits,
      keepRecords,
      untilNs,
      from,
      snapshot,
      pace,
      pacer: this.#plan.pacers?.[shard],
      live,
      watch,
      port,
      recordBlocks: this.#recordBlocks[shard] as SharedArrayBuffer,
      traced,
      reportWindows,
      guards,
      inputs,
    };
  }

  #bridgeTask(control: SharedArrayBuffer, rings: Rings): BridgeTask {
    const { shards, bridgeDelayMs, seed } = this.#plan;
    const lanes = [];
    for (let from = 0; from < shards; from++) {
      for (let to = 0; to < shards; to++) {
        if (from === to) continue;
        lanes.push({
          fromShard: from,
          toShard: to,
          source: (rings.outgoing[from] as SharedArrayBuffer[])[to] as SharedArrayBuffer,
          target: (rings.incoming[to] as SharedArrayBuffer[])[from] as SharedArrayBuffer,
        });
      }
    }
    return { control, participant: shards, lanes, delayMs: bridgeDelayMs, seed };
  }
}

interface Rings {
  /** outgoing[i][j]: the ring shard i writes for shard j; incoming[j][i]: the ring shard j reads from shard i. */
  readonly outgoing: SharedArrayBuffer[][];
  readonly incoming: SharedArrayBuffer[][];
}

function connectRings(plan: SegmentPlan): Rings {
  const none = new SharedArrayBuffer(512);
  const create = (i: number, j: number): SharedArrayBuffer => (i === j ? none : SharedRing.create(plan.ringBytes));
  const outgoing = Array.from({ length: plan.shards }, (_, i) => Array.from({ length: plan.shards }, (_, j) => create(i, j)));
  const incoming = Array.from({ length: plan.shards }, (_, j) =>
    Array.from({ length: plan.shards }, (_, i) =>
      plan.transport === 'bridged' ? create(i, j) : ((outgoing[i] as SharedArrayBuffer[])[j] as SharedArrayBuffer),
    ),
  );
  return { outgoing, incoming };
}

/** The error that began it: shards that were merely stopped come after it. */
function firstFailure(results: readonly ShardResult[]): KernelError | undefined {
  const errors = results.flatMap((result) => (result.error === undefined ? [] : [result.error]));
  const cause = errors.find((error) => error.code !== 'stopped') ?? errors[0];
  return cause === undefined ? undefined : fromPlainError(cause);
}

function merge(results: readonly ShardResult[], model: Model): SegmentResult {
  const lanes = new Int32Array(2 * model.actorNames.length);
  const recordLanes = new Int32Array(3 * model.actorNames.length);
  for (const result of results) {
    for (const [index, actor] of result.actors.entries()) {
      lanes.set(result.lanes.subarray(2 * index, 2 * index + 2), 2 * actor);
      recordLanes.set(result.recordLanes.subarray(3 * index, 3 * index + 3), 3 * actor);
    }
  }
  // What is still to be done on one shard may be for actors of another.
  const isDrained = results.every((result) => result.isDrained);
  const snapshots = results.flatMap(({ snapshot }) => (snapshot === undefined ? [] : [unpackValue(snapshot) as Snapshot]));
  return {
    lanes,
    recordLanes,
    eventCount: results.reduce((sum, result) => sum + result.eventCount, 0),
    stoppedNs: Math.max(...results.map((result) => result.stoppedNs)),
    lastNs: Math.max(...results.map((result) => result.lastNs)),
    rounds: Math.max(...results.map((result) => result.rounds)),
    loopMs: Math.max(...results.map((result) => result.loopMs)),
    stretchEvents: results.reduce((sum, result) => sum + result.stretchEvents, 0),
    isDrained,
    endFaults: isDrained ? results.flatMap(({ endFaults }) => endFaults).sort() : [],
    pacers: results.flatMap((result) => (result.pacer === undefined ? [] : [result.pacer])),
    snapshot: snapshots.length === results.length ? mergeSnapshots(snapshots) : undefined,
  };
}
