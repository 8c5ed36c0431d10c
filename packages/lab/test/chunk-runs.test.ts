import { parseScenario, planCluster } from '@braess/cluster';
import { queryRun } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { disaggregated, essence, runText, testFile } from './small-runs.js';

const chunk = ['cluster.fabric={fidelity: chunk, chunkBytes: 262144}'];
const nicShare = ['cluster.fabric.background=[{link: nic, share: 0.5}]'];
// Chunks cost an event a hop.
const few = ['workload.requests=30'];

/** Many prompts, some of them often, and room for few in HBM. */
const reuse = [
  'serving[0].kvBlocks=150',
  'workload.source.prefix={groups: 12, popularity: {kind: zipf, exponent: 1.2}, prefixTokens: {kind: uniform, minTokens: 300, maxTokens: 1200}}',
];

describe('tiers below HBM', () => {
  it.each([
    ['{g3: {gigabytes: 4, minimumFrequency: 1}}', ['g3']],
    ['{g4: {gigabytes: 4}}', ['g4']],
    ['{g2: {gigabytes: 0.15}, g4: {gigabytes: 4, latencyUs: 10}}', ['g2', 'g4']],
    ['{g2: {gigabytes: 0.15}, g3: {gigabytes: 4, minimumFrequency: 1, latencyUs: 1}}', ['g2', 'g3']],
  ] as const)('hits are those of the tier that had them: %s', async (tiers, found) => {
    const run = await runText(disaggregated, [...reuse, 'workload.requests=150', `kvTiers=${tiers}`], { strict: true });
    expect(run.faults).toEqual([]);
    expect((['g2', 'g3', 'g4'] as const).filter((tier) => run.hitRates[tier] > 0)).toEqual(found);
  });

  it('that fail in the middle lose their hits, and no request', async () => {
    const down = (tier: string, atSeconds: number, factor: number): string =>
      `{kind: tier-speed, atSeconds: ${atSeconds}, tier: ${tier}, factor: ${factor}}`;
    const run = (tiers: string, ...faults: string[]) =>
      runText(disaggregated, [
        ...reuse,
        'workload.requests=150',
        'serving[0].count=1',
        'serving[1].count=1',
        `kvTiers=${tiers}`,
        `faults=[${faults.join(', ')}]`,
      ]);
    const [dram, place] = ['{g2: {gigabytes: 0.5}}', 'pod0/rack0/node0/g2'];
    const healthy = await run(dram);
    const [broken, repaired, slow] = [
      await run(dram, down(place, 2, 0)),
      await run(dram, down(place, 2, 0), down(place, 3, 1)),
      await run(dram, down(place, 0, 0.01)),
    ];
    for (const each of [broken, repaired, slow]) expect([each.faults, each.completed]).toEqual([[], 150]);
    expect(broken.hitRates.g2).toBeLessThan(repaired.hitRates.g2);
    expect(repaired.hitRates.g2).toBeLessThan(healthy.hitRates.g2);
    // A hundredth of the bandwidth: computing is quicker.
    expect(slow.hitRates.g2).toBeLessThan(0.1 * healthy.hitRates.g2);
    const storage = await run('{g4: {gigabytes: 4}}', down('storage/g4', 2, 0), down('storage/g4', 3, 1));
    expect([storage.faults, storage.completed]).toEqual([[], 150]);
    expect(storage.hitRates.g4).toBeGreaterThan(0);
  });

  it('DRAM offloads to network storage over the NIC of its server', async () => {
    const bytesOf = async (tiers: string): Promise<number> => {
      const { folder } = await runText(disaggregated, [...reuse, 'serving=[{count: 2, kvBlocks: 150}]', `kvTiers=${tiers}`]);
      const sql = "select sum(value) from series where metric = 'link_use' and entity like '%nic%storage%' or entity like '%storage%'";
      return ((await queryRun(folder, sql)).rows[0] as number[])[0] ?? 0;
    };
    expect(await bytesOf('{g2: {gigabytes: 0.15}, g4: {gigabytes: 4}}')).toBeGreaterThan(0);
    expect(await bytesOf('{g2: {gigabytes: 0.15}}')).toBe(0);
  });
});

