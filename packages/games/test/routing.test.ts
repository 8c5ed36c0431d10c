import {
  affineLatency,
  bestResponse,
  largestUnilateralGain,
  latencySeconds,
  marginalLatencyCosts,
  optimumUnderLoad,
  playerCostSeconds,
  potentialKind,
  priceOfAnarchy,
  type RoutingGame,
  routingOptimum,
  routingPotential,
  type SaturatingLatency,
  socialCostSeconds,
  socialDescent,
  solveAssignment,
} from '@braess/games';
import { describe, expect, it } from 'vitest';
import { testStream } from './random.js';

function randomLatency(random: () => number): SaturatingLatency {
  return {
    slopeSeconds: random(),
    interceptSeconds: random() * 2,
    poleScale: random() < 0.5 ? 0 : random(),
    saturationLoad: 3 + Math.floor(random() * 6),
    poleExponent: 0.5 + random() * 2,
  };
}

function placements(players: number, workers: number): Int32Array[] {
  const all: Int32Array[] = [];
  for (let code = 0; code < workers ** players; code++) {
    let rest = code;
    all.push(
      Int32Array.from({ length: players }, () => {
        const worker = rest % workers;
        rest = Math.floor(rest / workers);
        return worker;
      }),
    );
  }
  return all;
}

/** Social cost from the definition alone: each player's latency at its worker's load, plus its own fixed cost. */
function definitionCost(game: RoutingGame, placement: Int32Array): number {
  const workers = game.latency.length;
  let cost = 0;
  placement.forEach((worker, player) => {
    let load = game.presentLoad?.[worker] ?? 0;
    let mates = 0;
    placement.forEach((other, index) => {
      if (other !== worker) return;
      load += game.weight?.[index] ?? 1;
      if (game.group && game.group[index] === game.group[player]) mates++;
    });
    const prefill = game.group ? game.groupPrefillSeconds![game.group[player]!]! / mates : 0;
    const fixed = game.fixedSeconds?.[player * workers + worker] ?? 0;
    cost += (game.weight?.[player] ?? 1) * (latencySeconds(game.latency[worker]!, load) + fixed + prefill);
  });
  return cost;
}

function randomGame(random: () => number, kind: number): RoutingGame {
  const players = 2 + Math.floor(random() * 4);
  const workers = 2 + Math.floor(random() * 2);
  const base = {
    players,
    latency: Array.from({ length: workers }, () => (kind === 1 ? affineLatency(random(), random()) : randomLatency(random))),
    fixedSeconds: Float64Array.from({ length: players * workers }, () => random() * 2),
    presentLoad: Float64Array.from({ length: workers }, () => Math.floor(random() * 2)),
  };
  if (kind === 1) return { ...base, weight: Float64Array.from({ length: players }, () => 0.5 + random()) };
  if (kind === 2)
    return {
      ...base,
      group: Int32Array.from({ length: players }, () => Math.floor(random() * 2)),
      groupPrefillSeconds: Float64Array.of(1.5, 0.7),
    };
  return base;
}

describe('optimum under load-dependent costs', () => {
  it('equals brute force on small cases with fixed costs, poles and load that is there already', () => {
    const random = testStream(23);
    for (let round = 0; round < 150; round++) {
      const game = randomGame(random, 0);
      const expected = Math.min(...placements(game.players, game.latency.length).map((placement) => definitionCost(game, placement)));
      const solved = routingOptimum(game);
      if (expected === Number.POSITIVE_INFINITY) expect(solved).toBeUndefined();
      else {
        expect(solved!.costSeconds).toBeCloseTo(expected, 9);
        expect(definitionCost(game, solved!.placement)).toBeCloseTo(expected, 9);
      }
    }
  });

  it('counts what newcomers inflict on those present when asked to', () => {
    // Worker 0: l = n with 3 requests there; worker 1: l = 10. One newcomer: own cost 4 against 10, everybody's 16 - 9 = 7 against 10.
    const latency = [affineLatency(1, 0), affineLatency(0, 10)];
    const present = Float64Array.of(3, 0);
    expect(optimumUnderLoad(1, 2, marginalLatencyCosts(latency, 1, present))!.totalCost).toBe(7);
    expect(optimumUnderLoad(1, 2, marginalLatencyCosts(latency, 1, present, 'players'))!.totalCost).toBe(4);
  });

  it('agrees with slot expansion through the assignment solver at a size brute force cannot do', () => {
    const random = testStream(99);
    const [players, workers] = [40, 8];
    const latency = Array.from({ length: workers }, () => ({ ...randomLatency(random), saturationLoad: 30 }));
    const marginal = marginalLatencyCosts(latency, players);
    const fixed = Float64Array.from({ length: players * workers }, () => random() * 5);
    const expanded = new Float64Array(players * workers * players);
    for (let player = 0; player < players; player++)
      for (let worker = 0; worker < workers; worker++)
        for (let slot = 0; slot < players; slot++)
          expanded[player * workers * players + worker * players + slot] =
            fixed[player * workers + worker]! + marginal[worker * players + slot]!;
    const expected = solveAssignment(expanded, players, workers * players)!.totalCost;
    expect(optimumUnderLoad(players, workers, marginal, fixed)!.totalCost).toBeCloseTo(expected, 8);
  });

  it('refuses marginals that fall and reports a full cluster as undefined', () => {
    expect(() => optimumUnderLoad(2, 1, Float64Array.of(2, 1))).toThrow(/must not fall/);
    expect(optimumUnderLoad(2, 1, Float64Array.of(1, Number.POSITIVE_INFINITY))).toBeUndefined();
  });
});

