import type { ActorKind, Context } from '../actor.js';
import { Hash } from '../fingerprint.js';
import { body, type MessageType, record } from '../message.js';
import type { ActorReference, Cell, World } from '../model.js';
import { packValue } from '../plain-data.js';
import { defineProgram, type Program } from '../program.js';
import type { RunRecord } from '../records.js';

type AnyKind = ActorKind<string, string, never>;
type Handler = (state: unknown, message: unknown, context: Context) => unknown;

/** What a recorded actor received; `body` is its digest and the beginning of its text. */
export interface ReceivedMessage {
  readonly message: string;
  readonly sender: number;
  readonly fields: readonly number[];
  readonly body: string;
}

const received = record('braess.test.received', [], body<ReceivedMessage>());

/** The program's build function, with every message to one of `actors` emitted as a record before its handler runs. */
export function recordedBuild(program: Program, actors: ReadonlySet<string>): Program['build'] {
  return (world, parameters) => {
    const references: ActorReference[] = [];
    let ids: Set<number> | undefined;
    const isRecorded = (id: number): boolean => {
      ids ??= new Set(references.map((reference) => reference.id));
      return ids.has(id);
    };
    const wrapped = new Map<AnyKind, AnyKind>();
    const wrap = (kind: AnyKind): AnyKind => {
      let recorded = wrapped.get(kind);
      if (recorded === undefined) {
        recorded = recordedKind(kind, isRecorded);
        wrapped.set(kind, recorded);
      }
      return recorded;
    };
    const note = <R>(reference: R): R => {
      if (actors.has((reference as ActorReference).name)) references.push(reference as ActorReference);
      return reference;
    };
    const wrapCell = (cell: Cell): Cell => ({
      name: cell.name,
      actor: (name, kind, setup) => note(cell.actor(name, wrap(kind as unknown as AnyKind) as unknown as typeof kind, setup)),
    });
    const recordedWorld: World = {
      cell: (name, options) => wrapCell(world.cell(name, options)),
      actor: (name, kind, setup, options) =>
        note(world.actor(name, wrap(kind as unknown as AnyKind) as unknown as typeof kind, setup, options)),
      lookahead: (from, to, delayNs) => world.lookahead(from, to, delayNs),
      link: (from, to, delayNs) => world.link(from, to, delayNs),
    };
    program.build(recordedWorld, parameters);
  };
}

/** The recorded program; with a module URL where the original has one, so that worker threads can load it too. */
export function recordedProgram(program: Program, actors: readonly string[]): Program {
  const build = recordedBuild(program, new Set(actors));
  if (program.module === undefined) return defineProgram<unknown>(undefined, program.name, build);
  const address = new URL('./programs/recording-program.js', import.meta.url);
  address.searchParams.set('module', program.module);
  address.searchParams.set('actors', JSON.stringify(actors));
  return defineProgram<unknown>(address.href, program.name, build);
}

export function isReceivedRecord(entry: RunRecord): boolean {
  return entry.type === received.name;
}

function recordedKind(kind: AnyKind, isRecorded: (id: number) => boolean): AnyKind {
  const handlers = kind.handlers.map((handler, index) => {
    const type = kind.messages[index] as MessageType;
    const original = handler as unknown as Handler;
    return (state: unknown, message: unknown, context: Context): unknown => {
      if (isRecorded(context.self)) context.emitBody(received, describe(type, message as Record<string, unknown>));
      return original(state, message, context);
    };
  });
  return { ...kind, handlers: handlers as unknown as AnyKind['handlers'] };
}

function describe(type: MessageType, view: Record<string, unknown>): ReceivedMessage {
  return {
    message: type.name,
    sender: view.sender as number,
    fields: type.fields.map((field) => view[field] as number),
    body: type.hasBody ? describeBody(view.body) : '',
  };
}

function describeBody(value: unknown): string {
  const hash = new Hash();
  hash.value(value);
  packValue(value, 'the body of a recorded message'); // Names what is not plain data.
  const text = JSON.stringify(value, (_key, item: unknown) => {
    if (typeof item === 'bigint') return `${item}n`;
    if (item instanceof Map || item instanceof Set) return [...item];
    return Object.is(item, -0) ? '-0' : typeof item === 'number' && !Number.isFinite(item) ? String(item) : item;
  });
  return `${hash.digest()} ${(text ?? 'undefined').slice(0, 200)}`;
}
