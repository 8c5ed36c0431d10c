import { rejectValue } from './trace-error.js';
import type { TraceRow } from './trace-format.js';
import { popTurn, pushTurn } from './turn-heap.js';

/**
 * Puts turns that come a delay after the one before among the rows that have arrivals: at the earliest moment they may come, which is the arrival before and the
 * delay. Holds those whose moment the file has not reached.
 */
export interface TurnOrder {
  file: string;
  sessions: Map<number, SessionOrder>;
  /** Binary heap of turns whose earliest moment is known. */
  waiting: TraceRow[];
  lastNs: number;
}

interface SessionOrder {
  /** Rows with a time that are read, but not passed on: the arrival queue has them. */
  coming: number;
  /** Of the turn passed on last, or the earliest moment it might have come. */
  arrivalNs: number;
  /** Turns with a delay, in order; the first is in the heap when its moment is known. */
  turns: TraceRow[];
  firstIsInHeap: boolean;
}

export function createTurnOrder(file: string): TurnOrder {
  return { file, sessions: new Map(), waiting: [], lastNs: 0 };
}

/** A row with a time is read: the turns of its session behind it wait until it is passed on. */
export function expectTurn(order: TurnOrder, row: TraceRow): void {
  if (row.session >= 0) sessionOf(order, row.session).coming++;
}

/** Takes a turn that comes after the one before. */
export function offerTurn(order: TurnOrder, row: TraceRow): void {
  const session = sessionOf(order, row.session);
  session.turns.push(row);
  placeFirst(order, session);
}

/** Passes a row with a time on, and before it all turns whose moment is earlier. */
export function passInOrder(order: TurnOrder, row: TraceRow, emit: (row: TraceRow) => void): void {
  while (order.waiting.length > 0 && order.waiting[0]!.arrivalNs < row.arrivalNs) passFirst(order, emit);
  order.lastNs = row.arrivalNs;
  emit(row);
  if (row.session < 0) return;
  const session = sessionOf(order, row.session);
  session.coming--;
  session.arrivalNs = row.arrivalNs;
  placeFirst(order, session);
}

/** The end of the trace: all turns that wait. */
export function flushTurns(order: TurnOrder, emit: (row: TraceRow) => void): void {
  while (order.waiting.length > 0) passFirst(order, emit);
}

function passFirst(order: TurnOrder, emit: (row: TraceRow) => void): void {
  const row = popTurn(order.waiting);
  const session = sessionOf(order, row.session);
  session.turns.shift();
  session.firstIsInHeap = false;
  session.arrivalNs = row.arrivalNs;
  // One whose line stands far behind its moment is placed among the rows there.
  row.arrivalNs = Math.max(row.arrivalNs, order.lastNs);
  order.lastNs = row.arrivalNs;
  emit(row);
  placeFirst(order, session);
}

function placeFirst(order: TurnOrder, session: SessionOrder): void {
  const row = session.turns[0];
  if (row === undefined || session.firstIsInHeap || session.coming > 0) return;
  row.arrivalNs = session.arrivalNs + row.delayNs!;
  if (row.arrivalNs > Number.MAX_SAFE_INTEGER)
    rejectValue({ file: order.file, line: row.line }, 'delay', row.delayNs! / 1e6, 'turns within 104 days (2^53 ns) of the start');
  session.firstIsInHeap = true;
  pushTurn(order.waiting, row);
}

function sessionOf(order: TurnOrder, number: number): SessionOrder {
  let session = order.sessions.get(number);
  if (session === undefined) order.sessions.set(number, (session = { coming: 0, arrivalNs: 0, turns: [], firstIsInHeap: false }));
  return session;
}
