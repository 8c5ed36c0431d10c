import { engineRole, engineStatus, outcome } from '@braess/protocol';
import { checkEngineActor, countingEngineBlocks, engineRefusal } from '@braess/serving';
import { describe, expect, it } from 'vitest';
import {
  buildCluster,
  controlNs,
  type DiaryRow,
  diaryOf,
  engineOf,
  type FakeTierState,
  fabricNs,
  serverNs,
  type TestCluster,
} from './actor-cluster.ts';
import { prefixBlocks } from './prefix-pool.ts';
import { plainTiming, rulesOf } from './support.ts';

const ms = 1_000_000;

/** Every pass takes 1 ms, so all times follow by hand. */
const steady = plainTiming({
  hostPassNs: ms,
  hostSequenceNs: 0,
  prefillPassNs: 0,
  tokenNs: 0,
  weightNs: 0,
  contextNs: 0,
  pairNs: 0,
  prefillContextNs: 0,
});

const base = { rules: rulesOf(), timing: steady };

function diary(cluster: TestCluster, shards = 1) {
  const simulation = buildCluster(cluster, shards, true);
  simulation.runUntil();
  return { simulation, rows: diaryOf(simulation) };
}

const fail = (reason: string): never => {
  throw new Error(reason);
};

const lines = (rows: ReturnType<typeof diaryOf>): string[] => rows.map((row) => `${row.nowNs / ms} ${row.name} ${row.fields.join(' ')}`);
const chainOf = (...identities: number[]): Float64Array => Float64Array.from(identities);

describe('an aggregated engine', () => {
  it('reports first and last token at the times of its passes', () => {
    const { rows } = diary({
      ...base,
      engines: [{ role: engineRole.aggregated }],
      requests: [{ atNs: 0, inputTokens: 200, outputTokens: 3, engine: 0 }],
    });
    // Sent at 0, there at 0.5 ms; 200 tokens at 128 a pass take two passes; two more tokens.
    expect(lines(rows)).toEqual([`3 answerBegun 0 ${0.5 * ms} ${2.5 * ms} 0 200`, `5 finished 0 0 ${4.5 * ms} 3`]);
    expect(rows[1]!.account).toEqual({ maxGapNs: ms, preemptions: 0 });
  });

  it('starts requests of one instant in one pass', () => {
    const { rows } = diary({
      ...base,
      engines: [{ role: engineRole.aggregated }],
      requests: [0, 1, 2].map(() => ({ atNs: 0, inputTokens: 10, outputTokens: 2, engine: 0 })),
    });
    expect(rows.filter((row) => row.name === 'answerBegun').map((row) => row.fields[2])).toEqual([1.5 * ms, 1.5 * ms, 1.5 * ms]);
  });

  it('starts clean after a run that a handler ended', () => {
    const cluster: TestCluster = {
      ...base,
      engines: [{ role: engineRole.aggregated }],
      requests: [{ atNs: 0, inputTokens: 10, outputTokens: 5, engine: 0 }],
    };
    const { rows } = diary(cluster);
    const thrown = { blocks: { ...countingEngineBlocks, close: () => fail('on purpose') } as never };
    expect(() => diary({ ...cluster, ...thrown })).toThrow('on purpose');
    expect(diary(cluster).rows).toEqual(rows);
  });

  it('answers a refusal at the end of the pass in progress', () => {
    const { rows } = diary({
      ...base,
      engines: [{ role: engineRole.aggregated }],
      requests: [
        { atNs: 0, inputTokens: 10, outputTokens: 3, engine: 0 },
        { atNs: 0.3 * ms, inputTokens: 5000, outputTokens: 3, engine: 0 },
        { atNs: 20 * ms, inputTokens: 5000, outputTokens: 3, engine: 0 },
      ],
    });
    // At 0.8 ms the pass from 0.5 to 1.5 runs; at 20.5 ms none does.
    expect(rows.filter((row) => row.name === 'refused').map((row) => [row.nowNs, ...row.fields])).toEqual([
      [1.5 * ms + controlNs, 1, engineRefusal.promptTooLong, 0],
      [20.5 * ms + controlNs, 2, engineRefusal.promptTooLong, 0],
    ]);
  });

  it('sends each token of a streaming client, and its gaps are the reported longest gap', () => {
    const timing = plainTiming();
    const cluster: TestCluster = {
      rules: rulesOf({ capacityBlocks: 36 }),
      timing,
      engines: [{ role: engineRole.aggregated }],
      requests: Array.from({ length: 12 }, (_, index) => ({
        atNs: index * 17 * ms,
        inputTokens: 40 + 9 * index,
        outputTokens: 30 + index,
        engine: 0,
      })),
      options: { streams: () => true },
    };
    const { rows } = diary(cluster);
    const plain = diary({ ...cluster, options: {} });
    let preempted = 0;
    for (let request = 0; request < 12; request++) {
      const times = rows.filter((row) => row.name === 'tokens' && row.fields[0] === request);
      const finished = rows.find((row) => row.name === 'finished' && row.fields[0] === request)!;
      expect(times.map((row) => row.fields[1])).toEqual(Array.from({ length: 28 + request }, (_, index) => index + 2));
      const begun = rows.find((row) => row.name === 'answerBegun' && row.fields[0] === request)!;
      const all = [begun.fields[2]!, ...times.map((row) => row.fields[2]!), finished.fields[2]!];
      const longest = Math.max(...all.slice(1).map((at, index) => at - all[index]!));
      expect(Math.abs(finished.account!.maxGapNs - longest)).toBeLessThanOrEqual(1);
      preempted += finished.account!.preemptions;
      // Streaming changes nothing but that it is told.
      expect(plain.rows.find((row) => row.name === 'finished' && row.fields[0] === request)!.fields).toEqual(finished.fields);
    }
    expect(preempted).toBeGreaterThan(0);
  });
});

