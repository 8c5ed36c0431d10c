import { requestRowOf } from '@braess/control';
import type { RecordCursor, RunRecord } from '@braess/kernel';
import { outcome, REASON_NAMES, requestRowColumns } from '@braess/protocol';
import {
  appendRequest,
  appendRequestRow,
  emptyRequestRecord,
  OUTCOME,
  REASON,
  type RequestRecord,
  type RunTables,
} from '@braess/telemetry';
import type { RequestTable } from '@braess/workload';

/** Requests as the records count them. */
export interface RecordedCounts {
  submitted: number;
  completed: number;
  rejected: number;
  failed: number;
  inFlight: number;
}

/** What a recorder of requests has to know of the run. */
export interface RequestRecorderOptions {
  /** Delay from client to frontend: arrivals count from the client, frontends know of their own. */
  readonly clientDelayNs: number;
  /** The client answers for its requests (retries, closed loop): one row a request, when the client has its outcome. */
  readonly byClient: boolean;
  /** The workload's requests, by number. */
  readonly requests: Pick<RequestTable, 'tenant' | 'inputTokens'>;
}

/** Places in a request's row. */
const place = {
  requestId: requestRowColumns.indexOf('requestId'),
  outcome: requestRowColumns.indexOf('outcome'),
  reason: requestRowColumns.indexOf('reason'),
  arrivalNs: requestRowColumns.indexOf('arrivalNs'),
};

/** What a frontend knows of an attempt, and how it ended by its client. */
function lastAttempt(attempt: RequestRecord, { attempts, arrivalNs, outcome: ended, reason, endNs }: RequestRecord): RequestRecord {
  return { ...attempt, attempts, arrivalNs, outcome: ended, reason, endNs };
}

/** One row a request, and how many there are of each outcome. */
export class RequestRecorder {
  readonly counts: RecordedCounts = { submitted: 0, completed: 0, rejected: 0, failed: 0, inFlight: 0 };
  /** Time of the last outcome. */
  lastNs = 0;
  /** Completed since the period began. */
  periodRequests = 0;
  readonly #rows: RunTables['requests'];
  readonly #options: RequestRecorderOptions;
  /** Arrival of each request that has reached a frontend and not ended. */
  readonly #open = new Map<number, { readonly arrivalNs: number }>();
  /** Last attempt of requests whose client has not yet the outcome. */
  readonly #attempts = new Map<number, RequestRecord>();
  /** Requests whose client has the outcome: what a frontend still says of a given-up attempt changes nothing. */
  readonly #over = new Set<number>();
  /** Requests whose client gave up, in order of time: the frontend, which hears of it later, tells then what the last attempt came to. */
  readonly #givenUp = new Map<number, RequestRecord>();
  /** What clients knew of requests in flight where the run was cut, and what frontends did. */
  readonly #held = new Map<number, { readonly attempts: number; readonly arrivalNs: number }>();
  readonly #known = new Map<number, RequestRecord>();
  /** Requests rejected or failed, by the number of the reason. */
  readonly #lost: number[] = [];

  constructor(rows: RunTables['requests'], options: RequestRecorderOptions) {
    this.#rows = rows;
    this.#options = options;
  }

  /** Requests that have reached a frontend and not ended. */
  get openCount(): number {
    return this.#open.size;
  }

