import type { Uniform } from './distributions.js';

/**
 * Who gets a connection that is given back.
 * - `fifo`, `lifo`, `random`: one of those who wait, in this order.
 * - `barge`: with probability `bargeShare` nobody who waits: it stays free for whoever asks next at this moment, as a worker loop does that sends its
 *   next request right away; else the first in the queue.
 * - `aiohttp`: the rule of aiohttp's connector (connector.py). Connections given back within one tick of the event loop are free at once, and each wakes
 *   the first who waits. The loop then runs in turn the task that gave one back and the waiter it woke: a task that asks while a connection is free takes
 *   it, one that finds none goes to the end of the queue, and a woken waiter that finds none goes back to the front.
 */
export type PoolOrder = 'fifo' | 'lifo' | 'random' | 'barge' | 'aiohttp';

/** Connections of a client, and who gets one that is given back. */
export interface ConnectionPoolSpec {
  connections: number;
  order: PoolOrder;
  /** Under `barge`: probability, 0 to 1, that the next to ask is served before those who wait. */
  bargeShare?: number;
  /** Under `aiohttp`: connections given back within this time of the first are of one tick; 0: those of one instant. */
  tickUs?: number;
  /** Requests that may wait; more are refused. */
  queueLimit: number;
}

/** A client's connections; plain data. Requests are numbers, 0 or more, each at most once in the pool. */
export interface ConnectionPool {
  spec: ConnectionPoolSpec;
  inUse: number;
  /** Waiting requests in order of arrival from `head`; -1 where one was cancelled. Under `random` dense, in no order. */
  waiting: number[];
  head: number;
  /** Where each waiting request stands in `waiting`. */
  places: Map<number, number>;
}

const poolOrders: readonly PoolOrder[] = ['fifo', 'lifo', 'random', 'barge', 'aiohttp'];

/** Cancelled entries are swept out when they outnumber the live ones and are at least this many. */
const SWEEP_ENTRIES = 64;

export function createConnectionPool(spec: ConnectionPoolSpec): ConnectionPool {
  if (!(Number.isInteger(spec.connections) && spec.connections >= 1)) {
    throw new RangeError(`connection pool: connections is ${spec.connections}; must be a whole number, 1 or more`);
  }
  if (!(Number.isInteger(spec.queueLimit) && spec.queueLimit >= 0)) {
    throw new RangeError(`connection pool: queueLimit is ${spec.queueLimit}; must be a whole number, 0 or more`);
  }
  if (!poolOrders.includes(spec.order)) {
    throw new RangeError(`connection pool: order is ${String(spec.order)}; one of ${poolOrders.join(', ')}`);
  }
  const { bargeShare = 0, tickUs = 0 } = spec;
  if (!(bargeShare >= 0 && bargeShare <= 1)) throw new RangeError(`connection pool: bargeShare is ${bargeShare}; must be from 0 to 1`);
  if (!(tickUs >= 0 && Number.isFinite(tickUs))) throw new RangeError(`connection pool: tickUs is ${tickUs}; must be 0 or more`);
  return { spec: { ...spec }, inUse: 0, waiting: [], head: 0, places: new Map() };
}

/** Asks for a connection: taken at once, queued, or refused because the queue is full. */
export function acquireConnection(pool: ConnectionPool, request: number): 'connected' | 'queued' | 'refused' {
  if (pool.inUse < pool.spec.connections) {
    pool.inUse++;
    return 'connected';
  }
  if (pool.places.size >= pool.spec.queueLimit) return 'refused';
  if (pool.places.has(request)) throw new Error(`connection pool: request ${request} already waits; ask once a request`);
  pool.places.set(request, pool.waiting.length);
  pool.waiting.push(request);
  return 'queued';
}

/** Gives a connection back; returns the waiting request that gets it, or -1. `random` and `barge` take one draw when requests wait. */
export function releaseConnection(pool: ConnectionPool, uniform: Uniform): number {
  freeConnection(pool);
  if (pool.spec.order === 'barge' && pool.places.size > 0 && uniform() < (pool.spec.bargeShare ?? 0)) return -1;
  return connectWaiting(pool, uniform);
}

/** Gives a connection back that nobody gets yet. */
export function freeConnection(pool: ConnectionPool): void {
  if (pool.inUse === 0) throw new Error('connection pool: released a connection, but none is in use');
  pool.inUse--;
}

/** The waiting request that gets a free connection now, or -1 when none is free or nobody waits. */
export function connectWaiting(pool: ConnectionPool, uniform: Uniform): number {
  if (pool.inUse >= pool.spec.connections) return -1;
  const request = takeWaiting(pool, uniform);
  if (request >= 0) pool.inUse++;
  return request;
}

/** Takes the next waiting request out of the queue without a connection: it is awake. -1 when nobody waits. */
export function takeWaiting(pool: ConnectionPool, uniform: Uniform): number {
  if (pool.places.size === 0) {
    pool.waiting.length = 0;
    pool.head = 0;
    return -1;
  }
  const { order } = pool.spec;
  const request = order === 'lifo' ? takeLast(pool) : order === 'random' ? takeAny(pool, uniform) : takeFirst(pool);
  pool.places.delete(request);
  sweep(pool);
  return request;
}

/** A woken request found no connection: back to the front of the queue. */
export function returnToFront(pool: ConnectionPool, request: number): void {
  if (pool.head === 0) {
    pool.waiting.unshift(request);
    for (const [index, waiting] of pool.waiting.entries()) if (waiting >= 0) pool.places.set(waiting, index);
    return;
  }
  pool.waiting[--pool.head] = request;
  pool.places.set(request, pool.head);
}

/** Takes a request out of the queue (timeout, cancel); false when it does not wait. */
export function cancelWaiting(pool: ConnectionPool, request: number): boolean {
  const place = pool.places.get(request);
  if (place === undefined) return false;
  pool.places.delete(request);
  if (pool.spec.order === 'random') closeGap(pool, place);
  else pool.waiting[place] = -1;
  sweep(pool);
  return true;
}

/** How many requests wait. */
export function waitingRequests(pool: ConnectionPool): number {
  return pool.places.size;
}

function takeFirst(pool: ConnectionPool): number {
  while (pool.waiting[pool.head] === -1) pool.head++;
  return pool.waiting[pool.head++]!;
}

function takeLast(pool: ConnectionPool): number {
  while (pool.waiting.at(-1) === -1) pool.waiting.pop();
  return pool.waiting.pop()!;
}

function takeAny(pool: ConnectionPool, uniform: Uniform): number {
  const place = Math.floor(uniform() * pool.waiting.length);
  const request = pool.waiting[place]!;
  closeGap(pool, place);
  return request;
}

/** Fills a place with the last entry. */
function closeGap(pool: ConnectionPool, place: number): void {
  const last = pool.waiting.pop()!;
  if (place === pool.waiting.length) return;
  pool.waiting[place] = last;
  pool.places.set(last, place);
}

/** Drops consumed and cancelled entries once they are the larger part, so each costs constant time on average. */
function sweep(pool: ConnectionPool): void {
  const dead = pool.waiting.length - pool.places.size;
  if (dead < SWEEP_ENTRIES || dead < pool.places.size) return;
  const live: number[] = [];
  for (let index = pool.head; index < pool.waiting.length; index++) {
    const request = pool.waiting[index]!;
    if (request === -1) continue;
    pool.places.set(request, live.length);
    live.push(request);
  }
  pool.waiting = live;
  pool.head = 0;
}
