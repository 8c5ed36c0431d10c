import type { RunRecord } from '@braess/kernel';
import { engineRole } from '@braess/protocol';
import { checkEngineActor, type EngineRules, type GapRows } from '@braess/serving';
import { describe, expect, it } from 'vitest';
import { buildCluster, diaryOf, engineOf, frontendLane, type TestAction, type TestCluster, type TestRequest } from './actor-cluster.ts';
import { prefixBlocks } from './prefix-pool.ts';
import { integerIn, plainTiming, randomFrom, rulesOf } from './support.ts';

const ms = 1_000_000;
const engines = [
  { role: engineRole.aggregated, gpus: 2, tiers: true },
  { role: engineRole.prefill, gpus: 1, tiers: true },
  { role: engineRole.decode, gpus: 2 },
  { role: engineRole.decode },
];

/** Random loads, tight in memory and seats, with prompts that share prefixes, clients that give up, and (where asked) faults. */
function randomCluster(seed: number, rules: EngineRules, faults: boolean): TestCluster {
  const random = randomFrom(seed);
  const requests: TestRequest[] = [];
  let atNs = 0;
  for (let index = 0; index < 60; index++) {
    atNs += random() < 0.3 ? 0 : Math.floor(random() * random() * 200 * ms);
    const inputTokens = integerIn(random, 1, 200);
    const family = integerIn(random, 1, 4);
    const chain = random() < 0.2 ? null : Float64Array.from({ length: Math.floor(inputTokens / 16) }, (_, at) => family * 1000 + at);
    requests.push({
      atNs,
      inputTokens,
      outputTokens: integerIn(random, 1, 120),
      chain,
      ...(random() < 0.5 ? { engine: 0 } : { engine: 1, decodeEngine: integerIn(random, 2, 3) }),
      ...(random() < 0.1 ? { cancelNs: atNs + Math.floor(random() * 1500 * ms) } : {}),
    });
  }
  const actions: TestAction[] = [];
  const act = (engine: number, name: TestAction['act'], ...fields: number[]): void => {
    actions.push({ atNs: Math.floor(random() * atNs), engine, act: name, fields });
  };
  act(0, 'gpuSpeed', 1, 0.6);
  act(2, 'telemetryLoss', 1);
  if (faults) {
    for (const engine of [0, 1, 2]) {
      const first = Math.floor(random() * atNs);
      actions.push({ atNs: first, engine, act: 'gpuSpeed', fields: [0, 0] });
      actions.push({ atNs: first + integerIn(random, 1, 900) * ms, engine, act: 'gpuSpeed', fields: [0, 1] });
    }
    act(3, 'role', engineRole.aggregated, 300 * ms);
  }
  return {
    rules,
    timing: plainTiming(),
    engines,
    requests,
    actions,
    blocks: prefixBlocks as never,
    fabric: { bytesPerSecond: 1e7, ...(faults && seed % 3 === 0 ? { unreachable: [1] } : {}) },
    promises: true,
    reports: { loadNs: 50 * ms, kvNs: seed % 2 === 0 ? 0 : 7 * ms },
    tier: { holds: Array.from({ length: 9 }, (_, at) => 2000 + at), blockNs: ms },
    options: {
      restartNs: 200 * ms,
      telemetry: { gaps: true, series: true, periodNs: 100 * ms },
      tiers: { offload: 'write-through', localDelayNs: 0, remoteDelayNs: 0, lastIsRemote: false, levels: [2, 3] },
      streams: (request) => seed % 4 === 0 && request % 5 === 0,
    },
  };
}

const tight = (seed: number, stepwise: boolean): EngineRules =>
  rulesOf({ maxSequences: 1 + (seed % 8), capacityBlocks: 24 + (seed % 30), maxBatchedTokens: 48, stepwise });

function run(cluster: TestCluster, shards = 1) {
  const simulation = buildCluster(cluster, shards);
  simulation.runUntil();
  return simulation;
}

const seeds = Array.from({ length: 24 }, (_, index) => index + 1);

