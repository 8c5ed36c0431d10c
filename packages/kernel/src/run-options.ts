import type { Logger } from 'pino';
import { Checkpoint } from './checkpoint.js';
import { KernelError } from './errors.js';
import type { TraceOptions } from './event-recorder.js';
import { checkInputLog, type InputEntry } from './input-log.js';
import { type Limits, resolveLimits } from './limits.js';
import type { RunObserver } from './observer.js';
import { checkPace, type Pace, type PacingReport } from './pacing.js';
import type { Program } from './program.js';
import type { RecordSink } from './records.js';
import type { PreparedThreads } from './run.js';
import { guardedLogger, type RunLogger } from './run-logger.js';
import type { ThreadTransport } from './segment.js';
import type { ShardChoice } from './shard-choice.js';
import { checkShards } from './simulation.js';
import { checkNs } from './time.js';

export interface RunOptions {
  /** Seed of every random stream (default '1'). */
  readonly seed?: string | number;
  /** Shards, or 'auto' to measure and choose (default 1). The result does not depend on it. */
  readonly shards?: number | 'auto';
  /** 'threads' (default), 'memory' (all shards on this thread) or 'bridged' (a thread that delays every frame at random). */
  readonly transport?: 'memory' | ThreadTransport;
  /** Greatest delay of a frame on the bridge, in wall ms (default 1). */
  readonly bridgeDelayMs?: number;
  /** Copy states and messages through the codec, check fields and that bodies are trees, poison views; a different fingerprint means actors share something. */
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
  /** Refuse a checkpoint that was taken with other parameters (default false: a fork by parameter, reported as `otherParameters`). */
  readonly sameParameters?: boolean;
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
  /** `untilNs`, or just after the last event of a run without; where `stop` ended it, that time. */
  readonly stoppedNs: number;
  /** True when `stop` ended it early. */
  readonly stopped: boolean;
  /** Where it ended by itself: what actors find wrong with their states, by `atEnd` of their kinds, `actor: sentence` each. */
  readonly endFaults: readonly string[];
  readonly shards: number;
  readonly choice: ShardChoice | undefined;
  readonly rounds: number;
  /** Wall ms from the call to the result, and the part spent in the shard loops. */
  readonly wallMs: number;
  readonly loopMs: number;
  readonly recordCount: number;
  readonly pacing: PacingReport | undefined;
  readonly checkpoint: Checkpoint | undefined;
  /** True when it started from a checkpoint that was taken with other parameters. */
  readonly otherParameters: boolean;
  /** All external input in the order it entered, as `inputs` of another run replays it. */
  readonly inputs: readonly InputEntry[];
  /** External input that was given so late that the run ended first; none of it entered. */
  readonly lateInputs: readonly InputEntry[];
  readonly restarts: number;
  /** Two fingerprint lanes an actor, by id. */
  readonly lanes: Int32Array;
}

/** Options after the check, with the defaults that everything needs. */
export interface CheckedOptions extends Omit<RunOptions, 'logger'> {
  readonly logger: RunLogger | undefined;
  readonly seed: string;
  readonly untilNs: number;
  readonly resolvedLimits: Limits;
}

const optionNames: ReadonlySet<string> = new Set([
  'seed',
  'shards',
  'transport',
  'bridgeDelayMs',
  'strict',
  'untilNs',
  'pace',
  'limits',
  'sink',
  'observer',
  'trace',
  'logger',
  'from',
  'sameParameters',
  'checkpoint',
  'checkpointEveryNs',
  'restarts',
  'inputs',
  'live',
  'guards',
  'threads',
  'workerHeapMb',
  'replay',
]);

