import {
  advanceNetwork,
  buildTopology,
  cancelTransfer,
  createFlowNetwork,
  type FlowNetwork,
  flowRate,
  linksAt,
  type MultiZoneSpec,
  maxMinRates,
  nextCompletionNs,
  setBackgroundShare,
  setLinkHealth,
  startTransfer,
  type Topology,
  type TopologySpec,
} from '@braess/fabric';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fatTree, fourTierCluster, H100_SERVER } from './clusters.js';
import { seededUniform } from './random.js';

const host = { bytesPerSecond: 100e9, latencyNs: 300 };
const storage = { nodesPerPod: 1, link: { bytesPerSecond: 25e9, latencyNs: 900 } };
const zones: MultiZoneSpec = {
  kind: 'multi-zone',
  zones: 2,
  zone: fatTree(1, 2, 1, { storage }),
  gatewaysPerZone: 2,
  gatewayUplink: { bytesPerSecond: 100e9, latencyNs: 900 },
  interZone: { bytesPerSecond: 12.5e9, latencyNs: 1e6 },
};
/** Every way in which NICs, GPUs and hosts are joined, PCIe above and below the NIC's speed, and oversubscription. */
const SHAPES: Record<string, TopologySpec> = {
  'fat-tree': fatTree(2, 2, 2),
  'fat-tree, slow PCIe': fatTree(1, 2, 2, { server: { ...H100_SERVER, pcie: { bytesPerSecond: 25e9, latencyNs: 500 } } }),
  'fat-tree, 8:1': fatTree(2, 2, 2, { oversubscription: { leaf: 2, core: 8, by: 'slower-links' } }),
  'rail-optimised': { ...fatTree(2, 2, 2), kind: 'rail-optimised' },
  'rail-optimised, two NICs a GPU, hosts': { ...fatTree(1, 2, 2, { server: { ...H100_SERVER, nics: 16, host } }), kind: 'rail-optimised' },
  'four GPUs a NIC': fourTierCluster(),
  'four GPUs a NIC, fewer links': fourTierCluster(8, 'fewer-links'),
  'fat-tree with hosts and storage': fatTree(2, 1, 2, { server: { ...H100_SERVER, host }, storage }),
  'multi-zone': zones,
};

/** Ends of transfers: everything that may be one, few of them, so that flows meet. */
function endsOf(topology: Topology, uniform: () => number, count: number): number[] {
  const all = [...topology.nodeNames.keys()].filter((node) => /\/(gpu\d+|host|storage\d+)$/.test(topology.nodeNames[node]!));
  return Array.from({ length: count }, () => all[Math.floor(uniform() * all.length)]!);
}

function pathOf(network: FlowNetwork, flowId: number): number[] {
  const { allocator } = network;
  const slot = allocator.slotOfFlow.get(flowId)!;
  const start = slot << allocator.hopShift;
  return Array.from(allocator.pathLinks.subarray(start, start + allocator.hops[slot]!));
}

function expectReference(network: FlowNetwork, living: Map<number, number>): void {
  const { allocator } = network;
  const flows = [...living].filter(([flowId]) => pathOf(network, flowId).length > 0);
  const due = maxMinRates(
    Array.from(allocator.linkBytesPerSecond, (bytesPerSecond, link) => ({
      bytesPerSecond,
      backgroundShare: allocator.backgroundShare[link]!,
    })),
    flows.map(([flowId, weight]) => ({ path: pathOf(network, flowId), weight })),
  );
  flows.forEach(([flowId], index) => {
    const rate = flowRate(allocator, flowId);
    if (Math.abs(rate - due[index]!) > due[index]! * 1e-6) throw new Error(`flow ${flowId}: ${rate} against ${due[index]}`);
  });
}

describe('rates on built topologies', { timeout: 15_000 }, () => {
  it.each(Object.keys(SHAPES))('%s: equal progressive filling through starts, ends, cuts, weak links and background', (name) => {
    const topology = buildTopology(SHAPES[name]!);
    fc.assert(
      fc.property(fc.integer(), fc.integer({ min: 4, max: 30 }), fc.boolean(), (seed, places, weighted) => {
        const uniform = seededUniform(seed);
        const pick = (limit: number): number => Math.floor(uniform() * limit);
        const ends = endsOf(topology, uniform, places);
        const network = createFlowNetwork(topology);
        const living = new Map<number, number>();
        const cut: number[] = [];
        for (let step = 0; step < 60; step++) {
          const nowNs = step * 1000;
          advanceNetwork(network, nowNs);
          const action = pick(20);
          if (action < 13 || living.size === 0) {
            const weight = weighted ? 0.5 + pick(6) / 2 : 1;
            const [source, destination] = [ends[pick(places)]!, ends[pick(places)]!];
            if (source === destination) continue;
            if (startTransfer(topology, network, nowNs, step, source, destination, 1e15, weight) >= 0) living.set(step, weight);
          } else if (action < 17) {
            const flowId = [...living.keys()][pick(living.size)]!;
            cancelTransfer(network, nowNs, flowId);
            living.delete(flowId);
          } else if (action === 17) {
            setBackgroundShare(topology, network, nowNs, uniform() < 0.5 ? 'nic' : 'pcie', pick(4) / 5);
          } else if (action === 18 && cut.length > 0) setLinkHealth(topology, network, nowNs, [cut.pop()!], pick(2) === 0 ? 1 : 0.3);
          else {
            const links = linksAt(topology, ends[pick(places)]!);
            const link = links[pick(links.length)]!;
            cut.push(link);
            setLinkHealth(topology, network, nowNs, [link], pick(3) / 4);
          }
          if (pick(3) === 0) expectReference(network, living);
        }
        expectReference(network, living);
        expect(nextCompletionNs(network.allocator)).toBeGreaterThan(60_000);
      }),
      { numRuns: 20, endOnFailure: true },
    );
  });
});
