import { type Checkpoint, firstFreeInput, hasOtherParameters, packCheckpoint, unpackCheckpoint } from './checkpoint.js';
import { fromUnknown, KernelError } from './errors.js';
import { EventRecorder } from './event-recorder.js';
import { combineLanes } from './fingerprint.js';
import { type InputEntry, inputFields } from './input-log.js';
import { ringBytesFor } from './limits.js';
import { LiveInputs, type NumberedInput } from './live-inputs.js';
import type { Model } from './model.js';
import { type RunEvents, RunObserver } from './observer.js';
import { type PacerState, pacingReport } from './pacing.js';
import { copyValue } from './plain-copy.js';
import { modelOf, type Program } from './program.js';
import { RecordMerger } from './record-merger.js';
import { type CheckedOptions, checkOptions, type RunOptions, type RunResult } from './run-options.js';
import { Segment, type SegmentPlan, type SegmentReport, type SegmentResult, ShardPool, type ThreadTransport } from './segment.js';
import { ShardChooser } from './shard-choice.js';
import type { SnapshotWish } from './shard-task.js';
import { checkShards, Simulation } from './simulation.js';
import { SinkQueue } from './sink-queue.js';
import { StretchMeter } from './stretch-meter.js';
import { wallMs } from './wall-clock.js';
import { Watchdog } from './watchdog.js';

