import { dirname, join } from 'node:path';
import { tuneScenario } from '@braess/lab';
import { queryRun, readSummary } from '@braess/telemetry';
import { describe, expect, it } from 'vitest';
import { disaggregated, newFolder, runText, testFile } from './small-runs.js';

/** Two prefill engines, one near and two far decode engines, links that half belong to others. */
const network = [
  'cluster.pods=2',
  'cluster.topology.oversubscription={leaf: 1, core: 4}',
  'cluster.fabric.background=[{link: core-uplink, share: 0.5}]',
  'serving[1].count=4',
  'workload.requests=120',
];
const netkv = [...network, 'router.decode={policy: netkv}'];

const congestionSeen = "select max(congestion), count(*) from decisions where policy = 'netkv'";

describe('the network oracle', () => {
  it('knows what link reports told it, and nothing when they are lost', async () => {
    const told = await runText(disaggregated, [...netkv, 'router.oracle={policy: exact}']);
    const deaf = await runText(disaggregated, [
      ...netkv,
      'router.oracle={policy: exact}',
      'faults=[{kind: telemetry-loss, atSeconds: 0, actor: control/oracle, lost: true}]',
    ]);
    const [seen] = (await queryRun(told.folder, congestionSeen)).rows as [number, bigint][];
    expect(Number(seen![1])).toBeGreaterThan(50);
    expect(Number(seen![0])).toBeGreaterThanOrEqual(0.5);
    // The network is as loaded as before.
    const [blind] = (await queryRun(deaf.folder, congestionSeen)).rows as [number, bigint][];
    expect(Number(blind![0])).toBe(0);
    expect(deaf.transferMs!.mean).toBeGreaterThan(0);
  });

  it('hands its policy the question, the inventory and what it published: no way leads to the fabric', async () => {
    const oracle = testFile(
      'walking.ts',
      `import { defineOraclePolicy } from '@braess/control';
       import { z } from 'zod';
       const paths = (value, name, seen, found) => {
         if (typeof value === 'function') found.add(name + '()');
         if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value) || seen.has(value)) return;
         seen.add(value);
         if (Array.isArray(value)) return;
         for (const key of Object.keys(value)) { found.add(name + '.' + key); paths(value[key], name + '.' + key, seen, found); }
       };
       export default defineOraclePolicy({ name: 'walking', description: 'Says what it can reach.', parameters: z.strictObject({}),
         createState: () => ({ reports: 0 }),
         observe(observation, _parameters, state) { state.reports++; },
         answer(question, answer, parameters, knowledge, random) {
           const found = new Set();
           for (const [name, value] of Object.entries({ question, parameters, knowledge, random })) paths(value, name, new Set(), found);
           throw new Error([...found].sort().join(' '));
         } });`,
    );
    const message = await runText(disaggregated, [...netkv, `router.oracle={policy: ${oracle}}`]).catch((error: Error) => error.message);
    const reached = /Error: (.*)/
      .exec(message as string)?.[1]
      ?.split(' ')
      .filter((path) => !path.startsWith('question.engines.'));
    expect(reached?.map((path) => path.replace(/[,;]$/, '')).slice(0, 30)).toEqual([
      'knowledge.reports',
      'question.blockTokens',
      'question.candidates',
      'question.count',
      'question.engines',
      'question.fixedBytes',
      'question.inputTokens',
      'question.nowNs',
      'question.overlapBlocks',
      'question.paths',
      'question.prefillEngine',
      'question.site',
      'question.site.flowsPerTransfer',
      'question.site.isSource',
      'question.site.isSource()',
      'question.site.isTarget',
      'question.site.isTarget()',
      'question.site.linkTier',
      'question.site.pathStages',
      'question.site.pathStages()',
      'question.site.tierBackground',
      'question.site.tierBetween',
      'question.site.tierBetween()',
      'question.site.tierBytesPerSecond',
      'question.site.tierLatencyNs',
      'question.site.tierLinks',
      'question.site.tiersFrom',
      'question.site.tiersFrom()',
      'question.transferBytes',
      'random()',
    ]);
  });

  it('is done without from its timeout until it speaks again', async () => {
    const slow = ['workload.source.arrivals.ratePerSecond=10'];
    const failing = (health: string): string[] => [
      ...netkv,
      ...slow,
      `router.oracle={policy: failing, parameters: {seconds: 0.5, fromSeconds: 3.1, untilSeconds: 8.1}, health: {${health}}}`,
    ];
    // Last told at 3.0 s, ill from 4.5 s, told again at 8.5 s, half a millisecond later at the frontend.
    const run = await runText(disaggregated, failing('timeoutMs: 1500'));
    expect(run.oracleFallbackSeconds).toBeGreaterThan(3.9);
    expect(run.oracleFallbackSeconds).toBeLessThan(4.01);
    expect(readSummary(run.folder).oracleFallbackSeconds).toBe(run.oracleFallbackSeconds);
    const { rows } = await queryRun(
      run.folder,
      "select policy, min(time_ns) / 1e9, max(time_ns) / 1e9 from decisions where kind = 'decode_route' group by all order by policy",
    );
    const [fallback] = rows as [string, number, number][];
    expect(fallback![0]).toBe('load-aware');
    expect(fallback![1]).toBeGreaterThan(4.5);
    expect(fallback![2]).toBeLessThan(8.501);
    expect((await runText(disaggregated, failing('timeoutMs: 60000'))).oracleFallbackSeconds).toBe(0);
  });

  it('is right about transfers of which a part need not move', async () => {
    // 131,072 B of KV a token; seldom two transfers at a time.
    const run = await runText(disaggregated, [
      ...network,
      'router.decode={policy: netkv}',
      'workload.requests=60',
      'workload.source.arrivals.ratePerSecond=5',
      'workload.source.inputTokens.meanTokens=1600',
      'router.oracle={policy: periodic, health: {worstRatio: 1.3, errorWeight: 0.3}}',
    ]);
    const { rows } = await queryRun(run.folder, 'select count(*) from requests where transfer_bytes < 0.7 * input_tokens * 131072');
    expect(Number((rows[0] as unknown[])[0])).toBeGreaterThan(20);
    // Without regard to what was held, two thirds of the run.
    expect(run.oracleFallbackSeconds).toBeLessThan(0.5);
  });

  it('while it is ill a policy may go on by static tiers: as near as ever, deaf to the load that the oracle told of', async () => {
    const slow = 'workload.source.arrivals.ratePerSecond=10';
    const oracle = (health: string): string =>
      `router.oracle={policy: failing, parameters: {seconds: 0.5, fromSeconds: 3.1, untilSeconds: 8.1}, health: {timeoutMs: 1500${health}}}`;
    const seen = async (health: string): Promise<Record<string, unknown>[]> => {
      const { folder } = await runText(disaggregated, [...netkv, slow, oracle(health)]);
      const sql = `select policy, min(congestion) as least, max(congestion) as most, count(*) as decisions from decisions
        where kind = 'decode_route' and network_tier = 'across pods' and time_ns between 4.51e9 and 8.5e9 group by policy`;
      return (await queryRun(folder, sql)).rows.map(([policy, least, most]) => ({ policy, least, most }));
    };
    expect(await seen(', fallback: static-tiers')).toEqual([{ policy: 'netkv', least: 0, most: 0 }]);
    // Least load, by default; the last word of the oracle is still recorded.
    const [only] = await seen('');
    expect(only).toMatchObject({ policy: 'load-aware' });
    expect(only!.least as number).toBeGreaterThanOrEqual(0.5);
    const run = await runText(disaggregated, [...netkv, slow, oracle(', fallback: static-tiers')]);
    expect(run.oracleFallbackSeconds).toBeGreaterThan(3.9);
    expect(run.oracleFallbackSeconds).toBeLessThan(4.01);
  });

  it('pings through the fabric: zones a millisecond apart are another tier, servers of a pod are not', async () => {
    const run = await runText(disaggregated, [
      'cluster.topology.kind=multi-zone',
      'cluster.racksPerPod=2',
      'serving[1].count=4',
      'router.decode={policy: netkv}',
      'router.oracle={policy: rtt-median}',
    ]);
    const { rows } = await queryRun(
      run.folder,
      "select distinct network_tier from decisions where kind = 'decode_route' and network_tier is not null order by 1",
    );
    expect(rows.map(([tier]) => tier)).toEqual(['across pods', 'same rack']);
  });
});

