export { type ActorKind, actorKind, type Context, type TimerId } from './actor.js';
export { Checkpoint, type CheckpointHeader } from './checkpoint.js';
export { type FailureSite, KernelError, type KernelErrorCode } from './errors.js';
export type { TraceOptions } from './event-recorder.js';
export { combineLanes, Hash } from './fingerprint.js';
export type { InputEntry } from './input-log.js';
export { defaultLimits, type Limits } from './limits.js';
export { exponential, power, standardNormal } from './mathematics.js';
export {
  type ActorId,
  type BodyType,
  body,
  type MessageType,
  type MessageView,
  message,
  type RowType,
  record,
  rowRecord,
} from './message.js';
export { ActorReference, type Cell, type Model, type World } from './model.js';
export { type ProgressReport, RunObserver, type StallReport, type StartReport, type WindowReport } from './observer.js';
export type { Pace, PacingReport } from './pacing.js';
export { copyValue } from './plain-copy.js';
export { packValue, unpackValue } from './plain-data.js';
export { defineProgram, modelOf, type Program } from './program.js';
export { type RecordBatch, RecordCursor, type RecordSink, type RunRecord } from './records.js';
export { type PreparedThreads, prepareThreads, type Run, run, startRun } from './run.js';
export type { RunOptions, RunResult } from './run-options.js';
export type { ShardChoice } from './shard-choice.js';
export { Simulation, type SimulationOptions } from './simulation.js';
export { ThreadPool, type ThreadPoolOptions, type ThreadTaskOptions } from './thread-pool.js';
export { maximumTimeNs, microsecondNs, millisecondNs, secondNs } from './time.js';
