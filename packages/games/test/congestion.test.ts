import {
  affineLatency,
  atomicNetworkGame,
  braessEdges,
  congestionEquilibrium,
  enumerateCongestion,
  type NetworkGame,
  networkPriceOfAnarchy,
  simplePaths,
  systemOptimum,
  wardropEquilibrium,
} from '@braess/games';
import { describe, expect, it } from 'vitest';
import { testStream } from './random.js';

const pigou: NetworkGame = {
  nodes: 2,
  edges: [
    { from: 0, to: 1, latency: affineLatency(0, 1) },
    { from: 0, to: 1, latency: affineLatency(1, 0) },
  ],
  demands: [{ source: 0, sink: 1, amount: 1 }],
};

function braess(slope: number, constant: number, amount: number): NetworkGame {
  return {
    nodes: 4,
    edges: [
      { from: 0, to: 1, latency: affineLatency(slope, 0) },
      { from: 0, to: 2, latency: affineLatency(0, constant) },
      { from: 1, to: 3, latency: affineLatency(0, constant) },
      { from: 2, to: 3, latency: affineLatency(slope, 0) },
      { from: 1, to: 2, latency: affineLatency(0, 0) },
    ],
    demands: [{ source: 0, sink: 3, amount }],
  };
}

describe('nonatomic network games', () => {
  it('gives Pigou 4/3: equilibrium 1, optimum 3/4 with half on each link', () => {
    expect(wardropEquilibrium(pigou).totalCost).toBeCloseTo(1, 9);
    const optimum = systemOptimum(pigou);
    expect(optimum.totalCost).toBeCloseTo(0.75, 9);
    expect(optimum.edgeFlow[1]).toBeCloseTo(0.5, 6);
    expect(networkPriceOfAnarchy(pigou)).toBeCloseTo(4 / 3, 8);
  });

  it('gives the Braess network 2 with the shortcut and 1.5 without, and names the shortcut alone', () => {
    const network = braess(1, 1, 1);
    expect(wardropEquilibrium(network).totalCost).toBeCloseTo(2, 9);
    expect(systemOptimum(network).totalCost).toBeCloseTo(1.5, 9);
    const hurting = braessEdges(network);
    expect(hurting.map((found) => found.edge)).toEqual([4]);
    expect(hurting[0]!.costWithout).toBeCloseTo(1.5, 9);
  });

  it('equalises used paths and stays at most 4/3 over random affine networks', () => {
    const random = testStream(31);
    for (let round = 0; round < 60; round++) {
      const edges = Array.from({ length: 10 }, () => {
        const from = Math.floor(random() * 4);
        return { from, to: (from + 1 + Math.floor(random() * 4)) % 5, latency: affineLatency(random(), random()) };
      });
      const network = {
        nodes: 5,
        edges: [...edges, { from: 0, to: 4, latency: affineLatency(1, 2) }, { from: 1, to: 4, latency: affineLatency(2, 1) }],
        demands: [
          { source: 0, sink: 4, amount: 1 + random() },
          { source: 1, sink: 4, amount: random() },
        ],
      };
      const equilibrium = wardropEquilibrium(network);
      expect(equilibrium.converged).toBe(true);
      const ratio = networkPriceOfAnarchy(network);
      expect(ratio).toBeGreaterThanOrEqual(1 - 1e-9);
      expect(ratio).toBeLessThanOrEqual(4 / 3 + 1e-9);
    }
  });

  it('says which demand has no path', () => {
    expect(() => wardropEquilibrium({ ...pigou, demands: [{ source: 1, sink: 0, amount: 1 }] })).toThrow(
      /no path leads from node 1 to node 0/,
    );
    expect(simplePaths(braess(1, 1, 1), 0, 3, 10).length).toBe(3);
  });
});

describe('atomic congestion games', () => {
  it('reaches 5/2 on the known worst affine instance', () => {
    // Players i of 3, resources h0..h2 (0..2) and g0..g2 (3..5), latency x: {h_i, g_i}, or {g_(i+1), h_(i-1), h_(i+1)}.
    // Christodoulou and Koutsoupias, STOC 2005: the first choices cost 6, the second ones are an equilibrium of cost 15.
    const strategies = [0, 1, 2].map((i) => [
      [i, 3 + i],
      [3 + ((i + 1) % 3), (i + 2) % 3, (i + 1) % 3],
    ]);
    const range = enumerateCongestion({ latency: Array.from({ length: 6 }, () => affineLatency(1, 0)), strategies });
    expect(range.optimum.socialCostSeconds).toBe(6);
    expect(range.worstEquilibrium.socialCostSeconds).toBe(15);
    expect(range.anarchy).toBe(2.5);
  });

  it('stays at most 5/2 over random affine games, and best response ends inside the range', () => {
    const random = testStream(13);
    let highest = 1;
    for (let round = 0; round < 300; round++) {
      const latency = Array.from({ length: 6 }, () => affineLatency(random(), random() < 0.7 ? 0 : random()));
      const strategies = Array.from({ length: 2 + Math.floor(random() * 3) }, () =>
        Array.from({ length: 3 }, () => {
          const chosen = [0, 1, 2, 3, 4, 5].filter(() => random() < 0.4);
          return chosen.length > 0 ? chosen : [Math.floor(random() * 6)];
        }),
      );
      const range = enumerateCongestion({ latency, strategies });
      highest = Math.max(highest, range.anarchy);
      expect(range.anarchy).toBeLessThanOrEqual(2.5 + 1e-9);
      expect(range.stability).toBeLessThanOrEqual(range.anarchy);
      const reached = congestionEquilibrium({ latency, strategies }).socialCostSeconds;
      expect(reached).toBeGreaterThanOrEqual(range.bestEquilibrium.socialCostSeconds - 1e-9);
      expect(reached).toBeLessThanOrEqual(range.worstEquilibrium.socialCostSeconds + 1e-9);
    }
    expect(highest).toBeGreaterThan(1.05);
  });

  it('shows the Braess paradox with whole players: 4 drivers pay 8 x 4 with the shortcut, 6 x 4 without', () => {
    // Slopes 1, constant 4: on the shortcut everybody pays 4 + 0 + 4; split two and two each pays 2 + 4.
    const network = braess(1, 4, 4);
    const range = enumerateCongestion(atomicNetworkGame(network));
    expect(range.worstEquilibrium.socialCostSeconds).toBe(32);
    const without = enumerateCongestion(atomicNetworkGame({ ...network, edges: network.edges.slice(0, 4) }));
    expect(without.worstEquilibrium.socialCostSeconds).toBe(24);
    expect(range.optimum.socialCostSeconds).toBe(24);
  });
});
