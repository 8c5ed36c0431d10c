import type { FrontendState } from './state.js';

/**
 * Decisions of a counterfactual fork: the next placements on engines that generate tokens go where `engines` says (numbers; -1: where the policy
 * says). The policy is asked all the same, so its random numbers and state stay in step with the run that is not steered. Plain data.
 */
export interface Steering {
  readonly engines: number[];
  next: number;
  /** Requests placed so far, and where. */
  readonly requests: number[];
  readonly chosen: number[];
}

/** Steers the next placements of a frontend; give the state of a fork, never that of a run that goes on. */
export function steerFrontend(state: FrontendState, engines: readonly number[]): Steering {
  state.steering = { engines: [...engines], next: 0, requests: [], chosen: [] };
  return state.steering;
}

/** The engine of a placement: the policy's, or the one it is steered to where that is a candidate. */
export function steered(state: FrontendState, request: number, engine: number, candidates: ArrayLike<number>, count: number): number {
  const { steering } = state;
  if (steering === null || steering.next >= steering.engines.length) return engine;
  const wanted = steering.engines[steering.next++]!;
  let chosen = engine;
  for (let place = 0; place < count; place++) if (candidates[place] === wanted) chosen = wanted;
  steering.requests.push(request);
  steering.chosen.push(chosen);
  return chosen;
}
