import {
  type ChunkNodeState,
  createFlowNetwork,
  equalCostPaths,
  linksAt,
  linksBetween,
  nodeId,
  pathLatencyNs,
  tier,
  transferStatus,
} from '@braess/fabric';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  CHUNK,
  endedOf,
  expectRest,
  finished,
  gpu,
  incast,
  LEAST_NS,
  LINE,
  nodesOf,
  portsOf,
  rack,
  type Setting,
  simulate,
  sum,
  tree,
} from './chunk-world.js';
import { type Ended, type Planned, REQUEST_DELAY_NS, Simulation } from './fabric-world.js';
import { seededUniform } from './random.js';

describe('chunk actors', () => {
  it('take size / rate plus one chunk and the latency of every hop for a transfer alone', () => {
    const chunks = 300;
    const simulation = finished({ plans: [[{ atNs: 0, source: gpu(1), destination: gpu(0), transferBytes: chunks * CHUNK }]] });
    const path = equalCostPaths(rack, createFlowNetwork(rack).routes, gpu(1), gpu(0))[0]!;
    const firstNs = sum(path.map((link) => (CHUNK * 1e9) / rack.linkBytesPerSecond[link]!)) + pathLatencyNs(rack, path);
    const expectedNs = firstNs + ((chunks - 1) * CHUNK * 1e9) / LINE;
    const [ended] = endedOf(simulation) as [Ended];
    expect(ended).toMatchObject({
      status: 0,
      startNs: REQUEST_DELAY_NS,
      movedBytes: chunks * CHUNK,
      networkTier: tier(rack, gpu(1), gpu(0)),
    });
    const took = ended.atNs - ended.startNs - LEAST_NS;
    expect(took - expectedNs).toBeGreaterThanOrEqual(-1);
    expect(took - expectedNs).toBeLessThanOrEqual(chunks + path.length);
    // Within 1 % of flow fidelity, which knows no chunks.
    expect(took / ((chunks * CHUNK * 1e9) / LINE + pathLatencyNs(rack, path))).toBeLessThan(1.02);
    expectRest(simulation);
  });

  it.each([2, 4, 8])('share a port among %i equal transfers under pause alone, as flow fidelity does', (senders) => {
    const simulation = finished({ plans: incast(senders, 150 * CHUNK), options: { congestionControl: false } });
    const ends = endedOf(simulation).map((ended) => ended.atNs);
    const fairNs = (senders * 150 * CHUNK * 1e9) / LINE;
    expect(ends).toHaveLength(senders);
    expect(Math.max(...ends) / fairNs).toBeGreaterThan(1);
    expect(Math.max(...ends) / fairNs).toBeLessThan(1.02);
    expect(Math.min(...ends) / Math.max(...ends)).toBeGreaterThan(0.95);
  });

  it('show incast: a queue, marks and pauses at one port; all bytes through, nothing lost', () => {
    const simulation = finished({ plans: incast(8, 200 * CHUNK), options: { reportPeriodNs: 100_000 } });
    expect(endedOf(simulation).map((ended) => ended.movedBytes)).toEqual(Array(8).fill(200 * CHUNK));
    const hotLink = linksBetween(rack, 'pod0/rack0/leaf0', 'pod0/rack0/node0/nic0')[0]!;
    const leaf = simulation.stateOf('pod0/rack0/leaf0') as ChunkNodeState;
    const hot = leaf.chunkSwitch.ports.filter((port) => port.sentBytes > 0);
    expect(hot).toHaveLength(1);
    expect(hot[0]!.sentBytes).toBe(8 * 200 * CHUNK);
    expect(hot[0]!.highestQueuedBytes).toBeGreaterThan(8 * CHUNK);
    expect(hot[0]!.markedChunks).toBeGreaterThan(0);
    expect(sum(portsOf(simulation).map((port) => port.pauses))).toBeGreaterThan(0);
    expect(sum(portsOf(simulation).map((port) => port.droppedChunks))).toBe(0);
    expectRest(simulation);
    const records = simulation.takeRecords().filter(({ type, fields }) => type === 'portUse' && fields[0] === hotLink);
    expect(sum(records.map(({ fields }) => fields[2]!))).toBe(8 * 200 * CHUNK);
    expect(sum(records.map(({ fields }) => fields[4]!))).toBe(hot[0]!.markedChunks);
  });

  it('drop beyond the queue limit without flow control, and send again until all is through', () => {
    const options = { pauseAboveBytes: Number.POSITIVE_INFINITY, queueLimitBytes: 12 * CHUNK };
    const simulation = finished({ plans: incast(8, 80 * CHUNK), options });
    expect(sum(portsOf(simulation).map((port) => port.droppedChunks))).toBeGreaterThan(0);
    expect(endedOf(simulation).map((ended) => [ended.status, ended.movedBytes])).toEqual(Array(8).fill([0, 80 * CHUNK]));
    expectRest(simulation);
  });

  it('answer nothing at once, and a cancel with what has arrived; one behind the end changes nothing', () => {
    const plan = { atNs: 0, source: gpu(1), destination: gpu(0), transferBytes: 100 * CHUNK };
    const simulation = finished({
      plans: [
        [{ ...plan, transferBytes: 0 }],
        [{ ...plan, cancelNs: 60_000 }],
        [{ ...plan, source: gpu(2), destination: gpu(3), cancelNs: 900_000 }],
      ],
    });
    expect(endedOf(simulation)).toMatchObject([{ status: 0, atNs: REQUEST_DELAY_NS + LEAST_NS }]);
    const [cancelled] = endedOf(simulation, 1) as [Ended];
    expect(cancelled.status).toBe(transferStatus.cancelled);
    // About 60 us at 50 GB/s, 46 chunks, less what was on its way.
    expect(cancelled.movedBytes / CHUNK).toBeGreaterThan(36);
    expect(cancelled.movedBytes / CHUNK).toBeLessThan(46);
    expect(endedOf(simulation, 2)).toMatchObject([{ status: 0, movedBytes: 100 * CHUNK }]);
    expectRest(simulation);
  });

  it('go round a cut link in the middle of a transfer, and report what stays unreachable', () => {
    const [source, destination] = [gpu(0, 0, tree), nodeId(tree, 'pod1/rack1/node0/gpu0')];
    const plan = { atNs: 0, source, destination, transferBytes: 400 * CHUNK };
    const path = equalCostPaths(tree, createFlowNetwork(tree).routes, source, destination)[0]!;
    const healthy = finished({ topology: tree, plans: [[plan]] });
    const sentUp = (simulation: Simulation, spine: number): number => {
      const leaf = simulation.stateOf('pod0/rack0/leaf0') as ChunkNodeState;
      const links = new Set(linksBetween(tree, 'pod0/rack0/leaf0', `pod0/spine${spine}`));
      const out = linksAt(tree, leaf.node).filter((link) => tree.linkFrom[link] === leaf.node);
      return sum(leaf.chunkSwitch.ports.filter((_port, place) => links.has(out[place]!)).map((port) => port.sentBytes));
    };
    const used = [0, 1, 2, 3].filter((spine) => sentUp(healthy, spine) > 0);
    expect(used).toHaveLength(1);
    const faults = linksAt(tree, nodeId(tree, `pod0/spine${used[0]}`)).map((first) => ({ atNs: 100_000, first, count: 1, share: 0 }));
    const simulation = finished({ topology: tree, plans: [[plan]], faults, options: { convergenceNs: 20_000 } });
    expect(endedOf(simulation)).toMatchObject([{ status: 0, movedBytes: 400 * CHUNK }]);
    expectRest(simulation, tree);
    // The spine carried what left before 121 us; the others carried the rest, and again what was lost on the cut cables.
    expect(sentUp(simulation, used[0]!)).toBeLessThanOrEqual(Math.ceil((121_000 * LINE) / 1e9 / CHUNK + 1) * CHUNK);
    expect(sum([0, 1, 2, 3].map((spine) => sentUp(simulation, spine)))).toBeGreaterThan(400 * CHUNK);

    const cable = path.at(-2)!;
    const cut = (atNs: number, share: number) => ({ atNs, first: cable, count: 1, share });
    const lost = finished({
      topology: tree,
      plans: [[plan]],
      faults: [cut(100_000, 0)],
      options: { convergenceNs: 20_000, unreachableAfterNs: 3e6 },
    });
    const [gone] = endedOf(lost) as [Ended];
    expect(gone.status).toBe(transferStatus.unreachable);
    expect(gone.movedBytes).toBeGreaterThan(0);
    expect(gone.movedBytes).toBeLessThan(200 * CHUNK);
    expectRest(lost, tree);

    const back = finished({
      topology: tree,
      plans: [[plan]],
      faults: [cut(100_000, 0), cut(2e6, 0.5)],
      options: { convergenceNs: 20_000 },
    });
    const [late] = endedOf(back) as [Ended];
    expect(late).toMatchObject({ status: 0, movedBytes: 400 * CHUNK });
    // At least what is left at half speed from 2 ms on.
    expect(late.atNs).toBeGreaterThan(2e6 + ((400 * CHUNK - 0.00013 * LINE) * 1e9) / (LINE / 2));
    expectRest(back, tree);
  });

  it('come to rest with every byte delivered on random loads, faults and pauses over trees', () => {
    fc.assert(
      fc.property(fc.integer(), fc.boolean(), fc.boolean(), fc.nat(3), (seed, control, lossless, cuts) => {
        const uniform = seededUniform(seed);
        const pick = (limit: number): number => Math.floor(uniform() * limit);
        const ends = Array.from({ length: 6 }, () => tree.gpus[pick(tree.gpus.length)]!);
        const plans: Planned[][] = [[], []];
        for (let index = 0; index < 24; index++) {
          const plan = { atNs: pick(300_000), source: ends[pick(6)]!, destination: ends[pick(6)]!, transferBytes: 1 + pick(30 * CHUNK) };
          plans[index % 2]!.push(index % 7 === 0 ? { ...plan, cancelNs: plan.atNs + pick(100_000) } : plan);
        }
        const faults = Array.from({ length: cuts }, () => ({ first: pick(tree.linkCount), count: 1 + pick(4) })).flatMap(
          ({ first, count }) => {
            const within = Math.min(count, tree.linkCount - first);
            return [
              { atNs: 50_000 + pick(100_000), first, count: within, share: pick(2) / 4 },
              { atNs: 400_000 + pick(400_000), first, count: within, share: 1 },
            ];
          },
        );
        const buffers = lossless ? {} : { pauseAboveBytes: Number.POSITIVE_INFINITY, queueLimitBytes: 4 * CHUNK };
        const setting: Setting = {
          topology: tree,
          plans,
          faults,
          options: { congestionControl: control, convergenceNs: 10_000, ...buffers },
        };
        const simulation = finished(setting);
        plans.forEach((plan, requester) => {
          const ended = endedOf(simulation, requester);
          expect(ended.map((each) => each.transfer).sort((a, b) => a - b)).toEqual(plan.map((_each, index) => index));
          for (const { transfer, status, movedBytes } of ended) {
            if (status === transferStatus.arrived) expect(movedBytes).toBe(plan[transfer]!.transferBytes);
            else expect([status, plan[transfer]!.cancelNs !== undefined]).toEqual([transferStatus.cancelled, true]);
          }
        });
        expectRest(simulation, tree);
        const nodes = nodesOf(simulation, tree);
        const moved = sum(plans.flatMap((_plan, requester) => endedOf(simulation, requester)).map((each) => each.movedBytes));
        const local = sum(plans.flat().map((plan) => (plan.source === plan.destination ? plan.transferBytes : 0)));
        expect(sum(nodes.map((node) => node.deliveredBytes))).toBe(moved - local);
        if (cuts === 0 && lossless) expect(sum(portsOf(simulation, tree).map((port) => port.droppedChunks))).toBe(0);
        const halves = simulate(setting, 2);
        halves.runUntil(10e9);
        expect(halves.fingerprint).toBe(simulation.fingerprint);
        const half = simulate(setting, 2);
        half.runUntil(120_000);
        const restored = new Simulation(half.model, { from: half.checkpoint() });
        restored.runUntil(10e9);
        expect(restored.fingerprint).toBe(simulation.fingerprint);
      }),
      { numRuns: 15 },
    );
  });

  it('refuse what they cannot do', () => {
    const heavy = { plans: [[{ atNs: 0, source: gpu(1), destination: gpu(0), transferBytes: 9, weight: 2 }]] };
    expect(() => finished(heavy)).toThrow(/weight 2; chunk fidelity knows none but 1/);
    expect(() => finished({ plans: [], options: { chunkBytes: 0 } })).toThrow(/chunkBytes is 0/);
    expect(() => finished({ plans: [], options: { pauseAboveBytes: Number.POSITIVE_INFINITY } })).toThrow(/queueLimitBytes must say/);
  });
});
