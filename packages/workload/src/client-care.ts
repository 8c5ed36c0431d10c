import { type ActorId, type ActorKind, actorKind, type Context, message, type TimerId } from '@braess/kernel';
import { cancel, moveClient, outcome, settled } from '@braess/protocol';
import { type ClientCounts, clientRequest, countOutcome, countSubmitted, createCounts } from './client-counts.js';
import type { ClientOptions } from './client-options.js';
import type { ClientRows } from './client-rows.js';
import { type ClientSetup, createFrontendChoice, type FrontendChoice, submitRow } from './client-submit.js';
import { type ClosedLoop, createClosedLoop, finishRequest, finishTask, offerTask, takeRequest, thinkNs } from './closed-loop.js';
import { acquireConnection, type ConnectionPool, cancelWaiting, createConnectionPool, releaseConnection } from './connection-pool.js';
import { attemptEndsNs, NO_RETRY, nextAttemptNs } from './retry.js';

/** What a request under way is doing. */
const phase = { thinking: 0, awaitingPermit: 1, awaitingConnection: 2, sent: 3, pausing: 4, closing: 5 } as const;

/** A request under way at its client. */
interface ActiveRequest {
  phase: number;
  attempt: number;
  cameNs: number;
  /** When it was first sent, -1 before. */
  sentNs: number;
  frontend: number;
  holdsPermit: boolean;
  /** Pending timeout, or -1. */
  timer: TimerId;
  /** End of the present attempt's time, Infinity for none. */
  endsNs: number;
  /** While closing: when the next attempt may start. */
  retryNs: number;
}

/** State of a client with a closed loop, a connection limit, retries or waiting sessions. */
export interface CareClientState extends FrontendChoice {
  readonly client: number;
  readonly counts: ClientCounts;
  /** Later turns that are never submitted because an earlier one did not complete. */
  abandonedTurns: number;
  /** Answers to requests that the client had given up for good. */
  lateAnswers: number;
  attempts: number;
  next: number;
  readonly active: Map<number, ActiveRequest>;
  readonly loop: ClosedLoop | null;
  readonly pool: ConnectionPool | null;
  /** Permits or workers freed, and rows that have come, while the present event is handled; empty between events. */
  freed: number;
  readonly due: number[];
}

type Streams = 'thinks' | 'backoffs' | 'connections';
type CareContext = Context<Streams>;

const clientArrival = message('clientArrival');
const clientTurn = message('clientTurn', ['row']);
const clientThought = message('clientThought', ['row']);
const clientTimeout = message('clientTimeout', ['row']);
const clientRetry = message('clientRetry', ['row']);

/** A client that answers for each of its requests from the moment it comes until its outcome is known. */
export function careClientKind(options: ClientOptions, rows: ClientRows): ActorKind<'client', string, ClientSetup> {
  const care = new ClientCare(options, rows);
  return actorKind({
    name: 'client',
    messages: { clientArrival, clientTurn, clientThought, clientTimeout, clientRetry, settled, moveClient },
    streams: ['thinks', 'backoffs', 'connections'],
    state: (setup: ClientSetup) => care.createState(setup),
    start: (state, context) => care.begin(state, context),
    on: {
      clientArrival: (state, _message, context) => care.walk(state, context),
      clientTurn: (state, { row }, context) => care.turn(state, context, row),
      clientThought: (state, { row }, context) => care.thought(state, context, row),
      clientTimeout: (state, { row }, context) => care.timeOut(state, context, row),
      clientRetry: (state, { row }, context) => care.retry(state, context, row),
      settled: (state, { request, outcome }, context) => care.settle(state, context, request, outcome),
      moveClient(state, { frontend }) {
        state.movedTo = frontend;
      },
    },
  });
}

/** Constants and the steps of a request's life; holds no state of its own. */
class ClientCare {
  readonly options: ClientOptions;
  readonly rows: ClientRows;

  constructor(options: ClientOptions, rows: ClientRows) {
    this.options = options;
    this.rows = rows;
  }

  createState(setup: ClientSetup): CareClientState {
    const { loop = { style: 'open' }, connections, clients = 1 } = this.options;
    return {
      client: setup.client,
      counts: createCounts(),
      abandonedTurns: 0,
      lateAnswers: 0,
      attempts: 0,
      next: 0,
      active: new Map(),
      loop:
        loop.style === 'open'
          ? null
          : createClosedLoop({ ...loop, inFlight: shareOf(loop.inFlight, setup.client, clients), requests: this.rowCount(setup.client) }),
      pool: connections === undefined ? null : createConnectionPool(connections),
      freed: 0,
      due: [],
      ...createFrontendChoice(setup),
    };
  }

  begin(state: CareClientState, context: CareContext): void {
    if (state.loop?.spec.style !== 'workers') {
      this.walk(state, context);
      return;
    }
    state.freed = state.loop.spec.inFlight;
    this.finishEvent(state, context);
  }

