import { type Checkpoint, type Snapshot, unpackCheckpoint } from '../checkpoint.js';
import type { Model } from '../model.js';
import { packValue } from '../plain-data.js';
import type { RunRecord } from '../records.js';
import type { ReceivedMessage } from './recording.js';

/** Where two runs part: the first message in the order of the run that only one of them, or each otherwise, received. */
export interface Difference {
  readonly actor: string;
  readonly timeNs: number;
  readonly message: string;
  readonly text: string;
}

export function differingActors(a: Int32Array, b: Int32Array): number[] {
  const actors: number[] = [];
  for (let actor = 0; 2 * actor < a.length; actor++)
    if (a[2 * actor] !== b[2 * actor] || a[2 * actor + 1] !== b[2 * actor + 1]) actors.push(actor);
  return actors;
}

/** The earliest message, over all recorded actors, at which the lists of what they received part. */
export function firstReceivedDifference(
  model: Model,
  nameA: string,
  recordsA: readonly RunRecord[],
  nameB: string,
  recordsB: readonly RunRecord[],
): Difference | undefined {
  const listsA = byActor(recordsA);
  const listsB = byActor(recordsB);
  let first: { key: RunRecord; a: RunRecord | undefined; b: RunRecord | undefined } | undefined;
  for (const actor of new Set([...listsA.keys(), ...listsB.keys()])) {
    const a = listsA.get(actor) ?? [];
    const b = listsB.get(actor) ?? [];
    let index = 0;
    while (index < a.length && index < b.length && sameReceived(a[index] as RunRecord, b[index] as RunRecord)) index++;
    if (index >= a.length && index >= b.length) continue;
    const parted = { a: a[index], b: b[index] };
    const key = [parted.a, parted.b].filter((entry) => entry !== undefined).sort(compareReceived)[0] as RunRecord;
    if (first === undefined || compareReceived(key, first.key) < 0) first = { key, ...parted };
  }
  if (first === undefined) return undefined;
  const { key, a, b } = first;
  return {
    actor: model.actorNames[key.actor] as string,
    timeNs: key.timeNs,
    message: (key.body as ReceivedMessage).message,
    text: `${nameA}: ${describe(model, a)}; ${nameB}: ${describe(model, b)}`,
  };
}

/** The first record that differs between two ordered lists. */
export function firstRecordDifference(
  model: Model,
  nameA: string,
  recordsA: readonly RunRecord[],
  nameB: string,
  recordsB: readonly RunRecord[],
): Difference | undefined {
  let index = 0;
  while (index < recordsA.length && index < recordsB.length && sameRecord(recordsA[index] as RunRecord, recordsB[index] as RunRecord))
    index++;
  const a = recordsA[index];
  const b = recordsB[index];
  const key = a ?? b;
  if (key === undefined) return undefined;
  const text = (entry: RunRecord | undefined): string =>
    entry === undefined
      ? `no record ${index}`
      : `'${entry.type}' of ${model.actorNames[entry.actor]} at ${entry.timeNs} ns, step ${entry.step}, number ${entry.number}, [${entry.fields.join(', ')}]`;
  return {
    actor: model.actorNames[key.actor] as string,
    timeNs: key.timeNs,
    message: `record '${key.type}'`,
    text: `${nameA}: ${text(a)}; ${nameB}: ${text(b)}`,
  };
}

/** What differs between two checkpoints of one model at one time. */
export function checkpointDifference(model: Model, seed: string, a: Checkpoint, b: Checkpoint): string | undefined {
  if (Buffer.from(a.bytes).equals(Buffer.from(b.bytes))) return undefined;
  const [one, other] = [unpackCheckpoint(a.bytes, model, seed), unpackCheckpoint(b.bytes, model, seed)];
  for (const [index, actor] of one.actors.entries()) {
    if (!sameData(one.states[index], other.states[index])) return `the state of '${model.actorNames[actor]}'`;
  }
  const parts = Object.keys(one) as (keyof Snapshot)[];
  const differing = parts.filter((part) => !sameData(one[part], other[part]));
  return differing.length === 0 ? 'the encoding of equal content' : differing.join(', ');
}

function sameData(a: unknown, b: unknown): boolean {
  return Buffer.from(packValue(a, 'a value')).equals(Buffer.from(packValue(b, 'a value')));
}

/** The order of the run: time, step, sender. */
function compareReceived(a: RunRecord, b: RunRecord): number {
  return (
    a.timeNs - b.timeNs || a.step - b.step || (a.body as ReceivedMessage).sender - (b.body as ReceivedMessage).sender || a.actor - b.actor
  );
}

function byActor(records: readonly RunRecord[]): Map<number, RunRecord[]> {
  const lists = new Map<number, RunRecord[]>();
  for (const entry of records) {
    const list = lists.get(entry.actor);
    if (list === undefined) lists.set(entry.actor, [entry]);
    else list.push(entry);
  }
  return lists;
}

function sameReceived(a: RunRecord, b: RunRecord): boolean {
  const [one, other] = [a.body as ReceivedMessage, b.body as ReceivedMessage];
  return (
    a.timeNs === b.timeNs &&
    one.message === other.message &&
    one.sender === other.sender &&
    one.body === other.body &&
    one.fields.length === other.fields.length &&
    one.fields.every((field, index) => Object.is(field, other.fields[index]))
  );
}

function sameRecord(a: RunRecord, b: RunRecord): boolean {
  return sameData({ ...a }, { ...b });
}

function describe(model: Model, entry: RunRecord | undefined): string {
  if (entry === undefined) return 'nothing more';
  const { message, sender, fields, body } = entry.body as ReceivedMessage;
  return `'${message}' from ${model.actorNames[sender] ?? '(outside)'} at ${entry.timeNs} ns [${fields.join(', ')}]${body === '' ? '' : ` body ${body}`}`;
}
