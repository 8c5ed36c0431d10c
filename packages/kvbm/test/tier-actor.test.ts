import type { Simulation } from '@braess/kernel';
import type { TierKindOptions } from '@braess/kvbm';
import { describe, expect, it } from 'vitest';
import { autoQuestions, blockBytes, build, type Cell, deviceTier, type EngineLog, run, type Step, storageNs } from './tier-cell.ts';

const ms = 1_000_000;
const offer = (atNs: number, chain: number[], tier = 'g2'): Step => ({ atNs, act: 'offload', tier, chain });
const ask = (atNs: number, question: number, chain: number[], from = 0, tier = 'g2'): Step => ({
  atNs,
  act: 'lookup',
  tier,
  question,
  chain,
  from,
});
const bring = (atNs: number, question: number, blocks: number, tier = 'g2'): Step => ({ atNs, act: 'fetch', tier, question, blocks });

/** Network storage behind a fabric of 1 GB/s. */
const storage: TierKindOptions = {
  tier: 4,
  blockBytes,
  store: { capacityBlocks: 100 },
  through: {
    fabric: {
      actor: undefined as never,
      delayNs: storageNs,
      latencyNs: 20_000,
      estimateBytesPerSecond: 1e9,
      nodeOf: (actor) => 100 + actor,
    },
  },
  answerDelayNs: storageNs,
};

