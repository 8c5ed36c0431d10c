import { GameInputError, requireInteger } from './input-check.js';
import { latencySeconds, type SaturatingLatency } from './latency-model.js';

/**
 * An atomic congestion game: player i picks one of its strategies, a set of resources, and pays the sum of l_r(n_r) over them,
 * n_r the number of players that use r. It always has a pure equilibrium (R. W. Rosenthal, Int. J. Game Theory 2, 1973). With affine
 * latencies the price of anarchy is at most 5/2 (B. Awerbuch, Y. Azar, A. Epstein and G. Christodoulou, E. Koutsoupias, STOC 2005).
 */
export interface CongestionGame {
  readonly latency: readonly SaturatingLatency[];
  /** strategies[player][choice]: distinct resource numbers. */
  readonly strategies: readonly (readonly (readonly number[])[])[];
}

export interface CongestionOutcome {
  readonly choiceOfPlayer: Int32Array;
  /** Sum of the players' costs, seconds. */
  readonly socialCostSeconds: number;
}

export interface CongestionRange {
  readonly optimum: CongestionOutcome;
  readonly bestEquilibrium: CongestionOutcome;
  readonly worstEquilibrium: CongestionOutcome;
  /** Worst pure equilibrium / optimum; NaN when the optimum costs 0. */
  readonly anarchy: number;
  /** Best pure equilibrium / optimum; NaN when the optimum costs 0. */
  readonly stability: number;
}

/** @throws GameInputError when a player has no strategy or names a resource that is not there. */
export function checkCongestionGame(game: CongestionGame): void {
  game.strategies.forEach((choices, player) => {
    if (choices.length === 0) throw new GameInputError(`strategies[${player}] is empty; give every player at least one strategy`);
    for (const choice of choices) for (const resource of choice) requireInteger('resource', resource, 0, game.latency.length - 1);
  });
}

/** Best response from `start` (default: everybody's first strategy) until nobody gains; Rosenthal's potential makes it end. */
export function congestionEquilibrium(game: CongestionGame, start?: Int32Array, maximumSweeps = 10_000): CongestionOutcome {
  checkCongestionGame(game);
  const choice = start ? start.slice() : new Int32Array(game.strategies.length);
  const users = countUsers(game, choice);
  for (let sweep = 0; sweep < maximumSweeps; sweep++) {
    let moved = false;
    for (let player = 0; player < choice.length; player++) if (improve(game, choice, users, player)) moved = true;
    if (!moved) return { choiceOfPlayer: choice, socialCostSeconds: congestionCost(game, choice) };
  }
  throw new GameInputError(`best response did not settle in ${maximumSweeps} sweeps; raise maximumSweeps`);
}

/** Sum of players' costs, seconds: sum over resources of n l(n). */
export function congestionCost(game: CongestionGame, choiceOfPlayer: Int32Array): number {
  return socialCost(game, countUsers(game, choiceOfPlayer));
}

/** Exact prices of anarchy and stability by enumerating all profiles; @throws GameInputError above `maximumProfiles` (default 200,000). */
export function enumerateCongestion(game: CongestionGame, maximumProfiles = 200_000): CongestionRange {
  checkCongestionGame(game);
  const profiles = game.strategies.reduce((product, choices) => product * choices.length, 1);
  if (profiles > maximumProfiles) {
    throw new GameInputError(
      `the game has ${profiles} profiles, above maximumProfiles ${maximumProfiles}; use congestionEquilibrium instead`,
    );
  }
  const choice = new Int32Array(game.strategies.length);
  let optimum: CongestionOutcome | undefined;
  let best: CongestionOutcome | undefined;
  let worst: CongestionOutcome | undefined;
  do {
    const users = countUsers(game, choice);
    const cost = socialCost(game, users);
    const outcome = { choiceOfPlayer: choice.slice(), socialCostSeconds: cost };
    if (!optimum || cost < optimum.socialCostSeconds) optimum = outcome;
    if (!isEquilibrium(game, choice, users)) continue;
    if (!best || cost < best.socialCostSeconds) best = outcome;
    if (!worst || cost > worst.socialCostSeconds) worst = outcome;
  } while (advance(game, choice));
  const ratio = (cost: number) => (optimum!.socialCostSeconds > 0 ? cost / optimum!.socialCostSeconds : Number.NaN);
  return {
    optimum: optimum!,
    bestEquilibrium: best!,
    worstEquilibrium: worst!,
    anarchy: ratio(worst!.socialCostSeconds),
    stability: ratio(best!.socialCostSeconds),
  };
}

function countUsers(game: CongestionGame, choice: Int32Array): Int32Array {
  const users = new Int32Array(game.latency.length);
  for (let player = 0; player < choice.length; player++) {
    const strategy = game.strategies[player]![choice[player]!];
    if (!strategy)
      throw new GameInputError(`player ${player} has no strategy ${choice[player]}; choose below ${game.strategies[player]!.length}`);
    for (const resource of strategy) users[resource] = users[resource]! + 1;
  }
  return users;
}

function socialCost(game: CongestionGame, users: Int32Array): number {
  let sum = 0;
  for (let resource = 0; resource < users.length; resource++) {
    const count = users[resource]!;
    if (count > 0) sum += count * latencySeconds(game.latency[resource]!, count);
  }
  return sum;
}

/** What `player` would pay with `candidate`, the others staying: resources it already uses do not gain a user. */
function costOf(game: CongestionGame, users: Int32Array, current: readonly number[], candidate: readonly number[]): number {
  let cost = 0;
  for (const resource of candidate) {
    cost += latencySeconds(game.latency[resource]!, users[resource]! + (current.includes(resource) ? 0 : 1));
  }
  return cost;
}

function bestChoice(game: CongestionGame, choice: Int32Array, users: Int32Array, player: number): number {
  const choices = game.strategies[player]!;
  const current = choices[choice[player]!]!;
  let best = costOf(game, users, current, current);
  let bestIndex = choice[player]!;
  for (let index = 0; index < choices.length; index++) {
    const cost = costOf(game, users, current, choices[index]!);
    // Rounding in a sum of a few terms stays far below 1e-12 of it.
    if (cost < best - 1e-12 * Math.abs(best)) {
      best = cost;
      bestIndex = index;
    }
  }
  return bestIndex;
}

function isEquilibrium(game: CongestionGame, choice: Int32Array, users: Int32Array): boolean {
  for (let player = 0; player < choice.length; player++) if (bestChoice(game, choice, users, player) !== choice[player]) return false;
  return true;
}

function improve(game: CongestionGame, choice: Int32Array, users: Int32Array, player: number): boolean {
  const best = bestChoice(game, choice, users, player);
  if (best === choice[player]) return false;
  for (const resource of game.strategies[player]![choice[player]!]!) users[resource] = users[resource]! - 1;
  for (const resource of game.strategies[player]![best]!) users[resource] = users[resource]! + 1;
  choice[player] = best;
  return true;
}

function advance(game: CongestionGame, choice: Int32Array): boolean {
  for (let player = 0; player < choice.length; player++) {
    choice[player] = choice[player]! + 1;
    if (choice[player]! < game.strategies[player]!.length) return true;
    choice[player] = 0;
  }
  return false;
}