describe('disaggregated serving', () => {
  const cluster: TestCluster = {
    ...base,
    engines: [{ role: engineRole.prefill }, { role: engineRole.decode }],
    requests: [{ atNs: 0, inputTokens: 100, outputTokens: 3, engine: 0, decodeEngine: 1 }],
    fabric: { bytesPerSecond: 1e9 },
  };

  it('moves the KV over the fabric, then decodes; the first token comes after the transfer', () => {
    const { rows, simulation } = diary(cluster);
    // Prefill 0.5..1.5 ms; told at 2; decode asked at 2.5; transfer of 100 x 1,000 bytes at 1 GB/s: 0.1 ms from 2.51 on.
    const startNs = 2.5 * ms + fabricNs;
    const endNs = startNs + 100_000 + fabricNs;
    expect(lines(rows)).toEqual([
      `2 prefilled 0 ${0.5 * ms} ${1.5 * ms} 0 100`,
      `${(endNs + ms + controlNs) / ms} firstToken 0 ${endNs + ms} ${startNs} ${endNs} 100000 2`,
      `${(endNs + 3 * ms + controlNs) / ms} finished 0 0 ${endNs + 3 * ms} 3`,
    ]);
    expect(engineOf(simulation, 0).totals.finishedRequests).toBe(1);
    expect(engineOf(simulation, 0).engine.requests.freeSlots.length).toBe(1);
  });

  it('holds the prefilled blocks until the transfer is over', () => {
    const simulation = buildCluster(cluster);
    const releasedNs = 2.5 * ms + 2 * fabricNs + 100_000 + serverNs;
    simulation.runUntil(releasedNs);
    const pool = () => engineOf(simulation, 0).engine.pool as unknown as { freeBlocks: number };
    expect(pool().freeBlocks).toBe(1000 - 7);
    simulation.runUntil(releasedNs + 1);
    expect(pool().freeBlocks).toBe(1000);
  });

  it('takes a closed-form time without a fabric', () => {
    const { fabric: _none, ...rest } = cluster;
    const { rows } = diary({ ...rest, options: { transfer: { latencyNs: 7000, bytesPerSecond: 1e8 } } });
    expect(rows[1]!.fields).toEqual([0, 2.5 * ms + 7000 + ms + ms, 2.5 * ms, 2.5 * ms + 7000 + ms, 100_000, -1]);
  });

  it('fails a request whose KV cannot come, and frees both ends', () => {
    const { rows, simulation } = diary({ ...cluster, fabric: { bytesPerSecond: 1e9, unreachable: [0] } });
    expect(lines(rows.slice(1))).toEqual([`${(2.5 * ms + 2 * fabricNs + controlNs) / ms} finished 0 ${outcome.transferLost} -1 0`]);
    for (const index of [0, 1])
      expect((engineOf(simulation, index).engine.pool as unknown as { freeBlocks: number }).freeBlocks).toBe(1000);
  });

  it('refuses what its role does not serve', () => {
    const { rows } = diary({ ...cluster, requests: [{ atNs: 0, inputTokens: 10, outputTokens: 3, engine: 0 }] });
    expect(rows[0]!.fields).toEqual([0, engineRefusal.wrongRole, 0]);
  });
});