  /** Takes in all rows whose arrival is due and sets the timer for the next one. */
  walk(state: CareClientState, context: CareContext): void {
    const { table } = this.options;
    const count = this.rowCount(state.client);
    while (state.next < count) {
      const row = this.rowAt(state.client, state.next);
      const waits = this.rows.waitsForAnswer !== null && this.rows.waitsForAnswer[row] === 1;
      if (!waits && table.arrivalNs[row]! > context.now) {
        context.send(context.self, clientArrival, table.arrivalNs[row]! - context.now);
        break;
      }
      state.next++;
      if (!waits) state.due.push(row);
    }
    this.finishEvent(state, context);
  }

  turn(state: CareClientState, context: CareContext, row: number): void {
    state.due.push(row);
    this.finishEvent(state, context);
  }

  /** A worker (row -1) or a task has thought. */
  thought(state: CareClientState, context: CareContext, row: number): void {
    if (row < 0) this.work(state, context);
    else this.askPermit(state, context, row);
    this.finishEvent(state, context);
  }

  retry(state: CareClientState, context: CareContext, row: number): void {
    this.attempt(state, context, row, state.active.get(row)!);
    this.finishEvent(state, context);
  }

  settle(state: CareClientState, context: CareContext, row: number, code: number): void {
    const request = state.active.get(row);
    if (request === undefined) {
      state.lateAnswers++;
      return;
    }
    if (request.phase === phase.closing) this.closed(state, context, row, request);
    else {
      this.stopTimer(context, request);
      this.release(state, context);
      if (code === outcome.completed || code === outcome.cancelled) this.end(state, context, row, request, code);
      else this.attemptFailed(state, context, row, request, code, false);
    }
    this.finishEvent(state, context);
  }

  timeOut(state: CareClientState, context: CareContext, row: number): void {
    const request = state.active.get(row)!;
    request.timer = -1;
    if (request.phase === phase.sent) {
      context.send(request.frontend as ActorId, cancel, this.options.submitDelayNs, row);
      this.release(state, context);
      this.attemptFailed(state, context, row, request, outcome.timedOut, true);
    } else {
      cancelWaiting(state.pool!, row);
      this.attemptFailed(state, context, row, request, outcome.timedOut, false);
    }
    this.finishEvent(state, context);
  }

  /** Works off what this event has set free. A loop, not recursion: a full queue may refuse any number of requests at once. */
  private finishEvent(state: CareClientState, context: CareContext): void {
    for (;;) {
      const row = state.due.shift();
      if (row !== undefined) this.come(state, context, row);
      else if (state.freed > 0) {
        state.freed--;
        if (state.loop!.spec.style === 'workers') this.work(state, context);
        else this.passPermit(state, context);
      } else return;
    }
  }

  private come(state: CareClientState, context: CareContext, row: number): void {
    countSubmitted(state.counts, this.options.warmupNs ?? 0, context);
    const request = {
      phase: phase.thinking as number,
      attempt: 1,
      cameNs: context.now,
      sentNs: -1,
      frontend: -1,
      holdsPermit: false,
      timer: -1,
      endsNs: -1,
      retryNs: -1,
    };
    state.active.set(row, request);
    const { loop } = state;
    if (loop === null || loop.spec.style === 'workers') {
      request.holdsPermit = loop !== null;
      this.attempt(state, context, row, request);
      return;
    }
    const pauseNs = loop.spec.meanThinkMs === 0 ? 0 : thinkNs(loop.spec, () => context.random('thinks'));
    if (pauseNs > 0) context.send(context.self, clientThought, pauseNs, row);
    else this.askPermit(state, context, row);
  }

  private askPermit(state: CareClientState, context: CareContext, row: number): void {
    const request = state.active.get(row)!;
    const answer = offerTask(state.loop!, row);
    if (answer === 'refused') this.end(state, context, row, request, outcome.rejected);
    else if (answer === 'wait') request.phase = phase.awaitingPermit;
    else this.startTask(state, context, row, request);
  }

  private passPermit(state: CareClientState, context: CareContext): void {
    const row = finishTask(state.loop!);
    if (row >= 0) this.startTask(state, context, row, state.active.get(row)!);
  }

  private startTask(state: CareClientState, context: CareContext, row: number, request: ActiveRequest): void {
    request.holdsPermit = true;
    this.attempt(state, context, row, request);
  }

  /** A worker takes its next request. */
  private work(state: CareClientState, context: CareContext): void {
    const place = takeRequest(state.loop!);
    if (place >= 0) this.come(state, context, this.rowAt(state.client, place));
  }

  /** Begins an attempt: its timeout runs from here, the wait for a connection included. */
  private attempt(state: CareClientState, context: CareContext, row: number, request: ActiveRequest): void {
    const retry = this.options.retry ?? NO_RETRY;
    const endsNs = attemptEndsNs(retry, request.cameNs, context.now);
    request.endsNs = endsNs;
    if (endsNs <= context.now) {
      this.end(state, context, row, request, outcome.timedOut);
      return;
    }
    if (state.pool !== null) {
      const answer = acquireConnection(state.pool, row);
      if (answer === 'refused') {
        this.attemptFailed(state, context, row, request, outcome.rejected, false);
        return;
      }
      if (answer === 'queued') request.phase = phase.awaitingConnection;
    }
    if (endsNs !== Number.POSITIVE_INFINITY) request.timer = context.timer(clientTimeout, endsNs - context.now, row);
    if (request.phase !== phase.awaitingConnection) this.send(state, context, row, request);
  }

