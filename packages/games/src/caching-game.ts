import { GameInputError, requireAtLeast, requireInteger, requireLength } from './input-check.js';

/**
 * Game 2, selfish caching: every node (worker) chooses which objects (KV blocks) it keeps in its own cache; a request for what it does not
 * keep is served by the cheapest node that does, or as a miss (recompute, network storage). Objects have equal size.
 * Source: B.-G. Chun et al., "Selfish caching in distributed systems: a game-theoretic analysis", PODC 2004 (with a placement cost and no
 * capacity limit); with capacities it is the selfish form of data placement. Costs are in one unit per second (demand x cost per request).
 */
export interface CachingGame {
  readonly nodes: number;
  readonly objects: number;
  /** Objects each node can hold. */
  readonly capacity: readonly number[];
  /** nodes x objects, row-major: requests per second. */
  readonly demand: Float64Array;
  /** nodes x nodes, row-major: cost per request of node i served from node j's cache; 0 on the diagonal. Infinity: unreachable. */
  readonly accessCost: Float64Array;
  /** Cost per request that nobody's cache can serve, per node. */
  readonly missCost: readonly number[];
  /** Cost per second for keeping one object on one node. Default 0. */
  readonly placementCost?: number;
}

/** nodes x objects, row-major, 1 where the node keeps the object. */
export type Placement = Uint8Array;

export interface CachingEquilibrium {
  readonly placement: Placement;
  readonly totalCost: number;
  /** False when best response did not settle: with capacities and several distances a pure equilibrium need not exist. */
  readonly converged: boolean;
}

export interface CachingRange {
  /** Number of pure equilibria; 0 means none exists and the costs are NaN. */
  readonly equilibria: number;
  readonly bestCost: number;
  readonly worstCost: number;
  readonly best: Placement | undefined;
  readonly worst: Placement | undefined;
}

/** @throws GameInputError on sizes that do not fit or negative values. */
export function checkCachingGame(game: CachingGame): void {
  const { nodes, objects } = game;
  requireInteger('nodes', nodes, 1);
  requireInteger('objects', objects, 1);
  requireLength('capacity', game.capacity.length, nodes, `${nodes} nodes`);
  requireLength('missCost', game.missCost.length, nodes, `${nodes} nodes`);
  requireLength('demand', game.demand.length, nodes * objects, `${nodes} nodes x ${objects} objects`);
  requireLength('accessCost', game.accessCost.length, nodes * nodes, `${nodes} x ${nodes} nodes`);
  for (const capacity of game.capacity) requireInteger('capacity', capacity, 0);
  for (const cost of game.missCost) requireAtLeast('missCost', cost, 0);
  for (const demand of game.demand) requireAtLeast('demand', demand, 0);
  for (const cost of game.accessCost)
    if (!(cost >= 0)) throw new GameInputError(`accessCost has ${cost}; it must be at least 0, or Infinity`);
  for (let node = 0; node < nodes; node++) {
    if (game.accessCost[node * nodes + node] !== 0) throw new GameInputError(`accessCost[${node}, ${node}] must be 0: a node's own cache`);
  }
}

/** Cost per second of one node: its requests at the cheapest source, plus its own placement. */
export function cachingNodeCost(game: CachingGame, placement: Placement, node: number): number {
  let cost = 0;
  for (let object = 0; object < game.objects; object++) {
    const demand = game.demand[node * game.objects + object]!;
    const kept = placement[node * game.objects + object] === 1;
    if (kept) cost += game.placementCost ?? 0;
    else if (demand > 0) cost += demand * outsideCost(game, placement, node, object);
  }
  return cost;
}

export function cachingTotalCost(game: CachingGame, placement: Placement): number {
  let cost = 0;
  for (let node = 0; node < game.nodes; node++) cost += cachingNodeCost(game, placement, node);
  return cost;
}

/**
 * The node's best reply: the `capacity` objects of greatest positive benefit = demand x (cheapest cost elsewhere) - placement cost.
 * Exact because objects have equal size. Objects it has already win ties, so a node never moves without a gain.
 */
