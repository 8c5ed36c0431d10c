import { readFileSync, writeFileSync } from 'node:fs';
import { KernelError } from './errors.js';
import { slotLayout } from './event-slab.js';
import { Hash } from './fingerprint.js';
import type { Model } from './model.js';
import { checkPlainData } from './plain-check.js';
import { copyValue } from './plain-copy.js';
import { packWrapped, unpackValue } from './plain-data.js';
import { outsideSender } from './refusals.js';
import type { ShardEngine } from './shard-engine.js';

const { bodyFlag, cancelledTarget, fieldWords, kindMask, slotWords, stepOffset, targetOffset } = slotLayout;

const magic = 'BRAESSCK';
const formatVersion = 2;
/** Bytes before the body: magic, version (uint32), reserved (uint32), length of the body (float64). */
const headerBytes = 24;
const checksumBytes = 8;

/** What a checkpoint says about itself. */
export interface CheckpointHeader {
  readonly program: string;
  readonly modelDigest: string;
  /** Of the parameters the run was built from; '' when they were not plain data. */
  readonly parametersDigest: string;
  readonly seed: string;
  /** All events before this time are done, none at or after. */
  readonly timeNs: number;
  readonly eventCount: number;
}

/**
 * The dynamic state of some actors (one shard's, or all) in canonical order: actors by id, events by the total order.
 * Everything in it is plain data, so it packs to the same bytes for every shard count.
 */
export interface Snapshot {
  readonly timeNs: number;
  readonly eventCount: number;
  readonly actors: Int32Array;
  /** States in the order of `actors`: the live objects until the snapshot is packed, copied or sent to another thread. */
  readonly states: readonly unknown[];
  /** Two fingerprint lanes an actor. */
  readonly lanes: Int32Array;
  readonly sequences: Float64Array;
  /** Two lanes and the count of records an actor. */
  readonly recordLines: Int32Array;
  /** Streams drawn from: index, and four words each. */
  readonly streams: Int32Array;
  readonly streamWords: Float64Array;
  /** Promises: actor * cellCount + cell, and silent until. */
  readonly promiseKeys: Float64Array;
  readonly promiseUntilNs: Float64Array;
  /** Pending events: time and sequence number, then fields, each event `2 + fieldCount` words. */
  readonly eventWords: Float64Array;
  /** Step, sender, target, kind word of each pending event. */
  readonly eventIntegers: Int32Array;
  readonly fieldCounts: Uint8Array;
  readonly bodies: readonly unknown[];
}

type EventPart = Pick<Snapshot, 'eventWords' | 'eventIntegers' | 'fieldCounts' | 'bodies'>;

/** A checkpoint in memory; `bytes` is the file. */
export class Checkpoint {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly header: CheckpointHeader;

  constructor(bytes: Uint8Array<ArrayBuffer>, header: CheckpointHeader) {
    this.bytes = bytes;
    this.header = header;
  }

  /** Reads and checks a checkpoint file. @throws KernelError `bad-checkpoint` for a missing, foreign, truncated or damaged file. */
  static read(path: string): Checkpoint {
    let bytes: Uint8Array;
    try {
      bytes = readFileSync(path);
    } catch (error) {
      throw new KernelError('bad-checkpoint', `checkpoint ${path} cannot be read: ${(error as Error).message}`, {}, error);
    }
    return Checkpoint.parse(bytes, path);
  }

  /** Checks bytes that should be a checkpoint. */
  static parse(bytes: Uint8Array, what = 'the checkpoint'): Checkpoint {
    const [header] = parseBody(bytes, what);
    return new Checkpoint(new Uint8Array(bytes), header);
  }

  /** Writes it as a file. @throws KernelError `bad-checkpoint` when that fails. */
  write(path: string): void {
    try {
      writeFileSync(path, this.bytes);
    } catch (error) {
      throw new KernelError('bad-checkpoint', `checkpoint ${path} cannot be written: ${(error as Error).message}`, {}, error);
    }
  }
}