describe('a tier on a device', () => {
  it('stores blocks when their bytes have arrived, answers from then on, and brings them up at its bandwidth', () => {
    const { lines } = run({
      tiers: [{ name: 'g2', options: deviceTier(2, 100) }],
      engines: [
        [
          offer(0, [1, 2, 3]),
          ask(3 * ms - 1, 0, [1, 2, 3, 4]),
          ask(3 * ms, 1, [1, 2, 3, 4]),
          bring(4 * ms, 1, 3),
          ask(5 * ms, 2, [1, 2, 3, 4], 1),
          bring(20 * ms, 2, 0),
        ],
      ],
    });
    // Three blocks of 1 MB at 1 GB/s take 3 ms. At 5 ms a new transfer would share the path up with the first: 2 blocks at 0.5 GB/s.
    expect(lines[0]).toEqual([
      `${3 * ms - 1} answer 0 g2 0 0`,
      `${3 * ms} answer 1 g2 3 ${3 * ms}`,
      `${5 * ms} answer 2 g2 2 ${4 * ms}`,
      `${7 * ms} fetched 1 g2 3`,
    ]);
  });

  it('takes a few evicted blocks as it takes a list of them', () => {
    const offers = [[1], [2, 3], [], [4, 1, 5], [6, 7, 8, 9]].map((chain, index) => ({
      ...offer(index * ms, chain),
      anonymous: index % 3,
    }));
    const after = [ask(20 * ms, 0, [2, 3, 4, 5, 6, 7, 8, 9, 1]), bring(21 * ms, 0, 8)];
    const outcome = (act: 'offload' | 'offloadFew') => {
      const ran = run({
        tiers: [{ name: 'g2', options: deviceTier(2, 12) }],
        engines: [[...offers.map((each) => ({ ...each, act })), ...after]],
      });
      const { store, totals } = ran.tier('g2');
      return { lines: ran.lines, store, totals };
    };
    const few = outcome('offloadFew');
    expect(few).toEqual(outcome('offload'));
    // Ten named blocks, one of them twice, and 0 + 1 + 2 + 0 + 1 that nobody can look up: 13 to keep, where 12 have room.
    expect(few.totals.offeredBlocks).toBe(14);
    expect(few.lines[0]).toEqual([`${20 * ms} answer 0 g2 8 ${8 * ms}`, `${29 * ms} fetched 0 g2 8`]);
  });

  it('shares its bandwidth between transfers, capped for each worker, after a latency and at polls only', () => {
    const { lines } = run({
      tiers: [
        {
          name: 'g2',
          options: deviceTier(2, 100, {}, { workerBytesPerSecond: 0.6e9, latencyNs: 100_000, pollPeriodNs: 500_000 }),
        },
      ],
      engines: [
        [offer(0, [1, 2, 3, 4]), ask(50 * ms, 0, [1, 2, 3]), bring(50 * ms, 0, 3)],
        [ask(50 * ms, 0, [1, 2, 3, 4]), bring(50 * ms, 0, 1)],
      ],
    });
    // From 50.1 ms both get 0.5 GB/s; the 1 MB is over at 52.1, seen at 52.5. Then the other has 2 MB left at 0.6 GB/s: until 55.434, seen at 55.5.
    expect(lines.map((each) => each.filter((line) => line.includes('fetched')))).toEqual([
      [`${55.5 * ms} fetched 0 g2 3`],
      [`${52.5 * ms} fetched 0 g2 1`],
    ]);
  });

  it('queues what the device has no room for, in order', () => {
    const cell: Cell = {
      tiers: [{ name: 'g2', options: deviceTier(2, 100, {}, { transferLimit: 1 }) }],
      engines: [
        [
          offer(0, [1, 2]),
          ...[0, 1, 2].flatMap((question) => [ask(10 * ms, question, [1, 2]), bring(10 * ms, question, 2 - (question % 2))]),
        ],
      ],
    };
    expect(run(cell).lines[0]!.filter((line) => line.includes('fetched'))).toEqual([
      `${12 * ms} fetched 0 g2 2`,
      `${13 * ms} fetched 1 g2 1`,
      `${15 * ms} fetched 2 g2 2`,
    ]);
  });

  it('does not evict what is pinned, and counts what it could not store', () => {
    const { lines, tier } = run({
      tiers: [{ name: 'g2', options: deviceTier(2, 3) }],
      engines: [
        [
          offer(0, [1, 2, 3]),
          ask(5 * ms, 0, [1, 2]),
          offer(6 * ms, [7, 8]),
          ask(10 * ms, 1, [1, 2]),
          bring(11 * ms, 0, 0),
          bring(11 * ms, 1, 0),
          offer(12 * ms, [9, 10, 11]),
          ask(20 * ms, 2, [9, 10, 11]),
          bring(21 * ms, 2, 0),
        ],
      ],
    });
    expect(lines[0]!.map((line) => line.split(' ').slice(1, 5).join(' '))).toEqual(['answer 0 g2 2', 'answer 1 g2 2', 'answer 2 g2 3']);
    // Of 7 and 8 the first takes the place of 3, the second that of the first.
    expect(tier('g2').store).toMatchObject({ storedBlocks: 8, evictedBlocks: 5, refusedBlocks: 0 });
    const full = run({
      tiers: [{ name: 'g2', options: deviceTier(2, 2) }],
      engines: [[offer(0, [1, 2]), ask(5 * ms, 0, [1, 2]), offer(6 * ms, [3, 4])]],
    });
    expect(full.tier('g2').store.refusedBlocks).toBe(2);
    expect(full.tier('g2').pinnedBlocks).toBe(2);
  });

  it('takes what was offered often enough only', () => {
    const options = deviceTier(3, 100, { store: { capacityBlocks: 100, minimumFrequency: 2 } });
    const { lines, tier } = run({
      tiers: [{ name: 'g3', options }],
      engines: [
        [
          { ...offer(0, [1, 2], 'g3'), anonymous: 4 },
          offer(ms, [2, 3], 'g3'),
          ask(10 * ms, 0, [2, 3], 0, 'g3'),
          bring(10 * ms, 0, 0, 'g3'),
        ],
      ],
    });
    expect(lines[0]![0]).toBe(`${10 * ms} answer 0 g3 1 ${ms}`);
    expect(tier('g3').store).toMatchObject({ storedBlocks: 1, filteredBlocks: 7 });
  });

  it('drops and counts offloads beyond its limit', () => {
    const { tier } = run({
      tiers: [{ name: 'g2', options: deviceTier(2, 100, { offloadLimitBlocks: 3 }) }],
      engines: [[offer(0, [1, 2]), offer(0, [3, 4]), offer(3 * ms, [5])]],
    });
    expect(tier('g2').totals).toMatchObject({ offeredBlocks: 5, droppedBlocks: 2, movedBytes: 3 * blockBytes });
  });
});