export function bestCachingReply(game: CachingGame, placement: Placement, node: number): Uint8Array {
  const { objects } = game;
  const benefit = Float64Array.from({ length: objects }, (_, object) => {
    const demand = game.demand[node * objects + object]!;
    return (demand === 0 ? 0 : demand * outsideCost(game, placement, node, object)) - (game.placementCost ?? 0);
  });
  const keeps = (object: number) => placement[node * objects + object]!;
  const order = Array.from({ length: objects }, (_, object) => object);
  order.sort((left, right) => benefit[right]! - benefit[left]! || keeps(right) - keeps(left) || left - right);
  const reply = new Uint8Array(objects);
  let room = game.capacity[node]!;
  for (const object of order) {
    const worthIt = benefit[object]! > 0 || (benefit[object] === 0 && keeps(object) === 1);
    if (room === 0 || !worthIt) break;
    reply[object] = 1;
    room--;
  }
  return reply;
}

/** Best response from `start` (default: empty caches), nodes in turn, at most `maximumSweeps` rounds. Which equilibrium depends on the start. */
export function cachingEquilibrium(game: CachingGame, start?: Placement, maximumSweeps = 1000): CachingEquilibrium {
  checkCachingGame(game);
  const placement = start ? start.slice() : new Uint8Array(game.nodes * game.objects);
  requireLength('start', placement.length, game.nodes * game.objects, `${game.nodes} nodes x ${game.objects} objects`);
  for (let sweep = 0; sweep < maximumSweeps; sweep++) {
    let moved = false;
    for (let node = 0; node < game.nodes; node++) if (reply(game, placement, node)) moved = true;
    if (!moved) return { placement, totalCost: cachingTotalCost(game, placement), converged: true };
  }
  return { placement, totalCost: cachingTotalCost(game, placement), converged: false };
}

/** True when no node can lower its own cost alone by more than 1e-12 of it. */
export function isCachingEquilibrium(game: CachingGame, placement: Placement): boolean {
  const trial = placement.slice();
  for (let node = 0; node < game.nodes; node++) {
    const now = cachingNodeCost(game, placement, node);
    trial.set(bestCachingReply(game, placement, node), node * game.objects);
    if (cachingNodeCost(game, trial, node) < now * (1 - 1e-12)) return false;
    trial.set(placement.subarray(node * game.objects, (node + 1) * game.objects), node * game.objects);
  }
  return true;
}

/** All pure equilibria by enumeration of placements; @throws GameInputError above `maximumPlacements` (default 300,000). */
export function enumerateCachingEquilibria(game: CachingGame, maximumPlacements = 300_000): CachingRange {
  const range: Mutable<CachingRange> = { equilibria: 0, bestCost: Number.NaN, worstCost: Number.NaN, best: undefined, worst: undefined };
  forEachEquilibrium(game, maximumPlacements, (placement) => note(range, placement, cachingTotalCost(game, placement)));
  return range;
}

/** Calls `visit` with every pure equilibrium; the placement is reused between calls. */
function forEachEquilibrium(game: CachingGame, maximumPlacements: number, visit: (placement: Placement) => void): void {
  checkCachingGame(game);
  const choices = game.capacity.map((capacity) => subsets(game.objects, capacity, maximumPlacements));
  const placements = choices.reduce((product, list) => product * list.length, 1);
  if (placements > maximumPlacements) {
    throw new GameInputError(`the game has ${placements} placements, above maximumPlacements ${maximumPlacements}; use cachingEquilibrium`);
  }
  const placement = new Uint8Array(game.nodes * game.objects);
  for (let number = 0; number < placements; number++) {
    let rest = number;
    for (let node = 0; node < game.nodes; node++) {
      const list = choices[node]!;
      placement.set(list[rest % list.length]!, node * game.objects);
      rest = Math.floor(rest / list.length);
    }
    if (isCachingEquilibrium(game, placement)) visit(placement);
  }
}

/** Costs over all pure equilibria, without and with one node's cache; NaN where there is no pure equilibrium. */
export interface BraessComparison {
  readonly bestWithout: number;
  readonly bestWith: number;
  readonly worstWithout: number;
  readonly worstWith: number;
  /** True when the best equilibrium got dearer: the cache hurts however the nodes coordinate. */
  readonly hurtsAtBest: boolean;
  readonly hurtsAtWorst: boolean;
}