/**
 * What a snapshot is for. One for a `checkpoint` is in canonical order and holds the live states and bodies, to be packed at once; one for a `fork`
 * holds copies, and its events in the order the queue had them.
 */
export type SnapshotUse = 'checkpoint' | 'fork';

/** Copies out the dynamic state of a shard. Plain loops: a fork of thousands of actors must take milliseconds, also the first time. */
export function takeSnapshot(engine: ShardEngine, timeNs: number, use: SnapshotUse): Snapshot {
  const actors = engine.ownActors();
  const count = actors.length;
  const lanes = new Int32Array(2 * count);
  const sequences = new Float64Array(count);
  const recordLines = new Int32Array(3 * count);
  const { actorLines, actorDoubles, recordLines: allRecordLines } = engine;
  for (let index = 0; index < count; index++) {
    const actor = actors[index] as number;
    lanes[2 * index] = actorLines[actor * 8 + 4] as number;
    lanes[2 * index + 1] = actorLines[actor * 8 + 5] as number;
    sequences[index] = actorDoubles[actor * 4 + 3] as number;
    recordLines[3 * index] = allRecordLines[3 * actor] as number;
    recordLines[3 * index + 1] = allRecordLines[3 * actor + 1] as number;
    recordLines[3 * index + 2] = allRecordLines[3 * actor + 2] as number;
  }
  const streams = seededStreams(engine, actors);
  const streamWords = new Float64Array(streams.length * 4);
  for (let index = 0; index < streams.length; index++) engine.streams.save(streams[index] as number, streamWords, index * 4);
  const promiseKeys = Float64Array.from(engine.promises.keys()).sort();
  return {
    timeNs,
    eventCount: engine.eventCount,
    actors,
    states: plainStates(engine, actors, use),
    lanes,
    sequences,
    recordLines,
    streams,
    streamWords,
    promiseKeys,
    promiseUntilNs: promiseKeys.map((key) => engine.promises.get(key) as number),
    ...packEvents(engine, use),
  };
}

function seededStreams(engine: ShardEngine, actors: Int32Array): Int32Array {
  const streams: number[] = [];
  const base = engine.model.streamBase;
  for (let index = 0; index < actors.length; index++) {
    const actor = actors[index] as number;
    const end = base[actor + 1] as number;
    for (let stream = base[actor] as number; stream < end; stream++) if (engine.streams.isSeeded(stream)) streams.push(stream);
  }
  return Int32Array.from(streams);
}

function plainStates(engine: ShardEngine, actors: Int32Array, use: SnapshotUse): unknown[] {
  const states = new Array<unknown>(actors.length);
  for (let index = 0; index < actors.length; index++) {
    const actor = actors[index] as number;
    const state = engine.states[actor];
    const what = `the state of '${engine.model.actorNames[actor]}'`;
    if (use === 'fork') states[index] = copyValue(state, what);
    else {
      checkPlainData(state, what);
      states[index] = state;
    }
  }
  return states;
}

function packEvents(engine: ShardEngine, use: SnapshotUse): EventPart {
  const { slab, model } = engine;
  const slots: number[] = [];
  engine.queue.forEach((slot) => {
    if (slab.integers[slot * 2 * slotWords + targetOffset] !== cancelledTarget) slots.push(slot);
  });
  if (use === 'checkpoint')
    slots.sort((a, b) => (slab.words[a * slotWords] as number) - (slab.words[b * slotWords] as number) || (slab.tieBefore(a, b) ? -1 : 1));
  const eventWords = new Float64Array(slots.length * 8);
  const eventIntegers = new Int32Array(4 * slots.length);
  const fieldCounts = new Uint8Array(slots.length);
  const bodies: unknown[] = [];
  let used = 0;
  for (let index = 0; index < slots.length; index++) {
    const slot = slots[index] as number;
    const base = slot * slotWords;
    for (let word = 0; word < 4; word++) eventIntegers[4 * index + word] = slab.integers[2 * base + stepOffset + word] as number;
    const kindWord = eventIntegers[4 * index + 3] as number;
    const fieldCount = model.messages[kindWord & kindMask]?.fields.length ?? 0;
    fieldCounts[index] = fieldCount;
    eventWords[used++] = slab.words[base] as number;
    eventWords[used++] = slab.words[base + 1] as number;
    for (let field = 0; field < fieldCount; field++) eventWords[used++] = slab.fields[slot * fieldWords + field] as number;
    if ((kindWord & bodyFlag) === 0) continue;
    const body = slab.bodies[slot];
    bodies.push(use === 'fork' ? copyValue(body, 'a pending body') : body);
  }
  return { eventWords: eventWords.slice(0, used), eventIntegers, fieldCounts, bodies };
}