describe('tiers below each other', () => {
  const g3 = (offloadMode: 'write-through' | 'on-eviction') => ({
    tiers: [
      { name: 'g2', options: deviceTier(2, 2, { offload: offloadMode }), below: 'g3' },
      { name: 'g3', options: deviceTier(3, 100) },
    ],
  });

  it('evicted blocks go down', () => {
    const { tier } = run({ ...g3('on-eviction'), engines: [[offer(0, [1, 2]), offer(5 * ms, [3])]] });
    expect(tier('g2').store.storedBlocks).toBe(3);
    expect(tier('g3').store).toMatchObject({ storedBlocks: 1 });
    expect(tier('g3').totals.movedBytes).toBe(blockBytes);
  });

  it('stored blocks go down at once where it writes through', () => {
    const { lines } = run({
      ...g3('write-through'),
      engines: [[offer(0, [1, 2]), ask(4 * ms, 0, [1, 2], 0, 'g3'), bring(4 * ms, 0, 2, 'g3')]],
    });
    expect(lines[0]!.at(-1)).toBe(`${6 * ms} fetched 0 g3 2`);
  });
});

describe('network storage', () => {
  const engines = [[offer(0, [1, 2], 'g4'), ask(10 * ms, 0, [1, 2, 3], 0, 'g4'), bring(11 * ms, 0, 2, 'g4')]];

  it('moves its bytes through the fabric, both ways', () => {
    const { lines, simulation } = run({ tiers: [{ name: 'g4', options: storage }], engines });
    const answerNs = 10 * ms + 2 * storageNs;
    // Ask 5 us, service 20 us and 5 us to the fabric, 2 ms, 5 us back, 5 us to the engine.
    expect(lines[0]).toEqual([
      `${answerNs} answer 0 g4 2 ${2 * ms + 20_000 + 3 * storageNs}`,
      `${11 * ms + storageNs + 25_000 + 2 * ms + storageNs + storageNs} fetched 0 g4 2`,
    ]);
    const [engine, g4] = ['server/engine0', 'storage/g4'].map((name) => 100 + simulation.actorId(name));
    expect((simulation.stateOf('fabric/fabric') as { ends: number[] }).ends).toEqual([engine, g4, g4, engine]);
  });

  it('answers with no blocks when they cannot be brought, and stores nothing that did not arrive', () => {
    const down = run({ tiers: [{ name: 'g4', options: storage }], engines: [[offer(0, [1, 2], 'g4')]], unreachableFromNs: 0 });
    expect(down.tier('g4').store.storedBlocks).toBe(0);
    expect(down.tier('g4').totals).toMatchObject({ failedTransfers: 1, movedBytes: 0 });
    const up = run({ tiers: [{ name: 'g4', options: storage }], engines, unreachableFromNs: 5 * ms });
    expect(up.lines[0]!.at(-1)).toBe(`${11 * ms + storageNs + 25_000 + 2 * storageNs} fetched 0 g4 0`);
    expect(up.tier('g4').pinnedBlocks).toBe(0);
  });
});

describe('random use', () => {
  /** Engines that offer, ask, and fetch some or none of what was found. */
  function randomCell(seed: number): Cell {
    let state = seed;
    const below = (limit: number): number => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return Math.floor((state / 4294967296) * limit);
    };
    const engines = [0, 1, 2].map(() => {
      const steps: Step[] = [];
      for (let index = 0; index < 150; index++) {
        const atNs = below(400) * ms + below(ms);
        const first = below(30);
        const chain = Array.from({ length: 1 + below(6) }, (_, at) => 1000 + first + at);
        const tier = ['g2', 'g3'][below(2)]!;
        if (below(3) === 0) steps.push({ ...offer(atNs, chain, tier), anonymous: below(3) });
        else steps.push(ask(atNs, autoQuestions + index, chain, 0, tier));
      }
      return steps;
    });
    return {
      strict: false,
      engines,
      tiers: [
        {
          name: 'g2',
          options: deviceTier(2, 20, { offload: 'on-eviction', series: { periodNs: 50 * ms } }, { latencyNs: 7000 }),
          below: 'g3',
        },
        {
          name: 'g3',
          options: deviceTier(3, 40, { store: { capacityBlocks: 40, policy: ['lru', 'lfu', 's3-fifo'][seed % 3]!, minimumFrequency: 2 } }),
        },
      ],
    };
  }

  it('conserves blocks, pins and transfers, and gives one fingerprint on two shards and in strict mode', () => {
    for (const seed of [1, 2, 3]) {
      const { simulation, tier } = run(randomCell(seed));
      for (const name of ['g2', 'g3']) {
        const { totals, store, pinnedBlocks, transfers } = tier(name);
        expect([pinnedBlocks, transfers.size]).toEqual([0, 0]);
        expect(store.storedBlocks - store.evictedBlocks).toBe(store.cache.usedBlocks);
        expect(totals.movedBytes % blockBytes).toBe(0);
        expect(totals.fetchedBlocks).toBeGreaterThan(0);
        expect(totals.fetchedBlocks).toBeLessThan(totals.foundBlocks);
        const fetchedHere = [0, 1, 2]
          .flatMap((index) => (simulation.stateOf(`server/engine${index}`) as EngineLog).lines)
          .filter((line) => line.includes(`fetched`) && line.includes(` ${name} `))
          .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
        expect(fetchedHere).toBe(totals.fetchedBlocks);
      }
      const two = build(randomCell(seed), 2);
      two.runUntil();
      expect(two.fingerprint).toBe(simulation.fingerprint);
      const strict = build({ ...randomCell(seed), strict: true });
      strict.runUntil();
      expect(strict.fingerprint).toBe(simulation.fingerprint);
      const moved = (records: ReturnType<Simulation['takeRecords']>): number =>
        records.filter((record) => record.type === 'tierLoad').reduce((sum, record) => sum + record.fields[5]!, 0);
      expect(moved(simulation.takeRecords())).toBe(tier('g2').totals.movedBytes);
    }
  });
});

