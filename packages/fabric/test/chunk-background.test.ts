import { buildTopology, type ChunkNodeState, linksBetween, nodeId } from '@braess/fabric';
import { describe, expect, it } from 'vitest';
import { CHUNK, endedOf, finished, gpu, incast, LEAST_NS, LINE, rack, simulate, sum } from './chunk-world.js';
import { fatTree, H100_SERVER } from './clusters.js';
import { REQUEST_DELAY_NS, type RequesterState } from './fabric-world.js';

describe('background at chunk fidelity', () => {
  it('a constant share makes links as much slower: the same course as on slower NICs', () => {
    const nic = { ...H100_SERVER.nic, bytesPerSecond: 0.6 * LINE };
    const slower = buildTopology(fatTree(1, 1, 9, { server: { ...H100_SERVER, nic } }));
    const shared = finished({ plans: incast(6, 100 * CHUNK), options: { backgroundShare: { nic: 0.4 } } });
    const alone = finished({ topology: slower, plans: incast(6, 100 * CHUNK) });
    expect(endedOf(shared)).toEqual(endedOf(alone));
    expect(endedOf(shared)[0]?.atNs).toBeGreaterThan(endedOf(finished({ plans: incast(6, 100 * CHUNK) }))[0]?.atNs as number);
  });

  it('an on-off source sends its rate while it is on, and transfers get what it leaves', () => {
    const onOff = [{ source: gpu(1), destination: gpu(0), bytesPerSecond: LINE / 2, meanOnNs: 400_000, meanOffNs: 800_000 }];
    const options = { onOff, onOffUntilNs: 100e6, congestionControl: false };
    const quiet = finished({ plans: [[]], options });
    const sink = quiet.stateOf('pod0/rack0/node0/gpu0/port') as ChunkNodeState;
    // On a third of 100 ms at half the line. 83 changes of state: the standard error of the time on is about a tenth.
    expect(Math.abs(sink.backgroundBytes / (((LINE / 2) * 0.1) / 3) - 1)).toBeLessThan(0.25);
    expect(quiet.processedNs).toBeLessThan(101e6);

    // Always on, from another GPU to the same one: two equal flows at one port, of which one can take half and no more.
    const steady = [{ ...onOff[0]!, meanOnNs: 1e15, meanOffNs: 1 }];
    const plans = [[{ atNs: 0, source: gpu(2), destination: gpu(0), transferBytes: 400 * CHUNK }]];
    const [ended] = endedOf(finished({ plans, options: { ...options, onOff: steady } }));
    const expectedNs = (400 * CHUNK * 1e9) / (LINE / 2);
    expect(Math.abs(((ended?.atNs as number) - REQUEST_DELAY_NS - LEAST_NS) / expectedNs - 1)).toBeLessThan(0.02);
  });

  it('what cannot be is refused', () => {
    const source = { source: gpu(1), destination: gpu(0), bytesPerSecond: 1e9, meanOnNs: 1e6, meanOffNs: 1e6 };
    expect(() => finished({ plans: [], options: { backgroundShare: { nic: 1 } } })).toThrow(/backgroundShare.nic is 1; .* below 1/);
    expect(() => finished({ plans: [], options: { backgroundShare: { nics: 0.1 } as never } })).toThrow(/"nics"; allowed/);
    expect(() => finished({ plans: [], options: { onOff: [source] } })).toThrow(/needs onOffUntilNs/);
    const leaf = nodeId(rack, 'pod0/rack0/leaf0');
    expect(() => finished({ plans: [], options: { onOff: [{ ...source, source: leaf }], onOffUntilNs: 1e6 } })).toThrow(
      /must be a GPU, host or storage node/,
    );
  });
});

describe('counters that an oracle hears at chunk fidelity', () => {
  const hot = linksBetween(rack, 'pod0/rack0/leaf0', 'pod0/rack0/node0/nic0')[0] as number;
  const options = { tellPeriodNs: 100_000, reportDelayNs: 5000, backgroundShare: { nic: 0.2 } };

  it('say bytes, flows and use of each period, background included, then once that it is quiet', () => {
    const simulation = finished({ plans: incast(4, 100 * CHUNK), options, listen: true });
    const { reports } = simulation.stateOf('requester0') as RequesterState;
    const own = reports.filter(({ link }) => link === hot);
    expect(own.every(({ atNs }) => atNs % 100_000 === 5000)).toBe(true);
    expect(sum(own.map(({ transferBytes }) => transferBytes))).toBe(400 * CHUNK);
    // The first period holds the start; in the next ones four flows keep the port full.
    expect(own[1]).toMatchObject({ flows: 4 });
    expect(own[1]?.utilisation).toBeGreaterThan(0.95);
    expect(own.at(-1)).toMatchObject({ utilisation: 0.2, transferBytes: 0, flows: 0 });
    expect(own.filter(({ transferBytes }) => transferBytes === 0)).toHaveLength(1);
    // A port that carries nothing is heard of once, at the first beat; those inside servers never.
    const idle = linksBetween(rack, 'pod0/rack0/leaf0', 'pod0/rack0/node8/nic0')[0];
    expect(reports.filter(({ link }) => link === idle)).toEqual([
      { atNs: 105_000, link: idle, utilisation: 0.2, transferBytes: 0, flows: 0 },
    ]);
    const inside = linksBetween(rack, 'pod0/rack0/node1/gpu0', 'pod0/rack0/node1/nic0')[0];
    expect(reports.some(({ link }) => link === inside)).toBe(false);
    // The port is at rest soon after the last transfer.
    expect(simulation.processedNs).toBeLessThan((endedOf(simulation).at(-1)?.atNs as number) + 400_000);
  });

  it('are the same on two shards, with on-off traffic, records and faults', () => {
    const onOff = [{ source: gpu(5), destination: gpu(0), bytesPerSecond: LINE / 4, meanOnNs: 50_000, meanOffNs: 50_000 }];
    const setting = {
      plans: incast(4, 60 * CHUNK),
      options: { ...options, onOff, onOffUntilNs: 2e6, reportPeriodNs: 70_000 },
      faults: [{ atNs: 200_000, first: hot, count: 1, share: 0.5 }],
      listen: true,
    };
    const [one, two] = [1, 2].map((shards) => {
      const simulation = simulate(setting, shards);
      simulation.runUntil(50e6);
      return simulation;
    });
    expect(two?.fingerprint).toBe(one?.fingerprint);
    expect(endedOf(one as never)).toHaveLength(4);
  });
});