/** Gives a fresh engine the part of a snapshot that lies on its shard. */
export function restoreSnapshot(engine: ShardEngine, snapshot: Snapshot): void {
  const { model, states, actorLines, actorDoubles, recordLines } = engine;
  const { actors, lanes, sequences, recordLines: savedRecordLines } = snapshot;
  for (let index = 0; index < actors.length; index++) {
    const actor = actors[index] as number;
    if (!engine.owns(actor)) continue;
    states[actor] = snapshot.states[index];
    actorLines[actor * 8 + 4] = lanes[2 * index] as number;
    actorLines[actor * 8 + 5] = lanes[2 * index + 1] as number;
    actorDoubles[actor * 4 + 3] = sequences[index] as number;
    recordLines[actor * 3] = savedRecordLines[3 * index] as number;
    recordLines[actor * 3 + 1] = savedRecordLines[3 * index + 1] as number;
    recordLines[actor * 3 + 2] = savedRecordLines[3 * index + 2] as number;
  }
  const owner = ownerOfStream(model);
  for (let index = 0; index < snapshot.streams.length; index++) {
    const stream = snapshot.streams[index] as number;
    if (engine.owns(owner(stream))) engine.streams.restore(stream, snapshot.streamWords, index * 4);
  }
  for (const [index, key] of snapshot.promiseKeys.entries()) {
    const actor = Math.floor(key / model.cellNames.length);
    if (engine.owns(actor)) engine.keepPromise(actor, key, snapshot.promiseUntilNs[index] as number);
  }
  restoreEvents(engine, snapshot);
  // One shard keeps the count of what ran before, so that sums over shards stay right.
  engine.eventCount = engine.shard === 0 ? snapshot.eventCount : 0;
}

function restoreEvents(engine: ShardEngine, snapshot: Snapshot): void {
  let word = 0;
  let nextBody = 0;
  for (let index = 0; index < snapshot.eventIntegers.length; index += 4) {
    const step = snapshot.eventIntegers[index] as number;
    const sender = snapshot.eventIntegers[index + 1] as number;
    const target = snapshot.eventIntegers[index + 2] as number;
    const kindWord = snapshot.eventIntegers[index + 3] as number;
    const fieldCount = snapshot.fieldCounts[index / 4] as number;
    const hasBody = (kindWord & bodyFlag) !== 0;
    if (engine.owns(target)) {
      const body = hasBody ? snapshot.bodies[nextBody] : undefined;
      engine.receive(
        snapshot.eventWords[word] as number,
        step,
        snapshot.eventWords[word + 1] as number,
        sender,
        target,
        kindWord,
        snapshot.eventWords,
        word + 2,
        fieldCount,
        body,
      );
    }
    word += 2 + fieldCount;
    if (hasBody) nextBody++;
  }
}

/** The sequence number for the next external input: above every one still pending. */
export function firstFreeInput(snapshot: Snapshot): number {
  let free = 0;
  let word = 0;
  for (let index = 0; index < snapshot.eventIntegers.length; index += 4) {
    if (snapshot.eventIntegers[index + 1] === outsideSender) free = Math.max(free, (snapshot.eventWords[word + 1] as number) + 1);
    word += 2 + (snapshot.fieldCounts[index / 4] as number);
  }
  return free;
}