describe('prefix cache', () => {
  const shared = chainOf(11, 12, 13, 14);

  it('computes only what is not there, and moves only what the destination lacks', () => {
    const { rows, simulation } = diary({
      ...base,
      blocks: prefixBlocks as never,
      engines: [{ role: engineRole.prefill }, { role: engineRole.decode }],
      requests: [
        { atNs: 0, inputTokens: 70, outputTokens: 2, engine: 0, decodeEngine: 1, chain: shared },
        { atNs: 50 * ms, inputTokens: 90, outputTokens: 2, engine: 0, decodeEngine: 1, chain: chainOf(11, 12, 13, 99, 98) },
      ],
      fabric: { bytesPerSecond: 1e9 },
      reports: { loadNs: 1000 * ms, kvNs: 0 },
    });
    // Three blocks of 16 tokens are shared.
    expect(rows.filter((row) => row.name === 'prefilled').map((row) => row.fields.slice(3))).toEqual([
      [0, 70],
      [48, 42],
    ]);
    expect(rows.filter((row) => row.name === 'firstToken').map((row) => row.fields[4])).toEqual([70_000, 42_000]);
    // Both engines told of the first prompt's blocks, then of the two new ones.
    const stored = (index: number) => {
      const id = simulation.actorId(`server${index}/engine0`);
      return rows.filter((row) => row.name === 'kvEvents' && row.fields[0] === id).map((row) => row.events!.identities);
    };
    expect(stored(0)).toEqual([
      [11, 12, 13, 14],
      [99, 98],
    ]);
    expect(stored(1)).toEqual(stored(0));
  });

  it('drops telemetry while it is lost, and the sequence shows it', () => {
    const request = (atMs: number, identity: number) => ({
      atNs: atMs * ms,
      inputTokens: 20,
      outputTokens: 40,
      engine: 0,
      chain: chainOf(identity),
    });
    const { rows } = diary({
      ...base,
      blocks: prefixBlocks as never,
      engines: [{ role: engineRole.aggregated }],
      requests: [request(0, 1), request(100, 2), request(200, 3)],
      actions: [
        { atNs: 90 * ms, engine: 0, act: 'telemetryLoss', fields: [1] },
        { atNs: 190 * ms, engine: 0, act: 'telemetryLoss', fields: [0] },
      ],
      reports: { loadNs: 30 * ms, kvNs: 5 * ms },
    });
    expect(rows.filter((row) => row.name === 'kvEvents').map((row) => [row.fields[1], ...row.events!.identities])).toEqual([
      [0, 1],
      [2, 3],
    ]);
    const loads = rows.filter((row) => row.name === 'loadReport');
    // Passes end at .5 ms, and so do the reports: 30 ms in work (40 tokens from 0.5 on), 60 ms the last of the first request; 210 is lost for being after.
    expect(loads.map((row) => [row.nowNs / ms, ...row.fields.slice(1)])).toEqual(
      [
        [31, 0, 1, 0, 4, 1000],
        [60.5, 0, 0, 0, 0, 1000],
        [211, 0, 1, 0, 2, 1000],
        [240.5, 0, 0, 0, 0, 1000],
      ]
        .map((row, index) => (index === 3 ? [241, 0, 1, 0, 4, 1000] : row))
        .concat([[270.5, 0, 0, 0, 0, 1000]]),
    );
  });
});

