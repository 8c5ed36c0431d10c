import { body, message } from '@braess/kernel';

/** Assignments to decode (or aggregated) workers since the last message, in order of time: `change` 1 joins the worker, -1 leaves it. */
export interface AssignmentColumns {
  readonly atNs: Float64Array;
  /** Actor id of the worker. */
  readonly worker: Int32Array;
  readonly change: Int8Array;
}

/** frontend -> price-of-anarchy actor: the event stream of the router, gathered until a whole multiple of the listener's period. */
export const assignments = message('assignments', ['events'], body<AssignmentColumns>());

/** Requests that ended since the last message, as their client saw them; -1 where there was no token (or only one). */
export interface OutcomeColumns {
  readonly cameNs: Float64Array;
  readonly endNs: Float64Array;
  readonly ttftNs: Float64Array;
  /** Mean time between two output tokens. */
  readonly itlNs: Float64Array;
}

/** client -> price-of-anarchy actor, at whole multiples of the listener's period: requests in flight now, those that wait in the client included. */
export const clientOutcomes = message('clientOutcomes', ['inFlight'], body<OutcomeColumns>());
