import type { MeasureListener } from '@braess/protocol';
import type { ClientDriver } from './client-driver.js';
import { type ClosedLoopSpec, createClosedLoop, pullsRequests } from './closed-loop.js';
import { type ConnectionPoolSpec, createConnectionPool } from './connection-pool.js';
import { hasDelays, type RequestTable } from './requests.js';
import { checkRetry, type RetrySpec } from './retry.js';

/**
 * How requests come: `open` at their arrival times; `workers` as workers get free (arrival times are ignored); `semaphore` at their arrival
 * times, each a task that waits for a permit.
 */
export type ClientLoop = { readonly style: 'open' } | Omit<ClosedLoopSpec, 'requests'>;

/** From this moment on a client sends what is new to one frontend, as when a load generator is pointed at another port. */
export interface ClientMove {
  readonly atSeconds: number;
  /** Number of the frontend. */
  readonly frontend: number;
}

/** What a session does between an answer and its next turn. */
export interface SessionTurns {
  /**
   * `arrival`: as its row says, a delay after the answer, or at its arrival time, or at the answer's when that is later; `think`: a think time
   * after the answer.
   */
  readonly next: 'arrival' | 'think';
  readonly meanThinkMs: number;
  readonly think: 'constant' | 'exponential';
  /** What becomes of the later turns when one does not complete; abandoned turns are counted, never submitted. */
  readonly afterFailure: 'continue' | 'abandon';
}

/** What all client actors of a run share: constants, known to every thread, no part of any state. */
export interface ClientOptions {
  readonly table: RequestTable;
  /** Tokens of an engine block; must divide, or be divided by, the table's own block size. */
  readonly blockTokens: number;
  /** Delay of every message to a frontend. */
  readonly submitDelayNs: number;
  /** Client actors of this run (default 1); requests are dealt to them, whole sessions together. */
  readonly clients?: number;
  readonly loop?: ClientLoop;
  readonly connections?: ConnectionPoolSpec;
  /** In order of time. */
  readonly moves?: readonly ClientMove[];
  /** Permits lost at each move to another frontend, by plan or by a controller (closed loops; default 0). */
  readonly permitsLostByMove?: number;
  /** A client notices the end of an answer up to this much later, uniformly: its sockets are read one after the other. Default 0. */
  readonly answerJitterUs?: number;
  /** Hears how requests end, in batches: the price-of-anarchy actor. */
  readonly listener?: MeasureListener;
  readonly retry?: RetrySpec;
  /** A client policy decides when requests are sent; instead of a loop, and only with one client. */
  readonly driver?: ClientDriver;
  /** A controller scrapes the clients' TTFT: frontends then tell them when answers begin. */
  readonly measuresTtft?: boolean;
  /** Later turns wait for the answer before; absent: only those that have a delay in the table. */
  readonly sessions?: SessionTurns;
  /** Priority of each tenant by its number (default 0), larger is more urgent. */
  readonly priorities?: ArrayLike<number>;
  /** Frontend of a request: the client's own (by client number), in turn, or by hash of session (or request). Default `own`. */
  readonly frontendBy?: 'own' | 'turn' | 'hash';
  /** Where the run is cut: 1 ns before, requests under way at a client with features are recorded (`clientInFlight`). Default: it ends by itself. */
  readonly endNs?: number;
  /** Cell classes of the frontends. When given, open-loop clients promise them silence up to the next arrival. */
  readonly promiseTo?: readonly string[];
}

/** Checks the options. Throws a RangeError that names field, value and limit. */
export function checkClientOptions(options: ClientOptions): void {
  const { submitDelayNs, priorities, table } = options;
  requireWhole('submitDelayNs', submitDelayNs, 0);
  checkClientBehaviour(options);
  const { driver, sessions, loop = { style: 'open' }, clients = 1 } = options;
  if (driver !== undefined && (sessions !== undefined || clients !== 1 || loop.style !== 'open'))
    throw new RangeError('client policy: it decides when each request is sent; leave out sessions and closed loops, and use one client');
  if (hasDelays(table) && (driver !== undefined || (loop.style !== 'open' && pullsRequests(loop))))
    throw new RangeError(
      'client: it takes requests in an order of its own, and some of them come a delay after an answer; use an open loop, or a semaphore without a backlog',
    );
  if (priorities !== undefined && priorities.length < table.tenantNames.length) {
    throw new RangeError(`client priorities: ${priorities.length} for ${table.tenantNames.length} tenants; give one for each`);
  }
}

/** What of the options says how a client behaves, whatever its requests are. */
export type ClientBehaviour = Pick<
  ClientOptions,
  'clients' | 'loop' | 'connections' | 'moves' | 'permitsLostByMove' | 'retry' | 'sessions'
>;

/** Checks that part of the options. Throws as `checkClientOptions` does. */
export function checkClientBehaviour(options: ClientBehaviour): void {
  const { clients = 1, loop = { style: 'open' }, retry, connections } = options;
  requireWhole('clients', clients, 1);
  if (retry !== undefined) checkRetry(retry);
  if (connections !== undefined) createConnectionPool(connections);
  if (loop.style !== 'open') createClosedLoop({ ...loop, requests: 0 });
  if (loop.style !== 'open' && loop.inFlight < clients) {
    throw new RangeError(`client loop: inFlight is ${loop.inFlight} for ${clients} clients; give each at least one, or use fewer clients`);
  }
  if (loop.style !== 'open' && pullsRequests(loop) && options.sessions !== undefined) {
    throw new RangeError(
      'client loop: workers take requests in order, so sessions cannot wait for answers; use open or semaphore without a backlog',
    );
  }
  if (loop.style === 'semaphore' && loop.backlog !== true && loop.phases !== undefined) {
    throw new RangeError('client loop: phases need workers, or a semaphore with a backlog');
  }
  if (loop.style !== 'open' && clients > 1 && loop.phases?.some(({ inFlight }) => inFlight > 0 && inFlight < clients) === true) {
    throw new RangeError(
      `client loop: a phase has fewer in flight than the ${clients} clients; give each at least one, or use fewer clients`,
    );
  }
  const { sessions } = options;
  if (sessions !== undefined && !(sessions.meanThinkMs >= 0 && Number.isFinite(sessions.meanThinkMs))) {
    throw new RangeError(`client sessions: meanThinkMs is ${sessions.meanThinkMs}; must be 0 or more`);
  }
}

function requireWhole(name: string, value: number, least: number): void {
  if (!(Number.isSafeInteger(value) && value >= least)) {
    throw new RangeError(`client ${name} is ${value}; must be a whole number, ${least} or more`);
  }
}

/** What of the options makes a client answer for its requests; who listens and who drives matters not. */
type Features = Pick<ClientOptions, 'loop' | 'connections' | 'retry' | 'sessions' | 'moves' | 'measuresTtft'> & {
  readonly listener?: unknown;
  readonly driver?: unknown;
  /** Some rows come a delay after an answer (`hasDelays`). */
  readonly delays?: boolean;
};

/** True when nothing but the arrival times matters: such a client keeps counts only, and frontends tell how requests ended. */
export function isPlainOpenLoop(options: Features): boolean {
  const { loop, connections, retry, sessions, moves, listener, driver, delays, measuresTtft } = options;
  const isOpen = loop === undefined || loop.style === 'open';
  const bare = connections === undefined && retry === undefined && sessions === undefined && (moves ?? []).length === 0;
  return isOpen && bare && listener === undefined && driver === undefined && delays !== true && measuresTtft !== true;
}
