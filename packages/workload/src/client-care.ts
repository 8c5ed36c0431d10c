import { type ActorId, type ActorKind, actorKind } from '@braess/kernel';
import { answerBegan, cancel, moveClient, outcome, scrape, settled, untilMomentNs } from '@braess/protocol';
import { ClientAttempts } from './client-attempts.js';
import { type ActiveRequest, type CareClientState, type CareContext, phase } from './client-care-state.js';
import { clientInFlight, createCounts } from './client-counts.js';
import { createDriverState, drive } from './client-driver.js';
import type { ClientOptions } from './client-options.js';
import { createOutcomes, sendOutcomes, type TokenTimes } from './client-report.js';
import type { ClientRows } from './client-rows.js';
import { type ClientSetup, createFrontendChoice } from './client-submit.js';
import { answerScrape, createClientTtft, noteTtft } from './client-ttft.js';
import {
  clientAnswer,
  clientArrival,
  clientCut,
  clientMove,
  clientPhase,
  clientReport,
  clientRetry,
  clientThought,
  clientTick,
  clientTimeout,
  clientTurn,
  clientWake,
  clientWoken,
} from './client-wakes.js';
import { createClosedLoop, finishTask, losePermits, nextPhase, offerTask, pullsRequests, takeRequest, thinkNs } from './closed-loop.js';
import { cancelWaiting, createConnectionPool, freeConnection, returnToFront, takeWaiting } from './connection-pool.js';

/** A client that answers for each of its requests from the moment it comes until its outcome is known. */
export function careClientKind(options: ClientOptions, rows: ClientRows): ActorKind<'client', string, ClientSetup> {
  const care = new ClientCare(options, rows);
  return actorKind({
    name: 'client',
    messages: {
      clientArrival,
      clientTurn,
      clientThought,
      clientTimeout,
      clientRetry,
      clientPhase,
      clientTick,
      clientMove,
      clientReport,
      clientCut,
      clientWoken,
      clientAnswer,
      settled,
      moveClient,
      answerBegan,
      scrape,
    },
    streams: ['thinks', 'backoffs', 'connections', 'answers', 'policy'],
    state: (setup: ClientSetup) => care.createState(setup),
    start: (state, context) => care.begin(state, context),
    on: {
      clientArrival: (state, _message, context) => care.walk(state, context),
      clientTurn: (state, { row }, context) => care.turn(state, context, row),
      clientThought: (state, { row }, context) => care.thought(state, context, row),
      clientTimeout: (state, { row }, context) => care.timeOut(state, context, row),
      clientRetry: (state, { row }, context) => care.retry(state, context, row),
      clientPhase: (state, _message, context) => care.changePhase(state, context),
      clientTick: (state, _message, context) => care.runTick(state, context),
      clientMove: (state, { frontend }) => care.move(state, state.frontends[frontend]!),
      clientReport: (state, _message, context) => sendOutcomes(state.outcomes!, options.listener!, state.active.size, context),
      clientCut: (state, _message, context) => care.recordInFlight(state, context),
      clientAnswer: (state, view, context) => care.settle(state, context, view.row, view.outcome, view),
      settled: (state, view, context) => {
        const { answerJitterUs = 0 } = options;
        if (answerJitterUs === 0) care.settle(state, context, view.request, view.outcome, view);
        else {
          const delayNs = Math.floor(context.random('answers') * answerJitterUs * 1e3);
          context.send(
            context.self,
            clientAnswer,
            delayNs,
            view.request,
            view.outcome,
            view.firstTokenNs,
            view.lastTokenNs,
            view.outputTokens,
          );
        }
      },
      moveClient: (state, { frontend }) => care.move(state, frontend),
      clientWoken: (state, _message, context) => care.woken(state, context),
      answerBegan: (state, { request }, context) => care.answerBegan(state, context, request),
      scrape: (state, { round, sender }, context) => answerScrape(state.ttft!, context, sender, round, options.submitDelayNs),
    },
  });
}

