import { requireAbove, requireInteger, requireLength } from './input-check.js';
import { checkLatency, latencySeconds, type SaturatingLatency } from './latency-model.js';

/**
 * Game 3: each request (player) picks a worker and pays, in seconds,
 *
 *     c_i(j) = l_j(B_j + L_j) + fixed[i, j] + prefill_g / m_gj
 *
 * L_j: weight of all players on j (i included); B_j: load already there; m_gj: players of i's prefix group g on j. The last term is
 * the positive cache externality: the first of a group to be served prefills the shared prefix, so in random order each pays the
 * fraction 1 / m_gj in the mean. Without groups it is a singleton congestion game with player-specific constants.
 */
export interface RoutingGame {
  readonly players: number;
  readonly latency: readonly SaturatingLatency[];
  /** players x workers, row-major, seconds; costs of a pair that depend on nobody else. Default 0. */
  readonly fixedSeconds?: Float64Array;
  /** Load already on each worker, in requests. Default 0. */
  readonly presentLoad?: Float64Array;
  /** Load each player adds, in requests. Default 1. */
  readonly weight?: Float64Array;
  /** Prefix group of each player, from 0. Default: no groups. */
  readonly group?: Int32Array;
  /** Seconds to prefill the shared prefix of each group; needed with `group`. */
  readonly groupPrefillSeconds?: Float64Array;
}

/**
 * Whether best response must end:
 * `exact`: unit weights; R. W. Rosenthal's potential (Int. J. Game Theory 2, 1973) changes by exactly the mover's gain;
 * `weighted`: other weights with affine latencies and no groups; the potential changes by weight x gain
 * (D. Fotakis, S. Kontogiannis, P. Spirakis, Theoretical Computer Science 348, 2005);
 * `none`: no potential is known, and a pure equilibrium need not exist.
 */
export type PotentialKind = 'exact' | 'weighted' | 'none';

export interface Equilibrium {
  readonly workerOfPlayer: Int32Array;
  /** Weighted sum of the players' costs, in seconds. */
  readonly socialCostSeconds: number;
  /** False when the limit on sweeps came first: then this is no equilibrium, only where the search stopped. */
  readonly converged: boolean;
  readonly sweeps: number;
  readonly moves: number;
}

export interface BestResponseOptions {
  /** Starting placement; by default players enter one by one, each at its best worker. */
  readonly start?: Int32Array;
  /** Shuffles the order of play once per sweep; by default players move in turn. */
  readonly random?: () => number;
  /** Default 1,000 sweeps over all players. */
  readonly maximumSweeps?: number;
  /** A gain of at most this many seconds is no reason to move. Default 1e-12 of the largest finite cost at the start. */
  readonly toleranceSeconds?: number;
}

/** @throws GameInputError on sizes that do not fit, negative weights or groups without their prefill cost. */
export function checkRoutingGame(game: RoutingGame): void {
  const workers = game.latency.length;
  requireInteger('players', game.players, 0);
  requireInteger('workers (latency entries)', workers, 1);
  for (const model of game.latency) checkLatency(model);
  if (game.fixedSeconds)
    requireLength('fixedSeconds', game.fixedSeconds.length, game.players * workers, `${game.players} x ${workers} pairs`);
  if (game.presentLoad) requireLength('presentLoad', game.presentLoad.length, workers, `${workers} workers`);
  if (game.weight) {
    requireLength('weight', game.weight.length, game.players, `${game.players} players`);
    for (const weight of game.weight) requireAbove('weight', weight, 0);
  }
  if (!game.group) return;
  requireLength('group', game.group.length, game.players, `${game.players} players`);
  const groups = game.groupPrefillSeconds?.length ?? 0;
  for (const group of game.group) requireInteger('group', group, 0, groups - 1);
}

export function potentialKind(game: RoutingGame): PotentialKind {
  const unit = game.weight === undefined || game.weight.every((weight) => weight === 1);
  if (unit) return 'exact';
  return game.group === undefined && game.latency.every((model) => model.poleScale === 0) ? 'weighted' : 'none';
}

/**
 * A pure Nash equilibrium by best response: players move in turn to their cheapest worker until nobody gains.
 * With a potential it must end; how good the equilibrium found is depends on the start (see priceOfAnarchy for a range).
 * A player whose every worker is past its pole stays where it is: all its costs are Infinity.
 */
