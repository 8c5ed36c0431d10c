import { bindPolicy, builtInPolicy, createEngineView, type PlannerPolicy, type SpeedProfile } from '@braess/control';
import { describe, expect, it } from 'vitest';

const [prefill, decode] = [1, 2];
const profile: SpeedProfile = {
  prefillBaseNs: 10e6,
  // 10,000 tokens a second.
  prefillTokenNs: 100_000,
  decodeBaseNs: 10e6,
  decodeSequenceNs: 100_000,
  decodeContextTokenNs: 10,
};

interface Engine {
  readonly role: number;
  readonly queuedTokens?: number;
  readonly runningSequences?: number;
  readonly waitingSequences?: number;
  readonly usedBlocks?: number;
  readonly status?: number;
}

type Order = readonly [engine: number, role: number, start?: 'start'];

/** Orders of one policy over plans 10 s apart; a stop has role -1. */
function plans(name: string, parameters: unknown, rounds: readonly (readonly Engine[])[]): Order[][] {
  const { policy, parameters: bound } = bindPolicy(builtInPolicy('planner', name) as PlannerPolicy, parameters);
  const state = policy.createState?.(bound, rounds[0]!.length);
  return rounds.map((engines, round) => {
    const orders: Order[] = [];
    const actions = {
      changeRole: (engine: number, role: number) => void orders.push([engine, role]),
      startEngine: (engine: number, role: number) => void orders.push([engine, role, 'start']),
      stopEngine: (engine: number) => void orders.push([engine, -1]),
    };
    const view = {
      nowNs: (round + 1) * 10e9,
      engines: createEngineView(engines.map((engine) => ({ totalBlocks: 1000, reportedAtNs: 1, ...engine }))),
      status: engines.map(({ status = 0 }) => status),
      profiles: engines.map(() => profile),
      blockTokens: 16,
      contextTokens: 8192,
    };
    policy.plan(view, actions, bound, state, () => 0);
    return orders;
  });
}

const p = (queuedTokens: number, status = 0): Engine => ({ role: prefill, queuedTokens, status });
const d = (usedBlocks: number, runningSequences = 10, waitingSequences = 0): Engine => ({
  role: decode,
  usedBlocks,
  runningSequences,
  waitingSequences,
});

describe('load planner', () => {
  const once = (engines: readonly Engine[], parameters: unknown = {}) => plans('load', parameters, [engines])[0]!;

  it('moves at its thresholds: queue over context 1.0, KV use with the queue 1.0, from the engine quickest to drain', () => {
    expect(once([p(8191), p(0), d(700), d(650, 5)])).toEqual([]);
    expect(once([p(8192), p(0), d(700), d(650, 5)])).toEqual([[3, prefill]]);
    // 800 blocks of 8 running, 2 more wait: 1,000 of 1,000.
    expect(once([p(2000), p(1000), d(800, 8, 2), d(100)])).toEqual([[1, decode]]);
    expect(once([p(2000), p(1000), d(799, 8, 2), d(100)])).toEqual([]);
    // 2.0 by the queue: KV use passes 1.
    expect(once([p(2000), p(1000), d(1000, 5, 5), d(100)])).toEqual([[1, decode]]);
  });

  it('moves nobody when both ask, and never the last engine of a role', () => {
    expect(once([p(9000), p(0), d(1000), d(0)])).toEqual([]);
    expect(once([p(9000), p(0), d(100)])).toEqual([]);
    expect(once([p(0), d(1000), d(100)])).toEqual([]);
  });

  it('with onlyOffered: takes from a pool only below its lower threshold', () => {
    const settings = { onlyOffered: true };
    expect(once([p(9000), p(0), d(600), d(100)], settings)).toEqual([]);
    expect(once([p(9000), p(0), d(599), d(100, 5)], settings)).toEqual([[3, prefill]]);
    expect(once([p(819), p(0), d(1000), d(100)], settings)).toEqual([[1, decode]]);
    expect(once([p(820), p(0), d(1000), d(100)], settings)).toEqual([]);
  });

  it('waits for moves and for plans in a row where it is told to', () => {
    const hot = [p(9000), p(0), p(0, 1), d(100), d(100)];
    expect(once(hot)).toHaveLength(1);
    expect(once(hot, { waitForMoves: true })).toEqual([]);
    const [asks, calm] = [
      [p(9000), p(0), d(100), d(100)],
      [p(0), p(0), d(100), d(100)],
    ];
    const orders = plans('load', { plansInARow: 3, giveBack: false }, [asks, asks, calm, asks, asks, asks, asks]);
    expect(orders.map((list) => list.length)).toEqual([0, 0, 0, 0, 0, 1, 0]);
  });
});

