import {
  type Checkpoint,
  firstFreeInput,
  mergeSnapshots,
  packCheckpoint,
  restoreSnapshot,
  type Snapshot,
  type SnapshotUse,
  takeSnapshot,
  unpackCheckpoint,
} from './checkpoint.js';
import { endFaultsOf } from './end-faults.js';
import type { EventTap } from './engine-options.js';
import { fromUnknown, KernelError } from './errors.js';
import { slotLayout } from './event-slab.js';
import { combineLanes } from './fingerprint.js';
import { type InputEntry, inputFields } from './input-log.js';
import { type Limits, resolveLimits } from './limits.js';
import type { Model } from './model.js';
import { placeCells } from './placement.js';
import { copyValue } from './plain-copy.js';
import { compareRecords, type RecordBatch, type RunRecord, recordsOf } from './records.js';
import { outsideSender } from './refusals.js';
import { ShardEngine } from './shard-engine.js';
import { createMemoryLinks, type ShardLink } from './shard-link.js';
import { type LoopHost, ShardLoop } from './shard-loop.js';
import { modelHasPromises, SilenceGates } from './silence-gates.js';
import { checkNs } from './time.js';

const { bodyFlag } = slotLayout;

export interface SimulationOptions {
  readonly seed?: string;
  /** Shards run interleaved on this thread (default 1): the result is the same for every count. */
  readonly shards?: number;
  /** Give every receiver and state a copy of its own, check fields and that data are trees, poison views after the handler. */
  readonly strict?: boolean;
  readonly limits?: Partial<Limits>;
  /** Keep emitted records for `takeRecords` (default false; they are hashed in any case). */
  readonly keepRecords?: boolean;
  /** Start from this checkpoint instead of time 0. */
  readonly from?: Checkpoint;
  /** Refuse a checkpoint that was taken with other parameters (default false: a fork by parameter). */
  readonly sameParameters?: boolean;
}

interface ShardRecords {
  readonly shard: number;
  readonly batch: RecordBatch;
}

/**
 * A run on this thread, driven step by step: for tests, forks and tools. `startRun` runs the same program on worker threads.
 */
export class Simulation {
  readonly model: Model;
  readonly seed: string;
  /** All events before this time are done, none at or after. */
  nowNs = 0;
  readonly #options: SimulationOptions;
  readonly #engines: ShardEngine[];
  readonly #loops: ShardLoop[];
  /** Records since the last call, by shard. */
  #batches: ShardRecords[] = [];
  readonly #links: ShardLink[];
  #inputs = 0;
  #yieldAsked: () => boolean = never;
  #stopAsked = false;
  /** What ended the run: the event that failed is gone, so it can neither go on nor be saved. */
  #failure: KernelError | undefined;
  /** What all shards had passed when it failed. */
  #failedNs = Number.POSITIVE_INFINITY;

