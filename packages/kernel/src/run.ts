import type { Logger } from 'pino';
import { type Checkpoint, firstFreeInput, packCheckpoint, unpackCheckpoint } from './checkpoint.js';
import { fromUnknown, KernelError } from './errors.js';
import { EventRecorder, type TraceOptions } from './event-recorder.js';
import { combineLanes } from './fingerprint.js';
import { checkInputLog, type InputEntry, inputFields } from './input-log.js';
import { type Limits, resolveLimits } from './limits.js';
import type { Model } from './model.js';
import { RunObserver } from './observer.js';
import { checkPace, type Pace, type PacingReport } from './pacing.js';
import { placeCells } from './placement.js';
import { modelOf, type Program } from './program.js';
import { RecordMerger, type RecordSink, type RunRecord, unpackRecords } from './records.js';
import { Segment, type SegmentPlan, type SegmentResult, ShardPool, type ThreadTransport } from './segment.js';
import { type ShardChoice, ShardChooser } from './shard-choice.js';
import type { ShardReport } from './shard-task.js';
import { checkShards, Simulation } from './simulation.js';
import { checkNs } from './time.js';
import { wallMs } from './wall-clock.js';
import { Watchdog } from './watchdog.js';

export interface RunOptions {
  /** Seed of every random stream (default '1'). */
  readonly seed?: string | number;
  /** Shards, or 'auto' to measure and choose (default 1). The result does not depend on it. */
  readonly shards?: number | 'auto';
  /** 'threads' (default), 'memory' (all shards on this thread) or 'bridged' (a thread that delays every frame at random). */
  readonly transport?: 'memory' | ThreadTransport;
  /** Greatest delay of a frame on the bridge, in wall ms (default 1). */
  readonly bridgeDelayMs?: number;
  /** Send every message through the codec, poison views, check fields: proves that actors share nothing. */
  readonly strict?: boolean;
  /** Stop before this simulated time (default: when nothing is left to do). */
  readonly untilNs?: number;
  readonly pace?: Pace;
  readonly limits?: Partial<Limits>;
  /** Takes the records; without one they are only hashed. */
  readonly sink?: RecordSink;
  readonly observer?: RunObserver;
  readonly trace?: TraceOptions;
  readonly logger?: Logger;
  /** Start from here. */
  readonly from?: Checkpoint;
  /** Take a checkpoint when the run stops. */
  readonly checkpoint?: boolean;
  /** Checkpoint this often in simulated time; needed for `restarts`. */
  readonly checkpointEveryNs?: number;
  /** How often to start again from the last checkpoint after a worker thread is lost (default 0). */
  readonly restarts?: number;
  /** External input to replay. */
  readonly inputs?: readonly InputEntry[];
  /** Accept `inject` while running; the run then goes on until `untilNs` or `stop`. */
  readonly live?: boolean;
  /** Hide clocks, Math.random, timers and shared memory from handlers on worker threads (default true). */
  readonly guards?: boolean;
  /** Threads started ahead by `prepareThreads`; the run takes them over and ends them. */
  readonly threads?: PreparedThreads;
  /** Old-generation heap of each worker thread in MB (default: Node's own). */
  readonly workerHeapMb?: number;
  /** A shell command that replays this run; printed with every failure. */
  readonly replay?: string;
}

export interface RunResult {
  readonly fingerprint: string;
  readonly recordFingerprint: string;
  readonly seed: string;
  readonly eventCount: number;
  readonly stoppedNs: number;
  /** True when `stop` ended it early. */
  readonly stopped: boolean;
  readonly shards: number;
  readonly choice: ShardChoice | undefined;
  readonly rounds: number;
  /** Wall ms from the call to the result, and the part spent in the shard loops. */
  readonly wallMs: number;
  readonly loopMs: number;
  readonly recordCount: number;
  readonly pacing: PacingReport | undefined;
  readonly checkpoint: Checkpoint | undefined;
  /** What was injected, as it can be replayed. */
  readonly inputs: readonly InputEntry[];
  readonly restarts: number;
  /** Two fingerprint lanes an actor, by id. */
  readonly lanes: Int32Array;
}

/** Worker threads that start, and load a program, while their run is still being prepared. They belong to one run. */
export interface PreparedThreads {
  /** Settles when every thread has the program. */
  readonly ready: Promise<void>;
  /** @internal */
  readonly pool: ShardPool;
  /** Ends them; only needed when no run takes them. */
  destroy(): Promise<void>;
}

