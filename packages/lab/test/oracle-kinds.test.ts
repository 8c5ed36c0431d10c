import { clusterProgram, loadWorkload, parseScenario, planCluster } from '@braess/cluster';
import type { FrontendState } from '@braess/control';
import { modelOf, Simulation } from '@braess/kernel';
import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { disaggregated, runText } from './small-runs.js';

/** Two prefill engines, two decode engines in their pod and two in the other; core cables as fast as a NIC, half of them taken by others. */
const network = [
  'cluster.pods=2',
  'cluster.fabric.background=[{link: core-uplink, share: 0.5}]',
  'serving[1].count=4',
  'workload.requests=120',
];
const byNetwork = 'router.decode={policy: weighted, parameters: {alpha: 0, gamma: 1}}';

/** Rows of SQL over the decode decisions of a run. */
async function decided(settings: readonly string[], select: string): Promise<unknown[][]> {
  const run = await runText(disaggregated, settings);
  return (await queryRun(run.folder, `select ${select} from decisions where kind = 'decode_route'`)).rows as unknown[][];
}

describe('what oracles tell in a run', () => {
  it('active: half of a link that others take half of; and its own probes take their share from the transfers', async () => {
    const probing = (megabytes: number): string => `router.oracle={policy: active, parameters: {seconds: 0.5, megabytes: ${megabytes}}}`;
    const slow = ['workload.source.arrivals.ratePerSecond=5', ...network, byNetwork];
    const rows = await decided(
      [...slow, probing(16)],
      "median(congestion) filter (network_tier = 'across pods' and time_ns > 4e9), median(congestion) filter (network_tier = 'same pod' and time_ns > 4e9)",
    );
    const [[far, near]] = rows as [[number, number]];
    expect(far).toBeGreaterThan(0.49);
    expect(far).toBeLessThan(0.56);
    expect(near).toBeLessThan(0.05);
    const transferMs = async (oracle: string): Promise<number> =>
      (await runText(disaggregated, [...network, 'router.decode={policy: cla, parameters: {loadWeight: 1}}', oracle])).transferMs!.mean;
    expect(await transferMs(probing(4000))).toBeGreaterThan(1.2 * (await transferMs('router.oracle={policy: static-tier}')));
  });

  it('noisy: within its error of the truth, and not on it', async () => {
    const oracle = 'router.oracle={policy: noisy, parameters: {seconds: 0.1, error: 0.2, congestion: background}}';
    const [row] = await decided(
      [...network, byNetwork, oracle],
      "min(congestion) filter (network_tier = 'across pods'), max(congestion) filter (network_tier = 'across pods'), count(distinct congestion)",
    );
    const [least, most, count] = row as [number, number, bigint];
    expect(least).toBeGreaterThanOrEqual(0.3);
    expect(most).toBeLessThanOrEqual(0.7);
    expect(most - least).toBeGreaterThan(0.2);
    expect(Number(count)).toBeGreaterThan(20);
  });

  it('trend: as much as there is where nothing changes', async () => {
    const oracle = 'router.oracle={policy: trend, parameters: {seconds: 0.2, congestion: background}}';
    const rows = await decided(
      [...network, byNetwork, oracle],
      "max(abs(congestion - case network_tier when 'across pods' then 0.5 else 0 end))",
    );
    expect(rows[0]![0]).toBeLessThan(1e-12);
  });

  it('failing, lying: a router that goes by the network alone goes near before and far from then on', async () => {
    const oracle = 'router.oracle={policy: failing, parameters: {mode: lying, seconds: 0.5, fromSeconds: 2.9}}';
    const far = "avg(case when network_tier = 'across pods' then 1 else 0 end) filter (chosen and";
    const [row] = await decided(
      [...network, 'cluster.topology.bytesPerSecond.coreUplink=2.0e+10', byNetwork, oracle],
      `${far} time_ns < 3e9), ${far} time_ns > 3.001e9)`,
    );
    expect(row).toEqual([0, 1]);
  });

  it('failing, down from the start: with static tiers in its place requests stay near once it is found ill', async () => {
    const share = async (health: string): Promise<unknown> => {
      const oracle = `router.oracle={policy: failing, parameters: {seconds: 0.5}, health: {timeoutMs: 500${health}}}`;
      const far = "avg(case when network_tier = 'across pods' then 1 else 0 end) filter (chosen and time_ns > 1.1e9)";
      return (await decided([...network, byNetwork, 'workload.source.prefix=null', oracle], far))[0]![0];
    };
    expect(await share(', fallback: static-tiers')).toBe(0);
    // Least load, and nobody tells of tiers.
    expect(await share('')).toBe(0);
  });

  it('failing, slow: what it says is too old from its first word on, and trusted again with the first fresh one', async () => {
    const oracle =
      'router.oracle={policy: failing, parameters: {mode: slow, slowSeconds: 2, seconds: 0.5, fromSeconds: 3.1, untilSeconds: 8.1}, health: {timeoutMs: 1500}}';
    const { oracleFallbackSeconds } = await runText(disaggregated, [
      ...network,
      'router.decode={policy: netkv}',
      'workload.source.arrivals.ratePerSecond=10',
      oracle,
    ]);
    // Old words come from 3.5 s on, fresh ones at 8.5 s.
    expect(Math.abs(oracleFallbackSeconds - 5)).toBeLessThan(0.01);
  });

  it('cost-triple: weighted decides as by its own sums over the same counters', async () => {
    const settings = [...network, 'router.decode={policy: weighted, parameters: {alpha: 2, beta: 0.01, gamma: 1}}'];
    const places = (oracle: string): Promise<unknown[][]> =>
      decided([...settings, `router.oracle={policy: ${oracle}}`], 'request_id, candidate, chosen, round(score, 9)');
    const own = await places('periodic');
    expect(own.length).toBeGreaterThan(100);
    expect(await places('cost-triple, parameters: {load: account}')).toEqual(own);
  });
});

