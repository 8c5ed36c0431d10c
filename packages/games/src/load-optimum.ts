import { GameInputError, requireInteger, requireLength } from './input-check.js';
import { latencySeconds, type SaturatingLatency } from './latency-model.js';

/** The cheapest joint placement when a worker's latency depends on how many are placed on it. */
export interface LoadOptimum {
  readonly workerOfPlayer: Int32Array;
  readonly playersOnWorker: Int32Array;
  /** Sum of fixed costs and of all marginal costs used, in the unit of the input. */
  readonly totalCost: number;
}

/**
 * Marginal social cost of the k-th player on each worker, in seconds: D_j(k) = F_j(k) - F_j(k - 1), with B_j requests already there and
 * F_j(k) = (B_j + k) l_j(B_j + k) when `counting` is everybody (what the newcomer inflicts on those present counts too),
 * F_j(k) = k l_j(B_j + k) when it is players only. Both are convex for the saturating model.
 * Shape: workers x players, row-major, k from 1. Infinity once the worker would pass its pole.
 */
export function marginalLatencyCosts(
  latency: readonly SaturatingLatency[],
  players: number,
  presentLoad?: Float64Array,
  counting: 'everybody' | 'players' = 'everybody',
): Float64Array {
  requireInteger('players', players, 0);
  if (presentLoad !== undefined) requireLength('presentLoad', presentLoad.length, latency.length, `${latency.length} workers`);
  const marginal = new Float64Array(latency.length * players);
  for (let worker = 0; worker < latency.length; worker++) {
    const model = latency[worker]!;
    const present = presentLoad === undefined ? 0 : presentLoad[worker]!;
    const suffering = counting === 'everybody' ? present : 0;
    let before = suffering === 0 ? 0 : suffering * latencySeconds(model, present);
    for (let count = 1; count <= players; count++) {
      const after = (suffering + count) * latencySeconds(model, present + count);
      marginal[worker * players + count - 1] = after === Number.POSITIVE_INFINITY ? after : after - before;
      before = after;
    }
  }
  return marginal;
}

/**
 * Exact optimum under load-dependent costs: min sum_i fixed[i, j(i)] + sum_j sum_{k <= n_j} marginal[j, k].
 *
 * It is a min-cost flow player -> worker -> sink whose worker arcs have convex cost, solved by successive shortest paths over the
 * workers (R. K. Ahuja, T. L. Magnanti, J. B. Orlin, "Network Flows", 1993, chapters 9 and 14). Convexity (marginals that never fall)
 * makes each step exact. About O(players x workers^2) here.
 *
 * @param marginal workers x players, row-major (see marginalLatencyCosts); Infinity closes a worker.
 * @param fixed players x workers, row-major; costs that do not depend on load, such as prefill of what is not cached; Infinity forbids.
 * @returns undefined when the closed workers and forbidden pairs leave no placement of all players.
 * @throws GameInputError when a size is wrong or a worker's marginals fall (its total cost is not convex).
 */
export function optimumUnderLoad(
  players: number,
  workers: number,
  marginal: Float64Array,
  fixed: Float64Array = new Float64Array(players * workers),
): LoadOptimum | undefined {
  requireInteger('players', players, 0);
  requireInteger('workers', workers, 1);
  requireLength('marginal', marginal.length, workers * players, `${workers} workers x ${players} players`);
  requireLength('fixed', fixed.length, workers * players, `${players} players x ${workers} workers`);
  const largest = requireConvex(marginal, workers, players);
  const flow = createFlow(players, workers, fixed, largest);
  for (let player = 0; player < players; player++) if (!place(flow, marginal, player)) return undefined;
  let totalCost = 0;
  for (let player = 0; player < players; player++) totalCost += fixed[player * workers + flow.workerOfPlayer[player]!]!;
  for (let worker = 0; worker < workers; worker++) {
    for (let count = 0; count < flow.playersOnWorker[worker]!; count++) totalCost += marginal[worker * players + count]!;
  }
  return { workerOfPlayer: flow.workerOfPlayer, playersOnWorker: flow.playersOnWorker, totalCost };
}

interface Flow {
  readonly players: number;
  readonly workers: number;
  readonly fixed: Float64Array;
  readonly workerOfPlayer: Int32Array;
  readonly playersOnWorker: Int32Array;
  /** moveCost[j, k]: the cheapest change of fixed cost when one player moves from j to k; mover[j, k] is that player. */
  readonly moveCost: Float64Array;
  readonly mover: Int32Array;
  readonly distance: Float64Array;
  readonly predecessor: Int32Array;
  /** An improvement below this is rounding noise: following it could turn for ever on a cycle of cost zero. */
  readonly tolerance: number;
}