export function bestResponse(game: RoutingGame, options: BestResponseOptions = {}): Equilibrium {
  checkRoutingGame(game);
  const play = createPlay(game);
  if (options.start) requireLength('start', options.start.length, game.players, `${game.players} players`);
  for (let player = 0; player < game.players; player++) {
    if (options.start) requireInteger('start worker', options.start[player]!, 0, play.workers - 1);
    enter(play, player, options.start ? options.start[player]! : cheapestWorker(play, player));
  }
  const tolerance = options.toleranceSeconds ?? 1e-12 * largestCost(play);
  const order = Int32Array.from({ length: game.players }, (_, player) => player);
  const limit = options.maximumSweeps ?? 1000;
  let sweeps = 0;
  let moves = 0;
  for (let moved = game.players > 0; moved && sweeps < limit; sweeps++) {
    if (options.random) shuffle(order, options.random);
    const before = moves;
    for (const player of order) if (improve(play, player, tolerance)) moves++;
    moved = moves > before;
    if (!moved) return { ...outcome(play), converged: true, sweeps: sweeps + 1, moves };
  }
  return { ...outcome(play), converged: game.players === 0, sweeps, moves };
}

/** Cost of one player in a placement, in seconds. */
export function playerCostSeconds(game: RoutingGame, workerOfPlayer: Int32Array, player: number): number {
  return stayCost(playOf(game, workerOfPlayer), player);
}

/** Weighted sum of all players' costs in a placement, in seconds (request-seconds with unit weights). */
export function socialCostSeconds(game: RoutingGame, workerOfPlayer: Int32Array): number {
  return totalCost(playOf(game, workerOfPlayer));
}

/** The largest gain, in seconds, that one player has by moving alone; a placement is a Nash equilibrium when it is 0. */
export function largestUnilateralGain(game: RoutingGame, workerOfPlayer: Int32Array): number {
  const play = playOf(game, workerOfPlayer);
  let largest = 0;
  for (let player = 0; player < game.players; player++) {
    const here = stayCost(play, player);
    const best = bestOther(play, player);
    if (best >= 0 && here - joinCost(play, player, best) > largest) largest = here - joinCost(play, player, best);
  }
  return largest;
}

/** The potential of a placement, in seconds (times requests if weighted); undefined when the game has none. */
export function routingPotential(game: RoutingGame, workerOfPlayer: Int32Array): number | undefined {
  const kind = potentialKind(game);
  if (kind === 'none') return undefined;
  const play = playOf(game, workerOfPlayer);
  let potential = 0;
  for (let worker = 0; worker < play.workers; worker++) {
    potential += kind === 'exact' ? rosenthalTerm(play, worker) : weightedTerm(play, worker);
  }
  for (let player = 0; player < game.players; player++) {
    const fixed = game.fixedSeconds?.[player * play.workers + workerOfPlayer[player]!] ?? 0;
    potential += play.weight[player]! * fixed;
  }
  return potential;
}

function rosenthalTerm(play: Play, worker: number): number {
  const { game, present } = play;
  let sum = 0;
  const count = Math.round(play.load[worker]! - present[worker]!);
  for (let k = 1; k <= count; k++) sum += latencySeconds(game.latency[worker]!, present[worker]! + k);
  for (let group = 0; group < play.groups; group++) {
    for (let k = 1; k <= play.groupCount[group * play.workers + worker]!; k++) sum += game.groupPrefillSeconds![group]! / k;
  }
  return sum;
}

/** For l(L) = a L + b: a (L^2 + sum w^2 - B^2) / 2 + b (L - B), L = B + sum of weights. */
function weightedTerm(play: Play, worker: number): number {
  const { slopeSeconds, interceptSeconds } = play.game.latency[worker]!;
  const present = play.present[worker]!;
  const load = play.load[worker]!;
  let squares = 0;
  for (let player = 0; player < play.game.players; player++) {
    if (play.workerOfPlayer[player] === worker) squares += play.weight[player]! * play.weight[player]!;
  }
  return (slopeSeconds * (load * load - present * present + squares)) / 2 + interceptSeconds * (load - present);
}

interface Play {
  readonly game: RoutingGame;
  readonly workers: number;
  readonly groups: number;
  readonly weight: Float64Array;
  readonly present: Float64Array;
  readonly fixed: Float64Array | undefined;
  readonly unitWeights: boolean;
  readonly workerOfPlayer: Int32Array;
  readonly load: Float64Array;
  readonly groupCount: Int32Array;
  /** With unit weights: latency of each worker as it is, and with one more player. */
  readonly latencyNow: Float64Array;
  readonly latencyNext: Float64Array;
}