/** Worker threads that start, and load a program, while their run is still being prepared. They belong to one run. */
export interface PreparedThreads {
  /** Settles when every thread has the program. */
  readonly ready: Promise<void>;
  /** @internal */
  readonly pool: ShardPool;
  /** Ends them, and settles when they have ended. A run that took them begins to end them, but does not wait for it. */
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

/** How often `auto` looks at the speed of a run. */
const lookEveryMs = 20;
/** How long a handler may still take once the run is asked to stop. */
const stopPatienceMs = 2000;

/** Builds the program's model and starts it. @throws KernelError `bad-model`, `bad-option`, `bad-checkpoint` at once; later failures reject `result`. */
export function startRun<Parameters>(program: Program<Parameters>, parameters: Parameters, options: RunOptions = {}): Run {
  const checked = checkOptions(program as Program, options);
  const model = modelOf(program, parameters);
  return new Coordinator(program as Program, parameters, model, { ...checked, ...shardsThatWork(checked, model) });
}

/** A cell never parts, so shards beyond their number would only wait in every window. */
function shardsThatWork({ shards, logger }: CheckedOptions, model: Model): { shards?: number } {
  const cells = model.weightOfCell.length;
  if (shards === undefined || shards === 'auto' || shards <= cells) return {};
  logger?.warn({ shards, cells }, 'more shards than cells: only as many as there are cells run');
  return { shards: cells };
}

/** Runs a program to its end. */
export function run<Parameters>(program: Program<Parameters>, parameters: Parameters, options: RunOptions = {}): Promise<RunResult> {
  return startRun(program, parameters, options).result;
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
  readonly #inputs: LiveInputs;
  /** Inputs that enter with the next segment at a known time: the replayed log, or what a lost segment had taken. */
  #scheduled: NumberedInput[] = [];
  #segment: Segment | undefined;
  #watchdog: Watchdog | undefined;
  readonly #hasOtherParameters: boolean;
  #stopAsked = false;
  /** Past what input could still change. */
  #isOver = false;
  readonly #sink = new SinkQueue((error) => this.#segment?.kill(error));
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
    const { from, sameParameters } = options;
    const snapshot = from === undefined ? undefined : unpackCheckpoint(from.bytes, model, options.seed, sameParameters);
    this.#hasOtherParameters = from !== undefined && hasOtherParameters(from.header, model);
    if (this.#hasOtherParameters) options.logger?.warn('the checkpoint was taken with other parameters: this run is a fork by parameter');
    this.#inputs = new LiveInputs(snapshot === undefined ? 0 : firstFreeInput(snapshot));
    for (const entry of options.inputs ?? []) inputFields(entry, model);
    this.#scheduled = this.#inputs.number(options.inputs ?? []);
    const threads = options.threads?.pool;
    if (threads !== undefined && threads.state !== 'free')
      throw new KernelError('bad-option', `threads ${threads.state}; each run needs threads of its own: call prepareThreads for each`);
    this.#recorder = options.trace === undefined ? undefined : new EventRecorder(model, options.trace);
    threads?.take(); // Last: a run that is refused leaves them to the next.
    this.result = this.#start();
    this.result.catch(() => undefined); // Whoever awaits it sees the error; nobody may be awaiting yet.
  }

  stop(): void {
    if (this.#stopAsked) return;
    this.#stopAsked = true;
    this.#segment?.requestStop();
    this.#watchdog?.hurry(stopPatienceMs);
    this.#hurrySink();
  }

  #hurrySink(): void {
    this.#sink.hurry(this.#options.resolvedLimits.handlerLimitMs);
  }

  inject(entry: Omit<InputEntry, 'timeNs'> & { readonly timeNs?: number }): void {
    if (this.#options.live !== true)
      throw new KernelError('bad-option', "inject needs a live run; start it with live: true (or pass a log as 'inputs')");
    if (this.#isOver)
      throw new KernelError(
        'bad-option',
        `input '${entry.message}' for '${entry.actor}' comes too late: the run has ended; inject before that`,
      );
    const given = { ...entry, timeNs: entry.timeNs ?? 0 };
    inputFields(given, this.model);
    const full = copyValue(given, `the input for '${entry.actor}'`); // The log holds it, and the caller may change its own.
    const sequence = this.#inputs.add(full);
    if (this.#segment !== undefined) this.#deliver(this.#segment, sequence, full);
  }

  /** Hands an input to the shard that owns its actor; should the segment end first, the next one gets it. */
  #deliver(segment: Segment, sequence: number, entry: InputEntry): void {
    const { target } = inputFields(entry, this.model);
    segment.sendInput(segment.shardOfCell[this.model.cellOfActor[target] as number] as number, entry, sequence);
  }

  /** An observer that throws must not change the run, or hide its error. */
  #tell<Name extends keyof RunEvents>(name: Name, ...values: Parameters<RunEvents[Name]>): void {
    try {
      (this.observer.emit as (name: string, ...values: unknown[]) => boolean)(name, ...values);
    } catch (error) {
      const text = `a listener of the run's '${name}' event threw: ${error instanceof Error ? error.message : String(error)}`;
      if (this.#options.logger === undefined) process.emitWarning(text);
      else this.#options.logger.error(error, text);
    }
  }

  async #start(): Promise<RunResult> {
    await Promise.resolve(); // The caller may attach listeners first.
    const { shards = 1, transport = 'threads' } = this.#options;
    this.#tell('started', {
      program: this.#program.name,
      seed: this.#options.seed,
      actors: this.model.actorNames.length,
      shards: shards === 'auto' ? 0 : shards,
      transport,
    });
    try {
      const result = transport === 'memory' ? await this.#runInMemory() : await this.#runOnThreads(transport);
      this.#tell('finished', result);
      return result;
    } catch (error) {
      const located = this.#located(error);
      if (located.site.actor !== undefined) this.#tell('actor-error', located);
      this.#options.logger?.error({ code: located.code, ...located.site }, located.reason);
      throw located;
    } finally {
      this.#isOver = true;
      await this.#closeSink();
      this.#sink.close();
      if (transport === 'memory') await this.#options.threads?.destroy();
      await this.#recorder?.close();
    }
  }