/** What adding one node's cache does to the equilibria. */
export interface CachingBraessCheck {
  /** Sum over all nodes but the one that got the cache. */
  readonly others: BraessComparison;
  /** Sum over all nodes. */
  readonly everybody: BraessComparison;
}

/**
 * Braess check: does adding `node`'s cache hurt? Compares all pure equilibria with its capacity against those with capacity 0 (it sends
 * its own requests in both). Makes no claim (false, NaN) when one side has no pure equilibrium.
 */
export function cachingBraessCheck(game: CachingGame, node: number, maximumPlacements = 300_000): CachingBraessCheck {
  requireInteger('node', node, 0, game.nodes - 1);
  const without = { ...game, capacity: game.capacity.map((capacity, index) => (index === node ? 0 : capacity)) };
  const before = { others: new Float64Array(2).fill(Number.NaN), everybody: new Float64Array(2).fill(Number.NaN) };
  const after = { others: new Float64Array(2).fill(Number.NaN), everybody: new Float64Array(2).fill(Number.NaN) };
  for (const [variant, range] of [[without, before] as const, [game, after] as const]) {
    forEachEquilibrium(variant, maximumPlacements, (placement) => {
      const total = cachingTotalCost(variant, placement);
      widen(range.everybody, total);
      widen(range.others, total - cachingNodeCost(variant, placement, node));
    });
  }
  return { others: compare(before.others, after.others), everybody: compare(before.everybody, after.everybody) };
}

function widen(range: Float64Array, cost: number): void {
  if (!(cost >= range[0]!)) range[0] = cost;
  if (!(cost <= range[1]!)) range[1] = cost;
}

function compare(before: Float64Array, after: Float64Array): BraessComparison {
  // Sums of a few products: a difference of 1e-12 of the cost is rounding.
  const dearer = (index: number) => after[index]! > before[index]! * (1 + 1e-12);
  return {
    bestWithout: before[0]!,
    bestWith: after[0]!,
    worstWithout: before[1]!,
    worstWith: after[1]!,
    hurtsAtBest: dearer(0),
    hurtsAtWorst: dearer(1),
  };
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

function note(range: Mutable<CachingRange>, placement: Placement, cost: number): void {
  if (range.equilibria === 0 || cost < range.bestCost) {
    range.bestCost = cost;
    range.best = placement.slice();
  }
  if (range.equilibria === 0 || cost > range.worstCost) {
    range.worstCost = cost;
    range.worst = placement.slice();
  }
  range.equilibria++;
}

function outsideCost(game: CachingGame, placement: Placement, node: number, object: number): number {
  let cheapest = game.missCost[node]!;
  for (let other = 0; other < game.nodes; other++) {
    if (other === node || placement[other * game.objects + object] !== 1) continue;
    const cost = game.accessCost[node * game.nodes + other]!;
    if (cost < cheapest) cheapest = cost;
  }
  return cheapest;
}

function reply(game: CachingGame, placement: Placement, node: number): boolean {
  const best = bestCachingReply(game, placement, node);
  const base = node * game.objects;
  const before = cachingNodeCost(game, placement, node);
  const kept = placement.slice(base, base + game.objects);
  placement.set(best, base);
  if (cachingNodeCost(game, placement, node) < before * (1 - 1e-12)) return true;
  placement.set(kept, base);
  return false;
}

/** All subsets of at most `capacity` objects, as 0/1 rows. */
function subsets(objects: number, capacity: number, limit: number): Uint8Array[] {
  const found: Uint8Array[] = [];
  const current = new Uint8Array(objects);
  const extend = (object: number, room: number): void => {
    if (found.length > limit) throw new GameInputError(`one node has more than ${limit} choices; use cachingEquilibrium instead`);
    if (object === objects) {
      found.push(current.slice());
      return;
    }
    extend(object + 1, room);
    if (room === 0) return;
    current[object] = 1;
    extend(object + 1, room - 1);
    current[object] = 0;
  };
  extend(0, capacity);
  return found;
}
