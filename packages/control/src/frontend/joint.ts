import { REASON } from '@braess/protocol';
import { type BoundPolicy, policyFailure } from '../policy/policy.js';
import type { RouterPolicy } from '../policy/router-policy.js';
import { assignLeastCost } from '../router/decode/assignment.js';
import { isRecorded, recordDecision } from './decisions.js';
import { armDecode, dispatchDecode, drainQueues, rejectPlaced } from './placement.js';
import { ask, engineMoves, noEngine, present } from './routing.js';
import type { FrontendContext, FrontendDesk, FrontendState } from './state.js';
import { putBack, takeFirst, type Waiting, type WaitingQueue } from './waiting-queue.js';

type Ties = 'random' | 'least-loaded' | 'first';

/** Stands for an engine that a request may not go to; far above any sum of seconds, far below what additions lose. */
const forbidden = 1e12;
/** Stands for a cost beyond it: thirty years. */
const worst = 1e9;

/** The decodes that wait are decided on: one after the other, or those of a joint policy together. */
export function decideWaiting(desk: FrontendDesk, state: FrontendState, context: FrontendContext): void {
  state.decodeArmed = false;
  const { policy, parameters } = desk.settings.decodeRouter;
  if (policy.joint === undefined) {
    drainQueues(desk, state, context);
    armDecode(desk, state, context);
    return;
  }
  const { together, ties = 'random' } = policy.joint(state.decodeParameters ?? parameters);
  for (const queue of [state.decodeQueue, state.longQueue]) {
    // Whoever found no room is looked at again when something ends.
    while (assignWaiting(desk, state, context, queue, together, ties));
    queue.gathered = 0;
  }
}

/** Assigns up to so many of a queue with the least sum of costs. An engine takes as many as an even share, and one more only when there are more requests. True when some were beyond the number and room may be left. */
function assignWaiting(
  desk: FrontendDesk,
  state: FrontendState,
  context: FrontendContext,
  queue: WaitingQueue,
  together: number,
  ties: Ties,
): boolean {
  const engines = state.engines.count;
  const { heapPlace } = state.slots;
  const asked: Waiting[] = [];
  const rows: Float64Array[] = [];
  const left: Waiting[] = [];
  while (asked.length < together) {
    const waiting = takeFirst(queue, heapPlace);
    if (waiting === undefined) break;
    const { slot } = waiting;
    const found = present(desk, state, context, slot, true);
    if (found === noEngine && !engineMoves(state)) rejectPlaced(desk, state, context, slot, REASON.noWorker);
    else if (found <= 0) left.push(waiting);
    else {
      const { bound, engine } = ask(desk, state, true);
      if (engine < 0) left.push(waiting);
      else {
        asked.push(waiting);
        rows.push(costRow(desk, engines, bound));
      }
    }
  }
  const shares = Math.max(1, Math.ceil(asked.length / Math.max(1, state.decodeCount)));
  const more = asked.length === together && queue.count > 0;
  const chosen = rows.length === 0 ? [] : solve(rows, enginesInOrder(desk, state, ties), shares);
  let placed = 0;
  for (const [row, waiting] of asked.entries()) {
    if (place(desk, state, context, waiting.slot, chosen[row]!, rows[row]!)) placed++;
    else left.push(waiting);
  }
  for (const waiting of left) putBack(queue, heapPlace, waiting);
  return more && placed > 0;
}

/** @throws KernelError `handler-failed` naming the policy where a candidate has no score. */
function costRow({ view, request }: FrontendDesk, engines: number, bound: BoundPolicy<RouterPolicy>): Float64Array {
  const row = new Float64Array(engines).fill(forbidden);
  for (let place = 0; place < view.count; place++) {
    const engine = view.candidates[place]!;
    const score = view.scores[engine]!;
    if (Number.isNaN(score)) {
      const fault = `left the score of engine ${engine} (${view.engines.names[engine]}) NaN; what is decided together needs a cost of every candidate`;
      throw policyFailure(bound, `for the decode engine of request ${request.request}`, fault);
    }
    row[engine] = Math.max(-worst, Math.min(worst, score));
  }
  return row;
}

/** Of several assignments with the least sum the solver takes the first engines, so their order is the rule for ties. */
function enginesInOrder({ random }: FrontendDesk, { engines }: FrontendState, ties: Ties): Int32Array {
  const order = Int32Array.from({ length: engines.count }, (_, engine) => engine);
  if (ties === 'least-loaded') return order.sort((a, b) => engines.activeRequests[a]! - engines.activeRequests[b]! || a - b);
  for (let last = order.length - 1; ties === 'random' && last > 0; last--) {
    const other = Math.floor(random.decodeRouter() * (last + 1));
    const engine = order[other]!;
    order[other] = order[last]!;
    order[last] = engine;
  }
  return order;
}

/** Engine of each row; -1 where all it may go to are taken. */
function solve(rows: readonly Float64Array[], order: Int32Array, shares: number): number[] {
  const engines = order.length;
  const columns = Math.max(engines * shares, rows.length);
  const costs = new Float64Array(rows.length * columns).fill(forbidden);
  for (const [index, row] of rows.entries())
    for (let column = 0; column < engines * shares; column++) costs[index * columns + column] = row[order[column % engines]!]!;
  return Array.from(assignLeastCost(costs, rows.length, columns), (column, row) =>
    costs[row * columns + column]! >= forbidden ? -1 : order[column % engines]!,
  );
}

/** Room may have gone to those before: the engine must still be a candidate. False where it is none. */
function place(
  desk: FrontendDesk,
  state: FrontendState,
  context: FrontendContext,
  slot: number,
  engine: number,
  costs: Float64Array,
): boolean {
  const count = engine < 0 ? 0 : present(desk, state, context, slot, true);
  const { view, settings, request } = desk;
  let open = false;
  for (let at = 0; at < count; at++) if (view.candidates[at] === engine) open = true;
  if (!open) return false;
  view.scores.set(costs);
  if (isRecorded(settings, request.request)) recordDecision(desk, state, context, engine, settings.decodeRouter.policy.name);
  dispatchDecode(desk, state, context, slot, engine);
  return true;
}