describe('load planner that gives back', () => {
  const off = (role: number): Engine => ({ role, status: 5 });
  const once = (engines: readonly Engine[], parameters: unknown = {}) => plans('load', parameters, [engines])[0]!;

  it('stops one engine of a role whose engines are all under "down", the quickest to drain, but for the least', () => {
    // 0.1 of 8,192 tokens, 0.6 of 1,000 blocks.
    expect(once([p(819), p(0), d(600), d(600)])).toEqual([[1, -1]]);
    expect(once([p(820), p(0), d(600), d(600)])).toEqual([]);
    expect(once([p(0), p(0), d(599), d(100, 5)])).toEqual([
      [0, -1],
      [3, -1],
    ]);
    expect(once([p(0), d(100)])).toEqual([]);
    expect(once([p(0), p(0), d(100), d(100), d(100)], { leastEngines: 2 })).toEqual([[2, -1]]);
    expect(once([p(0), p(0), d(100), d(100)], { giveBack: false })).toEqual([]);
  });

  it('starts an engine that is off where a role asks, and converts one only when the budget is used up', () => {
    const [hot, calm] = [p(9000), p(2000)];
    expect(once([hot, calm, d(700), d(700), off(prefill)])).toEqual([[4, prefill, 'start']]);
    // Last used for the same role first; each engine once.
    expect(once([hot, calm, d(1000), d(700), off(decode), off(prefill)])).toEqual([
      [5, prefill, 'start'],
      [4, decode, 'start'],
    ]);
    expect(once([hot, calm, d(1000), d(700), off(decode)])).toEqual([[4, prefill, 'start']]);
    expect(once([hot, calm, d(700), d(700), { role: prefill, status: 3 }])).toEqual([[2, prefill]]);
    // What one role offers and the other asks for is not given back.
    expect(once([hot, calm, d(100), d(100)])).toEqual([[2, prefill]]);
  });
});

