import { latencySeconds } from './latency-model.js';
import { type RoutingGame, socialCostSeconds } from './routing-game.js';

/**
 * A placement that no single move makes cheaper for everybody together, reached by first-improvement descent from `start`.
 * It is a local optimum: its cost is an upper bound on the social optimum. Use it where the exact optimum is out of reach
 * (prefix groups, weights). At most `maximumSweeps` passes over the players (default 1,000).
 */
export function socialDescent(
  game: RoutingGame,
  start: Int32Array,
  maximumSweeps = 1000,
): { readonly workerOfPlayer: Int32Array; readonly socialCostSeconds: number } {
  const tally = createTally(game, start);
  const tolerance = 1e-12 * Math.min(Number.MAX_VALUE, socialCostSeconds(game, start));
  for (let sweep = 0, moved = true; moved && sweep < maximumSweeps; sweep++) {
    moved = false;
    for (let player = 0; player < game.players; player++) if (moveForAll(game, tally, player, tolerance)) moved = true;
  }
  return { workerOfPlayer: tally.workerOfPlayer, socialCostSeconds: socialCostSeconds(game, tally.workerOfPlayer) };
}

interface Tally {
  readonly workerOfPlayer: Int32Array;
  /** Players' weight on each worker, without the present load. */
  readonly weightOn: Float64Array;
  /** groups x workers: members and their weight. */
  readonly members: Int32Array;
  readonly memberWeight: Float64Array;
}

function createTally(game: RoutingGame, start: Int32Array): Tally {
  const workers = game.latency.length;
  const groups = game.groupPrefillSeconds?.length ?? 0;
  const tally: Tally = {
    workerOfPlayer: start.slice(),
    weightOn: new Float64Array(workers),
    members: new Int32Array(groups * workers),
    memberWeight: new Float64Array(groups * workers),
  };
  for (let player = 0; player < game.players; player++) shift(game, tally, player, start[player]!, 1);
  return tally;
}

function shift(game: RoutingGame, tally: Tally, player: number, worker: number, sign: number): void {
  const weight = sign * (game.weight?.[player] ?? 1);
  tally.weightOn[worker] = tally.weightOn[worker]! + weight;
  if (!game.group) return;
  const index = game.group[player]! * game.latency.length + worker;
  tally.members[index] = tally.members[index]! + sign;
  tally.memberWeight[index] = tally.memberWeight[index]! + weight;
}

/** Part of the social cost that `player`'s presence on `worker` can change. */
function costAround(game: RoutingGame, tally: Tally, player: number, worker: number): number {
  const load = tally.weightOn[worker]!;
  const shared = load === 0 ? 0 : load * latencySeconds(game.latency[worker]!, load + (game.presentLoad?.[worker] ?? 0));
  if (!game.group) return shared;
  const group = game.group[player]!;
  const index = group * game.latency.length + worker;
  const members = tally.members[index]!;
  return members === 0 ? shared : shared + (tally.memberWeight[index]! * game.groupPrefillSeconds![group]!) / members;
}

function moveForAll(game: RoutingGame, tally: Tally, player: number, tolerance: number): boolean {
  const workers = game.latency.length;
  const weight = game.weight?.[player] ?? 1;
  const from = tally.workerOfPlayer[player]!;
  const fixed = (worker: number) => weight * (game.fixedSeconds?.[player * workers + worker] ?? 0);
  const withIt = costAround(game, tally, player, from) + fixed(from);
  shift(game, tally, player, from, -1);
  const saved = withIt - costAround(game, tally, player, from);
  let best = saved - tolerance;
  let target = from;
  for (let to = 0; to < workers; to++) {
    if (to === from) continue;
    const before = costAround(game, tally, player, to);
    shift(game, tally, player, to, 1);
    const added = costAround(game, tally, player, to) + fixed(to) - before;
    shift(game, tally, player, to, -1);
    if (added < best) {
      best = added;
      target = to;
    }
  }
  shift(game, tally, player, target, 1);
  tally.workerOfPlayer[player] = target;
  return target !== from;
}