  /** What is known of a failed run reaches the sink too, up to the instant all shards had passed. */
  async #closeSink(): Promise<void> {
    const merger = this.#merger;
    if (merger === undefined || merger.ended) return;
    this.#hurrySink();
    this.#sink.add(() => merger.end());
    await this.#sink.drained().catch((error: unknown) => this.#options.logger?.error(error, 'closing the record sink failed'));
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
    this.#merger?.begin(shards ?? 1);
    const traced = new Set(this.#recorder?.actors);
    if (this.#recorder !== undefined) {
      simulation.tap((timeNs, step, sender, target, name) => {
        if (traced.has(target)) this.#recorder?.add(Float64Array.of(timeNs, step, sender, target, 0), [name]);
      });
    }
    simulation.begin(untilNs);
    try {
      await this.#runSlices(simulation);
    } catch (error) {
      this.#writeRecords(simulation, simulation.completeNs);
      throw error;
    }
    this.#writeRecords(simulation, Number.POSITIVE_INFINITY);
    await this.#closeMerger();
    const isDrained = simulation.completeNs === Number.POSITIVE_INFINITY;
    return {
      ...this.#commonResult(simulation.lanes(), simulation.nowNs, simulation.eventCount, isDrained),
      recordFingerprint: simulation.recordFingerprint,
      endFaults: isDrained ? simulation.endFaults() : [],
      shards: shards ?? 1,
      choice: undefined,
      rounds: simulation.rounds,
      loopMs: wallMs() - this.#begunMs,
      pacing: undefined,
      checkpoint: this.#options.checkpoint === true ? simulation.checkpoint() : undefined,
    };
  }

  /** Runs in slices of 20 ms, so that this thread can do other things, and records leave as they become final. */
  async #runSlices(simulation: Simulation): Promise<void> {
    let sliceEndMs = wallMs() + 20;
    let nextReportMs = wallMs() + 500;
    while (simulation.advance(() => wallMs() > sliceEndMs)) {
      if (wallMs() < sliceEndMs) continue;
      await new Promise((resolve) => setImmediate(resolve));
      if (this.#stopAsked) simulation.requestStop();
      this.#writeRecords(simulation, simulation.completeNs);
      await this.#sink.drained();
      sliceEndMs = wallMs() + 20;
      if (wallMs() < nextReportMs) continue;
      nextReportMs += 500;
      this.#reportProgress(simulation.processedNs, simulation.eventCount);
    }
  }

