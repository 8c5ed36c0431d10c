import {
  buildTopology,
  choosePath,
  createRoutes,
  equalCostPaths,
  HOP_LIMIT,
  hashFlow,
  linkName,
  linksBetween,
  linksOfClass,
  type MultiZoneSpec,
  nodeId,
  pathLatencyNs,
  setLinkShare,
  type Topology,
  tier,
  tierNominals,
} from '@braess/fabric';
import { describe, expect, it } from 'vitest';
import { fatTree, fourTierCluster, H100_SERVER } from './clusters.js';

function slowest(topology: Topology, path: number[]): number {
  return Math.min(...path.map((link) => topology.linkBytesPerSecond[link]!));
}

describe('topologies', () => {
  it('gives the four tiers and bandwidths of the NetKV cluster', () => {
    const topology = buildTopology(fourTierCluster());
    expect(topology.gpus).toHaveLength(64);
    const routes = createRoutes(topology);
    const from = nodeId(topology, 'pod0/rack0/node0/gpu0');
    const ends = ['pod0/rack0/node0/gpu7', 'pod0/rack0/node1/gpu0', 'pod0/rack1/node0/gpu0', 'pod1/rack0/node0/gpu0'];
    const found = ends.map((name) => {
      const to = nodeId(topology, name);
      return [tier(topology, from, to), slowest(topology, equalCostPaths(topology, routes, from, to)[0]!)];
    });
    expect(found).toEqual([
      [0, 450e9],
      [1, 12.5e9],
      [2, 6.25e9],
      [3, 3.125e9],
    ]);
    expect(tierNominals(topology, routes).slice(0, 4)).toEqual([
      { bytesPerSecond: 450e9, latencyNs: 1000 },
      { bytesPerSecond: 12.5e9, latencyNs: 2200 },
      { bytesPerSecond: 6.25e9, latencyNs: 3600 },
      { bytesPerSecond: 3.125e9, latencyNs: 5200 },
    ]);
    // 12 uplinks up and 12 down inside a pod.
    expect(equalCostPaths(topology, routes, from, nodeId(topology, ends[2]!))).toHaveLength(3 * 4 * 4);
  });

  it('oversubscribes by slower or by fewer links to the same total', () => {
    const total = (by: 'slower-links' | 'fewer-links'): number[] => {
      const topology = buildTopology(fourTierCluster(8, by));
      const links = linksOfClass(topology, 'core-uplink');
      return [links.length, links.reduce((sum, link) => sum + topology.linkBytesPerSecond[link]!, 0)];
    };
    // Two pods, two directions, 24 links (or 24 / 8 = 3) each, 12.5 GB/s (or 12.5 / 8).
    expect(total('slower-links')).toEqual([96, (96 * 12.5e9) / 8]);
    expect(total('fewer-links')).toEqual([12, 12 * 12.5e9]);
    expect(() => buildTopology(fourTierCluster(5, 'fewer-links'))).toThrow(/uplinksPerPod is 24; divided by the oversubscription 5/);
  });

  it('joins every GPU with every other on any shape', () => {
    const shapes = [
      fatTree(2, 2, 1),
      { ...fatTree(2, 2, 2), kind: 'rail-optimised' as const },
      fatTree(1, 1, 2),
      fourTierCluster(8, 'fewer-links'),
    ];
    for (const shape of shapes) {
      const topology = buildTopology(shape);
      const routes = createRoutes(topology);
      const path = new Int32Array(HOP_LIMIT);
      for (const from of topology.gpus) {
        for (const to of topology.gpus) {
          const count = choosePath(topology, routes, from, to, 1, path);
          let node = from;
          for (let hop = 0; hop < count; hop++) {
            expect(topology.linkFrom[path[hop]!]).toBe(node);
            node = topology.linkTo[path[hop]!]!;
          }
          expect(node).toBe(to);
        }
      }
    }
  });

  it('puts GPUs of one index under one leaf when rail-optimised', () => {
    const topology = buildTopology({ ...fatTree(2, 1, 4), kind: 'rail-optimised' });
    const at = (name: string): number => nodeId(topology, name);
    expect(tier(topology, at('pod0/rack0/node0/gpu3'), at('pod0/rack0/node2/gpu3'))).toBe(1);
    expect(tier(topology, at('pod0/rack0/node0/gpu3'), at('pod0/rack0/node2/gpu4'))).toBe(2);
    expect(tier(topology, at('pod0/rack0/node0/gpu3'), at('pod1/rack0/node2/gpu3'))).toBe(3);
    expect(linksBetween(topology, 'pod0/rack0/node1/nic5', 'pod0/rail5')).toHaveLength(1);
  });

  it('keeps zones apart by milliseconds', () => {
    const spec: MultiZoneSpec = {
      kind: 'multi-zone',
      zones: 3,
      zone: fatTree(1, 2, 1, { storage: { nodesPerPod: 1, link: { bytesPerSecond: 25e9, latencyNs: 900 } } }),
      gatewaysPerZone: 2,
      gatewayUplink: { bytesPerSecond: 100e9, latencyNs: 900 },
      interZone: { bytesPerSecond: 12.5e9, latencyNs: 1e6 },
      interZoneLatencyNs: [
        [0, 1e6, 2e6],
        [1e6, 0, 5e6],
        [2e6, 5e6, 0],
      ],
    };
    const topology = buildTopology(spec);
    const routes = createRoutes(topology);
    const from = nodeId(topology, 'zone1/pod0/rack0/node0/gpu0');
    const to = nodeId(topology, 'zone2/pod0/rack1/node0/gpu3');
    expect(tier(topology, from, to)).toBe(4);
    const route = equalCostPaths(topology, routes, from, to)[0]!;
    // PCIe, NIC, leaf, gateway uplink, and the same down.
    expect(pathLatencyNs(topology, route)).toBe(5e6 + 2 * (500 + 600 + 700 + 900));
    const storage = nodeId(topology, 'zone0/pod0/storage0');
    expect(equalCostPaths(topology, routes, from, storage).length).toBeGreaterThan(0);
    for (const link of linksOfClass(topology, 'inter-zone'))
      if (linkName(topology, link).includes('zone2')) setLinkShare(topology, routes, link, 0);
    expect(equalCostPaths(topology, routes, from, to)).toEqual([]);
  });

  it('names field, value and limit of a mistake', () => {
    expect(() => buildTopology(fatTree(2, 0, 1))).toThrow(/racksPerPod is 0; it must be a whole number, at least 1/);
    expect(() => buildTopology(fatTree(2, 1, 1, { server: { ...H100_SERVER, nics: 3 } }))).toThrow(/server.nics is 3; with 8 GPUs/);
    expect(() => buildTopology(fatTree(1, 1, 1, { kind: 'ring' as 'fat-tree' }))).toThrow(/kind is "ring"; allowed/);
    const topology = buildTopology(fatTree(1, 1, 1));
    expect(() => nodeId(topology, 'pod0/rack0/node0/gpu9')).toThrow(
      /no node "pod0\/rack0\/node0\/gpu9".*known under it: pod0\/rack0\/node0\//,
    );
  });
});

