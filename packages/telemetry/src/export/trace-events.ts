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

/** What a trace shows of a request; null where it never got there. */
interface TracedRequest {
  readonly request_id: number;
  readonly prefill_worker: string | null;
  readonly decode_worker: string | null;
  readonly arrival_ns: number;
  readonly queued_ns: number | null;
  readonly prefill_start_ns: number | null;
  readonly computing_ns: number | null;
  readonly prefill_end_ns: number | null;
  readonly transfer_start_ns: number | null;
  readonly transfer_end_ns: number | null;
  readonly first_token_ns: number | null;
  readonly last_token_ns: number | null;
  readonly end_ns: number | null;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cached_tokens: number;
  readonly attempts: number;
  readonly outcome: string;
  readonly reason: string;
}

async function requestRows(database: RunDatabase, folder: string, requestIds: readonly number[]): Promise<TracedRequest[]> {
  if (requestIds.length === 0) return [];
  const { columns, rows } = await database.query(
    `select *, prefill_start_ns + tier_fetch_ns as computing_ns from requests where request_id in (${requestIds.join(',')}) order by request_id`,
  );
  const requests = rows.map((row) => Object.fromEntries(columns.map((name, column) => [name, row[column]])) as unknown as TracedRequest);
  const missing = requestIds.filter((id) => !requests.some((request) => request.request_id === id));
  if (missing.length > 0) throw new RangeError(`trace export: run ${folder} has no request ${missing.slice(0, 5).join(', ')}`);
  return requests;
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

function writeRequest(writer: TraceEventWriter, request: TracedRequest): void {
  const { request_id, arrival_ns, queued_ns, attempts, outcome, reason, end_ns } = request;
  const track = `request ${request_id}`;
  const args = {
    request: request_id,
    inputTokens: request.input_tokens,
    outputTokens: request.output_tokens,
    cachedTokens: request.cached_tokens,
    attempts,
    outcome,
    reason,
  };
  const phase: PhaseSink = (name, startNs, endNs, worker) => {
    if (startNs === null || endNs === null) return;
    writer.slice('requests', track, name, startNs, endNs, args);
    if (worker !== null) writer.slice(worker, track, name, startNs, endNs, args);
  };
  writer.instant('requests', track, 'arrival', arrival_ns, args);
  // Of earlier attempts no times are kept.
  const isLater = attempts > 1 && queued_ns !== null;
  if (isLater) phase('earlier attempts', arrival_ns, queued_ns, null);
  writePhases(request, isLater ? queued_ns : arrival_ns, phase);
  const { transfer_start_ns, transfer_end_ns } = request;
  // Slices of one track must not cross: KV that moved while its prompt was computed has a track of its own.
  if (movesBeforePrefillEnd(request) && transfer_end_ns !== null)
    writer.slice('requests', `${track}, KV`, 'KV transfer', Number(transfer_start_ns), transfer_end_ns, args);
  const [prefill, decode] = [request.prefill_worker, request.decode_worker];
  if (transfer_start_ns !== null && transfer_end_ns !== null && prefill !== null && decode !== null && prefill !== decode) {
    writer.arrow(
      request_id,
      'KV',
      { process: prefill, thread: track, timeNs: request.prefill_end_ns ?? transfer_start_ns },
      { process: decode, thread: track, timeNs: transfer_end_ns },
    );
  }
  if (outcome !== 'completed' && end_ns !== null) writer.instant('requests', track, `${outcome} (${reason})`, end_ns, args);
}

/** Takes a phase and the worker it was at; those of which an end is missing are none. */
type PhaseSink = (name: string, startNs: number | null, endNs: number | null, worker: string | null) => void;

/** The phases of a request's last attempt. What was under way when it failed ends with it. */
function writePhases(request: TracedRequest, startNs: number, phase: PhaseSink): void {
  const { prefill_start_ns, computing_ns, prefill_end_ns, transfer_start_ns, transfer_end_ns, first_token_ns, last_token_ns } = request;
  const prefill = request.prefill_worker;
  const decode = request.decode_worker ?? prefill;
  phase('queue', startNs, prefill_start_ns, null);
  if (Number(computing_ns) > Number(prefill_start_ns)) phase('KV fetch', prefill_start_ns, computing_ns, prefill);
  phase('prefill', computing_ns, prefill_end_ns, prefill);
  if (movesBeforePrefillEnd(request)) phase('rest of the KV transfer', prefill_end_ns, transfer_end_ns, null);
  else {
    phase('wait for transfer', prefill_end_ns, transfer_start_ns, null);
    phase('KV transfer', transfer_start_ns, transfer_end_ns, null);
  }
  const endNs = last_token_ns ?? request.end_ns;
  if (prefill_end_ns === null) {
    // Its frontend hears of a prefill at the end: before, it may have begun.
    if (prefill_start_ns === null) phase(prefill === null ? 'queue' : 'queue or prefill', startNs, endNs, prefill);
    else phase('prefill', computing_ns, endNs, prefill);
    return;
  }
  const arrivedNs = transfer_end_ns ?? (hasDecoded(request) ? prefill_end_ns : null);
  if (arrivedNs === null) {
    // It hears of a transfer with the first token that the decode engine makes.
    phase(first_token_ns === null ? 'handover or first decode' : 'handover or decode', prefill_end_ns, endNs, request.decode_worker);
    return;
  }
  // Where TTFT ends with the prefill, the first token is there before its KV has moved.
  const isPrefills = first_token_ns !== null && first_token_ns < arrivedNs;
  if (!isPrefills) phase('first decode', arrivedNs, first_token_ns ?? endNs, decode);
  phase('decode', isPrefills ? arrivedNs : first_token_ns, endNs, decode);
}

/** Whether the KV was on its way before the prompt was computed, as it is where it moves layer by layer. */
function movesBeforePrefillEnd({ transfer_start_ns, prefill_end_ns }: TracedRequest): boolean {
  return transfer_start_ns !== null && prefill_end_ns !== null && transfer_start_ns < prefill_end_ns;
}

/** Whether a request whose KV did not move is known to have come to tokens that a decode engine makes. */
function hasDecoded({ prefill_worker, decode_worker, prefill_end_ns, first_token_ns, last_token_ns }: TracedRequest): boolean {
  if (last_token_ns !== null) return true;
  return first_token_ns !== null && (decode_worker === prefill_worker || first_token_ns > Number(prefill_end_ns));
}