  #writeRecords(simulation: Simulation, throughNs: number): void {
    const merger = this.#merger;
    if (merger === undefined) return;
    const batches = simulation.takeBatches();
    this.#sink.add(async () => {
      for (const { shard, batch } of batches) merger.add(shard, batch);
      for (let shard = 0; shard < simulation.shardCount; shard++) await merger.pass(shard, throughNs);
    });
  }

  /** Writes what is left and closes the sink. @throws KernelError `sink-failed`. */
  async #closeMerger(): Promise<void> {
    const merger = this.#merger;
    if (merger === undefined) return;
    this.#sink.add(() => merger.close());
    await this.#sink.drained();
  }

  #commonResult(lanes: Int32Array, stoppedNs: number, eventCount: number, isDrained: boolean) {
    return {
      fingerprint: combineLanes(lanes),
      lanes,
      seed: this.#options.seed,
      eventCount,
      stoppedNs,
      // Asked for so late that nothing was left to do, a stop changed nothing.
      stopped: this.#stopAsked && !isDrained && stoppedNs < this.#options.untilNs,
      wallMs: wallMs() - this.#begunMs,
      recordCount: this.#merger?.count ?? 0,
      otherParameters: this.#hasOtherParameters,
      inputs: sortedInputs(this.#options.inputs ?? [], this.#inputs.log()),
      lateInputs: [...this.#inputs.waiting.values()],
      restarts: this.#restarted,
    };
  }

  async #runOnThreads(transport: ThreadTransport): Promise<RunResult> {
    const { shards = 1, workerHeapMb } = this.#options;
    const chooser = shards === 'auto' ? new ShardChooser(this.model) : undefined;
    const threads = (chooser?.maximumShards ?? (shards as number)) + (transport === 'bridged' ? 1 : 0);
    const heap = { maxOldGenerationSizeMb: workerHeapMb };
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
      const ended = pool.destroy();
      // Whoever prepared the threads may wait for their end; it takes as long as some hundred requests of a run.
      if (pool !== prepared) await ended;
      else ended.catch(() => undefined);
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
    let firstPendingNs = nowNs;
    let pacers: readonly PacerState[] | undefined;
    for (;;) {
      const shards = chooser?.shards ?? (this.#options.shards as number | undefined) ?? 1;
      const nextNs = nextCutNs(Math.max(nowNs, firstPendingNs), checkpointEveryNs, untilNs);
      const isUndecided = chooser !== undefined && chooser.choice === undefined;
      const snapshot = nextNs < untilNs || this.#options.checkpoint === true ? 'at its end' : isUndecided ? 'if stopped' : 'never';
      let done: SegmentResult;
      try {
        done = await this.#runSegment(this.#segmentPlan(transport, shards, nextNs, from, snapshot, pacers), pool(), chooser, nowNs);
      } catch (error) {
        if (!(error instanceof KernelError && error.code === 'worker-lost' && this.#restarted < restarts)) throw error;
        this.#restarted++;
        this.#options.logger?.warn(
          { ...error.site },
          `${error.reason}; starting again from ${nowNs} ns (${this.#restarted} of ${restarts})`,
        );
        this.#stretch++;
        this.#scheduled.push(...this.#inputs.takeBack());
        this.#merger?.rewind();
        this.#recorder?.rewind();
        await renewPool();
        continue;
      }
      rounds += done.rounds;
      loopMs += done.loopMs;
      const checkpoint = done.snapshot === undefined ? undefined : packCheckpoint(done.snapshot, this.model, this.#options.seed);
      const hasMore = (done.snapshot?.eventIntegers.length ?? 0) > 0;
      const over = done.stoppedNs >= untilNs || (!hasMore && this.#options.live !== true) || this.#stopAsked;
      if (over) return this.#finish(done, shards, chooser, rounds, loopMs, this.#options.checkpoint === true ? checkpoint : undefined);
      from = (checkpoint as Checkpoint).bytes;
      nowNs = done.stoppedNs;
      firstPendingNs = done.snapshot?.eventWords[0] ?? nowNs;
      pacers = done.pacers;
      this.#recorder?.mark();
      this.#scheduled = []; // Pending events of the checkpoint from now on.
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
    this.#isOver = true;
    await this.#closeMerger();
    const pacing = pacingReport(this.#options.pace, done.pacers);
    if (pacing?.keptUp === false) this.#options.logger?.warn(pacing, `the run could not keep up with ${pacing.pace} times the wall clock`);
    return {
      ...this.#commonResult(done.lanes, this.#endNs(done), done.eventCount, done.isDrained),
      recordFingerprint: combineLanes(done.recordLanes),
      endFaults: done.endFaults,
      shards,
      choice: chooser?.choice,
      rounds,
      loopMs,
      pacing,
      checkpoint,
    };
  }

  /** Drained before its next checkpoint, a run ends where it would without. */
  #endNs({ isDrained, lastNs, stoppedNs }: SegmentResult): number {
    const { untilNs, live } = this.#options;
    if (!isDrained || live === true) return stoppedNs;
    return untilNs === Number.POSITIVE_INFINITY ? lastNs : untilNs;
  }

  #segmentPlan(
    transport: ThreadTransport,
    shards: number,
    untilNs: number,
    from: Uint8Array | undefined,
    snapshot: SnapshotWish,
    pacers: readonly PacerState[] | undefined,
  ): SegmentPlan {
    const { seed, strict = false, resolvedLimits, pace, live = false, guards = true, bridgeDelayMs = 1 } = this.#options;
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
      ringBytes: this.#options.limits?.ringBytes ?? ringBytesFor(shards),
      keepRecords: this.#merger !== undefined,
      untilNs,
      from,
      snapshot,
      pace: pace === 'max' ? undefined : pace,
      live,
      traced: this.#recorder?.actors,
      reportWindows: this.observer.listenerCount('window') > 0,
      guards,
      inputs: this.#scheduled,
      pacers,
    };
  }

  async #runSegment(plan: SegmentPlan, pool: ShardPool, chooser: ShardChooser | undefined, fromNs: number): Promise<SegmentResult> {
    this.#merger?.begin(plan.shards);
    const stretch = this.#stretch;
    const segment = new Segment(plan, pool, { onReport: (shard, report, done) => this.#take(stretch, shard, report, done) });
    this.#segment = segment;
    this.#inputs.beginSegment();
    for (const [sequence, entry] of this.#inputs.waiting) this.#deliver(segment, sequence, entry);
    const watchdog = new Watchdog(segment, plan, {
      progress: (nowNs, events) => this.#reportProgress(nowNs, events),
      stalled: (report) => {
        this.#options.logger?.warn(report, `a handler has not returned for ${(report.stalledMs / 1000).toFixed(1)} s`);
        this.#tell('stalled', report);
      },
    });
    this.#watchdog = watchdog;
    const endLooks = chooser === undefined || chooser.choice !== undefined ? undefined : lookAt(segment, plan, chooser, fromNs);
    if (this.#stopAsked) {
      segment.requestStop();
      watchdog.hurry(stopPatienceMs);
    }
    let result: SegmentResult | undefined;
    try {
      result = await segment.result;
      await this.#sink.drained();
      return result;
    } catch (error) {
      throw this.#sink.error ?? error;
    } finally {
      endLooks?.(result);
      watchdog.close();
      this.#watchdog = undefined;
      this.#segment = undefined;
    }
  }

  #take(stretch: number, shard: number, report: SegmentReport, done: () => void): void {
    switch (report.kind) {
      case 'records': {
        const { lend, throughNs } = report;
        void this.#sink
          .add(() => {
            const merger = stretch === this.#stretch ? this.#merger : undefined;
            lend((batch) => merger?.add(shard, batch));
            return merger?.pass(shard, throughNs);
          })
          .finished.then(done);
        return;
      }
      case 'input':
        this.#inputs.noteTaken(report.sequence, report.timeNs);
        return;
      case 'events':
        if (stretch === this.#stretch) this.#recordEvents(report.columns, report.messageNames);
        done();
        return;
      case 'windows':
        for (let at = 0; at < report.columns.length; at += 3) {
          this.#tell('window', {
            shard,
            fromNs: report.columns[at] as number,
            boundNs: report.columns[at + 1] as number,
            events: report.columns[at + 2] as number,
          });
        }
        return;
    }
  }

  #recordEvents(columns: Float64Array, messageNames: readonly string[]): void {
    try {
      this.#recorder?.add(columns, messageNames);
    } catch (error) {
      this.#sink.fail('the trace cannot be written', error);
    }
  }

  #reportProgress(nowNs: number, events: number): void {
    if (this.observer.listenerCount('progress') === 0) return;
    const elapsedMs = wallMs() - this.#begunMs;
    const { untilNs } = this.#options;
    const share = untilNs === Number.POSITIVE_INFINITY ? undefined : Math.min(1, nowNs / untilNs);
    const remainingMs = share === undefined || share === 0 ? undefined : (elapsedMs * (1 - share)) / share;
    this.#tell('progress', { nowNs, events, eventsPerSecond: (events / elapsedMs) * 1000, wallMs: elapsedMs, share, remainingMs });
  }
}