/** @throws KernelError `bad-option` naming the option, its value and what it may be. */
export function checkOptions(program: Program, options: RunOptions): CheckedOptions {
  for (const name of Object.keys(options)) {
    if (!optionNames.has(name))
      refuse(name, (options as Record<string, unknown>)[name], `but a run has no such option; there are ${[...optionNames].join(', ')}`);
  }
  const { shards = 1, transport = 'threads', pace = 'max', untilNs = Number.POSITIVE_INFINITY, seed = '1' } = options;
  if (shards !== 'auto') checkShards(shards);
  if (!['memory', 'threads', 'bridged'].includes(transport)) refuse('transport', transport, "it must be 'memory', 'threads' or 'bridged'");
  if (typeof seed !== 'string' && !Number.isFinite(seed)) refuse('seed', seed, 'it must be a string or a finite number');
  if (untilNs !== Number.POSITIVE_INFINITY) checkNs('untilNs', untilNs);
  checkPace(pace);
  checkTransport(program, options);
  checkCheckpoints(options, untilNs);
  checkPlain(options);
  checkInputLog(options.inputs ?? []);
  const logger = options.logger === undefined ? undefined : guardedLogger(options.logger);
  return { ...options, seed: String(seed), untilNs, resolvedLimits: resolveLimits(options.limits), logger };
}

function checkTransport(program: Program, options: RunOptions): void {
  const { transport = 'threads', pace = 'max', shards } = options;
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
  if (transport === 'memory' && (checkpointEveryNs !== undefined || restarts > 0)) {
    throw new KernelError(
      'bad-option',
      "transport 'memory' has no threads to lose, so it takes no checkpoints on the way; leave checkpointEveryNs and restarts out, or use transport 'threads'",
    );
  }
}

function checkCheckpoints({ from, checkpointEveryNs, restarts = 0, inputs = [] }: RunOptions, untilNs: number): void {
  if (from !== undefined && !(from instanceof Checkpoint)) refuse('from', from, 'it must be a Checkpoint (Checkpoint.read, or a result)');
  const startNs = from?.header.timeNs ?? 0;
  if (untilNs < startNs) throw new KernelError('bad-time', `untilNs is ${untilNs}, before the checkpoint's ${startNs} ns`);
  const early = inputs.find((entry) => entry.timeNs < startNs);
  if (early !== undefined) {
    throw new KernelError(
      'bad-time',
      `input for '${early.actor}' is stamped ${early.timeNs} ns, before the checkpoint's ${startNs} ns; leave out what it already holds`,
    );
  }
  if (checkpointEveryNs !== undefined) {
    checkNs('checkpointEveryNs', checkpointEveryNs);
    if (checkpointEveryNs === 0) refuse('checkpointEveryNs', 0, 'it must be positive');
  }
  if (!Number.isInteger(restarts) || restarts < 0) refuse('restarts', restarts, 'it must be a whole number, 0 or more');
  if (restarts > 0 && checkpointEveryNs === undefined)
    refuse('restarts', restarts, 'but there are no checkpoints to start from; set checkpointEveryNs');
}

function checkPlain(options: RunOptions): void {
  for (const name of ['strict', 'checkpoint', 'live', 'guards', 'sameParameters'] as const) {
    if (options[name] !== undefined && typeof options[name] !== 'boolean') refuse(name, options[name], 'it must be true or false');
  }
  const { bridgeDelayMs = 1, workerHeapMb, sink, observer, inputs } = options;
  if (!(bridgeDelayMs >= 0 && bridgeDelayMs < Number.POSITIVE_INFINITY))
    refuse('bridgeDelayMs', bridgeDelayMs, 'it must be 0 or more milliseconds');
  if (workerHeapMb !== undefined && !(workerHeapMb >= 16)) refuse('workerHeapMb', workerHeapMb, 'a thread needs at least 16 MB');
  if (sink !== undefined && typeof sink.write !== 'function' && typeof sink.writeColumns !== 'function')
    refuse('sink', sink, 'it must have a write or a writeColumns function');
  if (observer !== undefined && typeof observer.emit !== 'function') refuse('observer', observer, 'it must be a RunObserver');
  if (inputs !== undefined && !Array.isArray(inputs)) refuse('inputs', inputs, 'it must be an array of input entries');
}

function refuse(name: string, value: unknown, fix: string): never {
  const shown =
    typeof value === 'string'
      ? `'${value}'`
      : typeof value === 'object' || typeof value === 'function'
        ? `a ${typeof value}`
        : String(value);
  throw new KernelError('bad-option', `${name} is ${shown}; ${fix}`);
}
