import {
  type BoundPolicy,
  builtInSource,
  type ClientPolicy,
  type ClientView,
  callPolicy,
  policyState,
  RowWatch,
  ViewWatch,
  type Watch,
} from '@braess/control';
import type { ClientDriver } from '@braess/workload';

/** A client policy as what drives the client actor; what it throws names its file, and so does a write to what it only reads. */
export function clientDriver(bound: BoundPolicy<ClientPolicy>): ClientDriver {
  const { policy, parameters } = bound;
  const guard = (asked: string, call: () => void, watch?: Watch): void => callPolicy(bound, () => asked, call, watch);
  const own = bound.source !== builtInSource;
  return {
    createState: (requests) => policyState(bound, requests),
    start: (view, actions, state, random) =>
      guard('to start', () => policy.start(view, actions, parameters, state, random), own ? new ViewWatch({ view }) : undefined),
    settled: (view, request, ended, actions, state, random) =>
      guard(
        `after request ${request}`,
        () => policy.settled?.(view, request, ended, actions, parameters, state, random),
        own ? new RowWatch(columnsOf(view), request) : undefined,
      ),
    woken: (view, actions, state, random) => guard('as it woke', () => policy.woken?.(view, actions, parameters, state, random)),
  };
}

function columnsOf({ arrivalNs, inputTokens, tenant }: ClientView): ConstructorParameters<typeof RowWatch>[0] {
  return { arrivalNs, inputTokens, tenant };
}