  constructor(model: Model, options: SimulationOptions = {}, snapshot?: Snapshot) {
    const shards = checkShards(options.shards ?? 1);
    const limits = resolveLimits(options.limits);
    this.model = model;
    this.#options = options;
    this.seed = options.seed ?? '1';
    const shardOfCell = placeCells(model, shards);
    const directNs = model.lookahead.betweenShards(shardOfCell, model.classOfCell, shards);
    this.#links = createMemoryLinks(shards);
    this.#engines = this.#links.map((_, shard) => {
      const engineOptions = { seed: this.seed, limits, strict: options.strict ?? false, keepRecords: options.keepRecords ?? false };
      return new ShardEngine(model, shard, shards, shardOfCell, engineOptions);
    });
    const start =
      snapshot ?? (options.from === undefined ? undefined : unpackCheckpoint(options.from.bytes, model, this.seed, options.sameParameters));
    this.#loops = this.#engines.map((engine, shard) => {
      if (shards > 1 && modelHasPromises(model)) engine.gates = new SilenceGates(model, shard, shards, shardOfCell);
      const plan = { shard, shardCount: shards, directNs, pacer: undefined, startNs: start?.timeNs ?? 0, live: false };
      return new ShardLoop(engine, plan, this.#links[shard] as ShardLink, this.#host());
    });
    for (const engine of this.#engines) {
      if (start === undefined) engine.begin();
      else restoreSnapshot(engine, start);
    }
    this.nowNs = start?.timeNs ?? 0;
    this.#inputs = start === undefined ? 0 : firstFreeInput(start);
  }

  get eventCount(): number {
    return this.#engines.reduce((sum, engine) => sum + engine.eventCount, 0);
  }

  /** Simulated time of the last event that ran. */
  get processedNs(): number {
    return Math.max(...this.#engines.map((engine) => engine.now || 0));
  }

  /** Every record before this time has been emitted; meaningful between two rounds. */
  get completeNs(): number {
    const next = this.#engines.flatMap((engine) => [engine.queue.peekTimeNs(), ...engine.batches.map((batch) => batch.earliestNs)]);
    return Math.min(this.#failedNs, ...next);
  }

  get rounds(): number {
    return Math.max(...this.#loops.map((loop) => loop.rounds));
  }

  get fingerprint(): string {
    return combineLanes(this.lanes());
  }

  /** Digest of all records emitted, apart from the fingerprint. */
  get recordFingerprint(): string {
    return combineLanes(gather(this.#engines, (engine, actor) => engine.recordLines.subarray(actor * 3, actor * 3 + 3)));
  }

  /** The two fingerprint lanes of every actor, by id. */
  lanes(): Int32Array {
    return gather(this.#engines, (engine, actor) => engine.actorLines.subarray(actor * 8 + 4, actor * 8 + 6));
  }

  /** Runs all events before `untilNs` (default: until none is left). */
  runUntil(untilNs = Number.POSITIVE_INFINITY): void {
    this.begin(untilNs);
    while (this.advance());
  }

  /** @internal Begins a stretch that `advance` drives. */
  begin(untilNs: number): void {
    this.#refuseFailed();
    if (untilNs !== Number.POSITIVE_INFINITY) checkNs('the time to run until', untilNs);
    if (untilNs < this.nowNs) throw new KernelError('bad-time', `cannot run until ${untilNs} ns: the run is already at ${this.nowNs} ns`);
    this.#stopAsked = false;
    for (const loop of this.#loops) loop.begin(untilNs);
  }

  /** @internal One round; false when the stretch is done. `yieldAsked` lets a long window return early. */
  advance(yieldAsked: () => boolean = never): boolean {
    this.#refuseFailed();
    this.#yieldAsked = yieldAsked;
    let running = false;
    let atWork: ShardEngine | undefined;
    try {
      for (const loop of this.#loops) loop.publish();
      for (const loop of this.#loops) if (!loop.collect()) throw new KernelError('handshake', 'a frame is missing on one thread');
      for (const loop of this.#loops) {
        atWork = loop.engine;
        running = loop.advance() || running;
      }
    } catch (error) {
      this.#failure = error instanceof KernelError ? error : fromUnknown(error, { seed: this.seed });
      // The event that failed is in no queue any more; and until all frames are read, nor are messages.
      const reached = atWork === undefined ? this.#engines : [atWork];
      this.#failedNs = Math.min(...reached.map((engine) => engine.now || 0));
      throw error;
    }
    if (!running) this.nowNs = Math.max(this.nowNs, ...this.#loops.map((loop) => loop.stoppedNs));
    return running;
  }

  /** @internal Ends the stretch at the first instant the shards agree on. */
  requestStop(): void {
    this.#stopAsked = true;
  }

  /** Records emitted since the last call, in order. Complete only after `runUntil` returned. */
  takeRecords(): RunRecord[] {
    return this.takeBatches()
      .flatMap(({ batch }) => recordsOf(batch))
      .sort(compareRecords);
  }

  /** @internal The same as columns, each shard's in its order. */
  takeBatches(): ShardRecords[] {
    for (const engine of this.#engines) this.#keepRecords(engine); // What a failed window had emitted.
    const batches = this.#batches;
    this.#batches = [];
    return batches;
  }

  /** @internal */
  get shardCount(): number {
    return this.#engines.length;
  }

  /** The dynamic state at `nowNs`. */
  checkpoint(): Checkpoint {
    return packCheckpoint(this.#snapshot('checkpoint'), this.model, this.seed);
  }

  /** A second run from here on, equal in all but what the caller then alters. Options given here override the original's. */
  fork(options: Pick<SimulationOptions, 'shards' | 'strict' | 'keepRecords'> = {}): Simulation {
    return new Simulation(this.model, { ...this.#options, seed: this.seed, ...options }, this.#snapshot('fork'));
  }

  /** The live state of an actor; change it only between stretches, to make a fork differ. */
  stateOf(name: string): unknown {
    const actor = this.actorId(name);
    return (this.#engines.find((engine) => engine.owns(actor)) as ShardEngine).states[actor];
  }

  /** What actors find wrong with their states, for when none of the events is left; see `atEnd` of a kind. */
  endFaults(): string[] {
    return this.#engines.flatMap(endFaultsOf).sort();
  }

  actorId(name: string): number {
    let low = 0;
    let high = this.model.actorNames.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = this.model.actorNames[middle] as string;
      if (found === name) return middle;
      if (found < name) low = middle + 1;
      else high = middle - 1;
    }
    throw new KernelError('unknown-actor', `no actor is named '${name}'`);
  }

  /** Brings in external input at its stamped time (at or after `nowNs`). */
  inject(entry: InputEntry): void {
    this.#refuseFailed();
    const { target, number, fields } = inputFields(entry, this.model);
    if (entry.timeNs < this.nowNs)
      throw new KernelError('bad-time', `input for '${entry.actor}' is stamped ${entry.timeNs} ns, before the run's ${this.nowNs} ns`);
    const engine = this.#engines.find((candidate) => candidate.owns(target)) as ShardEngine;
    const hasBody = entry.body !== undefined;
    engine.receive(
      entry.timeNs,
      0,
      this.#inputs++,
      outsideSender,
      target,
      number | (hasBody ? bodyFlag : 0),
      fields,
      0,
      fields.length,
      copyValue(entry.body, 'the body of an input'),
    );
  }

  /** Has every event shown to `tap` before it runs. */
  tap(tap: EventTap | undefined): void {
    for (const engine of this.#engines) engine.tap = tap;
  }

  #snapshot(use: SnapshotUse): Snapshot {
    this.#refuseFailed();
    return mergeSnapshots(this.#engines.map((engine) => takeSnapshot(engine, this.nowNs, use)));
  }

  #keepRecords(engine: ShardEngine): void {
    if (engine.records.count === 0) return;
    const batch = engine.records.take();
    // The engine uses the columns again.
    this.#batches.push({ shard: engine.shard, batch: { ...batch, columns: batch.columns.slice() } });
  }

  #refuseFailed(): void {
    const failure = this.#failure;
    if (failure === undefined) return;
    throw new KernelError(
      failure.code,
      `this simulation failed before and cannot go on or be saved; build a new one, or restore a checkpoint. It failed with: ${failure.reason}`,
      failure.site,
      failure,
    );
  }

  #host(): LoopHost {
    return {
      flush: (engine) => this.#keepRecords(engine),
      takeInput: () => undefined,
      wantsStop: () => this.#stopAsked,
      shouldYield: () => this.#yieldAsked(),
      waited: () => undefined,
      onWindow: undefined,
    };
  }
}

const never = (): boolean => false;

export function checkShards(shards: number): number {
  if (Number.isInteger(shards) && shards >= 1 && shards <= 64) return shards;
  throw new KernelError('bad-option', `shards is ${shards}; it must be a whole number from 1 to 64 (or 'auto' where the run may choose)`);
}

/** Concatenates, by actor id, what the owning shard holds for each actor. */
function gather(engines: readonly ShardEngine[], part: (engine: ShardEngine, actor: number) => Int32Array): Int32Array {
  const first = engines[0] as ShardEngine;
  const width = part(first, 0).length;
  const gathered = new Int32Array(first.model.actorNames.length * width);
  for (const engine of engines) {
    for (let actor = 0; actor < first.model.actorNames.length; actor++)
      if (engine.owns(actor)) gathered.set(part(engine, actor), actor * width);
  }
  return gathered;
}
