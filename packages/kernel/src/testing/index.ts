export {
  ActorBench,
  type DrivenActor,
  type EmittedRecord,
  type Fed,
  type MadePromise,
  type PendingMessage,
  type SentMessage,
} from './actor-bench.js';
export { FingerprintMismatch, type MatrixOptions, oneFingerprint } from './one-fingerprint.js';
export { default as echoProgram, type EchoParameters } from './programs/echo-program.js';
export { default as faultProgram, type Fault, type FaultParameters } from './programs/fault-program.js';
export { default as randomProgram } from './programs/random-program.js';
export type { ActorSpec, CellSpec, Operation, RandomSpec } from './programs/random-spec.js';
