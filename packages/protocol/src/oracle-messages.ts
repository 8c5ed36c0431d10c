import { body, message } from '@braess/kernel';

/** What an oracle knows, as its policy publishes it; plain data. */
export interface OracleKnowledge {
  readonly knowledge: unknown;
}

/** oracle -> frontend: answer by this from now on. It was true at `madeAtNs`, as far as the oracle could tell. */
export const oracleKnowledge = message('oracleKnowledge', ['madeAtNs'], body<OracleKnowledge>());

/** frontend -> oracle: it has requests in flight (1), or none any more (0). An oracle that nobody needs rests, so that a run can end. */
export const oracleWatch = message('oracleWatch', ['busy']);

/** oracle -> prober: move `forthBytes` from one node to another and, if above 0, `backBytes` back. */
export const probeOrder = message('probeOrder', ['probe', 'source', 'destination', 'forthBytes', 'backBytes']);

/** prober -> oracle: the time each way took, ns, from the start of the transfer to its last byte; `status` as of `transferEnded`. */
export const probeEnded = message('probeEnded', ['probe', 'status', 'forthNs', 'backNs']);
