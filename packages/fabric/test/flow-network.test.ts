import {
  advanceNetwork,
  buildTopology,
  cancelTransfer,
  classUtilisation,
  createFlowNetwork,
  createOnOffSource,
  earliestCompletionNs,
  flowRate,
  linksAt,
  linksBetween,
  linksOfClass,
  linkUtilisation,
  nextCompletionNs,
  nodeId,
  readLinks,
  setBackgroundShare,
  setLinkHealth,
  startTransfer,
  toggleOnOff,
} from '@braess/fabric';
import { describe, expect, it } from 'vitest';
import { fourTierCluster } from './clusters.js';
import { drain } from './drain.js';
import { seededUniform } from './random.js';

const topology = buildTopology(fourTierCluster());
const near = nodeId(topology, 'pod0/rack0/node0/gpu0');
const far = nodeId(topology, 'pod1/rack1/node1/gpu0');

describe('flow network', { timeout: 15_000 }, () => {
  it('carries one flow in size / rate, less what background takes', () => {
    const network = createFlowNetwork(topology);
    setBackgroundShare(topology, network, 0, 'core-uplink', 0.2);
    const latencyNs = startTransfer(topology, network, 0, 1, near, far, 2_500_000_000);
    expect(latencyNs).toBe(2 * (500 + 600 + 700 + 800));
    // 3.125 GB/s less 20 %.
    expect(flowRate(network.allocator, 1)).toBe(2.5e9);
    expect(nextCompletionNs(network.allocator)).toBe(1e9);
    expect(earliestCompletionNs(network.allocator, 0, 1)).toBeGreaterThan(1e9 - 10);
    const before = readLinks(network.allocator, 0);
    expect(advanceNetwork(network, 2e9)).toBe(1);
    expect(network.allocator.completedAtNs).toEqual([1e9]);
    const after = readLinks(network.allocator, 2e9);
    const coreLinks = linksOfClass(topology, 'core-uplink');
    const used = [...after.movedBytes.keys()].filter((link) => after.movedBytes[link]! > 0);
    expect(used.map((link) => after.movedBytes[link])).toEqual(Array(8).fill(2_500_000_000));
    expect(used.map((link) => after.busyNs[link])).toEqual(Array(8).fill(1e9));
    // Half the time at 80 %, background all the time; the mean over 96 core links has two used ones.
    expect(linkUtilisation(before, after, used.find((link) => coreLinks.includes(link))!)).toBeCloseTo(0.6, 12);
    expect(classUtilisation(topology, before, after, 'core-uplink')).toBeCloseTo(0.2 + (2 * 0.4) / 96, 12);
  });

  it('gives the same course whether or not counters are read on the way', () => {
    const course = (reads: boolean): number[] => {
      const network = createFlowNetwork(topology);
      const uniform = seededUniform(3);
      const ends: number[] = [];
      for (let flow = 0; flow < 200; flow++) {
        const now = flow * 1e6;
        advanceNetwork(network, now);
        ends.push(...network.allocator.completedAtNs);
        if (reads) readLinks(network.allocator, now);
        const pick = (): number => topology.gpus[Math.floor(uniform() * 64)]!;
        startTransfer(topology, network, now, flow, pick(), pick(), Math.floor(uniform() * 1e8));
      }
      return [...ends, nextCompletionNs(network.allocator), ...network.allocator.rates];
    };
    expect(course(true)).toEqual(course(false));
  });

  it('moves the flows of a dead switch, strands those without a way, and brings them back', () => {
    const network = createFlowNetwork(topology);
    for (let flow = 0; flow < 60; flow++) startTransfer(topology, network, 0, flow, near, far, 1e9);
    advanceNetwork(network, 1e6);
    const spine = linksAt(topology, nodeId(topology, 'pod0/spine1'));
    const moved = setLinkHealth(topology, network, 1e6, spine, 0);
    expect(moved.stranded).toEqual([]);
    expect(moved.rerouted.length).toBeGreaterThan(5);
    const { allocator } = network;
    for (const link of spine) expect(allocator.linkFlowCount[link]).toBe(0);
    const cable = linksBetween(topology, 'pod1/rack1/leaf0', 'pod1/rack1/node1/nic0');
    expect(setLinkHealth(topology, network, 2e6, cable, 0).stranded).toHaveLength(60);
    expect(nextCompletionNs(allocator)).toBe(Number.POSITIVE_INFINITY);
    expect(startTransfer(topology, network, 2e6, 99, near, far, 1)).toBe(-1);
    const movedBytes = cancelTransfer(network, 3e6, 0);
    const back = setLinkHealth(topology, network, 4e6, cable, 0.5);
    expect(back.rerouted).toHaveLength(59);
    drain(allocator, (nowNs) => advanceNetwork(network, nowNs));
    // The halved NIC, 6.25 GB/s, was the one bottleneck from 4 ms on, 12.5 GB/s up to 2 ms.
    expect(allocator.deliveredBytes).toBe(59e9 + movedBytes);
    expect(allocator.abandonedBytes).toBe(1e9 - movedBytes);
    const boundNs = 4e6 + ((59e9 - 0.002 * 12.5e9) * 1e9) / 6.25e9;
    expect(allocator.nowNs / boundNs).toBeGreaterThan(0.999);
    expect(allocator.nowNs / boundNs).toBeLessThan(1.001);
    expect(network.stranded.size).toBe(0);
  });

  it('refuses bad calls with what to do instead', () => {
    const network = createFlowNetwork(topology, 0, { flowLimit: 64 });
    startTransfer(topology, network, 0, 1, near, far, 1000);
    expect(() => startTransfer(topology, network, 0, 1, near, far, 1000)).toThrow(/flow 1 is alive already/);
    expect(() => startTransfer(topology, network, 0, 2, near, far, 0.5)).toThrow(/size of flow 2 is 0.5 bytes/);
    expect(() => cancelTransfer(network, 0, 7)).toThrow(/flow 7 is not alive/);
    expect(() => startTransfer(topology, network, 1e9, 2, near, far, 1)).toThrow(/passes over a completion at \d+ ns; call advance first/);
    for (let flow = 2; flow <= 64; flow++) startTransfer(topology, network, 0, flow, near, far, 1000);
    expect(() => startTransfer(topology, network, 0, 65, near, far, 1000)).toThrow(/64 flows are alive, the limit/);
  });
});

describe('on-off background', () => {
  it('is on for meanOn / (meanOn + meanOff) of the time', () => {
    const uniform = seededUniform(11);
    const source = createOnOffSource(near, far, 1e9, 2e6, 6e6, 0, uniform);
    let onNs = 0;
    let last = 0;
    for (let change = 0; change < 40_000; change++) {
      if (source.on) onNs += source.nextChangeNs - last;
      last = source.nextChangeNs;
      toggleOnOff(source, uniform);
    }
    // Standard error of the share over 20,000 cycles is about 0.0019 (0.25 x 0.75 x sqrt(2 / 20,000)).
    expect(Math.abs(onNs / last - 0.25)).toBeLessThan(0.008);
  });
});