describe('tiers', () => {
  const cluster: TestCluster = {
    ...base,
    timing: plainTiming({
      hostPassNs: ms,
      hostSequenceNs: 0,
      prefillPassNs: 0,
      tokenNs: 100_000,
      weightNs: 0,
      contextNs: 0,
      pairNs: 0,
      prefillContextNs: 0,
    }),
    rules: rulesOf({ maxBatchedTokens: 2048 }),
    blocks: prefixBlocks as never,
    engines: [{ role: engineRole.aggregated, tiers: true }],
    requests: [{ atNs: 0, inputTokens: 70, outputTokens: 2, engine: 0, chain: chainOf(11, 12, 13, 14) }],
    tier: { holds: [11, 12, 13], blockNs: 200_000 },
    options: { tiers: { offload: 'write-through', localDelayNs: 0, remoteDelayNs: 0, lastIsRemote: false, levels: [2, 3] } },
  };
  const tierOf = (simulation: ReturnType<typeof buildCluster>) => simulation.stateOf('server0/g2') as FakeTierState;

  it('brings up what is cheaper to bring than to compute, and computes the rest', () => {
    const { rows, simulation } = diary(cluster);
    // 3 x 0.2 ms for 48 tokens against 4.8 ms; then 22 tokens in 1 + 2.2 ms.
    expect(rows[0]).toMatchObject({ name: 'tierHits', fields: [0, 48, 0, 0, 0.6 * ms, 48_000] });
    expect(rows[1]!.fields.slice(2)).toEqual([0.5 * ms + 0.6 * ms + 3.2 * ms, 48, 22]);
    expect(tierOf(simulation)).toMatchObject({ pinned: 0, fetchedBlocks: 3 });
    expect(tierOf(simulation).offloaded).toEqual([11, 12, 13, 14]);
  });

  it('tells of a wait that ended while another prompt was computed, and of one that brought nothing', () => {
    // Alone, the second prompt is computed from 2.5 to 9.5 ms: the blocks of the first, asked for at 2.4, are there at 3.0 and wait for the end of that pass.
    const other = { atNs: 2 * ms, inputTokens: 60, outputTokens: 1, engine: 0 };
    const first = { ...cluster.requests[0]!, atNs: 1.9 * ms };
    const hitsOf = (tier: NonNullable<TestCluster['tier']>): DiaryRow[] =>
      diary({ ...cluster, requests: [first, other], tier }).rows.filter(({ name }) => name !== 'finished');
    const [begun, hits, answered] = hitsOf({ holds: [11, 12, 13], blockNs: 200_000 });
    expect(begun!.fields.slice(0, 3)).toEqual([1, 2.5 * ms, 9.5 * ms]);
    expect(hits).toMatchObject({ name: 'tierHits', fields: [0, 48, 0, 0, 0.6 * ms, 48_000] });
    expect(answered!.fields).toEqual([0, 2.4 * ms, 9.5 * ms + 3.2 * ms, 48, 22]);
    const lost = hitsOf({ holds: [11, 12, 13], blockNs: 200_000, loses: true });
    expect(lost[1]).toMatchObject({ name: 'tierHits', fields: [0, 0, 0, 0, 0.6 * ms, 0] });
    expect(lost[2]!.fields).toEqual([0, 2.4 * ms, 9.5 * ms + 8 * ms, 0, 70]);
  });

  it('computes when that is cheaper, and leaves nothing pinned', () => {
    const { rows, simulation } = diary({ ...cluster, tier: { holds: [11, 12, 13], blockNs: 3 * ms } });
    expect(rows[0]!.fields[2]).toBe(0.5 * ms + 8 * ms);
    expect(tierOf(simulation)).toMatchObject({ pinned: 0, fetchedBlocks: 0 });
  });

  it('copies down what is stored, what is evicted, or nothing, as told', () => {
    // Six blocks of HBM: the second prompt of four blocks evicts the tail of the first, two blocks of four.
    const requests = [0, 1].map((index) => ({
      atNs: index * 100 * ms,
      inputTokens: 64,
      outputTokens: 1,
      engine: 0,
      chain: chainOf(...[1, 2, 3, 4].map((block) => 100 * index + block)),
    }));
    const offloaded = (offload: 'write-through' | 'on-eviction' | 'never') => {
      const tiers = { ...cluster.options!.tiers!, offload };
      const small = { ...cluster, requests, rules: rulesOf({ capacityBlocks: 6 }), options: { tiers }, tier: { holds: [], blockNs: 1 } };
      return tierOf(diary(small).simulation).offloaded;
    };
    expect(offloaded('write-through')).toEqual([1, 2, 3, 4, 101, 102, 103, 104]);
    expect(offloaded('on-eviction')).toEqual([4, 3]);
    expect(offloaded('never')).toEqual([]);
  });

  it('stop lazy passes at evictions that somebody hears of: routers of blocks with a name, a tier that takes what is evicted of any', () => {
    const heard = (offload: 'write-through' | 'on-eviction' | 'never', kvNs?: number) => {
      const tiers = { ...cluster.options!.tiers!, offload };
      const reports = kvNs === undefined ? {} : { reports: { loadNs: 1e12, kvNs } };
      return engineOf(buildCluster({ ...cluster, ...reports, options: { tiers } }), 0).engine.rules.exactEvictions;
    };
    expect([heard('never'), heard('write-through'), heard('on-eviction')]).toEqual([undefined, undefined, 'any']);
    expect([heard('never', 0), heard('write-through', 0), heard('on-eviction', 0)]).toEqual(['named', 'named', 'any']);
    // What is gathered over a period is told at its end, however often the engine was looked at.
    expect([heard('never', ms), heard('write-through', ms), heard('on-eviction', ms)]).toEqual([undefined, undefined, undefined]);
  });

  it('leaves nothing pinned when the client gives up on the way', () => {
    const slow = {
      ...cluster,
      options: { tiers: { ...cluster.options!.tiers!, plan: () => 3 } },
      tier: { holds: [11, 12, 13], blockNs: 5 * ms },
    };
    const { rows, simulation } = diary({ ...slow, requests: [{ ...cluster.requests[0]!, cancelNs: 4 * ms }] });
    expect(rows).toEqual([]);
    expect(tierOf(simulation).pinned).toBe(0);
    expect(engineOf(simulation, 0).inquiries.size).toBe(0);
    expect(engineOf(simulation, 0).totals.leftRequests).toBe(1);
  });
});

