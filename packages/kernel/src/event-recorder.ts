import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { KernelError } from './errors.js';
import type { Model } from './model.js';
import { outsideSender } from './refusals.js';

/** Which actors a trace shows, and where it goes. */
export interface TraceOptions {
  /** Names of actors, or a test of the name. */
  readonly actors: readonly string[] | ((name: string) => boolean);
  /** Path of a file in Chrome's trace-event format; open it in Perfetto. */
  readonly file: string;
}

const bytesPerWrite = 1 << 16;

/**
 * Writes the events of chosen actors as Chrome trace events: one track an actor, one instant an event, its sender among the arguments.
 * It writes at once and in place: a trace of millions of events must not pile up in memory while the run goes on.
 */
export class EventRecorder {
  readonly actors: Int32Array;
  readonly #model: Model;
  readonly #path: string;
  readonly #file: number;
  #waiting = '';
  #first = true;
  #writtenBytes = 0;
  #markBytes = 0;

  /** @throws KernelError `bad-option` for an unknown actor, or a file that cannot be opened. */
  constructor(model: Model, options: TraceOptions) {
    const { actors } = options;
    if (typeof actors !== 'function') checkNames(actors, model);
    const wanted = typeof actors === 'function' ? actors : (name: string) => actors.includes(name);
    this.#model = model;
    this.#path = options.file;
    this.actors = Int32Array.from(model.actorNames.keys()).filter((actor) => wanted(model.actorNames[actor] as string));
    try {
      this.#file = openSync(options.file, 'w');
    } catch (error) {
      throw this.#failed(error);
    }
    this.#waiting = '{"displayTimeUnit":"ns","traceEvents":[\n';
    for (const actor of this.actors)
      this.#write({ ph: 'M', name: 'thread_name', pid: 0, tid: actor, args: { name: model.actorNames[actor] } });
    this.mark();
  }

  /** Columns: time ns, step, sender, target, message; five numbers an event. */
  add(columns: Float64Array, messageNames: readonly string[]): void {
    for (let at = 0; at < columns.length; at += 5) {
      const sender = columns[at + 2] as number;
      this.#write({
        ph: 'X',
        name: messageNames[columns[at + 4] as number],
        cat: 'message',
        pid: 0,
        tid: columns[at + 3],
        ts: (columns[at] as number) / 1000,
        dur: 0,
        args: { from: sender === outsideSender ? '(outside)' : this.#model.actorNames[sender], step: columns[at + 1], timeNs: columns[at] },
      });
    }
  }

  /** Call at a checkpoint: what is written so far stays, whatever happens after. */
  mark(): void {
    this.#flush();
    this.#markBytes = this.#writtenBytes;
  }

  /** Call when a run starts again from its last checkpoint: drops what was written since. */
  rewind(): void {
    this.#waiting = '';
    try {
      ftruncateSync(this.#file, this.#markBytes);
    } catch (error) {
      throw this.#failed(error);
    }
    this.#writtenBytes = this.#markBytes;
    this.#first = this.actors.length === 0;
  }

  close(): Promise<void> {
    this.#waiting += '\n]}\n';
    this.#flush();
    closeSync(this.#file);
    return Promise.resolve();
  }

  #write(event: object): void {
    this.#waiting += (this.#first ? '' : ',\n') + JSON.stringify(event);
    this.#first = false;
    if (this.#waiting.length >= bytesPerWrite) this.#flush();
  }

  #flush(): void {
    const bytes = Buffer.from(this.#waiting);
    this.#waiting = '';
    try {
      for (let at = 0; at < bytes.length; ) at += writeSync(this.#file, bytes, at, bytes.length - at, this.#writtenBytes + at);
    } catch (error) {
      throw this.#failed(error);
    }
    this.#writtenBytes += bytes.length;
  }

  #failed(error: unknown): KernelError {
    return new KernelError('bad-option', `trace.file ${this.#path} cannot be written: ${(error as Error).message}`, {}, error);
  }
}

function checkNames(names: readonly string[], model: Model): void {
  const known = new Set(model.actorNames);
  for (const name of names) {
    if (known.has(name)) continue;
    const nearest = nearestName(name, model.actorNames);
    throw new KernelError('bad-option', `trace.actors names '${name}', but no actor has this name; the nearest is '${nearest}'`);
  }
}

/** The name with the fewest edits to the wanted one; the first of equals. */
function nearestName(wanted: string, names: readonly string[]): string {
  let nearest = names[0] as string;
  let fewest = Number.POSITIVE_INFINITY;
  for (const name of names) {
    // Names differ at least by their lengths: most need no table.
    if (Math.abs(name.length - wanted.length) >= fewest) continue;
    const edits = editsBetween(wanted, name);
    if (edits >= fewest) continue;
    fewest = edits;
    nearest = name;
  }
  return nearest;
}

function editsBetween(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (previous[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, (previous[j] as number) + 1, (row[j - 1] as number) + 1));
    }
    previous = row;
  }
  return previous[b.length] as number;
}
