import {
  advanceNetwork,
  buildTopology,
  CHUNK_MARKED,
  createFlowNetwork,
  createOutputPort,
  createRateControl,
  cutRate,
  dcqcnSettings,
  enqueueChunk,
  equalCostPaths,
  linksBetween,
  nodeId,
  passTime,
  pathLatencyNs,
  pauseHeadroomBytes,
  startTransfer,
} from '@braess/fabric';
import { describe, expect, it } from 'vitest';
import { ChunkNetwork, type ChunkSetting } from './chunk-network.js';
import { fatTree } from './clusters.js';
import { drain } from './drain.js';

const CHUNK = 65_536;
const LINE = 50e9;
const topology = buildTopology(fatTree(1, 1, 9));
const HEADROOM = pauseHeadroomBytes(63e9, 800, CHUNK);
const PAUSE = 8 * CHUNK;
// Room for eight ingresses, each at its threshold plus headroom: lossless.
const SETTING: ChunkSetting = {
  chunkBytes: CHUNK,
  lineBytesPerSecond: LINE,
  queueLimitBytes: 9 * (PAUSE + HEADROOM),
  pauseAboveBytes: PAUSE,
  resumeAtBytes: PAUSE / 2,
  ecn: true,
};

function gpu(node: number, index = 0): number {
  return nodeId(topology, `pod0/rack0/node${node}/gpu${index}`);
}

function path(from: number, to: number): number[] {
  return equalCostPaths(topology, createFlowNetwork(topology).routes, from, to)[0]!;
}

