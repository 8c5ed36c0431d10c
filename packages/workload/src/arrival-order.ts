import { rejectValue, TraceError } from './trace-error.js';
import type { TraceRow } from './trace-format.js';

/** More requests in one clock tick than this are not a trace (a broken clock); they would all have to wait in memory. */
const MAX_TICK_ROWS = 1_048_576;

/** On absolute clocks an arrival may lie this far to either side of the first row, so that differences stay exact (52 days). */
const MAX_FROM_FIRST_NS = 2 ** 52;

/**
 * Puts rows in order of arrival as far as the format allows disorder, spreads equal timestamps over their tick, and shifts absolute
 * clocks to 0. Holds at most `reorderRows` rows and those of one tick.
 */
export interface ArrivalQueue {
  file: string;
  reorderRows: number;
  /** 0: timestamps stay as they are. */
  tickNs: number;
  /** Whether rows with one timestamp were spread. */
  spread: boolean;
  fromFirst: boolean;
  waiting: TraceRow[];
  tick: TraceRow[];
  originNs: number;
  lastNs: number;
  lastLine: number;
}

export function createArrivalQueue(file: string, reorderRows: number, tickNs: number, fromFirst: boolean): ArrivalQueue {
  return {
    file,
    reorderRows,
    tickNs,
    spread: false,
    fromFirst,
    waiting: [],
    tick: [],
    originNs: fromFirst ? Number.NaN : 0,
    lastNs: Number.NEGATIVE_INFINITY,
    lastLine: 0,
  };
}

/** Takes a row; rows that are ready go to `emit`. Throws when the row's arrival lies before one already passed on. */
export function offerRow(queue: ArrivalQueue, row: TraceRow, emit: (row: TraceRow) => void): void {
  const limitNs = queue.fromFirst ? MAX_FROM_FIRST_NS : Number.MAX_SAFE_INTEGER;
  if (!(Math.abs(row.arrivalNs) <= limitNs)) {
    rejectValue(
      { file: queue.file, line: row.line },
      'arrival',
      `${row.arrivalNs / 1e9} s`,
      `at most ${Math.floor(limitNs / 8.64e13)} days from the start`,
    );
  }
  if (row.arrivalNs < queue.lastNs) throw orderError(queue, row);
  if (queue.reorderRows === 0) {
    passRow(queue, row, emit);
    return;
  }
  const waiting = queue.waiting;
  waiting.push(row);
  for (let index = waiting.length - 1; index > 0 && waiting[index - 1]!.arrivalNs > row.arrivalNs; index--) {
    waiting[index] = waiting[index - 1]!;
    waiting[index - 1] = row;
  }
  // Half of the window at a time, so that removing from the front costs little a row.
  if (waiting.length >= queue.reorderRows)
    for (const early of waiting.splice(0, Math.ceil(waiting.length / 2))) passRow(queue, early, emit);
}

/** The end of the trace: everything held goes to `emit`. */
export function flushRows(queue: ArrivalQueue, emit: (row: TraceRow) => void): void {
  for (const row of queue.waiting) passRow(queue, row, emit);
  queue.waiting = [];
  if (queue.tick.length > 0) releaseTick(queue, queue.tickNs, emit);
}

function passRow(queue: ArrivalQueue, row: TraceRow, emit: (row: TraceRow) => void): void {
  const arrivalNs = row.arrivalNs;
  if (Number.isNaN(queue.originNs)) queue.originNs = arrivalNs;
  row.arrivalNs = arrivalNs - queue.originNs;
  if (queue.tickNs === 0) emit(row);
  else passTick(queue, row, arrivalNs, emit);
  queue.lastNs = arrivalNs;
  queue.lastLine = row.line;
}

function passTick(queue: ArrivalQueue, row: TraceRow, arrivalNs: number, emit: (row: TraceRow) => void): void {
  if (queue.tick.length > 0 && arrivalNs > queue.lastNs) {
    // A finer clock shows by smaller gaps: the tick is the smallest gap seen so far.
    queue.tickNs = Math.min(queue.tickNs, arrivalNs - queue.lastNs);
    releaseTick(queue, queue.tickNs, emit);
  }
  if (queue.tick.length >= MAX_TICK_ROWS) {
    rejectValue(
      { file: queue.file, line: row.line },
      'timestamp',
      queue.tick.length + 1,
      `at most ${MAX_TICK_ROWS} requests with one timestamp`,
    );
  }
  queue.tick.push(row);
}

/** n requests of one timestamp t get t, t + tick / n, t + 2 tick / n ...: same order, same tick, no draw. */
function releaseTick(queue: ArrivalQueue, tickNs: number, emit: (row: TraceRow) => void): void {
  const count = queue.tick.length;
  if (count > 1) queue.spread = true;
  for (const [index, row] of queue.tick.entries()) {
    row.arrivalNs += Math.floor((tickNs * index) / count);
    emit(row);
  }
  queue.tick = [];
}

function orderError(queue: ArrivalQueue, row: TraceRow): TraceError {
  const earlierMs = (queue.lastNs - row.arrivalNs) / 1e6;
  const window = queue.reorderRows === 0 ? '' : ` (beyond the ${queue.reorderRows} rows that may be out of order)`;
  return new TraceError(
    queue.file,
    row.line,
    'arrival',
    `lies ${earlierMs} ms before that of line ${queue.lastLine}${window}; expected rows sorted by arrival: sort the file`,
  );
}
