import { closeSync, openSync, writeSync } from 'node:fs';
import { openRunDatabase, type RunDatabase } from '../run/query.js';

/** Which parts of a run to export. At least one request or one series entity. */
export interface TraceSelection {
  requestIds?: readonly number[];
  /** Actors whose series become counter tracks, e.g. GPUs, engines, links. */
  entities?: readonly string[];
}

/**
 * Writes Chrome trace events (open in Perfetto or chrome://tracing) one by one, so memory does not grow with the file. Format: "Trace Event Format", JSON object form.
 * Times are us in doubles, which keeps ns exact up to 104 days.
 */
export class TraceEventWriter {
  events = 0;
  private readonly file: number;
  private readonly processes = new Map<string, number>();
  private readonly threads = new Map<string, number>();
  private pending: string[] = [];
  private closed = false;

  constructor(readonly path: string) {
    this.file = openSync(path, 'w');
    writeSync(this.file, '{"displayTimeUnit":"ms","traceEvents":[\n');
  }

  /** A slice on the track `thread` of the group `process`. */
  slice(process: string, thread: string, name: string, startNs: number, endNs: number, args: Record<string, unknown> = {}): void {
    if (!(endNs >= startNs)) throw new RangeError(`trace slice "${name}" ends at ${endNs} ns, before its start at ${startNs} ns`);
    const { pid, tid } = this.track(process, thread);
    this.event({ name, ph: 'X', pid, tid, ts: startNs / 1000, dur: (endNs - startNs) / 1000, args });
  }

  /** A moment on a track. */
  instant(process: string, thread: string, name: string, timeNs: number, args: Record<string, unknown> = {}): void {
    const { pid, tid } = this.track(process, thread);
    this.event({ name, ph: 'i', s: 't', pid, tid, ts: timeNs / 1000, args });
  }

  /** A sample of a counter of the group `process`. */
  counter(process: string, name: string, timeNs: number, value: number): void {
    this.event({ name, ph: 'C', pid: this.process(process), tid: 0, ts: timeNs / 1000, args: { value } });
  }

  /** An arrow from one moment on a track to another; `id` must be new for each. */
  arrow(
    id: number,
    name: string,
    from: { process: string; thread: string; timeNs: number },
    to: { process: string; thread: string; timeNs: number },
  ): void {
    this.event({ name, cat: 'flow', ph: 's', id, ...this.track(from.process, from.thread), ts: from.timeNs / 1000 });
    this.event({ name, cat: 'flow', ph: 'f', bp: 'e', id, ...this.track(to.process, to.thread), ts: to.timeNs / 1000 });
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.flush();
    writeSync(this.file, '\n]}\n');
    closeSync(this.file);
  }

  private process(name: string): number {
    const known = this.processes.get(name);
    if (known !== undefined) return known;
    const pid = this.processes.size + 1;
    this.processes.set(name, pid);
    this.event({ name: 'process_name', ph: 'M', pid, tid: 0, args: { name } });
    return pid;
  }

  private track(process: string, thread: string): { pid: number; tid: number } {
    const pid = this.process(process);
    const key = `${process}\n${thread}`;
    let tid = this.threads.get(key);
    if (tid === undefined) {
      tid = this.threads.size + 1;
      this.threads.set(key, tid);
      this.event({ name: 'thread_name', ph: 'M', pid, tid, args: { name: thread } });
    }
    return { pid, tid };
  }

  private event(event: Record<string, unknown>): void {
    if (this.closed) throw new Error(`trace file ${this.path} is closed; nothing can be added to it`);
    this.pending.push(`${this.events++ === 0 ? '' : ',\n'}${JSON.stringify(event)}`);
    if (this.pending.length >= 1000) this.flush();
  }

  private flush(): void {
    writeSync(this.file, this.pending.join(''));
    this.pending = [];
  }
}