function incast(senders: number, sizeBytes: number, setting: ChunkSetting): { network: ChunkNetwork; flowEndNs: number } {
  const network = new ChunkNetwork(topology, setting);
  const flows = createFlowNetwork(topology);
  for (let sender = 1; sender <= senders; sender++) {
    network.start(0, sender, path(gpu(sender), gpu(0)), sizeBytes);
    startTransfer(topology, flows, 0, sender, gpu(sender), gpu(0), sizeBytes);
  }
  network.run();
  let flowEndNs = 0;
  drain(flows.allocator, (nowNs) => {
    flowEndNs = nowNs;
    advanceNetwork(flows, nowNs);
  });
  return { network, flowEndNs };
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

describe('chunk fidelity', { timeout: 15_000 }, () => {
  it('takes size / rate plus one chunk and the latency of every hop for a flow alone', () => {
    const network = new ChunkNetwork(topology, SETTING);
    const chunks = 400;
    const route = path(gpu(1), gpu(0));
    network.start(0, 1, route, chunks * CHUNK);
    network.run();
    // Store and forward: the first chunk crosses every hop, the others follow at the speed of the slowest.
    const firstNs = sum(route.map((link) => (CHUNK * 1e9) / topology.linkBytesPerSecond[link]!)) + pathLatencyNs(topology, route);
    const expectedNs = firstNs + ((chunks - 1) * CHUNK * 1e9) / LINE;
    // Each chunk is rounded up to whole ns.
    expect(network.endedAtNs.get(1)! - expectedNs).toBeGreaterThanOrEqual(-1);
    expect(network.endedAtNs.get(1)! - expectedNs).toBeLessThanOrEqual(chunks + route.length);
  });

  it.each([2, 4, 8])('shares a port equally among %i flows under pause alone, as flow fidelity does', (senders) => {
    const { network, flowEndNs } = incast(senders, 200 * CHUNK, { ...SETTING, ecn: false });
    const ends = [...network.endedAtNs.values()];
    expect(ends).toHaveLength(senders);
    expect(Math.max(...ends)).toBeGreaterThan(flowEndNs);
    expect(Math.max(...ends) / flowEndNs).toBeLessThan(1.02);
    expect(Math.min(...ends) / Math.max(...ends)).toBeGreaterThan(0.95);
  });

  it('keeps the port near full under congestion control, and marks, while all flows are there', () => {
    const network = new ChunkNetwork(topology, SETTING);
    for (let sender = 1; sender <= 4; sender++) network.start(0, sender, path(gpu(sender), gpu(0)), 2000 * CHUNK);
    // Well before the fair end of all four at 4 x 2000 chunks / line rate (10.5 ms).
    const untilNs = 8e6;
    network.run(2_000_000, untilNs);
    expect(network.endedAtNs.size).toBe(0);
    const received = sum(network.receiver.receivedBytes.values());
    expect((received * 1e9) / untilNs / LINE).toBeGreaterThan(0.95);
    expect(sum(network.switches.flatMap((each) => each.ports).map((port) => port.markedChunks))).toBeGreaterThan(0);
  });

  it('shows incast: queue, marks and pauses at one port, all bytes through, nothing lost', () => {
    const { network } = incast(8, 300 * CHUNK, SETTING);
    const hot = network.port(linksBetween(topology, 'pod0/rack0/leaf0', 'pod0/rack0/node0/nic0')[0]!);
    expect(hot.highestQueuedBytes).toBeGreaterThan(PAUSE);
    expect(hot.markedChunks).toBeGreaterThan(0);
    const ports = network.switches.flatMap((each) => each.ports);
    expect(sum(ports.map((port) => port.pauses))).toBeGreaterThan(0);
    expect(sum(ports.map((port) => port.droppedChunks))).toBe(0);
    expect(sum(network.receiver.receivedBytes.values())).toBe(8 * 300 * CHUNK);
    expect(hot.sentBytes).toBe(8 * 300 * CHUNK);
    // At rest: nothing queued, nobody paused, every ingress empty.
    expect(ports.every((port) => port.length === 0 && !port.paused && port.queuedBytes === 0)).toBe(true);
    expect(network.switches.every((each) => each.ingressBytes.every((bytes) => bytes === 0))).toBe(true);
  });

  it('makes a bystander behind a paused link wait, which flow fidelity cannot show', () => {
    const alone = new ChunkNetwork(topology, SETTING);
    alone.start(0, 99, path(gpu(1), gpu(2)), 100 * CHUNK);
    alone.run();
    const crowded = new ChunkNetwork(topology, { ...SETTING, ecn: false });
    for (let sender = 1; sender <= 8; sender++) crowded.start(0, sender, path(gpu(sender), gpu(0)), 300 * CHUNK);
    crowded.start(0, 99, path(gpu(1), gpu(2)), 100 * CHUNK);
    crowded.run();
    // Max-min: the victim shares its NIC with one flow held to 1/8 of the line, so 7/8 are its own: 1.15 times its time alone.
    expect(crowded.endedAtNs.get(99)!).toBeGreaterThan(1.5 * alone.endedAtNs.get(99)!);
  });

  it('drops beyond the queue limit without flow control, and sends again until all is through', () => {
    const lossy = { ...SETTING, pauseAboveBytes: Number.POSITIVE_INFINITY, resumeAtBytes: 0, queueLimitBytes: 12 * CHUNK };
    const { network } = incast(8, 100 * CHUNK, lossy);
    const ports = network.switches.flatMap((each) => each.ports);
    expect(sum(ports.map((port) => port.droppedChunks))).toBeGreaterThan(0);
    expect(network.endedAtNs.size).toBe(8);
    expect(sum(network.receiver.receivedBytes.values())).toBe(8 * 100 * CHUNK);
  });
});

describe('rate control', () => {
  it('halves at the first notification, then recovers half the gap each 55 us', () => {
    const settings = dcqcnSettings(LINE);
    const control = createRateControl(settings, 0);
    cutRate(control, settings, 1000);
    expect(control.currentBytesPerSecond).toBe(LINE / 2);
    for (let step = 1; step <= 5; step++) {
      passTime(control, settings, 1000 + step * 55_000);
      expect(control.currentBytesPerSecond).toBeCloseTo(LINE * (1 - 2 ** -(step + 1)), 0);
    }
    passTime(control, settings, 3_600e9);
    expect(control.currentBytesPerSecond).toBe(LINE);
    expect(control.alpha).toBeLessThan(1e-9);
  });

  it('keeps its target through a row of notifications, and lowers it once it has risen in between', () => {
    const settings = dcqcnSettings(LINE);
    const control = createRateControl(settings, 0);
    for (let cut = 1; cut <= 3; cut++) cutRate(control, settings, cut * 50_000);
    // Three halvings within less than a step of recovery: back up towards the line.
    expect([control.currentBytesPerSecond, control.targetBytesPerSecond]).toEqual([LINE / 8, LINE]);
    passTime(control, settings, 150_000 + 55_000);
    const risen = control.currentBytesPerSecond;
    expect(risen).toBe((LINE / 8 + LINE) / 2);
    cutRate(control, settings, 210_000);
    expect(control.targetBytesPerSecond).toBe(risen);
  });
});

describe('marking', () => {
  it('marks a chunk when one of its packets of 4 KiB would be', () => {
    const settings = { queueLimitBytes: 1e9, ecnMinBytes: 0, ecnMaxBytes: 100 * CHUNK, ecnMaxProbability: 0.2 };
    const marked = (uniform: number): boolean => {
      const port = createOutputPort(LINE, settings);
      for (let chunk = 0; chunk < 10; chunk++) enqueueChunk(port, 1, CHUNK, 0, false, () => 1);
      return enqueueChunk(port, 1, CHUNK, 0, false, () => uniform) === CHUNK_MARKED;
    };
    // 10 of 100 chunks: 2 % a packet, 16 packets a chunk.
    const due = 1 - 0.98 ** 16;
    expect([marked(due - 1e-9), marked(due + 1e-9)]).toEqual([true, false]);
  });
});