describe('random runs', () => {
  it('lazy and stepwise engines tell the frontend the same at the same times, with and without faults', () => {
    let preemptions = 0;
    let saved = 0;
    for (const seed of seeds) {
      const faults = seed % 2 === 1;
      const lazy = run(randomCluster(seed, tight(seed, false), faults));
      const stepwise = run(randomCluster(seed, tight(seed, true), faults));
      expect(diaryOf(lazy), `seed ${seed}`).toEqual(diaryOf(stepwise));
      expect(frontendLane(lazy)).toBe(frontendLane(stepwise));
      expect(lazy.takeRecords().filter(isSeries)).toEqual(stepwise.takeRecords().filter(isSeries));
      saved += stepwise.eventCount - lazy.eventCount;
      preemptions += engineOf(lazy, 0).engine.preemptionCount;
    }
    expect(preemptions).toBeGreaterThan(20);
    expect(saved).toBeGreaterThan(5000);
  });

  it('accounts for every request and block, also under faults', () => {
    const seen = new Set<number>();
    for (const seed of seeds) {
      const cluster = randomCluster(seed, tight(seed, false), true);
      const simulation = run(cluster);
      for (let index = 0; index < engines.length; index++) {
        const state = engineOf(simulation, index);
        const faults = checkEngineActor({ rules: cluster.rules, blocks: cluster.blocks! } as never, state);
        expect(faults, `seed ${seed}, engine ${index}`).toEqual([]);
        expect(state.inquiries.size).toBe(0);
        expect(state.slots.size).toBe(0);
      }
      for (const index of [0, 1]) expect((simulation.stateOf(`server${index}/g2`) as { pinned: number }).pinned).toBe(0);
      const ends = diaryOf(simulation).filter((row) => row.name === 'finished' || row.name === 'refused');
      for (const row of ends) seen.add(row.name === 'refused' ? 10 : row.fields[1]!);
      cluster.requests.forEach(({ cancelNs }, request) => {
        const own = ends.filter((row) => row.fields[0] === request).length;
        // One that gave up may end by it, silently; any other ends once, or twice where its KV was lost on the prefill engine as well.
        if (cancelNs === undefined) expect(own, `seed ${seed}, request ${request}`).toBeGreaterThanOrEqual(1);
        expect(own).toBeLessThanOrEqual(2);
      });
    }
    expect([...seen].sort((a, b) => a - b)).toEqual([0, 2, 5, 10]);
  });

  it('gives one fingerprint on one and two shards, with promises', () => {
    for (const seed of [1, 2, 3, 4]) {
      const one = run(randomCluster(seed, tight(seed, false), true));
      const two = run(randomCluster(seed, tight(seed, false), true), 2);
      expect(two.fingerprint).toBe(one.fingerprint);
      expect(two.recordFingerprint).toBe(one.recordFingerprint);
    }
  });

  it('goes on from a checkpoint as if there had been none', () => {
    const cluster = randomCluster(5, tight(5, false), true);
    const whole = run(cluster);
    const simulation = buildCluster(cluster);
    simulation.runUntil(1500 * ms);
    const fork = simulation.fork({ shards: 2 });
    fork.runUntil();
    expect(fork.fingerprint).toBe(whole.fingerprint);
  });
});

const isSeries = (record: RunRecord): boolean => record.type !== 'itlGaps' && record.type !== 'gpuSample';

describe('series', () => {
  const telemetry = { gaps: false, series: true, periodNs: 100 * ms };
  const recordsOf = (cluster: TestCluster, type: string): (readonly number[])[] =>
    run(cluster)
      .takeRecords()
      .filter((record) => record.type === type)
      .map((record) => record.fields);

  it('count work, and the time it would take at the FLOP and the HBM rate', () => {
    const timing = plainTiming({
      hostPassNs: 0,
      hostSequenceNs: 0,
      prefillPassNs: 0,
      tokenNs: 1000,
      weightNs: ms,
      contextNs: 100,
      pairNs: 0,
    });
    const cluster: TestCluster = {
      rules: rulesOf(),
      timing: { ...timing, prefillContextNs: 0 },
      engines: [{ role: engineRole.aggregated }],
      requests: [{ atNs: 0, inputTokens: 16, outputTokens: 3, engine: 0 }],
      options: { telemetry },
    };
    // A prefill pass of 1 ms, decodes of 1 ms and 17 and 18 tokens of context; 18 tokens in all; the weights are read three times.
    const busyNs = 3 * ms + 35 * 100;
    expect(recordsOf(cluster, 'engineWork')).toEqual([[16, 2, busyNs, 3, 18_000, busyNs]]);
    expect(recordsOf(cluster, 'engineCounts')).toEqual([[1, 0, 0, 0, 0, 3]]);
    expect(recordsOf(cluster, 'engineLoad')).toEqual([[0, 0, 0, 0, 1000, 0]]);
  });

  it('tell each GPU its KV', () => {
    const timing = plainTiming({ hostPassNs: ms, hostSequenceNs: 0, prefillPassNs: 0, tokenNs: 0, weightNs: 0, contextNs: 0, pairNs: 0 });
    const cluster: TestCluster = {
      rules: rulesOf(),
      timing: { ...timing, prefillContextNs: 0 },
      engines: [{ role: engineRole.aggregated, gpus: 2 }],
      requests: [{ atNs: 0, inputTokens: 100, outputTokens: 150, engine: 0 }],
      options: { telemetry },
    };
    // At 100 ms the prefill and 98 tokens are done (the last at 99.5 ms), the next is under way: 199 tokens in 13 blocks of 16 KB beside 16 GB of weights.
    const sample = [16e9 + 13 * 16_000, 80e9, 1, 99 * ms];
    const last = [16e9, 80e9, 1, 51 * ms];
    expect(recordsOf(cluster, 'gpuSample')).toEqual([sample, sample, last, last]);
    expect(recordsOf({ ...cluster, options: {} }, 'gpuSample')).toEqual([]);
  });
});

