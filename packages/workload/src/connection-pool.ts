import type { Uniform } from './distributions.js';

/** In which order waiting requests get a connection. */
export type PoolOrder = 'fifo' | 'lifo' | 'random';

export interface ConnectionPoolSpec {
  connections: number;
  order: PoolOrder;
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

/** Cancelled entries are swept out when they outnumber the live ones and are at least this many. */
const SWEEP_ENTRIES = 64;

export function createConnectionPool(spec: ConnectionPoolSpec): ConnectionPool {
  if (!(Number.isInteger(spec.connections) && spec.connections >= 1)) {
    throw new RangeError(`connection pool: connections is ${spec.connections}; must be a whole number, 1 or more`);
  }
  if (!(Number.isInteger(spec.queueLimit) && spec.queueLimit >= 0)) {
    throw new RangeError(`connection pool: queueLimit is ${spec.queueLimit}; must be a whole number, 0 or more`);
  }
  if (spec.order !== 'fifo' && spec.order !== 'lifo' && spec.order !== 'random') {
    throw new RangeError(`connection pool: order is ${String(spec.order)}; one of fifo, lifo, random`);
  }
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

/** Gives a connection back; returns the waiting request that gets it, or -1. `random` takes one draw when requests wait. */
export function releaseConnection(pool: ConnectionPool, uniform: Uniform): number {
  if (pool.inUse === 0) throw new Error('connection pool: released a connection, but none is in use');
  if (pool.places.size === 0) {
    pool.inUse--;
    pool.waiting.length = 0;
    pool.head = 0;
    return -1;
  }
  const request = pool.spec.order === 'fifo' ? takeFirst(pool) : pool.spec.order === 'lifo' ? takeLast(pool) : takeAny(pool, uniform);
  pool.places.delete(request);
  sweep(pool);
  return request;
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