describe('equal-cost routing', () => {
  const topology = buildTopology(fourTierCluster());
  const from = nodeId(topology, 'pod0/rack0/node0/gpu0');
  const to = nodeId(topology, 'pod1/rack0/node0/gpu0');
  const path = new Int32Array(HOP_LIMIT);

  it('chooses evenly and independently at each stage', () => {
    const routes = createRoutes(topology);
    const flows = 24_000;
    const joint = new Map<string, number>();
    for (let flow = 0; flow < flows; flow++) {
      expect(choosePath(topology, routes, from, to, flow, path)).toBe(8);
      // Leaf uplink (12 links) and core uplink (8 of the chosen spine, towards 3 cores in turn).
      const key = `${path[2]} ${path[3]}`;
      joint.set(key, (joint.get(key) ?? 0) + 1);
    }
    // 12 x 8 equally likely pairs: chi-square with 95 degrees of freedom exceeds 150 with probability below 0.0003.
    const expected = flows / 96;
    const chiSquare = [...joint.values()].reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    expect(joint.size).toBe(96);
    expect(chiSquare).toBeLessThan(150);
  });

  it('depends on source, destination and flow id only, also above 2^32', () => {
    expect(hashFlow(1, 2, 3)).toBe(hashFlow(1, 2, 3));
    expect(new Set([hashFlow(1, 2, 3), hashFlow(2, 1, 3), hashFlow(1, 2, 4), hashFlow(1, 2, 3 + 2 ** 32)]).size).toBe(4);
  });

  it('goes round dead links, and round weak ones when told to', () => {
    const routes = createRoutes(topology, 0.5);
    const uplinks = linksBetween(topology, 'pod0/rack0/leaf0', 'pod0/spine0');
    uplinks.forEach((link, index) => {
      setLinkShare(topology, routes, link, index === 0 ? 0.25 : 0);
    });
    for (let flow = 0; flow < 500; flow++) {
      choosePath(topology, routes, from, to, flow, path);
      expect(uplinks).not.toContain(path[2]);
    }
    const others = ['pod0/spine1', 'pod0/spine2'].flatMap((spine) => linksBetween(topology, 'pod0/rack0/leaf0', spine));
    for (const link of others) setLinkShare(topology, routes, link, 0);
    // Only the weak link is left.
    expect(choosePath(topology, routes, from, to, 1, path)).toBe(8);
    expect(path[2]).toBe(uplinks[0]);
    setLinkShare(topology, routes, uplinks[0]!, 0);
    expect(choosePath(topology, routes, from, to, 1, path)).toBe(-1);
  });
});
