import {
  buildTopology,
  choosePath,
  createRoutes,
  HOP_LIMIT,
  nextLink,
  setLinkShare,
  type Topology,
  type TopologySpec,
} from '@braess/fabric';
import { describe, expect, it } from 'vitest';
import { fatTree, H100_SERVER } from './clusters.js';
import { seededUniform } from './random.js';

const host = { bytesPerSecond: 100e9, latencyNs: 300 };
const storage = { nodesPerPod: 2, link: { bytesPerSecond: 25e9, latencyNs: 900 } };
const SHAPES: Record<string, TopologySpec> = {
  'one server': fatTree(1, 1, 1),
  'fat-tree with hosts and storage': fatTree(3, 2, 2, { server: { ...H100_SERVER, host }, storage }),
  'rail-optimised, two NICs a GPU, hosts': { ...fatTree(2, 2, 2, { server: { ...H100_SERVER, nics: 16, host } }), kind: 'rail-optimised' },
  'four GPUs a NIC': fatTree(2, 2, 2, { server: { ...H100_SERVER, nics: 2 } }),
  'one NIC a rack': fatTree(1, 2, 1, { server: { ...H100_SERVER, nics: 1 }, storage }),
  'multi-zone': {
    kind: 'multi-zone',
    zones: 3,
    zone: fatTree(1, 2, 1, { storage }),
    gatewaysPerZone: 2,
    gatewayUplink: { bytesPerSecond: 100e9, latencyNs: 900 },
    interZone: { bytesPerSecond: 12.5e9, latencyNs: 1e6 },
  },
};

/** Lengths of links, PCIe, between a GPU and a NIC, counting 2. */
function lengthsOf(topology: Topology): number[] {
  const is = (node: number | undefined, kind: string): boolean => topology.nodeNames[node!]!.split('/').at(-1)!.startsWith(kind);
  return Array.from(topology.linkFrom, (from, link) => {
    const to = topology.linkTo[link];
    return (is(from, 'gpu') && is(to, 'nic')) || (is(from, 'nic') && is(to, 'gpu')) ? 2 : 1;
  });
}

/** Lengths of shortest ways to a node by relaxing all links until nothing changes (Bellman-Ford); ends are no way through. */
function waysTo(topology: Topology, shares: Float64Array, lengths: readonly number[], destination: number): number[] {
  const isEnd = topology.nodeNames.map((name) => /\/(gpu\d+|host|storage\d+)$/.test(name));
  const ways = Array<number>(topology.nodeCount).fill(Number.POSITIVE_INFINITY);
  ways[destination] = 0;
  for (let changed = true; changed; ) {
    changed = false;
    for (let link = 0; link < topology.linkCount; link++) {
      const to = topology.linkTo[link]!;
      if (shares[link] === 0 || (to !== destination && isEnd[to])) continue;
      const way = ways[to]! + lengths[link]!;
      if (way >= ways[topology.linkFrom[link]!]!) continue;
      ways[topology.linkFrom[link]!] = way;
      changed = true;
    }
  }
  return ways;
}

describe('paths', () => {
  it.each(Object.keys(SHAPES))('%s: each link of a path, from any node to any other, is on a shortest way, whatever is cut', (name) => {
    const topology = buildTopology(SHAPES[name]!);
    const lengths = lengthsOf(topology);
    const uniform = seededUniform(7);
    const pick = (limit: number): number => Math.floor(uniform() * limit);
    const path = new Int32Array(HOP_LIMIT);
    let reached = 0;
    for (let round = 0; round < 6; round++) {
      const routes = createRoutes(topology);
      for (let cut = 0; cut < (round * topology.linkCount) / 20; cut++) setLinkShare(topology, routes, pick(topology.linkCount), 0);
      for (let turn = 0; turn < 8; turn++) {
        const destination = pick(topology.nodeCount);
        const ways = waysTo(topology, routes.linkShare, lengths, destination);
        for (let from = 0; from < topology.nodeCount; from++) {
          if (from === destination) continue;
          const count = choosePath(topology, routes, from, destination, turn, path);
          if (count < 0) {
            expect(ways[from]).toBe(Number.POSITIVE_INFINITY);
            continue;
          }
          reached++;
          expect(path[0]).toBe(nextLink(topology, routes, from, from, destination, turn));
          for (let hop = 0; hop < count; hop++) {
            const link = path[hop]!;
            const length = ways[topology.linkFrom[link]!]! - ways[topology.linkTo[link]!]!;
            if (routes.linkShare[link] === 0 || !(length === 1 || length === 2))
              throw new Error(`${topology.nodeNames[from]}: link ${link}`);
          }
          expect(topology.linkTo[path[count - 1]!]).toBe(destination);
        }
      }
    }
    expect(reached).toBeGreaterThan(300);
  });

  it('cost tables of the switches alone, one for all that hang on the same', () => {
    const topology = buildTopology(fatTree(3, 2, 2));
    const routes = createRoutes(topology);
    const path = new Int32Array(HOP_LIMIT);
    for (const gpu of topology.gpus) choosePath(topology, routes, topology.gpus[0]!, gpu, 1, path);
    const switches = topology.nodeNames.filter((name) => /(leaf|spine|core)\d+$/.test(name));
    const leaves = switches.filter((name) => name.includes('leaf'));
    expect(leaves).toHaveLength(6);
    expect(routes.distances.tables.map(({ lengths }) => lengths.length)).toEqual(leaves.map(() => switches.length));
  });
});