/** Exports chosen requests (a track each, and slices on the workers' tracks) and the series of chosen entities to `path`; returns the number of events. */
export async function exportTrace(folder: string, selection: TraceSelection, path: string): Promise<number> {
  const requestIds = selection.requestIds ?? [];
  const entities = selection.entities ?? [];
  if (requestIds.length + entities.length === 0) throw new RangeError('trace export: nothing chosen; give request ids or entities');
  for (const id of requestIds) if (!Number.isInteger(id)) throw new RangeError(`trace export: request id ${id} is not a whole number`);
  const database = await openRunDatabase(folder);
  try {
    // All is looked up before the file is opened: a mistake must not leave a broken trace, or destroy an older one.
    const requests = await requestRows(database, folder, requestIds);
    await checkEntities(database, folder, entities);
    const writer = new TraceEventWriter(path);
    try {
      for (const row of requests) writeRequest(writer, row);
      for (const entity of entities) await writeSeries(writer, database, entity);
    } finally {
      writer.close();
    }
    return writer.events;
  } finally {
    database.close();
  }
}

async function requestRows(database: RunDatabase, folder: string, requestIds: readonly number[]): Promise<unknown[][]> {
  if (requestIds.length === 0) return [];
  const { rows } = await database.query(`select request_id, prefill_worker, decode_worker, arrival_ns, prefill_start_ns,
    prefill_start_ns + tier_fetch_ns as computing_ns, prefill_end_ns, transfer_start_ns,
    transfer_end_ns, first_token_ns, last_token_ns, input_tokens, output_tokens, cached_tokens, outcome from requests
    where request_id in (${requestIds.join(',')}) order by request_id`);
  const missing = requestIds.filter((id) => !rows.some((row) => row[0] === id));
  if (missing.length > 0) throw new RangeError(`trace export: run ${folder} has no request ${missing.slice(0, 5).join(', ')}`);
  return rows;
}

async function checkEntities(database: RunDatabase, folder: string, entities: readonly string[]): Promise<void> {
  if (entities.length === 0) return;
  const { rows } = await database.query(`select distinct entity from series where entity in (${entities.map(quoted).join(',')})`);
  const missing = entities.find((entity) => !rows.some((row) => row[0] === entity));
  if (missing === undefined) return;
  throw new RangeError(`trace export: run ${folder} has no series of "${missing}"; list them with: select distinct entity from series`);
}

async function writeSeries(writer: TraceEventWriter, database: RunDatabase, entity: string): Promise<void> {
  const { rows } = await database.query(
    `select time_ns, metric, value from series where entity = ${quoted(entity)} order by time_ns, metric`,
  );
  for (const [time, metric, value] of rows) writer.counter(entity, String(metric), Number(time), Number(value));
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function writeRequest(writer: TraceEventWriter, row: readonly unknown[]): void {
  const [
    id,
    prefillWorker,
    decodeWorker,
    arrival,
    prefillStart,
    computing,
    prefillEnd,
    transferStart,
    transferEnd,
    firstToken,
    lastToken,
    input,
    output,
    cached,
    outcome,
  ] = row;
  const track = `request ${id}`;
  const args = { request: id, inputTokens: input, outputTokens: output, cachedTokens: cached, outcome };
  const prefill = String(prefillWorker ?? 'no worker');
  const decode = String(decodeWorker ?? prefillWorker ?? 'no worker');
  const phase = (name: string, start: unknown, end: unknown, worker: string | null): void => {
    if (typeof start !== 'number' || typeof end !== 'number') return;
    writer.slice('requests', track, name, start, end, args);
    if (worker !== null) writer.slice(worker, track, name, start, end, args);
  };
  phase('queue', arrival, prefillStart, null);
  if (Number(computing) > Number(prefillStart)) phase('KV fetch', prefillStart, computing, prefill);
  phase('prefill', computing, prefillEnd, prefill);
  phase('wait for transfer', prefillEnd, transferStart, null);
  phase('KV transfer', transferStart, transferEnd, null);
  const arrived = typeof transferEnd === 'number' ? transferEnd : prefillEnd;
  // Where TTFT ends with the prefill, the first token is there before its KV has moved.
  const isPrefills = Number(firstToken) < Number(arrived);
  if (!isPrefills) phase('first decode', arrived, firstToken, decode);
  phase('decode', isPrefills ? arrived : firstToken, lastToken, decode);
  if (typeof arrival === 'number') writer.instant('requests', track, 'arrival', arrival, args);
  if (typeof transferStart === 'number' && typeof transferEnd === 'number' && prefill !== decode) {
    writer.arrow(
      Number(id),
      'KV',
      { process: prefill, thread: track, timeNs: Number(prefillEnd) },
      { process: decode, thread: track, timeNs: transferEnd },
    );
  }
}
