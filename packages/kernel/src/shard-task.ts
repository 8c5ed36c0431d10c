import type { MessagePort } from 'node:worker_threads';
import type { PlainError } from './errors.js';
import type { Limits } from './limits.js';
import type { Model } from './model.js';
import type { PacerState } from './pacing.js';
import type { RecordColumns } from './record-blocks.js';
import type { RingLinkPlan } from './shared-ring.js';

/** When a stretch hands back the state it ends in. */
export type SnapshotWish = 'never' | 'at its end' | 'if stopped';

/** What a shard thread is given. Everything crosses by structured clone, which makes plain objects of those without a prototype: plain data crosses packed. */
export interface ShardTask {
  readonly link: RingLinkPlan;
  readonly module: string;
  /** What the coordinator built from the program, and where it put the cells: the thread must come to the same. */
  readonly digest: string;
  readonly parameters: unknown;
  readonly seed: string;
  readonly strict: boolean;
  readonly limits: Limits;
  readonly keepRecords: boolean;
  readonly untilNs: number;
  /** Bytes of the checkpoint to start from. */
  readonly from: Uint8Array | undefined;
  readonly snapshot: SnapshotWish;
  readonly pace: number | undefined;
  /** How far the pacer had come in the stretch before. */
  readonly pacer: PacerState | undefined;
  readonly live: boolean;
  /** Shared words a watcher reads; see `WatchWords`. */
  readonly watch: SharedArrayBuffer;
  readonly port: MessagePort;
  /** For the records it emits; see `RecordBlocks`. */
  readonly recordBlocks: SharedArrayBuffer;
  /** Actors whose events a recorder wants. */
  readonly traced: Int32Array | undefined;
  readonly reportWindows: boolean;
  readonly guards: boolean;
  /** External input known beforehand (a replayed log), with its sequence numbers: `NumberedInput`s, packed. */
  readonly inputs: Uint8Array;
}

/** What a shard thread hands back. */
export interface ShardResult {
  readonly error?: PlainError;
  readonly actors: Int32Array;
  readonly lanes: Int32Array;
  readonly recordLanes: Int32Array;
  readonly eventCount: number;
  readonly stoppedNs: number;
  /** Just after its last event. */
  readonly lastNs: number;
  readonly rounds: number;
  /** Wall milliseconds inside the loop. */
  readonly loopMs: number;
  readonly stretchEvents: number;
  /** Nothing was left to do, and nobody had stopped it. */
  readonly isDrained: boolean;
  /** What actors found wrong with their states, where it is drained. */
  readonly endFaults: readonly string[];
  readonly pacer: PacerState | undefined;
  /** A `Snapshot`, packed. */
  readonly snapshot: Uint8Array | undefined;
}

/** Messages a shard thread sends to the coordinator while it runs. */
export type ShardReport =
  | {
      readonly kind: 'records';
      readonly typeNames: readonly string[];
      readonly columns: RecordColumns;
      /** The bodies, packed; undefined when there are none. */
      readonly bodies: Uint8Array | undefined;
      readonly bytes: number;
      readonly throughNs: number;
    }
  | { readonly kind: 'input'; readonly timeNs: number; readonly sequence: number }
  | { readonly kind: 'events'; readonly columns: Float64Array; readonly messageNames: readonly string[] }
  | { readonly kind: 'windows'; readonly columns: Float64Array };

/** Indices into the watch buffer's int32 words, then its doubles. */
export const WatchWords = {
  events: 0,
  actor: 1,
  message: 2,
  inHandler: 3,
  recordBytes: 4,
  stopRequested: 5,
  /** 1 once the shard is built and its loop has begun. */
  looping: 6,
  /** Double: simulated time reached. */
  nowNs: 4,
  /** Double: events so far. */
  eventCount: 5,
  /** Double: wall milliseconds spent waiting for other shards or for the wall clock. */
  waitedMs: 6,
  bytes: 64,
} as const;

/** What an actor does where it is no message: numbers after those of the messages. */
export const otherWork = ['start', 'state', 'atEnd'] as const;

/** The name of a message, or of what else a kind does, by its number. */
export function workName(model: Model, number: number): string {
  return model.messages[number]?.name ?? otherWork[number - model.messages.length] ?? 'start';
}

/** Shows whoever watches that a shard has come to another function of a kind. */
export function showWork(watch: Int32Array, model: Model, actor: number, work: (typeof otherWork)[number]): void {
  watch[WatchWords.events] = ((watch[WatchWords.events] as number) + 1) | 0;
  watch[WatchWords.actor] = actor;
  watch[WatchWords.message] = model.messages.length + otherWork.indexOf(work);
}

/** The result of a shard that has none: it failed, or its thread was lost. */
export function emptyResult(): ShardResult {
  const none = new Int32Array(0);
  return {
    actors: none,
    lanes: none,
    recordLanes: none,
    eventCount: 0,
    stoppedNs: 0,
    lastNs: 0,
    rounds: 0,
    loopMs: 0,
    stretchEvents: 0,
    isDrained: false,
    endFaults: [],
    pacer: undefined,
    snapshot: undefined,
  };
}
