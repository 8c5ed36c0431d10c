import { type BoundPolicy, policyFailure, type Random, thrownFault } from '../policy/policy.js';
import {
  type RouterPolicy,
  type RouterRequest,
  type RouterView,
  routerStage,
  routerStageNames,
  waitForRoom,
} from '../policy/router-policy.js';
import { isWatched, ViewWatch } from '../policy/untouched.js';
import { lowestScore } from './choice.js';

/**
 * Asks a router policy for an engine and checks the answer.
 * @throws KernelError `handler-failed` naming policy, file and request when it throws, or names no candidate, or a cost is NaN.
 */
export function chooseEngine(
  bound: BoundPolicy<RouterPolicy>,
  view: RouterView,
  request: RouterRequest,
  state: unknown,
  random: Random,
  parameters: unknown = bound.parameters,
): number {
  const watch = isWatched(bound, request.request) ? new ViewWatch({ view, request }, ['view.scores']) : undefined;
  let chosen: number;
  try {
    chosen =
      bound.policy.choose === undefined
        ? cheapest(bound.policy, view, request, state, random, parameters)
        : bound.policy.choose(view, request, parameters, state, random);
  } catch (thrown) {
    throw policyFailure(bound, asked(view, request), thrownFault(thrown), thrown);
  }
  const written = watch?.written();
  if (written !== undefined) throw policyFailure(bound, asked(view, request), written);
  if (chosen === waitForRoom && bound.policy.waits === true && view.stage === routerStage.decode) return waitForRoom;
  if (!isCandidate(view, chosen)) {
    const list = Array.from({ length: Math.min(view.count, 16) }, (_, place) => view.candidates[place]).join(', ');
    const fault = `returned ${String(chosen)}, which is no candidate; return one of view.candidates (${list}${view.count > 16 ? ', ...' : ''})`;
    throw policyFailure(bound, asked(view, request), fault);
  }
  return chosen;
}

function cheapest(
  policy: RouterPolicy,
  view: RouterView,
  request: RouterRequest,
  state: unknown,
  random: Random,
  parameters: unknown,
): number {
  const { candidates, count, scores } = view;
  for (let place = 0; place < count; place++) {
    const engine = candidates[place]!;
    const cost = policy.cost?.(view, engine, request, parameters, state) as number;
    if (!(Math.abs(cost) < Number.POSITIVE_INFINITY))
      throw new RangeError(`cost of engine ${engine} (${view.engines.names[engine]}) is ${String(cost)}; it must be a finite number`);
    scores[engine] = cost;
  }
  return lowestScore(view, random);
}

/** Candidates ascend, so a few comparisons tell. */
function isCandidate(view: RouterView, engine: number): boolean {
  const { candidates } = view;
  let low = 0;
  let high = view.count - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = candidates[middle]!;
    if (found === engine) return true;
    if (found < engine) low = middle + 1;
    else high = middle - 1;
  }
  return false;
}

function asked(view: RouterView, request: RouterRequest): string {
  return `for the ${routerStageNames[view.stage as 0 | 1 | 2]} engine of request ${request.request} (${request.inputTokens} input tokens, ${view.count} candidates)`;
}
