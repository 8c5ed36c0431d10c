import { exponentialQuantile, type Uniform } from './distributions.js';

/**
 * A closed loop: at most `inFlight` requests at a time.
 * - `workers`: that many loops, each sends a request, waits for its end, thinks, and takes the next. A thinking worker holds its place.
 * - `semaphore`: a task a request. All tasks come at their own time and wait for a permit in order; a permit freed goes to the next task at
 *   once. Thinking happens in the task before it asks for a permit, so it never holds one.
 */
export interface ClosedLoopSpec {
  style: 'workers' | 'semaphore';
  inFlight: number;
  /** Mean think time; 0: none. */
  meanThinkMs: number;
  think: 'constant' | 'exponential';
  /** Requests in all. */
  requests: number;
  /** Semaphore only: tasks that may wait for a permit; more are refused. */
  taskLimit: number;
  /** Semaphore only: tasks always wait, whatever their arrival times, and a request comes with its permit. Default false. */
  backlog?: boolean;
  /** The number in flight over time, from the start on; after the last phase nothing new is sent. Absent: `inFlight` for ever. */
  phases?: readonly LoopPhase[];
}

/** A stretch of a load test. It starts with a burst of fresh requests; those of the phase before run out beside it. */
export interface LoopPhase {
  readonly seconds: number;
  readonly inFlight: number;
}

/** Plain data. */
export interface ClosedLoop {
  spec: ClosedLoopSpec;
  /** Permits (or workers) there are now. */
  limit: number;
  /** Number of the phase; requests of an earlier one give no permit back. */
  phase: number;
  /** Permits still to be lost: as many of the next ones given back disappear. */
  losing: number;
  /** Requests handed out by workers, or tasks offered. */
  offered: number;
  /** Of this phase. */
  inFlight: number;
  finished: number;
  refused: number;
  /** Semaphore: waiting tasks, first in first out from `head`. */
  waiting: number[];
  head: number;
}

const COMPACT_ENTRIES = 1024;

export function createClosedLoop(spec: ClosedLoopSpec): ClosedLoop {
  for (const [name, least] of [
    ['inFlight', 1],
    ['requests', 0],
    ['taskLimit', 0],
  ] as const) {
    if (!(Number.isInteger(spec[name]) && spec[name] >= least)) {
      throw new RangeError(`closed loop: ${name} is ${spec[name]}; must be a whole number, ${least} or more`);
    }
  }
  if (!(spec.meanThinkMs >= 0 && Number.isFinite(spec.meanThinkMs))) {
    throw new RangeError(`closed loop: meanThinkMs is ${spec.meanThinkMs}; must be 0 or more`);
  }
  if (spec.style !== 'workers' && spec.style !== 'semaphore') {
    throw new RangeError(`closed loop: style is ${String(spec.style)}; one of workers, semaphore`);
  }
  if (spec.think !== 'constant' && spec.think !== 'exponential') {
    throw new RangeError(`closed loop: think is ${String(spec.think)}; one of constant, exponential`);
  }
  for (const { seconds, inFlight } of spec.phases ?? []) {
    if (!(seconds > 0 && Number.isFinite(seconds) && Number.isInteger(inFlight) && inFlight >= 0)) {
      throw new RangeError(
        `closed loop: a phase of ${seconds} s with ${inFlight} in flight; must last longer than 0 s with a whole number, 0 or more`,
      );
    }
  }
  const limit = spec.phases?.[0]?.inFlight ?? spec.inFlight;
  return { spec: { ...spec }, limit, phase: 0, losing: 0, offered: 0, inFlight: 0, finished: 0, refused: 0, waiting: [], head: 0 };
}

/** Whether requests come as places get free, rather than at their arrival times. */
export function pullsRequests({ style, backlog }: Pick<ClosedLoopSpec, 'style' | 'backlog'>): boolean {
  return style === 'workers' || backlog === true;
}

/** Begins the next phase; returns how many requests start now. Places that were lost come back with it. */
export function nextPhase(loop: ClosedLoop): number {
  loop.phase++;
  loop.limit = loop.spec.phases?.[loop.phase]?.inFlight ?? 0;
  loop.losing = 0;
  loop.inFlight = 0;
  return loop.limit;
}

/** Loses permits, as a client does that cancels tasks without giving theirs back: the next `count` that end free none. */
export function losePermits(loop: ClosedLoop, count: number): void {
  loop.losing += count;
}

/** Think time in ns; one draw, also when it is constant. */
export function thinkNs(spec: Pick<ClosedLoopSpec, 'meanThinkMs' | 'think'>, uniform: Uniform): number {
  const probability = uniform();
  return Math.round(spec.meanThinkMs * 1e6 * (spec.think === 'exponential' ? exponentialQuantile(probability) : 1));
}

/** The number of the request a free place sends now, or -1 when all have been sent. */
export function takeRequest(loop: ClosedLoop): number {
  requirePull(loop);
  if (loop.offered >= loop.spec.requests) return -1;
  if (loop.inFlight >= loop.limit) throw new Error(`closed loop: ${loop.inFlight} requests in flight already, as many as places`);
  loop.inFlight++;
  return loop.offered++;
}

/** A request of a phase ended; true when its place is free, to think and then call `takeRequest`. */
export function finishRequest(loop: ClosedLoop, phase = loop.phase): boolean {
  requirePull(loop);
  if (phase !== loop.phase) {
    loop.finished++;
    return false;
  }
  endOne(loop);
  if (loop.losing === 0) return true;
  loop.losing--;
  loop.limit--;
  return false;
}

/** Semaphore: a task asks for a permit. */
export function offerTask(loop: ClosedLoop, request: number): 'start' | 'wait' | 'refused' {
  requireStyle(loop, 'semaphore');
  if (loop.offered >= loop.spec.requests) throw new Error(`closed loop: task ${request} offered after all ${loop.spec.requests}`);
  loop.offered++;
  if (loop.inFlight < loop.limit) {
    loop.inFlight++;
    return 'start';
  }
  if (loop.waiting.length - loop.head >= loop.spec.taskLimit) {
    loop.refused++;
    return 'refused';
  }
  loop.waiting.push(request);
  return 'wait';
}

/** Semaphore: a task ended; returns the task that starts in its place now, or -1. */
export function finishTask(loop: ClosedLoop): number {
  requireStyle(loop, 'semaphore');
  endOne(loop);
  if (loop.losing > 0) {
    loop.losing--;
    loop.limit--;
    return -1;
  }
  if (loop.head === loop.waiting.length) return -1;
  const request = loop.waiting[loop.head++]!;
  if (loop.head >= COMPACT_ENTRIES && loop.head * 2 >= loop.waiting.length) {
    loop.waiting = loop.waiting.slice(loop.head);
    loop.head = 0;
  }
  loop.inFlight++;
  return request;
}

function endOne(loop: ClosedLoop): void {
  if (loop.inFlight === 0) throw new Error('closed loop: a request ended, but none is in flight');
  loop.inFlight--;
  loop.finished++;
}

function requirePull(loop: ClosedLoop): void {
  if (!pullsRequests(loop.spec)) throw new Error('closed loop: called as workers, but its style is semaphore');
}

function requireStyle(loop: ClosedLoop, style: ClosedLoopSpec['style']): void {
  if (loop.spec.style !== style || pullsRequests(loop.spec)) {
    throw new Error(
      `closed loop: called as ${style}, but its style is ${loop.spec.style}${loop.spec.backlog === true ? ' with a backlog' : ''}`,
    );
  }
}