function createPlay(game: RoutingGame): Play {
  const workers = game.latency.length;
  const groups = game.group ? game.groupPrefillSeconds!.length : 0;
  const present = game.presentLoad ?? new Float64Array(workers);
  const play: Play = {
    game,
    workers,
    groups,
    weight: game.weight ?? new Float64Array(game.players).fill(1),
    present,
    fixed: game.fixedSeconds,
    unitWeights: game.weight === undefined,
    workerOfPlayer: new Int32Array(game.players).fill(-1),
    load: Float64Array.from(present),
    groupCount: new Int32Array(groups * workers),
    latencyNow: new Float64Array(workers),
    latencyNext: new Float64Array(workers),
  };
  for (let worker = 0; worker < workers; worker++) refresh(play, worker);
  return play;
}

function playOf(game: RoutingGame, workerOfPlayer: Int32Array): Play {
  const play = createPlay(game);
  for (let player = 0; player < game.players; player++) enter(play, player, workerOfPlayer[player]!);
  return play;
}

function refresh(play: Play, worker: number): void {
  const model = play.game.latency[worker]!;
  play.latencyNow[worker] = latencySeconds(model, play.load[worker]!);
  play.latencyNext[worker] = latencySeconds(model, play.load[worker]! + 1);
}

function enter(play: Play, player: number, worker: number): void {
  play.workerOfPlayer[player] = worker;
  shift(play, player, worker, 1);
}

function shift(play: Play, player: number, worker: number, sign: number): void {
  play.load[worker] = play.load[worker]! + sign * play.weight[player]!;
  if (play.groups > 0) {
    const index = play.game.group![player]! * play.workers + worker;
    play.groupCount[index] = play.groupCount[index]! + sign;
  }
  refresh(play, worker);
}

function stayCost(play: Play, player: number): number {
  const worker = play.workerOfPlayer[player]!;
  return play.latencyNow[worker]! + ownCost(play, player, worker, 0);
}

function joinCost(play: Play, player: number, worker: number): number {
  const latency = play.unitWeights
    ? play.latencyNext[worker]!
    : latencySeconds(play.game.latency[worker]!, play.load[worker]! + play.weight[player]!);
  return latency + ownCost(play, player, worker, 1);
}

function ownCost(play: Play, player: number, worker: number, joining: number): number {
  const fixed = play.fixed === undefined ? 0 : play.fixed[player * play.workers + worker]!;
  if (play.groups === 0) return fixed;
  const group = play.game.group![player]!;
  return fixed + play.game.groupPrefillSeconds![group]! / (play.groupCount[group * play.workers + worker]! + joining);
}

function bestOther(play: Play, player: number): number {
  const here = play.workerOfPlayer[player]!;
  let best = Number.POSITIVE_INFINITY;
  let bestWorker = -1;
  for (let worker = 0; worker < play.workers; worker++) {
    if (worker === here) continue;
    const cost = joinCost(play, player, worker);
    if (cost < best) {
      best = cost;
      bestWorker = worker;
    }
  }
  return bestWorker;
}

function cheapestWorker(play: Play, player: number): number {
  return Math.max(0, bestOther(play, player));
}

function improve(play: Play, player: number, tolerance: number): boolean {
  const target = bestOther(play, player);
  if (target < 0 || !(joinCost(play, player, target) < stayCost(play, player) - tolerance)) return false;
  shift(play, player, play.workerOfPlayer[player]!, -1);
  enter(play, player, target);
  return true;
}

function largestCost(play: Play): number {
  let largest = 0;
  for (let player = 0; player < play.game.players; player++) {
    const cost = stayCost(play, player);
    if (cost > largest && cost !== Number.POSITIVE_INFINITY) largest = cost;
  }
  return largest;
}

function totalCost(play: Play): number {
  let sum = 0;
  for (let player = 0; player < play.game.players; player++) sum += play.weight[player]! * stayCost(play, player);
  return sum;
}

function outcome(play: Play): { workerOfPlayer: Int32Array; socialCostSeconds: number } {
  // Summed afresh: with weights, the loads kept while playing carry the rounding of every move on the way.
  return { workerOfPlayer: play.workerOfPlayer, socialCostSeconds: socialCostSeconds(play.game, play.workerOfPlayer) };
}

/** Fisher-Yates; one draw per position. */
function shuffle(order: Int32Array, random: () => number): void {
  for (let last = order.length - 1; last > 0; last--) {
    const other = Math.floor(random() * (last + 1));
    const kept = order[last]!;
    order[last] = order[other]!;
    order[other] = kept;
  }
}
