import {
  bestCachingReply,
  type CachingGame,
  cachingBraessCheck,
  cachingEquilibrium,
  cachingNodeCost,
  cachingTotalCost,
  createPlacementSolver,
  enumerateCachingEquilibria,
  isCachingEquilibrium,
} from '@braess/games';
import { beforeAll, describe, expect, it } from 'vitest';
import { testStream } from './random.js';

const solver = { optimum: undefined as unknown as Awaited<ReturnType<typeof createPlacementSolver>>['optimum'] };
beforeAll(async () => {
  solver.optimum = (await createPlacementSolver()).optimum;
});

function uniformDistances(nodes: number, remote: number): Float64Array {
  return Float64Array.from({ length: nodes * nodes }, (_, index) => (Math.floor(index / nodes) === index % nodes ? 0 : remote));
}

const twoNodes: CachingGame = {
  nodes: 2,
  objects: 2,
  capacity: [1, 1],
  demand: Float64Array.of(0.93, 0.07, 0.93, 0.07),
  accessCost: uniformDistances(2, 1),
  missCost: [10, 10],
};

/** Every placement by counting in binary, filtered by capacity. */
function allPlacements(game: CachingGame): Uint8Array[] {
  const cells = game.nodes * game.objects;
  const found: Uint8Array[] = [];
  for (let code = 0; code < 1 << cells; code++) {
    const placement = Uint8Array.from({ length: cells }, (_, cell) => (code >> cell) & 1);
    const fits = game.capacity.every((capacity, node) => {
      let kept = 0;
      for (let object = 0; object < game.objects; object++) kept += placement[node * game.objects + object]!;
      return kept <= capacity;
    });
    if (fits) found.push(placement);
  }
  return found;
}

function randomGame(random: () => number): CachingGame {
  const nodes = 2 + Math.floor(random() * 2);
  const objects = 3;
  const accessCost = new Float64Array(nodes * nodes);
  for (let left = 0; left < nodes; left++)
    for (let right = 0; right < left; right++) {
      accessCost[left * nodes + right] = accessCost[right * nodes + left] = 0.5 + random() * 3;
    }
  return {
    nodes,
    objects,
    capacity: Array.from({ length: nodes }, () => Math.floor(random() * 3)),
    demand: Float64Array.from({ length: nodes * objects }, () => (random() < 0.2 ? 0 : random())),
    accessCost,
    missCost: Array.from({ length: nodes }, () => 2 + random() * 5),
    placementCost: random() < 0.5 ? 0 : random(),
  };
}