describe('a tier that slows or fails', () => {
  const change = (atNs: number, factor: number, tier = 'g2'): Step => ({ atNs, act: 'speed', tier, factor });

  it('moves what is left of a transfer at the speed it has', () => {
    const { lines } = run({
      tiers: [{ name: 'g2', options: deviceTier(2, 100) }],
      engines: [[offer(0, [1, 2, 3, 4]), ask(10 * ms, 0, [1, 2, 3, 4]), bring(10 * ms, 0, 4), change(11 * ms, 0.5), change(15 * ms, 1)]],
    });
    // 1 MB by 11 ms, 2 MB by 15 ms, the last one by 16 ms.
    expect(lines[0]?.at(-1)).toBe(`${16 * ms} fetched 0 g2 4`);
  });

  it('loses what moves and what it held, takes nothing while it is out, and starts empty', () => {
    const { lines, tier } = run({
      tiers: [{ name: 'g2', options: deviceTier(2, 100) }],
      engines: [
        [
          offer(0, [1, 2, 3]),
          ask(10 * ms, 0, [1, 2, 3]),
          ask(10 * ms, 1, [1, 2, 3]),
          ask(10 * ms, 2, [1, 2, 3]),
          bring(10 * ms, 0, 3),
          offer(10 * ms, [7]),
          change(10.5 * ms, 0),
          // Pinned before it failed: nothing to bring, nothing to let go.
          bring(11 * ms, 1, 2),
          bring(11 * ms, 2, 0),
          ask(12 * ms, 3, [1, 2, 3]),
          offer(12 * ms, [8]),
          change(20 * ms, 1),
          ask(21 * ms, 4, [1, 2, 3]),
          offer(21 * ms, [9]),
          ask(25 * ms, 5, [9]),
          bring(25 * ms, 5, 0),
        ],
      ],
    });
    expect(lines[0]?.slice(3)).toEqual([
      `${10.5 * ms} fetched 0 g2 0`,
      `${11 * ms} fetched 1 g2 0`,
      `${12 * ms} answer 3 g2 0 0`,
      `${21 * ms} answer 4 g2 0 0`,
      `${25 * ms} answer 5 g2 1 ${ms}`,
    ]);
    expect(tier('g2').totals).toMatchObject({ droppedBlocks: 1, failedTransfers: 2 });
  });

  it('network storage has its blocks again', () => {
    const { lines } = run({
      tiers: [{ name: 'g4', options: storage }],
      engines: [
        [
          offer(0, [1, 2], 'g4'),
          ask(20 * ms, 0, [1, 2], 0, 'g4'),
          bring(21 * ms, 0, 2, 'g4'),
          change(22 * ms, 0, 'g4'),
          ask(30 * ms, 1, [1, 2], 0, 'g4'),
          change(40 * ms, 1, 'g4'),
          ask(50 * ms, 2, [1, 2], 0, 'g4'),
          bring(50 * ms, 2, 0, 'g4'),
        ],
      ],
    });
    expect(lines[0]?.map((line) => line.split(' ').slice(1, 5).join(' '))).toEqual([
      'answer 0 g4 2',
      'fetched 0 g4 0',
      'answer 1 g4 0',
      'answer 2 g4 2',
    ]);
  });
});
