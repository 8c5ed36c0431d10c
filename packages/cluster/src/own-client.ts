import { type BoundPolicy, type ClientPolicy, policyFailure, policyState, thrownFault } from '@braess/control';
import type { ClientDriver } from '@braess/workload';

/** A client policy as what drives the client actor; what it throws names its file. */
export function clientDriver(bound: BoundPolicy<ClientPolicy>): ClientDriver {
  const { policy, parameters } = bound;
  const guard = (asked: string, call: () => void): void => {
    try {
      call();
    } catch (thrown) {
      throw policyFailure(bound, asked, thrownFault(thrown), thrown);
    }
  };
  return {
    createState: (requests) => policyState(bound, requests),
    start: (view, actions, state, random) => guard('to start', () => policy.start(view, actions, parameters, state, random)),
    settled: (view, request, ended, actions, state, random) =>
      guard(`after request ${request}`, () => policy.settled?.(view, request, ended, actions, parameters, state, random)),
    woken: (view, actions, state, random) => guard('as it woke', () => policy.woken?.(view, actions, parameters, state, random)),
  };
}
