import { type CachingGame, cachingBraessCheck, cachingEquilibrium, createPlacementSolver } from '@braess/games';
import { type StudyTable, said, table } from './study.js';

/**
 * Costs of getting one prefix of 8,192 tokens of Llama-3.1-8B (2 x 32 layers x 8 KV heads x 128 x 2 bytes a token: 1.07 GB), in seconds: from another GPU of
 * the server over NVLink (450 GB/s, H100 datasheet), over a 400 Gbit/s NIC in the rack, over leaf uplinks oversubscribed 4:1, and computed again: 8,192
 * tokens x 2 x 8.03e9 FLOP at half of 989 TFLOP/s (datasheet, dense BF16).
 */
const prefixBytes = 8192 * 2 * 32 * 8 * 128 * 2;
const costs = {
  nvlink: prefixBytes / 450e9,
  rack: prefixBytes / 50e9,
  racks: (4 * prefixBytes) / 50e9,
  miss: (8192 * 2 * 8.03e9) / (0.5 * 989e12),
};

type Distance = (a: number, b: number, nodes: number) => number;

const topologies: readonly { readonly name: string; readonly cost: Distance }[] = [
  { name: 'one NVLink server', cost: () => costs.nvlink },
  { name: 'one rack', cost: () => costs.rack },
  { name: 'two racks', cost: (a, b, nodes) => (a < nodes / 2 === b < nodes / 2 ? costs.rack : costs.racks) },
  { name: 'line (neighbours only)', cost: (a, b) => (Math.abs(a - b) === 1 ? costs.rack : Number.POSITIVE_INFINITY) },
  { name: 'star (through the first)', cost: (a, b) => (a === 0 || b === 0 ? costs.rack : Number.POSITIVE_INFINITY) },
];

/** A small generator for drawn games: the study is the same in every run (Numerical Recipes' 32-bit linear congruence). */
function uniform(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 4_294_967_296;
  };
}

function gameOf(
  cost: Distance,
  nodes: number,
  objects: number,
  capacity: readonly number[],
  demandOf: (node: number, object: number) => number,
): CachingGame {
  const demand = new Float64Array(nodes * objects);
  const accessCost = new Float64Array(nodes * nodes);
  for (let node = 0; node < nodes; node++) {
    for (let object = 0; object < objects; object++) demand[node * objects + object] = demandOf(node, object);
    for (let other = 0; other < nodes; other++) accessCost[node * nodes + other] = node === other ? 0 : cost(node, other, nodes);
  }
  return { nodes, objects, capacity, demand, accessCost, missCost: Array.from({ length: nodes }, () => costs.miss) };
}

/** Equilibrium against central optimum by topology, number of nodes and working set. */
export async function placementTable(quick: boolean): Promise<{ readonly table: StudyTable; readonly finding: string }> {
  const solver = await createPlacementSolver();
  const rows: (string | number | null)[][] = [];
  const sizes = quick ? [4] : [4, 9];
  for (const { name, cost } of topologies)
    for (const nodes of sizes)
      for (const pressure of [0.5, 1, 2, 4]) {
        const perNode = 2;
        const objects = Math.max(2, Math.round(pressure * perNode * nodes));
        const capacity = Array.from({ length: nodes }, () => perNode);
        // Zipf with exponent 0.6, the same at every node.
        const demandOf = (_node: number, object: number): number => Math.exp(-0.6 * Math.log(object + 1));
        const game = gameOf(cost, nodes, objects, capacity, demandOf);
        const selfish = cachingEquilibrium(game);
        const { totalCost, lowerBound } = solver.optimum(game);
        const ratio = totalCost > 0 ? selfish.totalCost / totalCost : null;
        rows.push([
          name,
          nodes,
          pressure,
          selfish.converged ? selfish.totalCost : null,
          totalCost,
          lowerBound,
          selfish.converged ? ratio : null,
        ]);
      }
  const ratios = rows.filter((row) => row[6] !== null);
  const worst = ratios.reduce((a, b) => ((b[6] as number) > (a[6] as number) ? b : a));
  const server = Math.max(...ratios.filter((row) => row[0] === topologies[0]!.name).map((row) => row[6] as number));
  return {
    table: table(
      'placement',
      'Selfish equilibrium against central placement, as a game',
      'Equal demand at all nodes (Zipf 0.6), two prefixes a node; costs in seconds a round of demand; equilibrium by best response from empty caches, optimum by mixed-integer programming (with the bound of its relaxation).',
      ['topology', 'nodes', 'working set / cache', 'selfish', 'central', 'lower bound', 'price of anarchy'],
      rows,
    ),
    finding: `As a game with the same costs, selfish placement costs at most ${said(server, 2)} times the central one inside one NVLink server and ${said(worst[6] as number, 2)} times at worst (${worst[0]}, ${worst[1]} nodes, working set ${worst[2]} x the caches).`,
  };
}

/**
 * Of each topology: games that have pure equilibria, in how many of them a further cache raised what the others pay together (at the best and at the worst
 * equilibrium) and what all pay (at the best), and the largest rise of what the others pay, as a share.
 */
export interface BraessSearch {
  readonly rows: readonly {
    readonly topology: string;
    readonly games: number;
    readonly best: number;
    readonly worst: number;
    readonly everybody: number;
    readonly most: number;
  }[];
}

/** Draws small games and adds a cache to the last node: how often does that raise what the other nodes pay in equilibrium? */
export function searchBraess(games: number): BraessSearch {
  return {
    rows: topologies.map(({ name, cost }, place) => {
      const draw = uniform(place + 1);
      let [counted, best, worst, everybody, most] = [0, 0, 0, 0, 0];
      for (let game = 0; game < games; game++) {
        const nodes = 3 + Math.floor(draw() * 2);
        const objects = 2 + Math.floor(draw() * 3);
        const demands = Array.from({ length: nodes * objects }, () => (draw() < 0.25 ? 0 : draw()));
        const capacity = Array.from({ length: nodes }, () => 1);
        const check = cachingBraessCheck(
          gameOf(cost, nodes, objects, capacity, (node, object) => demands[node * objects + object]!),
          nodes - 1,
        );
        if (Number.isNaN(check.others.bestWith) || Number.isNaN(check.others.bestWithout)) continue;
        counted++;
        if (check.others.hurtsAtBest) best++;
        if (check.others.hurtsAtWorst) worst++;
        if (check.everybody.hurtsAtBest) everybody++;
        // Where the others paid nothing before, there is no ratio.
        if (check.others.bestWithout > 0) most = Math.max(most, check.others.bestWith / check.others.bestWithout - 1);
      }
      return { topology: name, games: counted, best, worst, everybody, most };
    }),
  };
}

export function braessTable({ rows }: BraessSearch): StudyTable {
  return table(
    'braess',
    'A further cache node in random games: who pays?',
    '3 or 4 nodes, 2 to 4 prefixes, one place a node, random demand; all pure equilibria with and without the last node’s cache, which goes on asking in both. Games without a pure equilibrium are left out.',
    [
      'topology',
      'games',
      'others worse, best eq. (%)',
      'others worse, worst eq. (%)',
      'all worse, best eq. (%)',
      'largest loss of the others (%)',
    ],
    rows.map(({ topology, games, best, worst, everybody, most }) => [
      topology,
      games,
      (100 * best) / games,
      (100 * worst) / games,
      (100 * everybody) / games,
      100 * most,
    ]),
  );
}