describe('transfers under way that a frontend counts', () => {
  /** Sums of the counters of both frontends, now. */
  const counted = (run: Simulation): number[] =>
    ['control/frontend0', 'control/frontend1'].map((name) => {
      const { tierTransfers, sourceTransfers, tierRequests, sourceRequests, slotOf } = run.stateOf(name) as FrontendState;
      const all = [...tierTransfers, ...sourceTransfers, ...tierRequests, ...sourceRequests];
      expect(Math.min(...all)).toBeGreaterThanOrEqual(0);
      if (slotOf.size === 0) expect(Math.max(...all)).toBe(0);
      const sum = tierTransfers.reduce((all, count) => all + count, 0);
      expect(sourceTransfers.reduce((all, count) => all + count, 0)).toBe(sum);
      return sum;
    });

  it.each([
    ['retry', 'flow'],
    ['fail', 'flow'],
    ['retry', 'chunk'],
    ['retry', 'flow, sent layer by layer'],
  ])(
    'all end with links cut, a prefill and a decode engine lost in the middle, and clients that give up (%s, %s)',
    async (onEngineDeath, fidelity) => {
      const read = parseScenario(disaggregated, 'faults.yaml', [
        ...network,
        'workload.rateFactor=8',
        `cluster.fabric.fidelity=${fidelity.slice(0, 5).replace(',', '')}`,
        `cluster.fabric.overlap=${fidelity.includes('layer') ? 'layers' : 'none'}`,
        'cluster.topology.bytesPerSecond={nic: 2.0e+9}',
        'cluster.fabric.unreachableAfterSeconds=0.05',
        'router.frontends=2',
        `router.onEngineDeath=${onEngineDeath}`,
        'router.decode={policy: netkv}',
        'router.oracle={policy: exact}',
        'workload.retry={timeoutMs: 120, attempts: 2, backoffMs: 5}',
        'faults=[{kind: link-share, atSeconds: 0.15, from: pod0/rack1/node0/nic0, to: pod0/rack1/leaf0, share: 0}, ' +
          '{kind: gpu-speed, atSeconds: 0.3, gpu: pod0/rack0/node0/gpu0, factor: 0}, {kind: gpu-speed, atSeconds: 0.45, gpu: pod1/rack0/node0/gpu0, factor: 0}, ' +
          '{kind: link-share, atSeconds: 0.5, from: pod0/rack1/node0/nic0, to: pod0/rack1/leaf0, share: 1}]',
      ]);
      const plan = planCluster(read);
      const { table } = await loadWorkload(read);
      const run = new Simulation(modelOf(clusterProgram, { plan, table, seriesNs: 0 }), { seed: '1' });
      let most = 0;
      for (let atNs = 0; atNs < 1.5e9; atNs += 25e6) {
        run.runUntil(atNs);
        most = Math.max(most, ...counted(run));
      }
      run.runUntil();
      expect(most).toBeGreaterThan(1);
      expect(counted(run)).toEqual([0, 0]);
      const { failed, retries, timedOut, cancelled } = (run.stateOf('control/frontend0') as FrontendState).counters;
      expect(failed + retries).toBeGreaterThan(0);
      expect(timedOut + cancelled).toBeGreaterThan(0);
    },
  );

  it('all end where decode engines die that were asked while the prompt was computed', async () => {
    const read = parseScenario(disaggregated, 'early.yaml', [
      ...network,
      'workload.requests=12',
      'workload.source.inputTokens.meanTokens=6000',
      'cluster.fabric.overlap=layers',
      'router.decode={policy: netkv}',
      'router.oracle={policy: exact}',
      'faults=[{kind: gpu-speed, atSeconds: 0.3, gpu: pod1/rack0/node0/gpu0, factor: 0}, {kind: gpu-speed, atSeconds: 0.3, gpu: pod1/rack0/node0/gpu1, factor: 0}]',
    ]);
    const plan = planCluster(read);
    const { table } = await loadWorkload(read);
    const run = new Simulation(modelOf(clusterProgram, { plan, table, seriesNs: 0 }), { seed: '1' });
    const state = (): FrontendState => run.stateOf('control/frontend0') as FrontendState;
    run.runUntil(0.3e9);
    expect(state().slots.early.includes(1)).toBe(true);
    run.runUntil();
    expect(state().counters.completed).toBe(12);
    const { tierTransfers, sourceTransfers, tierRequests, sourceRequests } = state();
    for (const counts of [tierTransfers, sourceTransfers, tierRequests, sourceRequests]) expect(Math.max(...counts)).toBe(0);
  });
});