describe('selfish caching', () => {
  it('gives 1.4 selfishly and 1.0 centrally for two nodes of capacity 1, demand .93 / .07, remote 1, miss 10', () => {
    const range = enumerateCachingEquilibria(twoNodes);
    expect(range.worstCost).toBeCloseTo(1.4, 12);
    expect(range.bestCost).toBeCloseTo(1.4, 12);
    expect(cachingEquilibrium(twoNodes)).toMatchObject({ converged: true });
    expect(cachingEquilibrium(twoNodes).totalCost).toBeCloseTo(1.4, 12);
    const central = solver.optimum(twoNodes);
    expect(central.totalCost).toBeCloseTo(1, 9);
    expect(central.lowerBound).toBeLessThanOrEqual(1 + 1e-9);
  });

  it('has price of anarchy 1 uncapacitated with uniform demand on a complete graph, cheap or dear replicas', () => {
    for (const placementCost of [0.4, 1.7]) {
      const game: CachingGame = {
        nodes: 4,
        objects: 1,
        capacity: [1, 1, 1, 1],
        demand: new Float64Array(4).fill(1),
        accessCost: uniformDistances(4, 1),
        missCost: [50, 50, 50, 50],
        placementCost,
      };
      const range = enumerateCachingEquilibria(game);
      const central = solver.optimum(game);
      // Replicas below the distance: everybody keeps one. Above: exactly one does, the rest travel.
      const expected = placementCost < 1 ? 4 * placementCost : placementCost + 3;
      expect(central.totalCost).toBeCloseTo(expected, 9);
      expect(range.worstCost).toBeCloseTo(expected, 12);
      expect(range.equilibria).toBe(placementCost < 1 ? 1 : 4);
    }
  });

  it('agrees with a search over all placements: central optimum, set of equilibria, best replies', () => {
    const random = testStream(19);
    for (let round = 0; round < 25; round++) {
      const game = randomGame(random);
      const all = allPlacements(game);
      const optimum = Math.min(...all.map((placement) => cachingTotalCost(game, placement)));
      const central = solver.optimum(game);
      expect(central.totalCost).toBeCloseTo(optimum, 7);
      expect(central.lowerBound).toBeLessThanOrEqual(optimum + 1e-7);
      const equilibria = all.filter((placement) =>
        Array.from({ length: game.nodes }, (_, node) => node).every((node) => {
          const now = cachingNodeCost(game, placement, node);
          return all
            .filter((other) => other.every((kept, cell) => Math.floor(cell / game.objects) === node || kept === placement[cell]))
            .every((other) => cachingNodeCost(game, other, node) >= now - 1e-12);
        }),
      );
      expect(enumerateCachingEquilibria(game).equilibria).toBe(equilibria.length);
      const reached = cachingEquilibrium(game);
      if (reached.converged) expect(isCachingEquilibrium(game, reached.placement)).toBe(true);
      const reply = bestCachingReply(game, reached.placement, 0);
      expect(reply.reduce((sum, kept) => sum + kept, 0)).toBeLessThanOrEqual(game.capacity[0]!);
    }
  });

  it('finds a cache node whose arrival costs the others more (a Braess paradox of caching)', () => {
    // Objects A, B; distances 0-1: 1, 0-2: 1, 1-2: 2. Node 0 (room for one) asks for A 10 and B 9 times a second and misses at 1.3;
    // nodes 1 (no cache) and 2 ask for A alone, 10 times a second, and miss at 5.
    // Node 2 without a cache: A saves node 0 13 and B 11.7, so it keeps A. Cost of nodes 0 and 1: 9 x 1.3 + 10 x 1 = 21.7.
    // With one, node 2 keeps A; A now saves node 0 only 10 x 1 = 10 < 11.7, so it turns to B. Cost: 10 x 1 + 10 x 2 = 30.
    const game: CachingGame = {
      nodes: 3,
      objects: 2,
      capacity: [1, 0, 1],
      demand: Float64Array.of(10, 9, 10, 0, 10, 0),
      accessCost: Float64Array.of(0, 1, 1, 1, 0, 2, 1, 2, 0),
      missCost: [1.3, 5, 5],
    };
    const check = cachingBraessCheck(game, 2);
    expect(check.others.bestWithout).toBeCloseTo(21.7, 12);
    expect(check.others.worstWith).toBeCloseTo(30, 12);
    expect(check.others).toMatchObject({ hurtsAtBest: true, hurtsAtWorst: true });
    // Node 2 itself saves 10 requests x 1, more than the others lose.
    expect(check.everybody.worstWithout).toBeCloseTo(31.7, 12);
    expect(check.everybody).toMatchObject({ hurtsAtBest: false, hurtsAtWorst: false });
    // Where a miss costs node 0 5 as well, its own gain outweighs node 1's loss: 45 + 10 before, 10 + 20 after.
    const kind = cachingBraessCheck({ ...game, missCost: [5, 5, 5] }, 2);
    expect(kind.others.worstWith).toBeCloseTo(30, 12);
    expect(kind.others.worstWithout).toBeCloseTo(55, 12);
    expect(kind.others.hurtsAtBest).toBe(false);
    // A second node like node 1 tips the sum over everybody: 41.7 without the cache, 50 with it.
    const crowd: CachingGame = {
      nodes: 4,
      objects: 2,
      capacity: [1, 0, 1, 0],
      demand: Float64Array.of(10, 9, 10, 0, 10, 0, 10, 0),
      accessCost: Float64Array.of(0, 1, 1, 1, 1, 0, 2, 2, 1, 2, 0, 2, 1, 2, 2, 0),
      missCost: [1.3, 5, 5, 5],
    };
    const paradox = cachingBraessCheck(crowd, 2);
    expect(paradox.everybody.bestWithout).toBeCloseTo(41.7, 12);
    expect(paradox.everybody.bestWith).toBeCloseTo(50, 12);
    expect(paradox.everybody).toMatchObject({ hurtsAtBest: true, hurtsAtWorst: true });
    // A planner is never worse off for a cache: it may leave it empty.
    const planned = (capacity: number[]) => solver.optimum({ ...crowd, capacity }).totalCost;
    expect(planned([1, 0, 1, 0])).toBeLessThanOrEqual(planned([1, 0, 0, 0]));
  });

  it('solves a placement of useful size exactly and refuses one past the limit', async () => {
    const random = testStream(3);
    const game: CachingGame = {
      nodes: 6,
      objects: 20,
      capacity: [4, 4, 4, 4, 4, 4],
      demand: Float64Array.from({ length: 120 }, (_, index) => (0.5 + random()) / (1 + (index % 20))),
      accessCost: uniformDistances(6, 1),
      missCost: [10, 10, 10, 10, 10, 10],
    };
    const central = solver.optimum(game);
    expect(central.lowerBound).toBeLessThanOrEqual(central.totalCost + 1e-6);
    expect(central.totalCost).toBeLessThanOrEqual(cachingEquilibrium(game).totalCost + 1e-9);
    expect(() => enumerateCachingEquilibria(game)).toThrow(/use cachingEquilibrium/);
    const small = await createPlacementSolver(10);
    expect(() => small.optimum(game)).toThrow(/above maximumVariables 10/);
  });
});