describe('tuning', () => {
  it('runs every combination of the grid on another sample and takes the least', async () => {
    const file = testFile('tuned.yaml', disaggregated);
    const tuned = await tuneScenario({
      file,
      settings: ['router.decode={policy: cla, parameters: {ties: first}}'],
      grid: { cacheWeight: [1], loadWeight: [0, 5] },
      aim: 'ttft-mean',
      requests: 60,
      seed: 'apart',
      out: newFolder(),
    });
    expect(tuned.points.map(({ parameters }) => parameters)).toEqual([
      { cacheWeight: 1, loadWeight: 0 },
      { cacheWeight: 1, loadWeight: 5 },
    ]);
    const values = tuned.points.map(({ value }) => value as number);
    expect(tuned.best?.value).toBe(Math.min(...values));
    // Each is the run anybody would make of it, with the parameters that were given kept.
    const again = await runText(disaggregated, [
      'router.decode={policy: cla, parameters: {ties: first, cacheWeight: 1, loadWeight: 5}}',
      'seed=apart',
      'telemetry.seriesSeconds=0',
    ]);
    expect(values[1]).toBe(again.ttftMs!.mean);
  });

  it('says so where nothing is measured, and why a single point has no value', async () => {
    const file = testFile('unwarmed.yaml', disaggregated);
    const options = { file, aim: 'ttft-mean', requests: 20, seed: 'a', grid: { loadWeight: [1, 5] } } as const;
    const settings = ['router.decode={policy: cla}', 'warmupSeconds=1000', 'workload.requests=80'];
    await expect(tuneScenario({ ...options, settings, out: newFolder() })).rejects.toThrow(
      /warm-up of 1000 s outlasts the arrivals of the sample's 20 requests, the last of which ended by [\d.]+ s: nothing is measured; take more with --requests, or --set warmupSeconds \(250 is the share that it is of 80 requests\)/,
    );
    const losing = ['router.decode={policy: cla}', 'workload.retry.timeoutMs=1'];
    const { points, best } = await tuneScenario({ ...options, settings: losing, out: newFolder() });
    expect(points.map(({ error }) => error)).toEqual(['lost 20 of 20 requests', 'lost 20 of 20 requests']);
    expect(best).toBeNull();
  });

  it('refuses to tune on the seed or trace that is measured, and without a grid', async () => {
    const options = { aim: 'ttft-mean', requests: 10, seed: 'a', out: newFolder() } as const;
    const file = testFile('untuned.yaml', disaggregated);
    await expect(tuneScenario({ ...options, file })).rejects.toThrow("policy 'kv' has no grid of its own (cla, weighted have)");
    const trace = 'workload.source={kind: trace, file: t.csv}';
    await expect(tuneScenario({ ...options, file, settings: [trace] })).rejects.toThrow('tune on another one: --trace FILE');
    const same = join(dirname(file), 't.csv');
    await expect(tuneScenario({ ...options, file, settings: [trace], trace: same })).rejects.toThrow('tune on another one: --trace FILE');
    await expect(tuneScenario({ ...options, file, seed: '1' })).rejects.toThrow("seed '1' is that of the run to be measured");
  });
});
