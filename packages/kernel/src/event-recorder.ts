import { createWriteStream, type WriteStream } from 'node:fs';
import type { Model } from './model.js';
import { outsideSender } from './refusals.js';

/** Which actors a trace shows, and where it goes. */
export interface TraceOptions {
  /** Names of actors, or a test of the name. */
  readonly actors: readonly string[] | ((name: string) => boolean);
  /** Path of a file in Chrome's trace-event format; open it in Perfetto. */
  readonly file: string;
}

/** Writes the events of chosen actors as Chrome trace events: one track an actor, one instant an event, one flow from sender to receiver. */
export class EventRecorder {
  readonly actors: Int32Array;
  readonly #model: Model;
  readonly #stream: WriteStream;
  #first = true;

  constructor(model: Model, options: TraceOptions) {
    const { actors } = options;
    const wanted = typeof actors === 'function' ? actors : (name: string) => actors.includes(name);
    this.#model = model;
    this.actors = Int32Array.from(model.actorNames.keys()).filter((actor) => wanted(model.actorNames[actor] as string));
    this.#stream = createWriteStream(options.file);
    this.#stream.write('{"displayTimeUnit":"ns","traceEvents":[\n');
    for (const actor of this.actors)
      this.#write({ ph: 'M', name: 'thread_name', pid: 0, tid: actor, args: { name: model.actorNames[actor] } });
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

  close(): Promise<void> {
    return new Promise((resolve) => {
      this.#stream.end('\n]}\n', () => resolve());
    });
  }

  #write(event: object): void {
    this.#stream.write((this.#first ? '' : ',\n') + JSON.stringify(event));
    this.#first = false;
  }
}