describe('GPUs and roles', () => {
  it('a slow GPU slows its group from the next pass on', () => {
    const { rows } = diary({
      ...base,
      engines: [{ role: engineRole.aggregated, gpus: 4 }],
      requests: [{ atNs: 0, inputTokens: 10, outputTokens: 11, engine: 0 }],
      actions: [{ atNs: 3 * ms, engine: 0, act: 'gpuSpeed', fields: [2, 0.5] }],
    });
    // Slow from 3.5 ms: the pass that ends there is the third, its successor began before the message was seen? No: it is told at the boundary, so the
    // fourth pass (3.5 to 4.5) is under way and the seven after it take 2 ms.
    expect(rows.at(-1)!.fields[2]).toBe(4.5 * ms + 7 * 2 * ms);
  });

  it('a dead GPU fails all requests, clears the cache and comes back after the restart', () => {
    const { rows, simulation } = diary({
      ...base,
      blocks: prefixBlocks as never,
      engines: [{ role: engineRole.aggregated, gpus: 2 }],
      requests: [
        { atNs: 0, inputTokens: 20, outputTokens: 50, engine: 0, chain: chainOf(5) },
        { atNs: 6.2 * ms, inputTokens: 20, outputTokens: 50, engine: 0 },
        { atNs: 30 * ms, inputTokens: 20, outputTokens: 50, engine: 0 },
        { atNs: 2100 * ms, inputTokens: 20, outputTokens: 2, engine: 0, chain: chainOf(5) },
      ],
      actions: [
        { atNs: 6.6 * ms, engine: 0, act: 'gpuSpeed', fields: [1, 0] },
        { atNs: 1000 * ms, engine: 0, act: 'gpuSpeed', fields: [1, 1] },
      ],
      options: { restartNs: 1000 * ms },
      reports: { loadNs: 1e12, kvNs: 0 },
    });
    const told = rows
      .filter((row) => row.name !== 'answerBegun' && row.name !== 'loadReport')
      .map((row) => [row.nowNs / ms, row.name, ...row.fields.slice(0, 2)]);
    const id = simulation.actorId('server0/engine0');
    // It dies at 7.1 ms, in the pass that would have ended at 7.5 ms: then it is told, and before its requests are, that none of them comes back here.
    expect(told).toEqual([
      [2, 'kvEvents', id, 0],
      [8, 'engineState', id, 0],
      [8, 'finished', 0, 2],
      [8, 'finished', 1, 2],
      [8, 'kvEvents', id, 1],
      [31, 'refused', 2, engineRefusal.notActive],
      [1001, 'engineState', id, 0],
      [2001, 'engineState', id, 0],
      [2102, 'kvEvents', id, 2],
      [2103, 'finished', 3, 0],
    ]);
    expect(rows.filter((row) => row.name === 'engineState').map((row) => row.fields[2])).toEqual([
      engineStatus.dead,
      engineStatus.starting,
      engineStatus.active,
    ]);
    expect(rows.find((row) => row.name === 'answerBegun' && row.fields[0] === 3)!.fields[3]).toBe(0);
  });

  it('drains, switches and serves in its new role', () => {
    const { rows } = diary({
      ...base,
      engines: [{ role: engineRole.aggregated }],
      requests: [
        { atNs: 0, inputTokens: 20, outputTokens: 10, engine: 0 },
        { atNs: 5 * ms, inputTokens: 20, outputTokens: 10, engine: 0 },
        { atNs: 200 * ms, inputTokens: 20, outputTokens: 10, engine: 0, decodeEngine: 0 },
      ],
      actions: [{ atNs: 3 * ms, engine: 0, act: 'role', fields: [engineRole.prefill, 100 * ms] }],
    });
    expect(rows.filter((row) => row.name === 'engineState').map((row) => [row.nowNs / ms, ...row.fields.slice(1)])).toEqual([
      [5, engineRole.aggregated, engineStatus.draining],
      [11, engineRole.aggregated, engineStatus.switching],
      [111, engineRole.prefill, engineStatus.active],
    ]);
    expect(rows.filter((row) => row.name === 'refused').map((row) => [row.nowNs / ms, ...row.fields])).toEqual([
      [7, 1, engineRefusal.notActive, 0],
      [203, 2, engineRefusal.wrongRole, 2],
    ]);
    expect(rows.some((row) => row.name === 'prefilled')).toBe(true);
  });

  it('stops: drains, is off with nothing in HBM, stays off when a GPU of it fails and comes back, and starts when told', () => {
    const { rows } = diary({
      ...base,
      blocks: prefixBlocks as never,
      engines: [{ role: engineRole.aggregated, gpus: 2 }],
      requests: [
        { atNs: 0, inputTokens: 20, outputTokens: 10, engine: 0, chain: chainOf(5) },
        { atNs: 6 * ms, inputTokens: 20, outputTokens: 10, engine: 0 },
        { atNs: 900 * ms, inputTokens: 20, outputTokens: 2, engine: 0, chain: chainOf(5) },
      ],
      actions: [
        { atNs: 3 * ms, engine: 0, act: 'stop', fields: [] },
        { atNs: 3.1 * ms, engine: 0, act: 'stop', fields: [] },
        { atNs: 100 * ms, engine: 0, act: 'gpuSpeed', fields: [1, 0] },
        { atNs: 200 * ms, engine: 0, act: 'gpuSpeed', fields: [1, 1] },
        { atNs: 300 * ms, engine: 0, act: 'gpuSpeed', fields: [0, 0] },
        // Wanted while broken: it comes with the GPU, 60 ms later.
        { atNs: 400 * ms, engine: 0, act: 'start', fields: [engineRole.aggregated, 50 * ms] },
        { atNs: 500 * ms, engine: 0, act: 'gpuSpeed', fields: [0, 1] },
      ],
      options: { restartNs: 60 * ms },
      reports: { loadNs: 1e12, kvNs: 0 },
    });
    const states = rows.filter((row) => row.name === 'engineState').map((row) => [Math.floor(row.nowNs / ms), row.fields[2]]);
    expect(states.map(([, status]) => status)).toEqual([
      engineStatus.draining,
      engineStatus.off,
      engineStatus.dead,
      engineStatus.starting,
      engineStatus.active,
    ]);
    expect(states.slice(2).map(([at]) => at)).toEqual([401, 501, 561]);
    expect(rows.filter((row) => row.name === 'refused').map((row) => row.fields.slice(0, 2))).toEqual([[1, engineRefusal.notActive]]);
    expect(rows.filter((row) => row.name === 'finished').map((row) => row.fields[0])).toEqual([0, 2]);
    expect(rows.filter((row) => row.name === 'answerBegun').map((row) => row.fields[3])).toEqual([0, 0]);
  });

  it('starts an engine that was not started', () => {
    const { rows, simulation } = diary({
      ...base,
      engines: [{ role: engineRole.decode, started: false }],
      requests: [{ atNs: 80 * ms, inputTokens: 20, outputTokens: 1, engine: 0 }],
      actions: [{ atNs: 10 * ms, engine: 0, act: 'start', fields: [engineRole.aggregated, 50 * ms] }],
    });
    expect(rows.at(-1)!.name).toBe('finished');
    expect(checkEngineActor({ rules: base.rules, blocks: { available: () => 1000 } } as never, engineOf(simulation, 0))).toEqual([]);
  });
});
