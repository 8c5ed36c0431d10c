import { body, message } from '@braess/kernel';

/** Assignments to decode (or aggregated) workers since the last message, in order: `change` 1 joins the worker, -1 leaves it. */
export interface AssignmentColumns {
  readonly request: Float64Array;
  /** Actor id of the worker. */
  readonly worker: Int32Array;
  readonly change: Int8Array;
}

/** frontend -> price-of-anarchy actor: the event stream of the router, gathered until the listener's next moment. */
export const assignments = message('assignments', ['events'], body<AssignmentColumns>());

/** Requests that ended since the last message, as their client saw them; -1 where there was no token (or only one). */
export interface OutcomeColumns {
  readonly cameNs: Float64Array;
  readonly endNs: Float64Array;
  readonly ttftNs: Float64Array;
  /** Mean time between two output tokens. */
  readonly itlNs: Float64Array;
}

/** client -> price-of-anarchy actor, at the listener's moments: requests in flight now, those that wait in the client included. */
export const clientOutcomes = message('clientOutcomes', ['inFlight'], body<OutcomeColumns>());

/** Who hears of assignments or outcomes, how often and how late. */
export interface MeasureListener {
  readonly actor: { readonly id: number };
  readonly periodNs: number;
  readonly delayNs: number;
}

/** Moments lie off the whole seconds at which load tests change and bursts start: this share of a period behind each multiple. */
const momentShare = 0.381966;

/** Time until the next moment of a period, at least 1 ns. */
export function untilMomentNs(nowNs: number, periodNs: number): number {
  const offsetNs = Math.floor(periodNs * momentShare);
  return Math.floor((nowNs - offsetNs) / periodNs + 1) * periodNs + offsetNs - nowNs;
}