function createFlow(players: number, workers: number, fixed: Float64Array, largestMarginal: number): Flow {
  let largest = largestMarginal;
  for (let index = 0; index < fixed.length; index++) {
    const value = fixed[index]!;
    if (!(value > Number.NEGATIVE_INFINITY)) {
      const place = `fixed[${Math.floor(index / workers)}, ${index % workers}]`;
      throw new GameInputError(`${place} is ${value}; it must be finite, or Infinity to forbid the pair`);
    }
    if (value !== Number.POSITIVE_INFINITY && Math.abs(value) > largest) largest = Math.abs(value);
  }
  return {
    players,
    workers,
    fixed,
    workerOfPlayer: new Int32Array(players).fill(-1),
    playersOnWorker: new Int32Array(workers),
    moveCost: new Float64Array(workers * workers).fill(Number.POSITIVE_INFINITY),
    mover: new Int32Array(workers * workers).fill(-1),
    distance: new Float64Array(workers),
    predecessor: new Int32Array(workers),
    tolerance: largest * 1e-13,
  };
}

/** Adds one player by the cheapest chain: it takes a worker, whose cheapest mover takes the next one, ... */
function place(flow: Flow, marginal: Float64Array, player: number): boolean {
  const { workers, players, distance, playersOnWorker } = flow;
  shortestChains(flow, player);
  let best = Number.POSITIVE_INFINITY;
  let last = -1;
  for (let worker = 0; worker < workers; worker++) {
    const total = distance[worker]! + marginal[worker * players + playersOnWorker[worker]!]!;
    if (total < best) {
      best = total;
      last = worker;
    }
  }
  if (last < 0) return false;
  playersOnWorker[last] = playersOnWorker[last]! + 1;
  applyChain(flow, player, last);
  return true;
}

function shortestChains(flow: Flow, player: number): void {
  const { workers, fixed, distance, predecessor, moveCost, tolerance } = flow;
  for (let worker = 0; worker < workers; worker++) {
    distance[worker] = fixed[player * workers + worker]!;
    predecessor[worker] = -1;
  }
  // Bellman-Ford: move costs may be negative, but a cycle of them never is while the placement so far is optimal.
  for (let pass = 0, changed = true; changed && pass < workers; pass++) {
    changed = false;
    for (let from = 0; from < workers; from++) {
      const reached = distance[from]!;
      if (reached === Number.POSITIVE_INFINITY) continue;
      for (let to = 0; to < workers; to++) {
        if (reached + moveCost[from * workers + to]! < distance[to]! - tolerance) {
          distance[to] = reached + moveCost[from * workers + to]!;
          predecessor[to] = from;
          changed = true;
        }
      }
    }
  }
}

function applyChain(flow: Flow, player: number, last: number): void {
  const { workers, predecessor, mover, workerOfPlayer } = flow;
  const touched = [last];
  let worker = last;
  while (predecessor[worker]! >= 0) {
    const from = predecessor[worker]!;
    workerOfPlayer[mover[from * workers + worker]!] = worker;
    worker = from;
    touched.push(worker);
  }
  workerOfPlayer[player] = worker;
  for (const changed of touched) refreshMoves(flow, changed);
}

function refreshMoves(flow: Flow, from: number): void {
  const { players, workers, fixed, workerOfPlayer, moveCost, mover } = flow;
  const base = from * workers;
  moveCost.fill(Number.POSITIVE_INFINITY, base, base + workers);
  for (let player = 0; player < players; player++) {
    if (workerOfPlayer[player] !== from) continue;
    const row = player * workers;
    const here = fixed[row + from]!;
    for (let to = 0; to < workers; to++) {
      const change = fixed[row + to]! - here;
      if (change < moveCost[base + to]!) {
        moveCost[base + to] = change;
        mover[base + to] = player;
      }
    }
  }
  moveCost[base + from] = Number.POSITIVE_INFINITY;
}

/** Returns the largest finite magnitude. A relative slack of 1e-9 forgives rounding in differences of large totals. */
function requireConvex(marginal: Float64Array, workers: number, players: number): number {
  let largest = 0;
  for (const value of marginal) if (value !== Number.POSITIVE_INFINITY && Math.abs(value) > largest) largest = Math.abs(value);
  for (let worker = 0; worker < workers; worker++) {
    for (let count = 0; count < players; count++) {
      const value = marginal[worker * players + count]!;
      const before = count === 0 ? Number.NEGATIVE_INFINITY : marginal[worker * players + count - 1]!;
      if (value > Number.NEGATIVE_INFINITY && value >= before - 1e-9 * largest) continue;
      throw new GameInputError(
        `marginal[${worker}, ${count + 1}] is ${value} after ${before}; marginals must not fall (convex cost), else this optimum is not exact`,
      );
    }
  }
  return largest;
}
