import {
  buildTopology,
  choosePath,
  type FabricOptions,
  type FabricState,
  fabricKind,
  flowIdOf,
  linksAt,
  linksBetween,
  maxMinRates,
  nodeId,
  pathLatencyNs,
  type SwitchState,
  switchKind,
  tier,
  transferStatus,
} from '@braess/fabric';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { fatTree, fourTierCluster } from './clusters.js';
import { stepCounter } from './drain.js';
import {
  defineProgram,
  type Ended,
  faultKind,
  modelOf,
  type Planned,
  type PlannedShare,
  REQUEST_DELAY_NS,
  type RequesterState,
  requesterKind,
  runToEnd,
  Simulation,
} from './fabric-world.js';
import { seededUniform } from './random.js';

const topology = buildTopology(fourTierCluster());
const LEAST_NS = 2000;

interface Setting {
  plans: Planned[][];
  options?: Partial<FabricOptions>;
  faults?: PlannedShare[];
  switchNames?: string[];
  listen?: boolean;
}

function simulate({ plans, options = {}, faults = [], switchNames = [], listen = false }: Setting, shards = 1): Simulation {
  const program = defineProgram(undefined, 'fabric-test', (world) => {
    const requester = requesterKind(plans);
    const fabricId = (): number => fabric.id;
    const requesters = plans.map((_plan, index) =>
      world.actor(`requester${index}`, requester, { index, fabricOf: fabricId }, { class: 'server' }),
    );
    const fabricCell = world.cell('fabric', { class: 'fabric' });
    const switches = switchNames.map((name) => {
      const own = linksAt(topology, nodeId(topology, name)).filter((link) => topology.nodeNames[topology.linkFrom[link]!] === name);
      const links = own.sort((a, b) => a - b);
      const setup = { links, listeners: requesters.slice(0, 1), relayDelayNs: LEAST_NS };
      return { actor: fabricCell.actor(name, switchKind, setup), links };
    });
    const subscriptions = listen ? [...switches, { actor: requesters[0]!, links: 'all' as const }] : switches;
    const fabric = fabricCell.actor('flow', fabricKind({ topology, leastDelayNs: LEAST_NS, ...options }), { subscriptions });
    world.actor('faults', faultKind(faults), [fabric], { class: 'server' });
    world.lookahead('server', 'fabric', REQUEST_DELAY_NS);
    world.lookahead('fabric', 'server', LEAST_NS);
  });
  return new Simulation(modelOf(program, undefined), { shards, strict: shards > 1, keepRecords: true });
}

function endedOf(simulation: Simulation, requester = 0): Ended[] {
  return (simulation.stateOf(`requester${requester}`) as RequesterState).ended;
}

function stateOf(simulation: Simulation): FabricState {
  return simulation.stateOf('fabric/flow') as FabricState;
}

function randomPlans(seed: number, requesters: number, count: number, meanGapNs: number, simultaneous: boolean): Planned[][] {
  const uniform = seededUniform(seed);
  const pick = (): number => topology.gpus[Math.floor(uniform() * topology.gpus.length)]!;
  const plans: Planned[][] = Array.from({ length: requesters }, () => []);
  let atNs = 0;
  for (let index = 0; index < count; index++) {
    if (!simultaneous || uniform() < 0.5) atNs += Math.floor(-meanGapNs * Math.log(1 - uniform()));
    const transferBytes = 1 + Math.floor(uniform() * 2e8);
    plans[Math.floor(uniform() * requesters)]!.push({ atNs, source: pick(), destination: pick(), transferBytes });
  }
  return plans;
}

/** Independent: real-valued time, progressive filling from scratch at every start and end. Returns durations without path latency. */
function naiveDurations(plans: Planned[][], pathOf: (requester: number, transfer: number) => number[]): number[][] {
  const links = Array.from(topology.linkBytesPerSecond, (bytesPerSecond) => ({ bytesPerSecond }));
  const flows = plans
    .flatMap((plan, requester) => plan.map((each, transfer) => ({ ...each, requester, transfer, path: pathOf(requester, transfer) })))
    .sort((a, b) => a.atNs - b.atNs);
  const durations = plans.map((plan) => plan.map(() => 0));
  const active: { flow: (typeof flows)[number]; leftBytes: number }[] = [];
  let now = 0;
  const countStep = stepCounter(flows.length);
  for (let next = 0; next < flows.length || active.length > 0; ) {
    countStep();
    const rates = maxMinRates(
      links,
      active.map(({ flow }) => ({ path: flow.path })),
    );
    let until = next < flows.length ? flows[next]!.atNs : Number.POSITIVE_INFINITY;
    active.forEach(({ leftBytes }, index) => {
      until = Math.min(until, now + (leftBytes * 1e9) / rates[index]!);
    });
    active.forEach((entry, index) => {
      entry.leftBytes -= rates[index] === Number.POSITIVE_INFINITY ? entry.leftBytes : (rates[index]! * (until - now)) / 1e9;
    });
    now = until;
    for (const entry of active.slice()) {
      if (entry.leftBytes > 1e-2) continue;
      durations[entry.flow.requester]![entry.flow.transfer] = now - entry.flow.atNs;
      active.splice(active.indexOf(entry), 1);
    }
    while (next < flows.length && flows[next]!.atNs <= now) {
      active.push({ flow: flows[next]!, leftBytes: flows[next]!.transferBytes });
      next++;
    }
  }
  return durations;
}