function ownerOfStream(model: Model): (stream: number) => number {
  let actor = 0;
  return (stream) => {
    while ((model.streamBase[actor + 1] as number) <= stream) actor++; // Streams come in ascending order.
    return actor;
  };
}

/** Merges the parts of all shards into one canonical snapshot. */
export function mergeSnapshots(parts: readonly Snapshot[]): Snapshot {
  if (parts.length === 1) return parts[0] as Snapshot;
  const places = parts.flatMap((part, partIndex) => Array.from(part.actors, (actor, index) => ({ actor, part, partIndex, index })));
  places.sort((a, b) => a.actor - b.actor);
  const streams = parts.flatMap((part) =>
    Array.from(part.streams, (stream, index) => ({ stream, words: part.streamWords.subarray(4 * index, 4 * index + 4) })),
  );
  streams.sort((a, b) => a.stream - b.stream);
  const promises = parts.flatMap((part) =>
    Array.from(part.promiseKeys, (key, index) => [key, part.promiseUntilNs[index] as number] as const),
  );
  promises.sort((a, b) => a[0] - b[0]);
  return {
    timeNs: Math.max(...parts.map((part) => part.timeNs)),
    eventCount: parts.reduce((sum, part) => sum + part.eventCount, 0),
    actors: Int32Array.from(places, (place) => place.actor),
    states: places.map(({ part, index }) => part.states[index]),
    lanes: Int32Array.from(places.flatMap(({ part, index }) => [part.lanes[2 * index] as number, part.lanes[2 * index + 1] as number])),
    sequences: Float64Array.from(places, ({ part, index }) => part.sequences[index] as number),
    recordLines: Int32Array.from(places.flatMap(({ part, index }) => [...part.recordLines.subarray(3 * index, 3 * index + 3)])),
    streams: Int32Array.from(streams, ({ stream }) => stream),
    streamWords: Float64Array.from(streams.flatMap(({ words }) => [...words])),
    promiseKeys: Float64Array.from(promises, ([key]) => key),
    promiseUntilNs: Float64Array.from(promises, ([, untilNs]) => untilNs),
    ...mergeEvents(parts),
  };
}

function mergeEvents(parts: readonly Snapshot[]): EventPart {
  interface Pending {
    words: Float64Array;
    integers: Int32Array;
    body: unknown;
  }
  const events: Pending[] = [];
  for (const part of parts) {
    let word = 0;
    let nextBody = 0;
    for (let index = 0; index < part.eventIntegers.length; index += 4) {
      const integers = part.eventIntegers.subarray(index, index + 4);
      const length = 2 + (part.fieldCounts[index / 4] as number);
      const body = ((integers[3] as number) & bodyFlag) === 0 ? undefined : part.bodies[nextBody++];
      events.push({ words: part.eventWords.subarray(word, word + length), integers, body });
      word += length;
    }
  }
  events.sort(
    (a, b) =>
      (a.words[0] as number) - (b.words[0] as number) ||
      (a.integers[0] as number) - (b.integers[0] as number) ||
      (a.integers[1] as number) - (b.integers[1] as number) ||
      (a.words[1] as number) - (b.words[1] as number),
  );
  return {
    eventWords: Float64Array.from(events.flatMap((event) => [...event.words])),
    eventIntegers: Int32Array.from(events.flatMap((event) => [...event.integers])),
    fieldCounts: Uint8Array.from(events, (event) => event.words.length - 2),
    bodies: events.filter((event) => ((event.integers[3] as number) & bodyFlag) !== 0).map((event) => event.body),
  };
}