describe('routing game', () => {
  it('computes costs as the definition says, in all three kinds of game', () => {
    const random = testStream(7);
    for (let round = 0; round < 60; round++) {
      const game = randomGame(random, round % 3);
      const placement = Int32Array.from({ length: game.players }, () => Math.floor(random() * game.latency.length));
      const expected = definitionCost(game, placement);
      const actual = socialCostSeconds(game, placement);
      if (expected === Number.POSITIVE_INFINITY) expect(actual).toBe(expected);
      else expect(actual).toBeCloseTo(expected, 9);
    }
  });

  it('has a potential that changes by weight x gain for every single move', () => {
    const random = testStream(41);
    let compared = 0;
    for (let round = 0; round < 200; round++) {
      const game = randomGame(random, round % 3);
      const kind = potentialKind(game);
      expect(kind).toBe(round % 3 === 1 ? 'weighted' : 'exact');
      const before = Int32Array.from({ length: game.players }, () => Math.floor(random() * game.latency.length));
      const player = Math.floor(random() * game.players);
      const after = before.slice();
      after[player] = (before[player]! + 1) % game.latency.length;
      const potentials = [routingPotential(game, before)!, routingPotential(game, after)!] as const;
      if (!potentials.every(Number.isFinite)) continue;
      const gain = playerCostSeconds(game, after, player) - playerCostSeconds(game, before, player);
      expect(potentials[1] - potentials[0]).toBeCloseTo(gain * (game.weight?.[player] ?? 1), 9);
      compared++;
    }
    expect(compared).toBeGreaterThan(80);
  });

  it('reports no potential for weighted players on a curved latency', () => {
    const curved = { slopeSeconds: 1, interceptSeconds: 0, poleScale: 1, saturationLoad: 9, poleExponent: 1 };
    const game = { players: 2, latency: [curved, curved], weight: Float64Array.of(1, 2) };
    expect(potentialKind(game)).toBe('none');
    expect(routingPotential(game, Int32Array.of(0, 1))).toBeUndefined();
  });

  it('ends best response in an equilibrium that brute force confirms', () => {
    const random = testStream(57);
    for (let round = 0; round < 90; round++) {
      const game = randomGame(random, round % 3);
      const reached = bestResponse(game, { random });
      expect(reached.converged).toBe(true);
      const here = reached.workerOfPlayer;
      for (let player = 0; player < game.players; player++) {
        const now = playerCostSeconds(game, here, player);
        for (let worker = 0; worker < game.latency.length; worker++) {
          const trial = here.slice();
          trial[player] = worker;
          if (now < Number.POSITIVE_INFINITY) expect(playerCostSeconds(game, trial, player)).toBeGreaterThanOrEqual(now - 1e-9);
        }
      }
    }
  });

  it('finds 1,000 players x 64 workers in at most 100 ms', () => {
    const random = testStream(1);
    const latency = Array.from({ length: 64 }, () => ({
      ...randomLatency(random),
      poleScale: 0.3,
      saturationLoad: 40 + Math.floor(random() * 30),
    }));
    const fixedSeconds = Float64Array.from({ length: 64_000 }, () => random());
    const solve = () => bestResponse({ players: 1000, latency, fixedSeconds }, { start: new Int32Array(1000) });
    const reached = solve();
    // Best of four: other work on the machine only ever adds time.
    const times = Array.from({ length: 4 }, () => {
      const start = performance.now();
      solve();
      return performance.now() - start;
    });
    expect(reached.converged).toBe(true);
    expect(largestUnilateralGain({ players: 1000, latency, fixedSeconds }, reached.workerOfPlayer)).toBeLessThan(1e-9);
    expect(Math.min(...times)).toBeLessThanOrEqual(100);
  });
});

