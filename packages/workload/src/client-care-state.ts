import type { Context, TimerId } from '@braess/kernel';
import type { ClientCounts } from './client-counts.js';
import type { DriverState } from './client-driver.js';
import type { OutcomeGathering } from './client-report.js';
import type { FrontendChoice } from './client-submit.js';
import type { ClientTtft } from './client-ttft.js';
import type { ClosedLoop } from './closed-loop.js';
import type { ConnectionPool } from './connection-pool.js';

/** What a request under way is doing. */
export const phase = { thinking: 0, awaitingPermit: 1, awaitingConnection: 2, sent: 3, pausing: 4, closing: 5 } as const;

/** A request under way at its client. */
export interface ActiveRequest {
  phase: number;
  attempt: number;
  cameNs: number;
  /** When its first attempt began: with a permit, but perhaps without a connection yet; -1 before. */
  beganNs: number;
  /** When it was first sent, -1 before. */
  sentNs: number;
  frontend: number;
  /** Phase of the closed loop whose place it holds, -1 for none. */
  permit: number;
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
  /** Connections freed in the present tick of the event loop (pool order aiohttp): 1 where the task that freed it goes on to its next request. */
  tick: number[];
  /** Place in `tick` of the connection that the present event freed, -1 for none. */
  tickPlace: number;
  /** What the price-of-anarchy actor has not been told yet; null where there is none. */
  readonly outcomes: OutcomeGathering | null;
  /** Null where nobody scrapes it. */
  readonly ttft: ClientTtft | null;
  /** Null without a client policy. */
  readonly driver: DriverState | null;
  /** Goes off where the run is cut, while requests are under way; -1 for none. */
  cutTimer: TimerId;
}

type Streams = 'thinks' | 'backoffs' | 'connections' | 'answers' | 'policy';
/** Context of the client that cares for its requests, with its random streams. */
export type CareContext = Context<Streams>;