/** Starts `count` worker threads and has each load the program, for a later `startRun` with `threads`. @throws KernelError `bad-option`. */
export function prepareThreads<Parameters>(program: Program<Parameters>, count: number): PreparedThreads {
  checkShards(count);
  if (program.module === undefined)
    throw new KernelError('bad-option', `program '${program.name}' has no module URL, so worker threads cannot load it`);
  const pool = new ShardPool(count);
  const ready = pool.warm(program.module);
  ready.catch(() => undefined); // Threads that were ended before they were ready.
  return { ready, pool, destroy: () => pool.destroy() };
}

/** A run under way. */
export interface Run {
  readonly result: Promise<RunResult>;
  readonly observer: RunObserver;
  readonly model: Model;
  /** Ends the run at the first instant the shards agree on; `result` then resolves with `stopped: true`. */
  stop(): void;
  /** Brings in external input (live runs only). It enters at `timeNs`, or as soon after as it can. */
  inject(entry: Omit<InputEntry, 'timeNs'> & { readonly timeNs?: number }): void;
}

const abortAfterMs = 2000;

/** Builds the program's model and starts it. @throws KernelError `bad-model`, `bad-option`, `bad-checkpoint` at once; later failures reject `result`. */
export function startRun<Parameters>(program: Program<Parameters>, parameters: Parameters, options: RunOptions = {}): Run {
  const checked = checkOptions(program as Program, options);
  const model = modelOf(program, parameters);
  return new Coordinator(program as Program, parameters, model, checked);
}

/** Runs a program to its end. */
export function run<Parameters>(program: Program<Parameters>, parameters: Parameters, options: RunOptions = {}): Promise<RunResult> {
  return startRun(program, parameters, options).result;
}

interface CheckedOptions extends RunOptions {
  readonly seed: string;
  readonly untilNs: number;
  readonly resolvedLimits: Limits;
}

function checkOptions(program: Program, options: RunOptions): CheckedOptions {
  const { shards = 1, transport = 'threads', pace = 'max', untilNs = Number.POSITIVE_INFINITY } = options;
  if (shards !== 'auto') checkShards(shards);
  if (!['memory', 'threads', 'bridged'].includes(transport))
    throw new KernelError('bad-option', `transport is '${transport}'; it must be 'memory', 'threads' or 'bridged'`);
  if (untilNs !== Number.POSITIVE_INFINITY) checkNs('untilNs', untilNs);
  checkPace(pace);
  if (transport !== 'memory' && program.module === undefined) {
    throw new KernelError(
      'bad-option',
      `program '${program.name}' has no module URL, so worker threads cannot load it; define it with defineProgram(import.meta.url, ...) or use transport 'memory'`,
    );
  }
  if (transport === 'memory' && (pace !== 'max' || options.live === true || shards === 'auto')) {
    throw new KernelError(
      'bad-option',
      "transport 'memory' runs as fast as possible on a fixed number of shards; use transport 'threads' for pace, live input or shards 'auto'",
    );
  }
  const { checkpointEveryNs, restarts = 0 } = options;
  if (checkpointEveryNs !== undefined) checkNs('checkpointEveryNs', checkpointEveryNs);
  if (checkpointEveryNs === 0) throw new KernelError('bad-option', 'checkpointEveryNs is 0; it must be positive');
  if (restarts > 0 && checkpointEveryNs === undefined)
    throw new KernelError('bad-option', `restarts is ${restarts}, but there are no checkpoints to start from; set checkpointEveryNs`);
  checkInputLog(options.inputs ?? []);
  return { ...options, seed: String(options.seed ?? '1'), untilNs, resolvedLimits: resolveLimits(options.limits) };
}

class Coordinator implements Run {
  readonly result: Promise<RunResult>;
  readonly observer: RunObserver;
  readonly model: Model;
  readonly #program: Program;
  readonly #parameters: unknown;
  readonly #options: CheckedOptions;
  readonly #merger: RecordMerger | undefined;
  readonly #recorder: EventRecorder | undefined;
  readonly #begunMs = wallMs();
  readonly #injected: InputEntry[] = [];
  #inputCount: number;
  #segment: Segment | undefined;
  #segmentShards = 1;
  #stopAsked = false;
  #sinkQueue: Promise<void> = Promise.resolve();
  #sinkError: unknown;
  #restarted = 0;
  /** Counts restarts, so that record batches of a lost stretch that still wait for the sink are known and left out. */
  #stretch = 0;