/** How requests come to a client and go on: arrivals, turns, phases of a closed loop, event-loop ticks. Constants only, no state of its own. */
class ClientCare extends ClientAttempts {
  createState(setup: ClientSetup): CareClientState {
    const { loop = { style: 'open' }, connections, clients = 1, listener } = this.options;
    const share = (total: number): number => shareOf(total, setup.client, clients);
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
          : createClosedLoop({
              ...loop,
              inFlight: share(loop.inFlight),
              requests: this.rowCount(setup.client),
              ...(loop.phases === undefined
                ? {}
                : { phases: loop.phases.map(({ seconds, inFlight }) => ({ seconds, inFlight: share(inFlight) })) }),
            }),
      pool: connections === undefined ? null : createConnectionPool(connections),
      freed: 0,
      due: [],
      tick: [],
      tickPlace: -1,
      outcomes: listener === undefined ? null : createOutcomes(),
      ttft: this.options.measuresTtft === true ? createClientTtft() : null,
      driver: createDriverState(this.options),
      cutTimer: -1,
      ...createFrontendChoice(setup),
    };
  }

  begin(state: CareClientState, context: CareContext): void {
    for (const { atSeconds, frontend } of this.options.moves ?? []) context.timer(clientMove, Math.round(atSeconds * 1e9), frontend);
    if (state.driver !== null) {
      drive(this.options, state.driver, context, clientWake, 'start');
      this.finishEvent(state, context);
      return;
    }
    if (state.loop === null || !pullsRequests(state.loop.spec)) {
      this.walk(state, context);
      return;
    }
    state.freed = state.loop.limit;
    this.armPhase(state, context);
    this.finishEvent(state, context);
  }

  changePhase(state: CareClientState, context: CareContext): void {
    // Places that were about to go on are of the phase before.
    state.tick.fill(0);
    state.freed += nextPhase(state.loop!);
    this.armPhase(state, context);
    this.finishEvent(state, context);
  }

  private armPhase(state: CareClientState, context: CareContext): void {
    const { spec, phase } = state.loop!;
    const present = spec.phases?.[phase];
    if (present !== undefined) context.timer(clientPhase, Math.round(present.seconds * 1e9));
  }

  /** New requests go to this frontend (an actor id; -1: the client's own choice) from now on. */
  move(state: CareClientState, frontend: number): void {
    if (frontend === state.movedTo) return;
    state.movedTo = frontend;
    if (state.loop !== null) losePermits(state.loop, this.options.permitsLostByMove ?? 0);
  }

  /** One tick of an aiohttp client's event loop: the tasks that gave connections back and the waiters these woke, in the order of the ready queue. */
  runTick(state: CareClientState, context: CareContext): void {
    const { tick } = state;
    const pool = state.pool!;
    state.tick = [];
    const woken = tick.map(() => takeWaiting(pool, () => context.random('connections')));
    // A worker loop goes on in the task that gave the connection back; a semaphore starts a new task, behind all that are ready.
    const inTurn = state.loop?.spec.style === 'workers';
    for (const [place, goesOn] of tick.entries()) {
      if (inTurn && goesOn === 1) this.next(state, context);
      const row = woken[place]!;
      if (row >= 0) this.wake(state, context, row);
    }
    if (!inTurn) for (const goesOn of tick) if (goesOn === 1) this.next(state, context);
    this.finishEvent(state, context);
  }

  private wake(state: CareClientState, context: CareContext, row: number): void {
    const pool = state.pool!;
    if (pool.inUse === pool.spec.connections) {
      returnToFront(pool, row);
      return;
    }
    pool.inUse++;
    if (!this.connected(state, context, row)) freeConnection(pool);
  }

  /** A place of the loop is free: its next request. */
  private next(state: CareClientState, context: CareContext): void {
    if (pullsRequests(state.loop!.spec)) this.work(state, context);
    else this.passPermit(state, context);
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

  woken(state: CareClientState, context: CareContext): void {
    drive(this.options, state.driver!, context, clientWake, 'woken');
    this.finishEvent(state, context);
  }

  answerBegan(state: CareClientState, context: CareContext, row: number): void {
    const request = state.active.get(row);
    // Else it was given up meanwhile.
    if (request?.phase === phase.sent) noteTtft(state.ttft!, context.now - request.beganNs);
  }

  turn(state: CareClientState, context: CareContext, row: number): void {
    state.due.push(row);
    this.finishEvent(state, context);
  }

  /** A worker (row -1) or a task has thought. */
  thought(state: CareClientState, context: CareContext, row: number): void {
    if (row >= 0) this.askPermit(state, context, row);
    else if (-1 - row === state.loop!.phase) this.work(state, context);
    this.finishEvent(state, context);
  }

  retry(state: CareClientState, context: CareContext, row: number): void {
    this.attempt(state, context, row, state.active.get(row)!);
    this.finishEvent(state, context);
  }

  settle(state: CareClientState, context: CareContext, row: number, code: number, times: TokenTimes): void {
    const request = state.active.get(row);
    if (request === undefined) {
      state.lateAnswers++;
      return;
    }
    if (request.phase === phase.closing) this.closed(state, context, row, request);
    else {
      this.stopTimer(context, request);
      this.release(state, context);
      if (code === outcome.completed || code === outcome.cancelled) this.end(state, context, row, request, code, times);
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
        this.next(state, context);
      } else if (state.pool?.spec.order !== 'barge' || !this.connectNext(state, context)) break;
    }
    state.tickPlace = -1;
    this.watchCut(state, context);
    const { outcomes } = state;
    if (outcomes === null || outcomes.armed) return;
    // Something has happened, or the client would not have been called.
    outcomes.armed = true;
    context.timer(clientReport, untilMomentNs(context.now, this.options.listener!.periodNs));
  }

  /** Waits for the end of the run while requests are under way: it need not be waited for where none is. */
  private watchCut(state: CareClientState, context: CareContext): void {
    const { endNs } = this.options;
    if (endNs === undefined || state.cutTimer >= 0 === state.active.size > 0) return;
    if (state.active.size > 0) state.cutTimer = context.timer(clientCut, Math.max(0, endNs - 1 - context.now));
    else {
      context.cancelTimer(state.cutTimer);
      state.cutTimer = -1;
    }
  }

  /** What is known here of the requests under way, where the run is cut: those that wait for a permit or a connection no frontend knows of. */
  recordInFlight(state: CareClientState, context: CareContext): void {
    state.cutTimer = -1;
    for (const [row, { attempt, cameNs }] of state.active) context.emit(clientInFlight, row, attempt, cameNs);
  }

  private come(state: CareClientState, context: CareContext, row: number): void {
    state.counts.submitted++;
    const request = {
      phase: phase.thinking as number,
      attempt: 1,
      cameNs: context.now,
      beganNs: -1,
      sentNs: -1,
      frontend: -1,
      permit: -1,
      timer: -1,
      endsNs: -1,
      retryNs: -1,
    };
    state.active.set(row, request);
    const { loop } = state;
    if (loop === null || pullsRequests(loop.spec)) {
      if (loop !== null) request.permit = loop.phase;
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
    request.permit = 0;
    this.attempt(state, context, row, request);
  }

  /** A free place takes its next request. */
  private work(state: CareClientState, context: CareContext): void {
    const place = takeRequest(state.loop!);
    if (place >= 0) this.come(state, context, this.rowAt(state.client, place));
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