  arrived({ columns, fieldsAt, timeNs }: RecordCursor): void {
    this.#writeGivenUp(timeNs);
    const request = columns[fieldsAt] as number;
    if (this.#open.has(request) || this.#over.has(request)) return; // Another attempt of the same request.
    this.counts.submitted++;
    this.#open.set(request, { arrivalNs: timeNs - this.#options.clientDelayNs });
  }

  ended(record: RecordCursor): void {
    const { columns, fieldsAt, timeNs } = record;
    const request = columns[fieldsAt + place.requestId] as number;
    if (this.#options.byClient) {
      const row = this.#givenUp.get(request);
      if (row !== undefined) this.#givenUp.set(request, lastAttempt(requestRowOf(record.record()), row));
      else if (!this.#over.has(request)) this.#attempts.set(request, requestRowOf(record.record()));
      return;
    }
    this.#count(request, columns[fieldsAt + place.outcome] as number, columns[fieldsAt + place.reason] as number, timeNs);
    // The frontend saw it arrive; its client sent it before.
    const arrivalNs = (columns[fieldsAt + place.arrivalNs] as number) - this.#options.clientDelayNs;
    appendRequestRow(this.#rows, columns, fieldsAt, arrivalNs, timeNs);
  }

  /** A client has the outcome of its request: its attempts become one row. */
  clientDone(record: RunRecord): void {
    const [requestId, attempts, cameNs, , code, refused] = record.fields as [number, number, number, number, number, number];
    this.#writeGivenUp(record.timeNs);
    const attempt = this.#attempts.get(requestId);
    this.#attempts.delete(requestId);
    this.#over.add(requestId);
    this.#held.delete(requestId);
    if (!this.#open.has(requestId)) this.counts.submitted++; // Given up before it was ever sent.
    const row = { ...(attempt ?? { ...emptyRequestRecord(), requestId, ...this.#givenOf(requestId), endNs: record.timeNs }) };
    row.attempts = attempts;
    row.arrivalNs = cameNs;
    if (code !== outcome.completed || row.outcome !== OUTCOME.completed) {
      row.outcome = code === outcome.completed ? OUTCOME.completed : code === outcome.rejected ? OUTCOME.rejected : OUTCOME.failed;
      if (code === outcome.cancelled) row.reason = REASON.cancelled;
      else if (code === outcome.timedOut) row.reason = REASON.timeout;
      else if (refused === 1) row.reason = REASON.clientQueueFull;
      else if (row.reason === REASON.none) row.reason = REASON.other;
      row.endNs = record.timeNs;
    }
    this.#count(requestId, row.outcome, row.reason, row.endNs);
    if (code === outcome.timedOut || code === outcome.cancelled) this.#givenUp.set(requestId, row);
    else appendRequest(this.#rows, row);
  }

  /** Writes the requests whose clients gave up so long ago that frontends have told what they knew of them. */
  #writeGivenUp(nowNs: number): void {
    for (const [requestId, row] of this.#givenUp) {
      if (row.endNs + this.#options.clientDelayNs >= nowNs) return;
      this.#givenUp.delete(requestId);
      appendRequest(this.#rows, row);
    }
  }

  /** What a client knows of a request in flight where the run is cut. */
  clientHas(record: RunRecord): void {
    const [requestId, attempts, arrivalNs] = record.fields as [number, number, number];
    this.#held.set(requestId, { attempts, arrivalNs });
  }

  #givenOf(request: number): { tenantId: number; inputTokens: number } {
    const { tenant, inputTokens } = this.#options.requests;
    return { tenantId: tenant[request] as number, inputTokens: inputTokens[request] as number };
  }

  /** What a frontend knows of a request in flight where the run is cut. */
  inFlight(record: RunRecord): void {
    this.#known.set(record.fields[0] as number, requestRowOf(record));
  }

  /** Writes what is still in flight; after the run. */
  finish(): void {
    for (const [requestId, row] of this.#givenUp) {
      const known = this.#known.get(requestId);
      appendRequest(this.#rows, known === undefined ? row : lastAttempt(known, row));
    }
    this.#givenUp.clear();
    for (const requestId of this.#held.keys()) if (!this.#open.has(requestId)) this.counts.submitted++; // Not yet sent.
    for (const [requestId, seen] of new Map([...this.#open, ...this.#held])) {
      // Between two attempts the frontend has told of the last one, and has none.
      const known = this.#known.get(requestId) ?? this.#attempts.get(requestId) ?? emptyRequestRecord();
      appendRequest(this.#rows, {
        ...known,
        requestId,
        ...this.#givenOf(requestId),
        ...seen,
        outcome: OUTCOME.inFlight,
        reason: REASON.none,
        endNs: -1,
      });
      this.counts.inFlight++;
    }
  }

  /** Requests rejected or failed by reason, most first. */
  lostReasons(): Record<string, number> {
    const counted = REASON_NAMES.map((name, reason) => [name, this.#lost[reason] ?? 0] as const).filter(([, count]) => count > 0);
    return Object.fromEntries(counted.sort(([, one], [, other]) => other - one));
  }

  #count(request: number, ended: number, reason: number, endNs: number): void {
    this.#open.delete(request);
    if (endNs > this.lastNs) this.lastNs = endNs;
    if (ended === OUTCOME.completed) {
      this.counts.completed++;
      this.periodRequests++;
      return;
    }
    if (ended === OUTCOME.rejected) this.counts.rejected++;
    else this.counts.failed++;
    this.#lost[reason] = (this.#lost[reason] ?? 0) + 1;
  }
}