describe('whole runs at chunk fidelity', () => {
  it('background takes its share: transfers agree with flow fidelity, with and without', async () => {
    const meanMs = async (...settings: string[]): Promise<number> =>
      (await runText(disaggregated, [...few, ...settings])).transferMs?.mean as number;
    const [flow, packets] = [await meanMs(), await meanMs(...chunk)];
    const [flowShared, packetsShared] = [await meanMs(...nicShare), await meanMs(...chunk, ...nicShare)];
    // Store and forward over four hops, and congestion control, which takes time to find fair shares.
    expect(packets / flow).toBeGreaterThan(0.98);
    expect(packets / flow).toBeLessThan(1.12);
    expect(packetsShared / flowShared).toBeGreaterThan(0.98);
    expect(packetsShared / flowShared).toBeLessThan(1.12);
    expect(flowShared / flow).toBeGreaterThan(1.6);
  });

  it('links report to an oracle, and on-off traffic comes and goes; the same on two shards', async () => {
    const file = testFile(
      'hearing.ts',
      `import { defineOraclePolicy } from '@braess/control';
       import { z } from 'zod';
       export default defineOraclePolicy({ name: 'hearing', description: 'Calls all engines near until it hears of bytes.', parameters: z.strictObject({}),
         createState: () => ({ bytes: 0 }),
         observe(observation, _parameters, state) { state.bytes += observation.transferBytes; },
         answer(question, answer, _parameters, state) {
           for (let place = 0; place < question.count; place++) answer.transferNs[question.candidates[place]!] = state.bytes;
         } });`,
    );
    const reader = testFile(
      'reading.ts',
      `import { defineRouterPolicy } from '@braess/control';
       import { z } from 'zod';
       export default defineRouterPolicy({ name: 'reading', description: 'Reads the network.', parameters: z.strictObject({}), reads: { network: true },
         choose: (view) => view.candidates[0]! });`,
    );
    const settings = [
      'workload.requests=15',
      ...chunk,
      'untilSeconds=2',
      'router.linkReportMs=50',
      `router.decode={policy: ${reader}}`,
      `router.oracle={policy: ${file}}`,
      'cluster.fabric.onOff=[{from: pod0/rack0/node0/gpu1, to: pod0/rack1/node0/gpu0, bytesPerSecond: 2.0e+8, meanOnMs: 20, meanOffMs: 20}]',
    ];
    const run = await runText(disaggregated, settings);
    expect(run.faults).toEqual([]);
    const heard = await queryRun(
      run.folder,
      "select transfer_ms from decisions where kind = 'decode_route' and chosen order by decision_id",
    );
    const bytes = heard.rows.map(([ms]) => Math.round((ms as number) * 1e6));
    expect(bytes[0]).toBe(0);
    // Every transfer of some 80 MB crosses four reported links.
    expect(bytes.at(-1)).toBeGreaterThan(1e9);
    const two = await runText(disaggregated, settings, { shards: 2 });
    expect(essence(two)).toEqual(essence(run));
  });

  it('network storage works as at flow fidelity', async () => {
    const [flow, packets] = [
      await runText(disaggregated, [...reuse, 'kvTiers={g4: {gigabytes: 4}}']),
      await runText(disaggregated, [...reuse, ...chunk, 'kvTiers={g4: {gigabytes: 4}}']),
    ];
    for (const run of [flow, packets]) {
      expect(run.faults).toEqual([]);
      expect(run.hitRates.g4).toBeGreaterThan(0.05);
    }
    expect(Math.abs(packets.hitRates.g4 / flow.hitRates.g4 - 1)).toBeLessThan(0.1);
  });

  it('refuses what it cannot do', () => {
    const problem = (...settings: string[]): string => {
      try {
        planCluster(parseScenario(disaggregated, 'test.yaml', settings));
      } catch (error) {
        return (error as Error).message;
      }
      return '';
    };
    const onOff =
      'cluster.fabric.onOff=[{from: pod0/rack0/node0/gpu9, to: pod0/rack1/node0/gpu0, bytesPerSecond: 1, meanOnMs: 1, meanOffMs: 1}]';
    expect(problem(...chunk, 'cluster.fabric.background=[{link: nic, share: 1}]')).toContain('background[0].share is 1: nothing is left');
    expect(problem(onOff)).toContain('onOff[0].from is "pod0/rack0/node0/gpu9", no end of transfers');
    expect(problem(...chunk, onOff.replace('gpu9', 'gpu1'))).toContain('onOff needs untilSeconds');
    const alone = ['serving=[{count: 2}]', 'cluster.fabric.background=[{link: nic, share: 0.1}]'];
    expect(problem(...alone)).toContain('shares links with nobody');
  });
});

describe('the KV of tensor-parallel groups, a flow a GPU', () => {
  const groups = (prefill: number, decode: number): string[] => [
    'cluster={racksPerPod: 1, serversPerRack: 2, gpusPerServer: 4}',
    `serving=[{count: ${4 / prefill}, role: prefill, tensorParallel: ${prefill}}, {count: ${4 / decode}, role: decode, tensorParallel: ${decode}}]`,
    'workload.source.arrivals={kind: constant, ratePerSecond: 1}',
    'workload.requests=10',
  ];
  const perGpu = 'cluster.fabric.shards=per-gpu';

  it('takes as long as one flow over the summed links, alone in a rack, with all bytes', async () => {
    const one = await runText(disaggregated, groups(4, 4));
    const four = await runText(disaggregated, [...groups(4, 4), perGpu], { strict: true });
    expect([four.faults, four.completed]).toEqual([[], 10]);
    // A byte here or there, and a nanosecond.
    expect(Math.abs((four.transferMs?.mean as number) - (one.transferMs?.mean as number))).toBeLessThan(1e-5);
    const bytes = async (folder: string) => (await queryRun(folder, 'select sum(transfer_bytes) from requests')).rows;
    expect(await bytes(four.folder)).toEqual(await bytes(one.folder));
  });

  it('between groups of two sizes the smaller one sends or receives several parts at each NIC', async () => {
    const narrow = await runText(disaggregated, [...groups(4, 2), perGpu]);
    const wide = await runText(disaggregated, [...groups(4, 4), perGpu]);
    expect(narrow.faults).toEqual([]);
    // Half as many NICs take the same bytes in: twice as long, less the latency.
    expect(((narrow.transferMs?.mean as number) - 0.05) / ((wide.transferMs?.mean as number) - 0.05)).toBeGreaterThan(1.7);
  });

  it('a cut NIC in the middle fails the transfer as a whole, at both fidelities, and every request is accounted for', async () => {
    for (const fidelity of ['flow', 'chunk']) {
      const run = await runText(disaggregated, [
        ...groups(4, 4),
        perGpu,
        `cluster.fabric.fidelity=${fidelity}`,
        'cluster.fabric.chunkBytes=1000000',
        'faults=[{kind: link-share, atSeconds: 5.02, from: pod0/rack0/node1/nic2, to: pod0/rack0/leaf0, share: 0}, {kind: link-share, atSeconds: 7.5, from: pod0/rack0/node1/nic2, to: pod0/rack0/leaf0, share: 1}]',
      ]);
      expect(run.faults).toEqual([]);
      expect(run.completed + run.failed).toBe(10);
    }
  });
});
