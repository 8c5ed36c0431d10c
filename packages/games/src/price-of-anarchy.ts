import { GameInputError } from './input-check.js';
import { marginalLatencyCosts, optimumUnderLoad } from './load-optimum.js';
import { bestResponse, checkRoutingGame, largestUnilateralGain, type RoutingGame, socialCostSeconds } from './routing-game.js';
import { socialDescent } from './social-descent.js';

/** How sure a number is: proved by enumeration or an exact solver, or only the best (worst) that a search met. */
export type Basis = 'exact' | 'enumerated' | 'sampled';

/**
 * Price of anarchy: cost of the worst pure Nash equilibrium / cost of the optimum; price of stability: of the best one / optimum.
 * Cost is the weighted sum of the players' costs, without the load that was there before.
 * Direction of bias. `equilibriaBasis` sampled: the worst equilibrium met is at most the worst, so `anarchy` is a lower bound as far as
 * equilibria go, and `stability` an upper bound. `optimumBasis` sampled: the best placement met costs at least the optimum, so both
 * ratios are biased downward by it. Undefined (NaN) when no equilibrium was found or the optimum costs 0 or Infinity.
 */
export interface PriceOfAnarchy {
  readonly anarchy: number;
  readonly stability: number;
  readonly optimumSeconds: number;
  readonly optimumPlacement: Int32Array;
  readonly optimumBasis: Basis;
  readonly worstEquilibriumSeconds: number;
  readonly bestEquilibriumSeconds: number;
  /** Equilibria found: distinct ones when enumerated, converged starts when sampled. */
  readonly equilibria: number;
  readonly equilibriaBasis: Basis;
}

export interface PriceOfAnarchyOptions {
  /** Needed when sampling: where the random starts come from. */
  readonly random?: () => number;
  /** Random starts of best response when sampling. Default 16. */
  readonly starts?: number;
  /** Enumerate while workers^players is at most this. Default 100,000. */
  readonly maximumPlacements?: number;
}

/** @throws GameInputError when the game is too large to enumerate and no random stream is given. */
export function priceOfAnarchy(game: RoutingGame, options: PriceOfAnarchyOptions = {}): PriceOfAnarchy {
  checkRoutingGame(game);
  const placements = Math.exp(game.players * Math.log(game.latency.length));
  if (Math.round(placements) <= (options.maximumPlacements ?? 100_000)) return enumerateGame(game);
  if (!options.random) {
    throw new GameInputError(
      `the game has about ${placements.toPrecision(3)} placements, above maximumPlacements; pass \`random\` to sample starts of best response`,
    );
  }
  return sampleGame(game, options.random, options.starts ?? 16);
}

/**
 * The exact social optimum when players weigh 1 and form no groups (min-cost flow); undefined otherwise, or if nobody fits.
 * With prefix groups it becomes a facility location problem (NP-hard), which is only enumerated or searched.
 */
export function routingOptimum(game: RoutingGame): { placement: Int32Array; costSeconds: number } | undefined {
  if (game.weight !== undefined || game.group !== undefined) return undefined;
  const workers = game.latency.length;
  // Social cost here is the players' own, so a present load shifts the latency but is no party that suffers.
  const marginal = marginalLatencyCosts(game.latency, game.players, game.presentLoad, 'players');
  const solved = optimumUnderLoad(game.players, workers, marginal, game.fixedSeconds);
  return solved && { placement: solved.workerOfPlayer, costSeconds: socialCostSeconds(game, solved.workerOfPlayer) };
}

function enumerateGame(game: RoutingGame): PriceOfAnarchy {
  const placement = new Int32Array(game.players);
  const found = { optimum: Number.POSITIVE_INFINITY, placement: placement.slice(), worst: Number.NaN, best: Number.NaN, equilibria: 0 };
  do {
    const cost = socialCostSeconds(game, placement);
    if (cost < found.optimum) {
      found.optimum = cost;
      found.placement = placement.slice();
    }
    if (largestUnilateralGain(game, placement) <= 1e-12 * cost) noteEquilibrium(found, cost);
  } while (advance(placement, game.latency.length));
  return summarise(found, 'enumerated', 'enumerated');
}

function sampleGame(game: RoutingGame, random: () => number, starts: number): PriceOfAnarchy {
  const exact = routingOptimum(game);
  const found = {
    optimum: exact?.costSeconds ?? Number.POSITIVE_INFINITY,
    placement: exact?.placement ?? new Int32Array(game.players),
    worst: Number.NaN,
    best: Number.NaN,
    equilibria: 0,
  };
  // From the optimum best response often ends at the best equilibrium: with a potential that is the classic bound on stability.
  const firsts = exact ? [exact.placement, undefined] : [undefined];
  for (let start = 0; start < starts + firsts.length; start++) {
    const from = start < firsts.length ? firsts[start] : randomPlacement(game, random);
    const reached = bestResponse(game, from ? { start: from, random } : { random });
    if (reached.converged) noteEquilibrium(found, reached.socialCostSeconds);
    if (exact) continue;
    const planned = socialDescent(game, reached.workerOfPlayer);
    if (planned.socialCostSeconds < found.optimum) {
      found.optimum = planned.socialCostSeconds;
      found.placement = planned.workerOfPlayer;
      const stable = bestResponse(game, { start: planned.workerOfPlayer, random });
      if (stable.converged) noteEquilibrium(found, stable.socialCostSeconds);
    }
  }
  return summarise(found, exact ? 'exact' : 'sampled', 'sampled');
}

interface Found {
  optimum: number;
  placement: Int32Array;
  worst: number;
  best: number;
  equilibria: number;
}

function noteEquilibrium(found: Found, cost: number): void {
  found.worst = found.equilibria === 0 || cost > found.worst ? cost : found.worst;
  found.best = found.equilibria === 0 || cost < found.best ? cost : found.best;
  found.equilibria++;
}

function summarise(found: Found, optimumBasis: Basis, equilibriaBasis: Basis): PriceOfAnarchy {
  const meaningful = found.optimum > 0 && found.optimum < Number.POSITIVE_INFINITY;
  return {
    anarchy: meaningful ? found.worst / found.optimum : Number.NaN,
    stability: meaningful ? found.best / found.optimum : Number.NaN,
    optimumSeconds: found.optimum,
    optimumPlacement: found.placement,
    optimumBasis,
    worstEquilibriumSeconds: found.worst,
    bestEquilibriumSeconds: found.best,
    equilibria: found.equilibria,
    equilibriaBasis,
  };
}

function randomPlacement(game: RoutingGame, random: () => number): Int32Array {
  return Int32Array.from({ length: game.players }, () => Math.floor(random() * game.latency.length));
}

/** Next placement in counting order; false after the last. */
function advance(placement: Int32Array, workers: number): boolean {
  for (let player = 0; player < placement.length; player++) {
    placement[player] = placement[player]! + 1;
    if (placement[player]! < workers) return true;
    placement[player] = 0;
  }
  return false;
}
