import type { CongestionGame } from './congestion-game.js';
import { GameInputError, requireAtLeast, requireInteger } from './input-check.js';
import { checkLatency, latencySeconds, latencySlopeSeconds, type SaturatingLatency } from './latency-model.js';

/** A directed network with a latency per edge, and demands between node pairs. Nodes are 0 .. nodes - 1. */
export interface NetworkGame {
  readonly nodes: number;
  readonly edges: readonly NetworkEdge[];
  readonly demands: readonly NetworkDemand[];
}

export interface NetworkEdge {
  readonly from: number;
  readonly to: number;
  readonly latency: SaturatingLatency;
}

export interface NetworkDemand {
  readonly source: number;
  readonly sink: number;
  /** Flow per unit of time (nonatomic), or a number of unit players (atomic). */
  readonly amount: number;
}

export interface NetworkFlow {
  /** Flow on each edge. */
  readonly edgeFlow: Float64Array;
  /** Sum over edges of flow x latency: the total cost. */
  readonly totalCost: number;
  /** Largest remaining relative gap between a used path and the cheapest one of its demand (0 at the solution). */
  readonly gap: number;
  readonly converged: boolean;
}

/**
 * Wardrop equilibrium of nonatomic traffic: every used path of a demand costs the same, and no path costs less
 * (J. G. Wardrop, 1952; it minimises Beckmann's convex potential, so its edge costs are unique).
 * Method: paths are enumerated and flow moves from the dearest used path to the cheapest until they meet, by bisection.
 */
export function wardropEquilibrium(network: NetworkGame, tolerance = 1e-10): NetworkFlow {
  return equalise(network, latencySeconds, tolerance);
}

/** The flow of least total cost: the same with marginal costs l + x l' (A. C. Pigou, 1920); convex, hence exact up to `tolerance`. */
export function systemOptimum(network: NetworkGame, tolerance = 1e-10): NetworkFlow {
  return equalise(network, marginalCost, tolerance);
}

/** Nonatomic price of anarchy: total cost at equilibrium / at the optimum; NaN when the optimum costs 0. At most 4/3 for affine latencies. */
export function networkPriceOfAnarchy(network: NetworkGame): number {
  const optimum = systemOptimum(network).totalCost;
  return optimum > 0 ? wardropEquilibrium(network).totalCost / optimum : Number.NaN;
}

/** An edge whose removal lowers the equilibrium cost, with both costs. */
export interface BraessEdge {
  readonly edge: number;
  readonly costWith: number;
  readonly costWithout: number;
}

/** Edges that hurt: those whose removal alone makes the equilibrium cheaper (D. Braess, 1968). Edges that some demand cannot do without are skipped. */
export function braessEdges(network: NetworkGame): BraessEdge[] {
  const costWith = wardropEquilibrium(network).totalCost;
  const found: BraessEdge[] = [];
  for (let edge = 0; edge < network.edges.length; edge++) {
    const without = { ...network, edges: network.edges.filter((_, index) => index !== edge) };
    if (!network.demands.every((demand) => demand.amount === 0 || simplePaths(without, demand.source, demand.sink, 1).length > 0)) continue;
    const costWithout = wardropEquilibrium(without).totalCost;
    if (costWithout < costWith * (1 - 1e-8)) found.push({ edge, costWith, costWithout });
  }
  return found;
}

/** The atomic game on the same network: `amount` unit players per demand, strategies are the simple paths. */
export function atomicNetworkGame(network: NetworkGame): CongestionGame {
  const strategies: (readonly (readonly number[])[])[] = [];
  for (const demand of network.demands) {
    requireInteger('amount of an atomic demand', demand.amount, 0, 100_000);
    const paths = requirePaths(network, demand);
    for (let player = 0; player < demand.amount; player++) strategies.push(paths);
  }
  return { latency: network.edges.map((edge) => edge.latency), strategies };
}

type EdgeCost = (model: SaturatingLatency, flow: number) => number;

function marginalCost(model: SaturatingLatency, flow: number): number {
  return latencySeconds(model, flow) + (flow === 0 ? 0 : flow * latencySlopeSeconds(model, flow));
}

interface PathFlows {
  readonly paths: readonly (readonly number[])[];
  readonly flow: Float64Array;
}

function equalise(network: NetworkGame, cost: EdgeCost, tolerance: number, maximumSteps = 100_000): NetworkFlow {
  checkNetwork(network);
  const edgeFlow = new Float64Array(network.edges.length);
  const demands = network.demands.filter((demand) => demand.amount > 0).map((demand) => firstFlow(network, demand, edgeFlow));
  let gap = Number.POSITIVE_INFINITY;
  for (let step = 0; step < maximumSteps && gap > tolerance; step++) {
    gap = 0;
    for (const demand of demands) gap = Math.max(gap, balance(network, demand, edgeFlow, cost));
  }
  let totalCost = 0;
  for (let edge = 0; edge < edgeFlow.length; edge++) {
    if (edgeFlow[edge]! > 0) totalCost += edgeFlow[edge]! * latencySeconds(network.edges[edge]!.latency, edgeFlow[edge]!);
  }
  return { edgeFlow, totalCost, gap, converged: gap <= tolerance };
}