describe('ITL gaps', () => {
  const rowsOf = (records: readonly RunRecord[]) =>
    records.flatMap(({ type, body }) => {
      if (type !== 'itlGaps') return [];
      const { gapNs, counts, tenant } = body as unknown as GapRows;
      return Array.from(gapNs, (gap, row) => ({ gap, count: counts[row]!, tenant: tenant?.[row] ?? -1 }));
    });
  const sums = (records: readonly RunRecord[], of = -1) => {
    const rows = rowsOf(records).filter(({ tenant }) => tenant === of);
    return {
      count: rows.reduce((sum, { count }) => sum + count, 0),
      sumNs: rows.reduce((sum, { gap, count }) => sum + gap * count, 0),
    };
  };
  /** The same run with the gaps of three tenants told apart. */
  const withTenants = (cluster: TestCluster): TestCluster => ({
    ...cluster,
    options: {
      ...cluster.options,
      telemetry: { gaps: true, series: true, periodNs: 100 * ms, tenants: { count: 3, of: (request) => request % 3 } },
    },
  });

  it('are complete: as many as tokens after the first, and they sum to last minus first token', () => {
    for (const seed of seeds.slice(0, 8)) {
      const { actions: _none, ...calm } = randomCluster(seed, tight(seed, false), false);
      const requests = calm.requests.map(({ cancelNs: _never, ...request }) => request);
      const simulation = run({ ...calm, requests });
      const diary = diaryOf(simulation);
      const finished = diary.filter((row) => row.name === 'finished' && row.fields[1] === 0);
      const firstNs = new Map(
        diary.flatMap(({ name, fields }) =>
          name === 'answerBegun' ? [[fields[0], fields[2]!]] : name === 'firstToken' ? [[fields[0], fields[1]!]] : [],
        ),
      );
      expect(sums(simulation.takeRecords())).toEqual({
        count: finished.reduce((sum, row) => sum + row.fields[3]! - 1, 0),
        sumNs: finished.reduce((sum, row) => sum + row.fields[2]! - firstNs.get(row.fields[0])!, 0),
      });
      const apart = run(withTenants({ ...calm, requests })).takeRecords();
      for (const tenant of [0, 1, 2]) {
        const own = finished.filter((row) => row.fields[0]! % 3 === tenant);
        expect(sums(apart, tenant)).toEqual({
          count: own.reduce((sum, row) => sum + row.fields[3]! - 1, 0),
          sumNs: own.reduce((sum, row) => sum + row.fields[2]! - firstNs.get(row.fields[0])!, 0),
        });
      }
    }
  });

  it('are the same gaps where tenants are told apart, also of requests that were given up, preempted or lost', () => {
    const countsOf = (records: readonly RunRecord[]): Map<number, number> => {
      const counts = new Map<number, number>();
      for (const { gap, count } of rowsOf(records)) counts.set(gap, (counts.get(gap) ?? 0) + count);
      return counts;
    };
    for (const seed of seeds) {
      const cluster = randomCluster(seed, tight(seed, false), true);
      const together = run(cluster);
      const apart = run(withTenants(cluster));
      expect(apart.fingerprint).toBe(together.fingerprint);
      expect(countsOf(apart.takeRecords()), `seed ${seed}`).toEqual(countsOf(together.takeRecords()));
      for (let index = 0; index < engines.length; index++)
        expect(engineOf(apart, index).gaps.tenants?.sequences, `seed ${seed}, engine ${index}`).toEqual(new Int32Array(3));
    }
  });

  it('are complete where the run is cut', () => {
    const endNs = 2345 * ms;
    const cluster = randomCluster(8, tight(8, false), false);
    const told: TestCluster = {
      ...cluster,
      options: { ...cluster.options, streams: () => true, telemetry: { gaps: true, series: false, periodNs: 100 * ms, endNs } },
    };
    const simulation = buildCluster(told);
    simulation.runUntil(endNs);
    const records = simulation.takeRecords();
    // What comes out of the engines before the end reaches the frontend up to 0.5 ms after.
    simulation.runUntil(endNs + ms / 2);
    const rows = diaryOf(simulation);
    let count = 0;
    for (const row of rows) {
      if (row.name === 'tokens' && row.fields[2]! < endNs) count++;
      if (row.name === 'finished' && row.fields[1] === 0 && row.fields[2]! < endNs && row.fields[3]! > 1) count++;
    }
    expect(count).toBeGreaterThan(500);
    expect(sums(records).count).toBe(count);
  });
});