  constructor(program: Program, parameters: unknown, model: Model, options: CheckedOptions) {
    this.#program = program;
    this.#parameters = parameters;
    this.#options = options;
    this.model = model;
    this.observer = options.observer ?? new RunObserver();
    this.#merger = options.sink === undefined ? undefined : new RecordMerger(options.sink);
    this.#recorder = options.trace === undefined ? undefined : new EventRecorder(model, options.trace);
    const snapshot = options.from === undefined ? undefined : unpackCheckpoint(options.from.bytes, model, options.seed);
    this.#inputCount = snapshot === undefined ? 0 : firstFreeInput(snapshot);
    for (const entry of options.inputs ?? []) inputFields(entry, model);
    this.result = this.#start();
    this.result.catch(() => undefined); // Whoever awaits it sees the error; nobody may be awaiting yet.
  }

  stop(): void {
    this.#stopAsked = true;
    const segment = this.#segment;
    if (segment === undefined) return;
    segment.requestStop();
    setTimeout(() => segment.abort(), abortAfterMs).unref();
  }

  inject(entry: Omit<InputEntry, 'timeNs'> & { readonly timeNs?: number }): void {
    if (this.#options.live !== true)
      throw new KernelError('bad-option', "inject needs a live run; start it with live: true (or pass a log as 'inputs')");
    const full = { ...entry, timeNs: entry.timeNs ?? 0 };
    const { target } = inputFields(full, this.model);
    if (this.#segment === undefined) throw new KernelError('bad-option', 'the run is not under way');
    const shard = placeCells(this.model, this.#segmentShards)[this.model.cellOfActor[target] as number] as number;
    this.#segment.sendInput(shard, full, this.#inputCount++);
  }

  async #start(): Promise<RunResult> {
    await Promise.resolve(); // The caller may attach listeners first.
    const { shards = 1, transport = 'threads' } = this.#options;
    this.observer.emit('started', {
      program: this.#program.name,
      seed: this.#options.seed,
      actors: this.model.actorNames.length,
      shards: shards === 'auto' ? 0 : shards,
      transport,
    });
    try {
      const result = transport === 'memory' ? await this.#runInMemory() : await this.#runOnThreads(transport);
      this.observer.emit('finished', result);
      return result;
    } catch (error) {
      const located = this.#located(error);
      if (located.site.actor !== undefined) this.observer.emit('actor-error', located);
      this.#options.logger?.error({ code: located.code, ...located.site }, located.reason);
      throw located;
    } finally {
      await this.#recorder?.close();
    }
  }

  #located(error: unknown): KernelError {
    const { seed, replay } = this.#options;
    const site = replay === undefined ? { seed } : { seed, replay };
    return error instanceof KernelError ? error.at(site) : fromUnknown(error, site);
  }

  async #runInMemory(): Promise<RunResult> {
    const { seed, untilNs, limits = {}, strict = false, from, inputs = [] } = this.#options;
    const shards = this.#options.shards as number | undefined;
    const simulation = new Simulation(this.model, {
      seed,
      shards: shards ?? 1,
      strict,
      limits,
      keepRecords: this.#merger !== undefined,
      ...(from === undefined ? {} : { from }),
    });
    for (const entry of inputs) simulation.inject(entry);
    this.#merger?.begin(1);
    const traced = new Set(this.#recorder?.actors);
    if (this.#recorder !== undefined) {
      simulation.tap((timeNs, step, sender, target, name) => {
        if (traced.has(target)) this.#recorder?.add(Float64Array.of(timeNs, step, sender, target, 0), [name]);
      });
    }
    let sliceEndMs = wallMs() + 20;
    let nextReportMs = wallMs() + 500;
    simulation.begin(untilNs);
    while (simulation.advance(() => wallMs() > sliceEndMs)) {
      if (wallMs() < sliceEndMs) continue;
      await new Promise((resolve) => setImmediate(resolve));
      if (this.#stopAsked) simulation.requestStop();
      sliceEndMs = wallMs() + 20;
      if (wallMs() < nextReportMs) continue;
      nextReportMs += 500;
      this.#reportProgress(simulation.processedNs, simulation.eventCount);
    }
    if (this.#merger !== undefined) {
      await this.#merger.add(0, simulation.takeRecords(), Number.POSITIVE_INFINITY);
      await this.#merger.close();
    }
    return {
      ...this.#commonResult(simulation.lanes(), simulation.nowNs, simulation.eventCount),
      recordFingerprint: simulation.recordFingerprint,
      shards: shards ?? 1,
      choice: undefined,
      rounds: simulation.rounds,
      loopMs: wallMs() - this.#begunMs,
      pacing: undefined,
      checkpoint: this.#options.checkpoint === true ? simulation.checkpoint() : undefined,
    };
  }

  #commonResult(lanes: Int32Array, stoppedNs: number, eventCount: number) {
    return {
      fingerprint: combineLanes(lanes),
      lanes,
      seed: this.#options.seed,
      eventCount,
      stoppedNs,
      stopped: this.#stopAsked && stoppedNs < this.#options.untilNs,
      wallMs: wallMs() - this.#begunMs,
      recordCount: this.#merger?.count ?? 0,
      inputs: [...(this.#options.inputs ?? []), ...this.#injected],
      restarts: this.#restarted,
    };
  }

  async #runOnThreads(transport: ThreadTransport): Promise<RunResult> {
    const { shards = 1, workerHeapMb } = this.#options;
    const chooser = shards === 'auto' ? new ShardChooser(this.model) : undefined;
    const threads = (chooser?.maximumShards ?? (shards as number)) + (transport === 'bridged' ? 1 : 0);
    const heap = workerHeapMb === undefined ? {} : { maxOldGenerationSizeMb: workerHeapMb };
    const prepared = this.#options.threads?.pool;
    if (prepared !== undefined && prepared.threads < threads) await prepared.destroy();
    let pool = prepared !== undefined && prepared.threads >= threads ? prepared : new ShardPool(threads, heap);
    const renewPool = async (): Promise<ShardPool> => {
      await pool.destroy();
      pool = new ShardPool(threads, heap);
      return pool;
    };
    try {
      return await this.#runSegments(transport, () => pool, renewPool, chooser);
    } finally {
      await pool.destroy();
    }
  }

  /** Stretch by stretch: to the next checkpoint, to the next measurement of `auto`, or to the end. */
  async #runSegments(
    transport: ThreadTransport,
    pool: () => ShardPool,
    renewPool: () => Promise<ShardPool>,
    chooser: ShardChooser | undefined,
  ): Promise<RunResult> {
    const { untilNs, checkpointEveryNs, restarts = 0 } = this.#options;
    let from = this.#options.from?.bytes as Uint8Array | undefined;
    let nowNs = this.#options.from?.header.timeNs ?? 0;
    let rounds = 0;
    let loopMs = 0;
    for (;;) {
      const shards = chooser?.shards ?? (this.#options.shards as number | undefined) ?? 1;
      const nextNs =
        checkpointEveryNs === undefined ? untilNs : Math.min(untilNs, (Math.floor(nowNs / checkpointEveryNs) + 1) * checkpointEveryNs);
      const budgetMs = chooser?.budgetMs ?? Number.POSITIVE_INFINITY;
      const takeSnapshot = nextNs < untilNs || budgetMs < Number.POSITIVE_INFINITY || this.#options.checkpoint === true;
      let done: SegmentResult;
      try {
        done = await this.#runSegment(this.#segmentPlan(transport, shards, nextNs, from, takeSnapshot, budgetMs), pool());
      } catch (error) {
        if (!(error instanceof KernelError && error.code === 'worker-lost' && this.#restarted < restarts)) throw error;
        this.#restarted++;
        this.#options.logger?.warn(
          { ...error.site },
          `${error.reason}; starting again from ${nowNs} ns (${this.#restarted} of ${restarts})`,
        );
        this.#stretch++;
        this.#merger?.rewind();
        await renewPool();
        continue;
      }
      rounds += done.rounds;
      loopMs += done.loopMs;
      const checkpoint = done.snapshot === undefined ? undefined : packCheckpoint(done.snapshot, this.model, this.#options.seed);
      const hasMore = (done.snapshot?.eventIntegers.length ?? 0) > 0;
      const over = done.stoppedNs >= untilNs || !hasMore || this.#stopAsked;
      chooser?.note(done, nowNs);
      if (over) return this.#finish(done, shards, chooser, rounds, loopMs, this.#options.checkpoint === true ? checkpoint : undefined);
      from = (checkpoint as Checkpoint).bytes;
      nowNs = done.stoppedNs;
    }
  }

  async #finish(
    done: SegmentResult,
    shards: number,
    chooser: ShardChooser | undefined,
    rounds: number,
    loopMs: number,
    checkpoint: Checkpoint | undefined,
  ): Promise<RunResult> {
    await this.#sinkQueue;
    await this.#merger?.close();
    if (done.pacing?.keptUp === false)
      this.#options.logger?.warn(done.pacing, `the run could not keep up with ${done.pacing.pace} times the wall clock`);
    return {
      ...this.#commonResult(done.lanes, done.stoppedNs, done.eventCount),
      recordFingerprint: combineLanes(done.recordLanes),
      shards,
      choice: chooser?.choice,
      rounds,
      loopMs,
      pacing: done.pacing,
      checkpoint,
    };
  }

  #segmentPlan(
    transport: ThreadTransport,
    shards: number,
    untilNs: number,
    from: Uint8Array | undefined,
    takeSnapshot: boolean,
    budgetMs: number,
  ): SegmentPlan {
    const { seed, strict = false, resolvedLimits, pace, live = false, guards = true, bridgeDelayMs = 1 } = this.#options;
    // A log's inputs are pending events from the first segment on; later segments find them in the checkpoint.
    const first = from === this.#options.from?.bytes;
    const inputs = first ? (this.#options.inputs ?? []).map((entry, index) => ({ ...entry, sequence: this.#inputCount + index })) : [];
    return {
      model: this.model,
      module: this.#program.module as string,
      parameters: this.#parameters,
      seed,
      shards,
      transport,
      bridgeDelayMs,
      strict,
      limits: resolvedLimits,
      keepRecords: this.#merger !== undefined,
      untilNs,
      from,
      takeSnapshot,
      pace: pace === 'max' ? undefined : pace,
      live,
      budgetMs,
      traced: this.#recorder?.actors,
      reportWindows: this.observer.listenerCount('window') > 0,
      guards,
      inputs,
    };
  }

  async #runSegment(plan: SegmentPlan, pool: ShardPool): Promise<SegmentResult> {
    this.#merger?.begin(plan.shards);
    const stretch = this.#stretch;
    const segment = new Segment(plan, pool, { onReport: (shard, report, done) => this.#take(stretch, shard, report, done) });
    this.#segment = segment;
    this.#segmentShards = plan.shards;
    const watchdog = new Watchdog(segment, plan, {
      progress: (nowNs, events) => this.#reportProgress(nowNs, events),
      stalled: (report) => {
        this.#options.logger?.warn(report, `a handler has not returned for ${(report.stalledMs / 1000).toFixed(1)} s`);
        this.observer.emit('stalled', report);
      },
    });
    if (this.#stopAsked) segment.requestStop();
    try {
      const result = await segment.result;
      await this.#sinkQueue;
      if (this.#sinkError !== undefined) throw this.#sinkError;
      return result;
    } catch (error) {
      throw this.#sinkError ?? error;
    } finally {
      watchdog.close();
      this.#segment = undefined;
    }
  }

  #take(stretch: number, shard: number, report: ShardReport, done: () => void): void {
    switch (report.kind) {
      case 'records': {
        const records: RunRecord[] = unpackRecords(report.typeNames, report.packed);
        this.#sinkQueue = this.#sinkQueue
          .then(() => (stretch === this.#stretch ? this.#merger?.add(shard, records, report.throughNs) : undefined))
          .catch((error: unknown) => {
            this.#sinkError ??= new KernelError(
              'handler-failed',
              `the record sink failed: ${error instanceof Error ? error.message : String(error)}`,
              {},
              error,
            );
            this.#segment?.abort();
          })
          .finally(done);
        return;
      }
      case 'input':
        this.#injected.push(report.entry);
        return;
      case 'events':
        this.#recorder?.add(report.columns, report.messageNames);
        return;
      case 'windows':
        for (let at = 0; at < report.columns.length; at += 3) {
          this.observer.emit('window', {
            shard,
            fromNs: report.columns[at] as number,
            boundNs: report.columns[at + 1] as number,
            events: report.columns[at + 2] as number,
          });
        }
        return;
      case 'ready':
        return;
    }
  }

  #reportProgress(nowNs: number, events: number): void {
    if (this.observer.listenerCount('progress') === 0) return;
    const elapsedMs = wallMs() - this.#begunMs;
    const { untilNs } = this.#options;
    const share = untilNs === Number.POSITIVE_INFINITY ? undefined : Math.min(1, nowNs / untilNs);
    const remainingMs = share === undefined || share === 0 ? undefined : (elapsedMs * (1 - share)) / share;
    this.observer.emit('progress', { nowNs, events, eventsPerSecond: (events / elapsedMs) * 1000, wallMs: elapsedMs, share, remainingMs });
  }
}