/** Fills paths one slice at a time, cheapest first, so that poles are not crossed where there is room. */
function firstFlow(network: NetworkGame, demand: NetworkDemand, edgeFlow: Float64Array): PathFlows {
  const paths = requirePaths(network, demand);
  const flow = new Float64Array(paths.length);
  const slices = 16;
  for (let slice = 0; slice < slices; slice++) {
    const amount = demand.amount / slices;
    let best = 0;
    let bestCost = Number.POSITIVE_INFINITY;
    paths.forEach((path, index) => {
      let cost = 0;
      for (const edge of path) cost += latencySeconds(network.edges[edge]!.latency, edgeFlow[edge]! + amount);
      if (cost < bestCost) {
        best = index;
        bestCost = cost;
      }
    });
    flow[best] = flow[best]! + amount;
    for (const edge of paths[best]!) edgeFlow[edge] = edgeFlow[edge]! + amount;
  }
  return { paths, flow };
}

/** Moves flow from the dearest used path to the cheapest one; returns the relative gap found before. */
function balance(network: NetworkGame, demand: PathFlows, edgeFlow: Float64Array, cost: EdgeCost): number {
  const { paths, flow } = demand;
  const priced = paths.map((path) => pathCost(network, path, edgeFlow, cost));
  let cheapest = 0;
  let dearest = -1;
  for (let index = 0; index < paths.length; index++) {
    if (priced[index]! < priced[cheapest]!) cheapest = index;
    if (flow[index]! > 0 && (dearest < 0 || priced[index]! > priced[dearest]!)) dearest = index;
  }
  const difference = priced[dearest]! - priced[cheapest]!;
  if (!(difference > 0)) return 0;
  const share = difference / priced[dearest]!;
  const moved = flowToMove(network, paths[dearest]!, paths[cheapest]!, flow[dearest]!, edgeFlow, cost);
  flow[dearest] = moved === flow[dearest]! ? 0 : flow[dearest]! - moved;
  flow[cheapest] = flow[cheapest]! + moved;
  shiftFlow(paths[dearest]!, edgeFlow, -moved);
  shiftFlow(paths[cheapest]!, edgeFlow, moved);
  return Number.isNaN(share) ? 1 : share;
}

/** Bisection on the amount at which both paths cost the same; all of it when the dear path stays dear. Edges in common cancel. */
function flowToMove(
  network: NetworkGame,
  from: readonly number[],
  to: readonly number[],
  available: number,
  edgeFlow: Float64Array,
  cost: EdgeCost,
): number {
  const leaving = from.filter((edge) => !to.includes(edge));
  const entering = to.filter((edge) => !from.includes(edge));
  const excess = (moved: number) => pathCost(network, leaving, edgeFlow, cost, -moved) - pathCost(network, entering, edgeFlow, cost, moved);
  if (excess(available) >= 0) return available;
  let low = 0;
  let high = available;
  // 60 halvings exhaust the 53 bits of the amount.
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (excess(middle) > 0) low = middle;
    else high = middle;
  }
  return low;
}

function pathCost(network: NetworkGame, path: readonly number[], edgeFlow: Float64Array, cost: EdgeCost, change = 0): number {
  let sum = 0;
  for (const edge of path) sum += cost(network.edges[edge]!.latency, Math.max(0, edgeFlow[edge]! + change));
  return sum;
}

function shiftFlow(path: readonly number[], edgeFlow: Float64Array, change: number): void {
  for (const edge of path) edgeFlow[edge] = Math.max(0, edgeFlow[edge]! + change);
}

/** All paths without a repeated node, as edge numbers, in order of edge number; at most `limit` of them. */
export function simplePaths(network: NetworkGame, source: number, sink: number, limit: number): number[][] {
  const paths: number[][] = [];
  const visited = new Set([source]);
  const walked: number[] = [];
  const walk = (node: number): void => {
    if (node === sink) {
      paths.push(walked.slice());
      return;
    }
    for (let edge = 0; edge < network.edges.length && paths.length < limit; edge++) {
      const { from, to } = network.edges[edge]!;
      if (from !== node || visited.has(to)) continue;
      visited.add(to);
      walked.push(edge);
      walk(to);
      walked.pop();
      visited.delete(to);
    }
  };
  walk(source);
  return paths;
}

/** Enumerating paths is exponential; above this the method is the wrong one. */
const MAXIMUM_PATHS = 10_000;

function requirePaths(network: NetworkGame, demand: NetworkDemand): number[][] {
  const paths = simplePaths(network, demand.source, demand.sink, MAXIMUM_PATHS + 1);
  const pair = `from node ${demand.source} to node ${demand.sink}`;
  if (paths.length === 0) throw new GameInputError(`no path leads ${pair}; add an edge or drop the demand`);
  if (paths.length > MAXIMUM_PATHS) throw new GameInputError(`more than ${MAXIMUM_PATHS} simple paths lead ${pair}; use a smaller network`);
  return paths;
}

function checkNetwork(network: NetworkGame): void {
  requireInteger('nodes', network.nodes, 1);
  for (const edge of network.edges) {
    requireInteger('edge end', edge.from, 0, network.nodes - 1);
    requireInteger('edge end', edge.to, 0, network.nodes - 1);
    checkLatency(edge.latency);
  }
  for (const demand of network.demands) requireAtLeast('demand amount', demand.amount, 0);
}