/** The path the fabric takes for a transfer, from the ids of its actors. */
function pathsOf(plans: Planned[][], simulation = simulate({ plans })): (requester: number, transfer: number) => number[] {
  const { network } = stateOf(simulation);
  const found = plans.map((plan, requester) =>
    plan.map(({ source, destination }, transfer) => {
      const path = new Int32Array(24);
      const flow = flowIdOf(simulation.actorId(`requester${requester}`), transfer);
      const count = choosePath(topology, network.routes, source, destination, flow, path);
      return Array.from(path.subarray(0, count));
    }),
  );
  return (requester, transfer) => found[requester]![transfer]!;
}

describe('fabric actor', { timeout: 15_000 }, () => {
  it('answers one transfer after size over rate and the latency of its path', () => {
    const [source, destination] = [nodeId(topology, 'pod0/rack0/node0/gpu0'), nodeId(topology, 'pod1/rack0/node0/gpu0')];
    const simulation = simulate({ plans: [[{ atNs: 5000, source, destination, transferBytes: 3_125_000_000 }]] });
    runToEnd(simulation);
    // 3.125 GB/s across pods at 4:1.
    expect(endedOf(simulation)).toEqual([
      { transfer: 0, atNs: 6000 + 1e9 + 5200, status: 0, startNs: 6000, movedBytes: 3_125_000_000, networkTier: 3 },
    ]);
  });

  it('takes the least delay inside a server, and none for nothing', () => {
    const [source, destination] = [nodeId(topology, 'pod0/rack0/node0/gpu0'), nodeId(topology, 'pod0/rack0/node0/gpu1')];
    const plan = { atNs: 0, source, destination };
    const simulation = simulate({
      plans: [
        [
          { ...plan, transferBytes: 450_000 },
          { ...plan, transferBytes: 0 },
          { ...plan, destination: source, transferBytes: 77 },
        ],
      ],
    });
    runToEnd(simulation);
    const byTransfer = endedOf(simulation).sort((a, b) => a.transfer - b.transfer);
    // NVLink: 450 GB/s and 1 us; the least delay of 2 us covers it.
    expect(byTransfer.map(({ atNs, networkTier }) => [atNs, networkTier])).toEqual([
      [1000 + 1000 + LEAST_NS, 0],
      [1000 + LEAST_NS, 0],
      [1000 + LEAST_NS, 0],
    ]);
  });

  it('agrees with an event-by-event max-min simulation on random traces, bytes in = bytes out', () => {
    fc.assert(
      fc.property(fc.integer(), fc.boolean(), (seed, simultaneous) => {
        const plans = randomPlans(seed, 3, 60, 2e6, simultaneous);
        const pathOf = pathsOf(plans);
        const due = naiveDurations(plans, pathOf);
        const simulation = simulate({ plans });
        runToEnd(simulation);
        let [total, totalDue] = [0, 0];
        plans.forEach((plan, requester) => {
          const ended = endedOf(simulation, requester);
          expect(ended).toHaveLength(plan.length);
          for (const { transfer, atNs, startNs, movedBytes, networkTier, status } of ended) {
            const { source, destination, transferBytes } = plan[transfer]!;
            expect([movedBytes, networkTier, status]).toEqual([transferBytes, tier(topology, source, destination), 0]);
            const latencyNs = Math.max(LEAST_NS, pathLatencyNs(topology, pathOf(requester, transfer)));
            const took = atNs - startNs - latencyNs;
            total += took;
            totalDue += due[requester]![transfer]!;
            // Far inside 1 %: only rounding up to whole ns separates the two.
            expect(Math.abs(took - due[requester]![transfer]!)).toBeLessThanOrEqual(1e-6 * took + 100);
          }
        });
        expect(Math.abs(total / totalDue - 1)).toBeLessThan(1e-5);
        const { allocator } = stateOf(simulation).network;
        const bytes = plans.flat().reduce((sum, plan) => sum + plan.transferBytes, 0);
        expect([allocator.admittedBytes, allocator.deliveredBytes, allocator.abandonedBytes]).toEqual([bytes, bytes, 0]);
        expect([allocator.flowCount, stateOf(simulation).transfers.size]).toEqual([0, 0]);
      }),
      { numRuns: 25, endOnFailure: true },
    );
  });

  it('has max-min fair rates once settled', () => {
    const plans = randomPlans(4, 2, 150, 1e5, false).map((plan) => plan.map((each) => ({ ...each, transferBytes: 1e12 })));
    const pathOf = pathsOf(plans);
    const simulation = simulate({ plans });
    simulation.runUntil(1e9);
    const { allocator } = stateOf(simulation).network;
    const all = plans.flatMap((plan, requester) => plan.map((_each, transfer) => ({ requester, transfer })));
    const living = all.filter(({ requester, transfer }) => pathOf(requester, transfer).length > 0);
    const due = maxMinRates(
      Array.from(topology.linkBytesPerSecond, (bytesPerSecond) => ({ bytesPerSecond })),
      living.map(({ requester, transfer }) => ({ path: pathOf(requester, transfer) })),
    );
    expect(living.length).toBeGreaterThan(140);
    living.forEach(({ requester, transfer }, index) => {
      const slot = allocator.slotOfFlow.get(flowIdOf(simulation.actorId(`requester${requester}`), transfer))!;
      expect(Math.abs(allocator.rates[slot]! / due[index]! - 1)).toBeLessThan(1e-3);
    });
  });

  it('solves all changes of one instant once', () => {
    const plans = randomPlans(8, 1, 80, 0, false).map((plan) => plan.map((each) => ({ ...each, transferBytes: 1e12 })));
    const simulation = simulate({ plans });
    simulation.runUntil(1e6);
    expect(stateOf(simulation).network.allocator.solveCount).toBe(1);
  });

  it('cancels with what has moved; a cancel behind the end changes nothing', () => {
    const [source, destination] = [nodeId(topology, 'pod0/rack0/node0/gpu0'), nodeId(topology, 'pod0/rack0/node1/gpu0')];
    const plan = { atNs: 0, source, destination, transferBytes: 125_000_000 };
    const simulation = simulate({ plans: [[{ ...plan, cancelNs: 4e6 }], [{ ...plan, atNs: 20e6, cancelNs: 30_000_500 }]] });
    runToEnd(simulation);
    // Alone at 12.5 GB/s; 10 ms in all.
    expect(endedOf(simulation)).toMatchObject([{ status: transferStatus.cancelled, movedBytes: 50_000_000, atNs: 4e6 + 1000 + LEAST_NS }]);
    expect(endedOf(simulation, 1)).toMatchObject([{ status: transferStatus.arrived, movedBytes: 125_000_000 }]);
    expect(stateOf(simulation)).toMatchObject({ arrived: 1, cancelled: 1, unreachable: 0 });
  });

  it('moves transfers round a cut, slows on a weak link, and reports the unreachable after a while', () => {
    const [source, destination] = [nodeId(topology, 'pod0/rack0/node0/gpu0'), nodeId(topology, 'pod0/rack1/node0/gpu0')];
    const plan = { atNs: 0, source, destination, transferBytes: 62_500_000 };
    const up = linksBetween(topology, 'pod0/rack0/leaf0', 'pod0/spine0');
    const cable = linksBetween(topology, 'pod0/rack1/leaf0', 'pod0/rack1/node0/nic0')[0]!;
    const cut = (atNs: number, share: number): PlannedShare => ({ atNs, first: cable, count: 1, share });
    const other = up.map((first) => ({ atNs: 1e6, first, count: 1, share: 0 }));
    const alone = simulate({ plans: [[plan]], faults: other });
    runToEnd(alone);
    // 6.25 GB/s on whichever uplink: 10 ms.
    expect(endedOf(alone)).toMatchObject([{ status: 0, atNs: 1000 + 10e6 + 3600 }]);

    const back = simulate({ plans: [[plan, { ...plan, atNs: 3e6 }]], faults: [cut(2e6, 0), cut(7e6, 0.25)] });
    runToEnd(back);
    // 2 ms at 6.25 GB/s, then dead; from 7 ms on both share a quarter of 12.5 GB/s: 50 MB and 62.5 MB.
    const [first, second] = endedOf(back) as [Ended, Ended];
    expect(first.atNs).toBeCloseTo(7e6 + 1000 + 32e6 + 3600, -1);
    expect(second.atNs).toBeCloseTo(7e6 + 1000 + 36e6 + 3600, -1);

    const lost = simulate({ plans: [[plan, { ...plan, atNs: 3e6 }]], faults: [cut(2e6, 0)], options: { unreachableAfterNs: 5e6 } });
    runToEnd(lost);
    expect(endedOf(lost)).toMatchObject([
      { status: transferStatus.unreachable, atNs: 7e6 + 1000 + LEAST_NS, movedBytes: 12_500_000 },
      { status: transferStatus.unreachable, atNs: 8e6 + 1000 + LEAST_NS, movedBytes: 0 },
    ]);
    expect(stateOf(lost).network.allocator).toMatchObject({ flowCount: 0, deliveredBytes: 12_500_000 });
  });

  it('takes the latency of the way round for what a cut moved there', () => {
    const link = { bytesPerSecond: 50e9, latencyNs: 1000 };
    const zones = buildTopology({
      kind: 'multi-zone',
      zones: 3,
      zone: fatTree(1, 1, 1),
      gatewaysPerZone: 1,
      gatewayUplink: link,
      interZone: { bytesPerSecond: 10e9, latencyNs: 5e6 },
    });
    const [source, destination] = [nodeId(zones, 'zone0/pod0/rack0/node0/gpu0'), nodeId(zones, 'zone1/pod0/rack0/node0/gpu0')];
    const [direct] = linksBetween(zones, 'zone0/gateway0', 'zone1/gateway0') as [number];
    const endNs = (...faults: PlannedShare[]): number => {
      const plans = [[{ atNs: 0, source, destination, transferBytes: 100e6 }]];
      const simulation = simulate({ plans, faults, options: { topology: zones } });
      runToEnd(simulation);
      return endedOf(simulation)[0]!.atNs;
    };
    // 10 ms of bytes; PCIe, NIC and leaf at each end, the gateways, and one or two cables of 5 ms.
    const directNs = REQUEST_DELAY_NS + 10e6 + 2 * (500 + 600 + 700 + 1000) + 5e6;
    expect(endNs()).toBe(directNs);
    expect(endNs({ atNs: 4e6, first: direct, count: 1, share: 0 })).toBe(directNs + 5e6);
  });

  it('lets on-off traffic flow that came on while its cable was cut, once that is back', () => {
    const [source, destination] = [nodeId(topology, 'pod0/rack0/node0/gpu0'), nodeId(topology, 'pod0/rack0/node1/gpu0')];
    const options = { onOff: [{ source, destination, bytesPerSecond: 7.5e9, meanOnNs: 30e6, meanOffNs: 5e6 }] };
    // A moment at which the source has been on for a millisecond at most, and stays so.
    const dry = simulate({ plans: [[]], options });
    let onNs = 0;
    for (let [wasOn, found] = [true, false]; !found; onNs += 1e6) {
      dry.runUntil(onNs + 1e6);
      const { on, nextChangeNs } = stateOf(dry).sources[0]!;
      found = !wasOn && on && nextChangeNs > onNs + 20e6;
      wasOn = on;
    }
    const [cable] = linksBetween(topology, 'pod0/rack0/leaf0', 'pod0/rack0/node1/nic0') as [number];
    const cut = (atNs: number, share: number): PlannedShare => ({ atNs, first: cable, count: 1, share });
    const plan = { atNs: onNs + 2e6, source: nodeId(topology, 'pod0/rack0/node0/gpu1'), destination, transferBytes: 62.5e6 };
    const simulation = simulate({ plans: [[plan]], faults: [cut(onNs - 2e6, 0), cut(onNs + 1e6, 1)], options });
    runToEnd(simulation);
    // Of the 12.5 GB/s of the NIC the source takes its fair share, 6.25.
    expect(endedOf(simulation)[0]!.atNs).toBe(plan.atNs + REQUEST_DELAY_NS + 10e6 + 2200);
  });

  it('reports use to subscribers and through switches, background included, and falls silent when idle', () => {
    const [source, destination] = [nodeId(topology, 'pod0/rack0/node0/gpu0'), nodeId(topology, 'pod1/rack0/node0/gpu0')];
    const setting: Setting = {
      plans: [[{ atNs: 9000, source, destination, transferBytes: 25_000_000 }]],
      options: { backgroundShare: { 'core-uplink': 0.2 }, reportPeriodNs: 5e6, reportClasses: ['core-uplink'], lingerNs: 20e6 },
      switchNames: ['pod0/spine0', 'pod0/spine1', 'pod0/spine2'],
      listen: true,
    };
    const simulation = simulate(setting);
    runToEnd(simulation);
    const path = pathsOf(setting.plans, simulation)(0, 0);
    const core = path.filter((link) => topology.nodeNames[topology.linkTo[link]!]!.startsWith('core'));
    const { reports } = simulation.stateOf('requester0') as RequesterState;
    const own = reports.filter(({ link, atNs }) => link === core[0] && atNs % 5e6 === LEAST_NS);
    // 2.5 GB/s for 10 ms from 10 us on, then background alone, once.
    expect(own.map(({ utilisation }) => Number(utilisation.toFixed(4)))).toEqual([0.9984, 1, 0.2016, 0.2]);
    expect(own.reduce((sum, { transferBytes }) => sum + transferBytes, 0)).toBe(25_000_000);
    const relayed = reports.filter(({ link, atNs }) => link === core[0] && atNs % 5e6 === 2 * LEAST_NS);
    expect(relayed.length).toBe(own.length);
    const spine = topology.nodeNames[topology.linkFrom[core[0]!]!]!;
    const held = simulation.stateOf(`fabric/${spine}`) as SwitchState;
    expect(held.transferBytes[held.links.indexOf(core[0]!)]).toBe(25_000_000);
    const last = simulation
      .takeRecords()
      .filter(({ type }) => type === 'linkUse')
      .at(-1)!;
    expect(last.timeNs).toBe(20e6);
    expect(simulation.processedNs).toBeLessThan(45e6);
  });

  it('lets on-off traffic take its share: one flow against a source that is on a quarter of the time', () => {
    const [source, destination] = [nodeId(topology, 'pod0/rack0/node0/gpu0'), nodeId(topology, 'pod0/rack0/node1/gpu0')];
    const [noisy, sink] = [nodeId(topology, 'pod0/rack0/node0/gpu1'), nodeId(topology, 'pod0/rack0/node1/gpu1')];
    const onOff = [{ source: noisy, destination: sink, bytesPerSecond: 5e9, meanOnNs: 1e6, meanOffNs: 3e6 }];
    const simulation = simulate({ plans: [[{ atNs: 0, source, destination, transferBytes: 100_000_000_000 }]], options: { onOff } });
    runToEnd(simulation);
    // Both share the NIC of four GPUs: 12.5 GB/s, or 7.5 GB/s while the source is on.
    const expectedNs = 100e9 / (12.5 - 5 / 4);
    expect((endedOf(simulation)[0]!.atNs - REQUEST_DELAY_NS) / expectedNs).toBeGreaterThan(0.99);
    expect((endedOf(simulation)[0]!.atNs - REQUEST_DELAY_NS) / expectedNs).toBeLessThan(1.01);
  });

  it('has one fingerprint on one and two shards, through faults, cancels, reports and background', () => {
    const plans = randomPlans(21, 4, 300, 3e5, true);
    for (const plan of plans) for (const [index, each] of plan.entries()) if (index % 9 === 0) each.cancelNs = each.atNs + 4e6;
    const spine = linksAt(topology, nodeId(topology, 'pod0/spine1'));
    const setting: Setting = {
      plans,
      faults: [
        ...spine.map((first) => ({ atNs: 9e6, first, count: 1, share: 0 })),
        ...spine.map((first) => ({ atNs: 30e6, first, count: 1, share: 1 })),
      ],
      options: {
        reportPeriodNs: 7e6,
        onOff: [{ source: topology.gpus[3]!, destination: topology.gpus[40]!, bytesPerSecond: 2e9, meanOnNs: 1e6, meanOffNs: 2e6 }],
      },
      switchNames: ['pod0/rack0/leaf0', 'core1'],
      listen: true,
    };
    const results = [1, 2].map((shards) => {
      const simulation = simulate(setting, shards);
      runToEnd(simulation);
      const { arrived, cancelled, unreachable } = stateOf(simulation);
      expect(arrived + cancelled + unreachable).toBe(300);
      return [simulation.fingerprint, simulation.recordFingerprint, arrived, cancelled];
    });
    expect(results[0]).toEqual(results[1]);
    const half = simulate(setting);
    half.runUntil(15e6);
    const restored = new Simulation(half.model, { from: half.checkpoint(), shards: 2, keepRecords: true });
    runToEnd(restored);
    expect([restored.fingerprint, restored.recordFingerprint]).toEqual(results[0]!.slice(0, 2));
    expect(results[0]![3]).toBeGreaterThan(0);
  });
});
