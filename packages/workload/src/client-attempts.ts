import { outcome } from '@braess/protocol';
import { type ActiveRequest, type CareClientState, type CareContext, phase } from './client-care-state.js';
import { clientRequest, countOutcome } from './client-counts.js';
import { tellDriver } from './client-driver.js';
import type { ClientOptions } from './client-options.js';
import { noteOutcome, type TokenTimes } from './client-report.js';
import type { ClientRows } from './client-rows.js';
import { submitRow } from './client-submit.js';
import { clientRetry, clientThought, clientTick, clientTimeout, clientTurn, clientWake } from './client-wakes.js';
import { finishRequest, pullsRequests, thinkNs } from './closed-loop.js';
import { acquireConnection, connectWaiting, freeConnection, releaseConnection } from './connection-pool.js';
import { attemptEndsNs, NO_RETRY, nextAttemptNs } from './retry.js';

/** The attempts of requests that a client has taken in: connections, retries, outcomes, and what their ends set free. Constants only, no state of its own. */
export class ClientAttempts {
  readonly options: ClientOptions;
  readonly rows: ClientRows;

  constructor(options: ClientOptions, rows: ClientRows) {
    this.options = options;
    this.rows = rows;
  }

  /** Begins an attempt: its timeout runs from here, the wait for a connection included. */
  protected attempt(state: CareClientState, context: CareContext, row: number, request: ActiveRequest): void {
    const retry = this.options.retry ?? NO_RETRY;
    const endsNs = attemptEndsNs(retry, request.cameNs, context.now);
    request.endsNs = endsNs;
    if (request.beganNs < 0) request.beganNs = context.now;
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
  protected release(state: CareClientState, context: CareContext): void {
    const { pool } = state;
    if (pool === null) return;
    if (pool.spec.order === 'aiohttp') {
      freeConnection(pool);
      if (state.tick.length === 0) context.send(context.self, clientTick, Math.round((pool.spec.tickUs ?? 0) * 1e3));
      state.tickPlace = state.tick.push(0) - 1;
      return;
    }
    for (;;) {
      const row = releaseConnection(pool, () => context.random('connections'));
      if (row < 0 || this.connected(state, context, row)) return;
    }
  }

  /** Hands a connection that nobody took to the next who waits; true when there was one. */
  protected connectNext(state: CareClientState, context: CareContext): boolean {
    const row = connectWaiting(state.pool!, () => context.random('connections'));
    if (row < 0) return false;
    if (!this.connected(state, context, row)) freeConnection(state.pool!);
    return true;
  }

  /** A waiting request has its connection; false when its time is over at this very moment, so that the connection goes on to the next. */
  protected connected(state: CareClientState, context: CareContext, row: number): boolean {
    const request = state.active.get(row)!;
    if (request.endsNs > context.now) {
      this.send(state, context, row, request);
      return true;
    }
    this.attemptFailed(state, context, row, request, outcome.timedOut, false);
    return false;
  }

  /** `closing`: the frontend still has the attempt, and the next one must wait until it has answered. */
  protected attemptFailed(
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
  protected closed(state: CareClientState, context: CareContext, row: number, request: ActiveRequest): void {
    request.phase = phase.pausing;
    if (request.retryNs > context.now) context.send(context.self, clientRetry, request.retryNs - context.now, row);
    else this.attempt(state, context, row, request);
  }

  protected end(state: CareClientState, context: CareContext, row: number, request: ActiveRequest, code: number, times?: TokenTimes): void {
    this.stopTimer(context, request);
    state.active.delete(row);
    countOutcome(state.counts, code);
    const waitNs = request.sentNs < 0 ? -1 : request.sentNs - request.cameNs;
    const refused = code === outcome.rejected && request.phase !== phase.sent ? 1 : 0;
    context.emit(clientRequest, row, request.attempt, request.cameNs, waitNs, code, refused);
    if (state.outcomes !== null) noteOutcome(state.outcomes, request.cameNs, context.now, times);
    if (request.permit >= 0) this.freePermit(state, context, request.permit);
    if (this.rows.nextTurn !== null) this.followTurn(state, context, row, code);
    if (state.driver !== null) tellDriver(this.options, state.driver, context, clientWake, row, code);
  }

  private freePermit(state: CareClientState, context: CareContext, permit: number): void {
    const loop = state.loop!;
    if (!pullsRequests(loop.spec)) {
      this.free(state);
      return;
    }
    if (!finishRequest(loop, permit)) return;
    const pauseNs = loop.spec.meanThinkMs === 0 ? 0 : thinkNs(loop.spec, () => context.random('thinks'));
    if (pauseNs > 0) context.send(context.self, clientThought, pauseNs, -1 - permit);
    else this.free(state);
  }

  /** A place is free; where this event also gave a connection back, both come into play with the tick. */
  private free(state: CareClientState): void {
    if (state.tickPlace >= 0) state.tick[state.tickPlace] = 1;
    else state.freed++;
  }

  private followTurn(state: CareClientState, context: CareContext, row: number, code: number): void {
    const nextTurn = this.rows.nextTurn!;
    const next = nextTurn[row]!;
    if (next < 0) return;
    if (code !== outcome.completed && this.options.sessions?.afterFailure === 'abandon') {
      for (let turn = next; turn >= 0; turn = nextTurn[turn]!) state.abandonedTurns++;
      return;
    }
    const delayNs = this.turnDelayNs(context, next);
    if (delayNs > 0) context.send(context.self, clientTurn, delayNs, next);
    else state.due.push(next);
  }

  private turnDelayNs(context: CareContext, row: number): number {
    const { sessions, table } = this.options;
    if (sessions?.next === 'think') return thinkNs(sessions, () => context.random('thinks'));
    const delayNs = table.delayNs[row] ?? -1;
    return delayNs >= 0 ? delayNs : Math.max(0, table.arrivalNs[row]! - context.now);
  }

  protected stopTimer(context: CareContext, request: ActiveRequest): void {
    if (request.timer < 0) return;
    context.cancelTimer(request.timer);
    request.timer = -1;
  }
}