describe('planners that forecast', () => {
  it('sla: gives back only what it is safe without, in time and with room for what comes', () => {
    const bounds = { ttftMs: 1000, itlMs: 50 };
    const sla = (engines: readonly Engine[], before = engines) => plans('sla', bounds, [before, engines])[1]!;
    // Nothing comes: one prefill engine goes, then none but the last; decode then.
    expect(sla([p(0), p(0), d(100), d(100)])).toEqual([[0, -1]]);
    expect(sla([p(0), d(300), d(300)])).toEqual([[1, -1]]);
    // 2 x 450 blocks on one engine: 0.9 of it, past 0.8.
    expect(sla([p(0), d(450), d(450)])).toEqual([]);
    // Two busy engines compute 20,000 tokens a second and three are left of four: 0.67; two of three: 1.
    expect(sla([p(500), p(500), p(0), p(0), d(450), d(450)])).toEqual([[2, -1]]);
    expect(sla([p(500), p(500), p(0), d(450), d(450)])).toEqual([]);
    // Late, and an engine is off: it is started, whatever decode needs.
    expect(sla([p(30_000), p(0), d(1000, 10, 1), d(950), { role: decode, status: 5 }])).toEqual([[4, prefill, 'start']]);
  });

  it('gnep and social: keep every engine at no price, and give back what is worth less than the price', () => {
    for (const name of ['gnep', 'social']) {
      const calm = [p(0), p(0), d(10), d(10)];
      expect(plans(name, {}, [calm])[0]).toEqual([]);
      expect(plans(name, { enginePrice: 0.01 }, [calm])[0]).toEqual([[0, -1]]);
      const loaded = [p(60_000), p(0), d(100), d(100), { role: prefill, status: 5 }];
      expect(plans(name, {}, [loaded])[0]).toEqual([[4, prefill, 'start']]);
      expect(plans(name, { enginePrice: 2 }, [loaded])[0]).not.toContainEqual([4, prefill, 'start']);
    }
  });

  it('social moves where only decode gains by it, gnep does not: the externality, by hand', () => {
    // Two engines compute 20,000 tokens a second, 40,000 come: flow 1/2. In 15 s the queue is 200,000 + 15 x 20,000 tokens: 25 s, with three engines
    // (200,000 + 15 x 10,000) / 30,000: 11.7 s. In time within 1 s is a share of 1 / (1 + 25^4) = 2.6e-6 against 3/4 / (1 + 11.7^4) = 4.0e-5:
    // for prefill the engine is worth nothing.
    // For decode, idle but for what prefill lets through, it is 3/4 - 1/2 of all requests.
    const before = [p(0), p(0), d(10), d(10), d(10), d(10)];
    const now = [p(100_000), p(100_000), d(10), d(10), d(10), d(10)];
    const came = [before, now].map((engines) => [...engines]);
    const step = (name: string, leastGain: number) => plans(name, { ttftMs: 1000, horizonSeconds: 30, leastGain }, came)[1]!;
    expect(step('gnep', 0.001)).toEqual([]);
    expect(step('social', 0.24)).toEqual([[2, prefill]]);
    expect(step('social', 0.26)).toEqual([]);
  });

  it('sla: helps a late pool only where the other stays within its bound without the engine', () => {
    // 30,000 tokens over 2 engines of 10,000 a second: 1.5 s in the queue alone, past 1 s.
    const late = [p(15_000), p(15_000)];
    expect(plans('sla', { ttftMs: 1000, itlMs: 50 }, [[...late, d(100), d(100), d(100)]])[0]).toEqual([[2, prefill]]);
    // 3 x 700 blocks on 2 engines: KV use 1.05.
    expect(plans('sla', { ttftMs: 1000, itlMs: 50 }, [[...late, d(700), d(700), d(700)]])[0]).toEqual([]);
    // 120 sequences an engine: 10 + 12 ms; on two engines 10 + 18 ms + context: past 0.8 x 33.
    expect(plans('sla', { ttftMs: 1000, itlMs: 33 }, [[...late, d(10, 120), d(10, 120), d(10, 120)]])[0]).toEqual([]);
    expect(plans('sla', { ttftMs: 1000, itlMs: 40 }, [[...late, d(10, 120), d(10, 120), d(10, 120)]])[0]).toHaveLength(1);
    // Decode late, prefill idle: one comes back.
    expect(plans('sla', { ttftMs: 1000, itlMs: 50 }, [[p(0), p(0), d(1000, 10, 1), d(950)]])[0]).toEqual([[0, decode]]);
  });

  it('gnep and social: leave a balanced split alone and move towards the pool in need', () => {
    for (const name of ['gnep', 'social']) {
      expect(plans(name, {}, [[p(0), p(0), d(300), d(300)]])[0]).toEqual([]);
      expect(plans(name, {}, [[p(60_000), p(60_000), d(100), d(100), d(100)]])[0]).toEqual([[2, prefill]]);
      expect(plans(name, {}, [[p(0), p(0), p(0), d(1000, 10, 10), d(1000, 10, 10)]])[0]).toEqual([[0, decode]]);
    }
  });

  it('social gives prefill more than the equilibrium does, because decode lives on what prefill lets through', () => {
    // Prompts come at twice what two engines compute: the queue has grown by 20,000 x 10 tokens since the plan before.
    const before = [p(100_000), p(100_000), d(350), d(350), d(350)];
    const now = [p(200_000), p(200_000), d(350), d(350), d(350)];
    const prefers = (name: string, leastGain: number) => plans(name, { leastGain, ttftMs: 20_000 }, [before, now])[1]!.length;
    // The largest gain by which each still moves an engine to prefill.
    const reach = (name: string) => Array.from({ length: 200 }, (_, step) => step / 200).filter((gain) => prefers(name, gain) > 0).length;
    expect(reach('social')).toBeGreaterThan(reach('gnep'));
  });
});