  private send(state: CareClientState, context: CareContext, row: number, request: ActiveRequest): void {
    request.phase = phase.sent;
    if (request.sentNs < 0) request.sentNs = context.now;
    state.attempts++;
    request.frontend = submitRow(this.options, state, context, row, request.endsNs === Number.POSITIVE_INFINITY ? -1 : request.endsNs);
  }

  /** Gives a connection back; the waiting request that gets it is sent. */
  private release(state: CareClientState, context: CareContext): void {
    if (state.pool === null) return;
    for (;;) {
      const row = releaseConnection(state.pool, () => context.random('connections'));
      if (row < 0) return;
      const request = state.active.get(row)!;
      if (request.endsNs > context.now) {
        this.send(state, context, row, request);
        return;
      }
      // Its time is over at this very moment: the connection goes on to the next.
      this.attemptFailed(state, context, row, request, outcome.timedOut, false);
    }
  }

  /** `closing`: the frontend still has the attempt, and the next one must wait until it has answered. */
  private attemptFailed(
    state: CareClientState,
    context: CareContext,
    row: number,
    request: ActiveRequest,
    code: number,
    closing: boolean,
  ): void {
    const retry = this.options.retry ?? NO_RETRY;
    const nextNs = nextAttemptNs(retry, request.attempt, request.cameNs, context.now, () => context.random('backoffs'));
    if (nextNs < 0) {
      this.end(state, context, row, request, code);
      return;
    }
    this.stopTimer(context, request);
    request.attempt++;
    request.retryNs = nextNs;
    request.phase = closing ? phase.closing : phase.pausing;
    if (!closing) context.send(context.self, clientRetry, nextNs - context.now, row);
  }

  /** The frontend has let go of an attempt that the client gave up. */
  private closed(state: CareClientState, context: CareContext, row: number, request: ActiveRequest): void {
    request.phase = phase.pausing;
    if (request.retryNs > context.now) context.send(context.self, clientRetry, request.retryNs - context.now, row);
    else this.attempt(state, context, row, request);
  }

  private end(state: CareClientState, context: CareContext, row: number, request: ActiveRequest, code: number): void {
    this.stopTimer(context, request);
    state.active.delete(row);
    countOutcome(state.counts, code);
    const waitNs = request.sentNs < 0 ? -1 : request.sentNs - request.cameNs;
    context.emit(clientRequest, row, request.attempt, request.cameNs, waitNs, code);
    if (request.holdsPermit) this.freePermit(state, context);
    if (this.rows.nextTurn !== null) this.followTurn(state, context, row, code);
  }

  private freePermit(state: CareClientState, context: CareContext): void {
    const loop = state.loop!;
    if (loop.spec.style === 'semaphore') {
      state.freed++;
      return;
    }
    finishRequest(loop);
    const pauseNs = loop.spec.meanThinkMs === 0 ? 0 : thinkNs(loop.spec, () => context.random('thinks'));
    if (pauseNs > 0) context.send(context.self, clientThought, pauseNs, -1);
    else state.freed++;
  }

  private followTurn(state: CareClientState, context: CareContext, row: number, code: number): void {
    const sessions = this.options.sessions!;
    const nextTurn = this.rows.nextTurn!;
    const next = nextTurn[row]!;
    if (next < 0) return;
    if (code !== outcome.completed && sessions.afterFailure === 'abandon') {
      for (let turn = next; turn >= 0; turn = nextTurn[turn]!) state.abandonedTurns++;
      return;
    }
    const delayNs =
      sessions.next === 'think'
        ? thinkNs(sessions, () => context.random('thinks'))
        : Math.max(0, this.options.table.arrivalNs[next]! - context.now);
    if (delayNs > 0) context.send(context.self, clientTurn, delayNs, next);
    else state.due.push(next);
  }

  private stopTimer(context: CareContext, request: ActiveRequest): void {
    if (request.timer < 0) return;
    context.cancelTimer(request.timer);
    request.timer = -1;
  }

  private rowCount(client: number): number {
    return this.rows.rowsOfClient === null ? this.options.table.requestCount : this.rows.rowsOfClient[client]!.length;
  }

  private rowAt(client: number, place: number): number {
    return this.rows.rowsOfClient === null ? place : this.rows.rowsOfClient[client]![place]!;
  }
}

/** Part `index` of `total` dealt evenly to `parts`. */
function shareOf(total: number, index: number, parts: number): number {
  return Math.floor((total * (index + 1)) / parts) - Math.floor((total * index) / parts);
}