/** Lets `auto` look at a segment while it runs, and stop it to change the count of shards. Returns what ends that, given what came of the segment. */
function lookAt(segment: Segment, plan: SegmentPlan, chooser: ShardChooser, fromNs: number): (done: SegmentResult | undefined) => void {
  const meter = new StretchMeter(segment, plan.shards, fromNs);
  const timer = setInterval(() => {
    if (chooser.look(meter.read())) segment.requestStop();
    if (chooser.choice !== undefined || chooser.shards !== plan.shards) clearInterval(timer);
  }, lookEveryMs);
  return (done) => {
    clearInterval(timer);
    if (chooser.choice === undefined && chooser.shards === plan.shards) chooser.endStretch(meter.readEnded(done));
  };
}

/** The next checkpoint: the first multiple of the period after something happens, so that empty time is jumped. */
function nextCutNs(fromNs: number, checkpointEveryNs: number | undefined, untilNs: number): number {
  if (checkpointEveryNs === undefined) return untilNs;
  return Math.min(untilNs, (Math.floor(fromNs / checkpointEveryNs) + 1) * checkpointEveryNs);
}

function sortedInputs(replayed: readonly InputEntry[], live: readonly InputEntry[]): InputEntry[] {
  return live.length === 0 ? [...replayed] : [...replayed, ...live].sort((a, b) => a.timeNs - b.timeNs);
}