/** Packs a whole-run snapshot as a checkpoint: header, body, checksum. */
export function packCheckpoint(snapshot: Snapshot, model: Model, seed: string): Checkpoint {
  const header: CheckpointHeader = {
    program: model.programName,
    modelDigest: model.digest,
    parametersDigest: model.parametersDigest,
    seed,
    timeNs: snapshot.timeNs,
    eventCount: snapshot.eventCount,
  };
  const body = packWrapped([header, snapshot], 'the checkpoint');
  const bytes = new Uint8Array(headerBytes + body.length + checksumBytes);
  for (let i = 0; i < magic.length; i++) bytes[i] = magic.charCodeAt(i);
  const view = new DataView(bytes.buffer);
  view.setUint32(8, formatVersion, true);
  view.setFloat64(16, body.length, true);
  bytes.set(body, headerBytes);
  const sum = checksum(body);
  view.setInt32(headerBytes + body.length, sum.a, true);
  view.setInt32(headerBytes + body.length + 4, sum.b, true);
  return new Checkpoint(bytes, header);
}

/** Whether a checkpoint was taken with other parameters than a model is built from; false when one of them is not known. */
export function hasOtherParameters({ parametersDigest }: CheckpointHeader, model: Model): boolean {
  return parametersDigest !== '' && model.parametersDigest !== '' && parametersDigest !== model.parametersDigest;
}

/**
 * Unpacks a checkpoint for a model.
 * @throws KernelError `bad-checkpoint` when it belongs to another program, model or seed, or (where they are to be the same) other parameters.
 */
export function unpackCheckpoint(bytes: Uint8Array, model: Model, seed: string, sameParameters = false): Snapshot {
  const [header, snapshot] = parseBody(bytes, 'the checkpoint');
  if (header.program !== model.programName)
    throw new KernelError('bad-checkpoint', `the checkpoint is of program '${header.program}', not '${model.programName}'`);
  if (header.modelDigest !== model.digest) {
    throw new KernelError(
      'bad-checkpoint',
      `the checkpoint is of another model of '${model.programName}' (digest ${header.modelDigest}, here ${model.digest}): use a model with the same actors, kinds, cells and lookaheads (other parameters may differ)`,
    );
  }
  if (header.seed !== seed)
    throw new KernelError(
      'bad-checkpoint',
      `the checkpoint was taken with seed '${header.seed}', the run has '${seed}': use the same seed`,
    );
  if (sameParameters && hasOtherParameters(header, model)) {
    throw new KernelError(
      'bad-checkpoint',
      `the checkpoint was taken with other parameters (digest ${header.parametersDigest}, here ${model.parametersDigest}): use the same, or leave out sameParameters for a fork by parameter`,
    );
  }
  return snapshot;
}

function parseBody(bytes: Uint8Array, what: string): [CheckpointHeader, Snapshot] {
  const found = String.fromCharCode(...bytes.subarray(0, magic.length));
  if (found !== magic)
    throw new KernelError(
      'bad-checkpoint',
      `${what} is not a Braess checkpoint (it begins with '${found.replace(/[^ -~]/g, '?')}', not '${magic}')`,
    );
  if (bytes.length < headerBytes + checksumBytes) throw new KernelError('bad-checkpoint', `${what} is truncated: ${bytes.length} bytes`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const version = view.getUint32(8, true);
  if (version !== formatVersion)
    throw new KernelError('bad-checkpoint', `${what} has format version ${version}; this version of Braess reads ${formatVersion}`);
  const bodyLength = view.getFloat64(16, true);
  const expected = headerBytes + bodyLength + checksumBytes;
  if (bytes.length !== expected)
    throw new KernelError(
      'bad-checkpoint',
      `${what} is ${bytes.length < expected ? 'truncated' : 'too long'}: ${bytes.length} bytes, its header says ${expected}`,
    );
  const body = bytes.subarray(headerBytes, headerBytes + bodyLength);
  const sum = checksum(body);
  if (view.getInt32(headerBytes + bodyLength, true) !== sum.a || view.getInt32(headerBytes + bodyLength + 4, true) !== sum.b) {
    throw new KernelError('bad-checkpoint', `${what} is damaged: its checksum does not match`);
  }
  return unpackValue(body) as [CheckpointHeader, Snapshot];
}

function checksum(bytes: Uint8Array): Hash {
  const hash = new Hash();
  hash.bytes(bytes);
  return hash;
}