describe('price of anarchy and of stability', () => {
  it('gives 4/3 for n players on Pigou links l1 = n, l2 = x, in the limit of the worst equilibrium', () => {
    // All n on x pay n each (nobody gains by paying n); the best split is n/2 : n/2 with cost 3 n^2 / 4.
    const game = { players: 8, latency: [affineLatency(0, 8), affineLatency(1, 0)] };
    const result = priceOfAnarchy(game);
    expect(result.equilibriaBasis).toBe('enumerated');
    expect(result.optimumSeconds).toBe(48);
    expect(result.worstEquilibriumSeconds).toBe(64);
    expect(result.anarchy).toBeCloseTo(4 / 3, 12);
    // One player off x: seven pay 7, one pays 8: 57.
    expect(result.bestEquilibriumSeconds).toBe(57);
    expect(result.stability).toBeCloseTo(57 / 48, 12);
  });

  it('stays within the enumerated range when sampled, and finds the exact optimum', () => {
    const random = testStream(77);
    for (let round = 0; round < 40; round++) {
      const game = randomGame(random, round % 3);
      const exact = priceOfAnarchy(game);
      const sampled = priceOfAnarchy(game, { maximumPlacements: 1, random });
      if (Number.isNaN(exact.anarchy)) continue;
      expect(sampled.equilibria).toBeGreaterThan(0);
      expect(sampled.worstEquilibriumSeconds).toBeLessThanOrEqual(exact.worstEquilibriumSeconds * (1 + 1e-9));
      expect(sampled.bestEquilibriumSeconds).toBeGreaterThanOrEqual(exact.bestEquilibriumSeconds * (1 - 1e-9));
      expect(sampled.optimumSeconds).toBeGreaterThanOrEqual(exact.optimumSeconds * (1 - 1e-9));
      if (sampled.optimumBasis === 'exact') expect(sampled.optimumSeconds).toBeCloseTo(exact.optimumSeconds, 9);
    }
    expect(() => priceOfAnarchy({ players: 99, latency: [affineLatency(1, 0), affineLatency(1, 0)] })).toThrow(/pass `random`/);
  });

  it('descends to a placement that no single move makes cheaper for all, with groups, weights and fixed costs', () => {
    const random = testStream(61);
    for (let round = 0; round < 90; round++) {
      const base = randomGame(random, 1 + (round % 2));
      const game = { ...base, latency: base.latency.map((model) => ({ ...model, poleScale: 0 })) };
      const start = Int32Array.from({ length: game.players }, () => Math.floor(random() * game.latency.length));
      const reached = socialDescent(game, start);
      expect(reached.socialCostSeconds).toBeCloseTo(definitionCost(game, reached.workerOfPlayer), 9);
      expect(reached.socialCostSeconds).toBeLessThanOrEqual(definitionCost(game, start) + 1e-9);
      for (let player = 0; player < game.players; player++) {
        for (let worker = 0; worker < game.latency.length; worker++) {
          const moved = reached.workerOfPlayer.slice();
          moved[player] = worker;
          expect(definitionCost(game, moved)).toBeGreaterThanOrEqual(reached.socialCostSeconds - 1e-9);
        }
      }
    }
  });

  it('lets a planner gather a prefix group that selfish players scatter', () => {
    // Two players of one group, prefill 1 s shared; own latency n on each worker. Together: 2 (2 + 1/2) = 5; apart: 2 (1 + 1) = 4.
    const game = {
      players: 2,
      latency: [affineLatency(1, 0), affineLatency(1, 0)],
      group: Int32Array.of(0, 0),
      groupPrefillSeconds: Float64Array.of(1),
    };
    expect(priceOfAnarchy(game)).toMatchObject({ optimumSeconds: 4, worstEquilibriumSeconds: 4, equilibria: 2 });
    // Prefill 4 s: together 2 (2 + 2) = 8, apart 2 (1 + 4) = 10, and together is the only equilibrium.
    const long = { ...game, groupPrefillSeconds: Float64Array.of(4) };
    expect(priceOfAnarchy(long)).toMatchObject({ optimumSeconds: 8, worstEquilibriumSeconds: 8, equilibria: 2 });
    // A single move makes nothing better for all: apart is left, together is kept.
    expect(socialDescent(long, Int32Array.of(0, 1)).socialCostSeconds).toBe(8);
  });
});
