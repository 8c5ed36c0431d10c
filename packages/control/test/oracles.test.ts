import {
  bindPolicy,
  builtInPolicy,
  createRouterView,
  type EngineSample,
  NetworkAnswer,
  type NetworkSite,
  networkTiers,
  type OraclePolicy,
  routerStage,
} from '@braess/control';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { randomStream } from './random-stream.js';

/** Two links in the pod, two across pods. */
const linkTier = Int8Array.of(2, 2, 3, 3);
const site = {
  tiersFrom: () => Int8Array.of(2, 3, 3),
  tierBetween: (_from, to) => [2, 3, 3][to],
  tierBytesPerSecond: Float64Array.of(Number.NaN, Number.NaN, 6e9, 3e9, Number.NaN),
  tierLatencyNs: Float64Array.of(Number.NaN, Number.NaN, 5000, 7000, Number.NaN),
  flowsPerTransfer: 1,
  tierBackground: new Float64Array(networkTiers),
  tierLinks: Float64Array.of(0, 0, 2, 2, 0),
  isSource: (engine: number) => engine === 0,
  isTarget: (engine: number) => engine > 0,
  pathStages: () => [],
  linkTier,
} as NetworkSite;

interface Told {
  readonly madeAtNs: number;
  readonly knowledge: { readonly congestion: Float64Array; readonly links?: Float64Array };
}

/** An oracle by hand: reports of its links, and what it then publishes. */
function oracleOf(name: string, given: Readonly<Record<string, unknown>> = {}) {
  const { policy, parameters } = bindPolicy(builtInPolicy('oracle', name) as OraclePolicy, given);
  const state = policy.createState?.(parameters, 3);
  const random = randomStream(11);
  return {
    policy,
    parameters,
    state,
    /** Both links of a tier report; the tier is their mean. */
    hear(nowNs: number, tier: number, utilisation: number): void {
      for (const [link, of] of linkTier.entries()) {
        const shift = link % 2 === 0 ? 0.01 : -0.01;
        const report = { nowNs, link, utilisation: utilisation + shift, transferBytes: 0, flows: 0, marks: 0, pausedNs: 0, site };
        if (of === tier) policy.observe?.(report, parameters, state);
      }
    },
    publish: (nowNs: number, paths = false) =>
      policy.publish?.({ nowNs, engines: 3, site, paths }, parameters, state, random) as Told | null | undefined,
  };
}

const congestionOf = (told: Told | null | undefined, tier: number): number => told!.knowledge.congestion[tier]!;

describe('trend', () => {
  it('tells a load that rises steadily ahead of time', () => {
    const oracle = oracleOf('trend', { seconds: 1, readings: 4, aheadSeconds: 2 });
    for (let second = 1; second <= 6; second++) {
      oracle.hear(second * 1e9, 3, 0.1 + 0.05 * second);
      const told = congestionOf(oracle.publish(second * 1e9), 3);
      // One reading makes no line.
      expect(told).toBeCloseTo(second === 1 ? 0.15 : 0.1 + 0.05 * (second + 2), 9);
    }
  });

  it('takes a beat without reports for no reading', () => {
    const oracle = oracleOf('trend', { seconds: 1, readings: 4, aheadSeconds: 0 });
    expect(congestionOf(oracle.publish(0), 3)).toBe(0);
    // As in a run: the oracle's beat comes at the period, the reports of the same moment a little after it.
    for (let second = 1; second <= 6; second++) {
      oracle.publish(second * 1e9);
      oracle.hear(second * 1e9 + 1000, 3, 0.1 * second);
      expect(congestionOf(oracle.publish(second * 1e9 + 1000), 3)).toBeCloseTo(0.1 * second, 9);
    }
    expect(congestionOf(oracle.publish(7e9), 3)).toBeCloseTo(0.6, 9);
  });

  it('draws the line of least squares through its readings, by the normal equations, within 0 and the ceiling', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0.02, max: 0.88, noNaN: true }), { minLength: 6, maxLength: 20 }), (loads) => {
        const oracle = oracleOf('trend', { seconds: 0.5, readings: 5, ceiling: 0.9 });
        let told: Told | null | undefined;
        for (const [index, load] of loads.entries()) {
          oracle.hear(index * 0.5e9, 2, load);
          told = oracle.publish(index * 0.5e9);
        }
        // y = a + b x over x = -4 .. 0 periods, read half a period ahead.
        const rows = loads.slice(-5).map((y, index) => ({ x: index - 4, y }));
        const sum = (of: (row: { x: number; y: number }) => number): number => rows.reduce((all, row) => all + of(row), 0);
        const [n, x, y, xx, xy] = [5, sum((row) => row.x), sum((row) => row.y), sum((row) => row.x * row.x), sum((row) => row.x * row.y)];
        const slope = (n * xy - x * y) / (n * xx - x * x);
        const expected = (y - slope * x) / n + slope * 0.5;
        expect(congestionOf(told, 2)).toBeCloseTo(Math.min(0.9, Math.max(0, expected)), 9);
      }),
    );
  });
});

describe('noisy', () => {
  it('is off by a uniform error of the size it is given: bounds, mean and variance', () => {
    const error = 0.2;
    const oracle = oracleOf('noisy', { error });
    oracle.hear(0, 3, 0.5);
    const count = 20_000;
    const errors = Array.from({ length: count }, (_, index) => congestionOf(oracle.publish(index * 1e9), 3) - 0.5);
    expect(Math.max(...errors.map(Math.abs))).toBeLessThanOrEqual(error + 1e-12);
    const mean = errors.reduce((sum, value) => sum + value, 0) / count;
    const variance = errors.reduce((sum, value) => sum + value * value, 0) / count;
    // Uniform in -+ e: variance e^2 / 3; its own standard error is e^2 sqrt(4 / 45 / n).
    expect(Math.abs(mean)).toBeLessThan((4 * error) / Math.sqrt(3 * count));
    expect(Math.abs(variance - (error * error) / 3)).toBeLessThan(4 * error * error * Math.sqrt(4 / 45 / count));
  });

  it('stays within nothing and the ceiling', () => {
    const oracle = oracleOf('noisy', { error: 1, ceiling: 0.8 });
    oracle.hear(0, 3, 0.5);
    const told = Array.from({ length: 500 }, (_, index) => congestionOf(oracle.publish(index), 3));
    expect([Math.min(...told), Math.max(...told)]).toEqual([0, 0.8]);
  });
});

describe('failing', () => {
  const loadAt = (second: number): number => 0.1 + (second % 8) / 10;
  /** What it says each second. */
  const course = (given: Readonly<Record<string, unknown>>): (Told | null | undefined)[] => {
    const oracle = oracleOf('failing', { seconds: 1, fromSeconds: 4, untilSeconds: 8, ...given });
    return Array.from({ length: 10 }, (_, second) => {
      oracle.hear(second * 1e9, 3, loadAt(second));
      return oracle.publish(second * 1e9);
    });
  };
  const well = [0, 1, 2, 3, 8, 9];
  const ill = [4, 5, 6, 7];

  it.each(['down', 'slow', 'lying'])('%s: tells what it hears before and after', (mode) => {
    const told = course({ mode });
    for (const second of well) {
      expect(told[second]!.madeAtNs).toBe(second * 1e9);
      expect(congestionOf(told[second], 3)).toBeCloseTo(loadAt(second), 9);
    }
  });

  it('down: says nothing', () => {
    const told = course({ mode: 'down' });
    expect(ill.map((second) => told[second])).toEqual([null, null, null, null]);
  });

  it('slow: says what was true so long ago, and how old it is', () => {
    const told = course({ mode: 'slow', slowSeconds: 2.5 });
    for (const second of ill) {
      // The last reading that is at least 2.5 s old.
      expect(told[second]!.madeAtNs).toBe((second - 3) * 1e9);
      expect(congestionOf(told[second], 3)).toBeCloseTo(loadAt(second - 3), 9);
    }
  });

  it('slow: of single links, too, however long it runs', () => {
    const oracle = oracleOf('failing', { seconds: 0.1, mode: 'slow', slowSeconds: 5000 });
    let told: Told | null | undefined;
    for (let second = 0; second <= 12_000; second++) {
      oracle.hear(second * 1e9, 3, (second % 97) / 100);
      told = oracle.publish(second * 1e9, true);
    }
    const link = linkTier.indexOf(3);
    expect(told!.madeAtNs).toBe(7000e9);
    expect(told!.knowledge.links![link]).toBeCloseTo((7000 % 97) / 100 + (link % 2 === 0 ? 0.01 : -0.01), 9);
  });

  it('says what is nonsense in its parameters before a run', () => {
    expect(() => oracleOf('failing', { fromSeconds: 8, untilSeconds: 4 })).toThrow(/untilSeconds: must be above fromSeconds/);
    expect(() => oracleOf('rtt-median', { tiers: [] })).toThrow(/tiers/);
    expect(() => oracleOf('rtt-median', { cutsUs: [200, 50] })).toThrow(/cutsUs: is \[200,50\]; each cut must be above the one before/);
    expect(() => oracleOf('rtt-median', { cutsUs: [50, 50] })).toThrow(/cutsUs: .*above the one before/);
    expect(() => oracleOf('rtt-median', { cutsUs: [50] })).toThrow(/tiers: has 3 entries for the 2 classes that 1 cuts make/);
    expect(oracleOf('rtt-median', { cutsUs: [50], tiers: [1, 3] }).parameters).toMatchObject({ cutsUs: [50], tiers: [1, 3] });
    for (const kind of ['rtt-median', 'active']) {
      expect(() => oracleOf(kind, { seconds: 1e-9 })).toThrow(/seconds: .*0\.1/);
      expect(() => oracleOf(kind, { seconds: 1e9 })).toThrow(/seconds: .*<=3600/);
    }
  });

  it('lying: the slowest tier is idle and all others full, and it says so with a straight face', () => {
    const told = course({ mode: 'lying', ceiling: 0.95 });
    for (const second of ill) {
      expect(told[second]!.madeAtNs).toBe(second * 1e9);
      expect([congestionOf(told[second], 2), congestionOf(told[second], 3)]).toEqual([0.95, 0]);
    }
  });
});

describe('active', () => {
  it('averages its probes, takes a lost one for a tier that moves nothing, and says nothing of a tier it has not measured', () => {
    const oracle = oracleOf('active', { megabytes: 60, weight: 0.5 });
    const probes: [number, number, number][] = [];
    const actions = { probe: (from: number, to: number, bytes: number) => void probes.push([from, to, bytes]) };
    const view = { nowNs: 0, engines: 3, site, paths: false };
    for (let beat = 0; beat < 3 * networkTiers; beat++)
      oracle.policy.beat?.(view, actions, oracle.parameters, oracle.state, randomStream(1));
    // A tier each beat, its pairs in turn: only engine 0 sends, to 1 and 2, both in tier 3.
    expect(probes).toEqual([
      [0, 1, 60e6],
      [0, 2, 60e6],
      [0, 1, 60e6],
    ]);
    expect([...oracle.publish(0)!.knowledge.congestion]).toEqual([0, 0, 0, 0, 0]);
    const end = (ms: number, lost = false): void =>
      oracle.policy.probed?.(
        { nowNs: 0, from: 0, to: 1, forthBytes: 60e6, backBytes: 0, lost, forthNs: ms * 1e6 + 7000, backNs: -1, site },
        oracle.parameters,
        oracle.state,
      );
    // 60 MB take 20 ms at the nominal 3 GB/s; in 40 ms half of it was to be had; then half of that and half of nothing.
    end(20);
    expect(congestionOf(oracle.publish(0), 3)).toBeCloseTo(0, 9);
    end(40);
    expect(congestionOf(oracle.publish(0), 3)).toBeCloseTo(1 - (0.5 + 0.5 * 0.5), 9);
    end(1, true);
    expect(congestionOf(oracle.publish(0), 3)).toBeCloseTo(1 - 0.5 * 0.75, 9);
  });
});

describe('cost-triple', () => {
  it.each(['account', 'report'] as const)('tells compute, cache and network cost apart as the formulas have them (load by %s)', (by) => {
    const states = fc.record({
      active: fc.integer({ min: 0, max: 150 }),
      hit: fc.integer({ min: 0, max: 300 }),
    });
    const most = 64;
    const loadOf = (from: string, active: number): EngineSample =>
      from === 'account'
        ? { activeRequests: active, runningSequences: 3 }
        : { activeRequests: 3, runningSequences: Math.min(active, most), waitingSequences: Math.max(0, active - most) };
    const passNs = Array.from({ length: most + 1 }, (_, sequences) => 12e6 + 0.2e6 * sequences);
    fc.assert(
      fc.property(
        fc.tuple(states, states),
        fc.double({ min: 0.02, max: 0.9, noNaN: true }),
        fc.integer({ min: 300, max: 9000 }),
        // Windows and states: they move, whatever is there.
        fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 200_000_000 })),
        (all, load, tokens, fixedBytes) => {
          const oracle = oracleOf('cost-triple', { load: by });
          oracle.hear(0, 3, load);
          const told = oracle.publish(0)!;
          const samples: EngineSample[] = [
            {},
            ...all.map(({ active, hit }) => ({ maxSequences: most, passNs, ...loadOf(by, active), overlapBlocks: hit })),
          ];
          const view = createRouterView({
            stage: routerStage.decode,
            blockTokens: 16,
            engines: samples,
            candidates: [1, 2],
            prefillEngine: 0,
          });
          const answer = new NetworkAnswer(3);
          const growingBytes = tokens * 131_072;
          const transferBytes = growingBytes + fixedBytes;
          const question = { ...view, site, paths: false, inputTokens: tokens, transferBytes, fixedBytes };
          oracle.policy.answer(question, answer, oracle.parameters, told.knowledge, randomStream(1));
          for (const [index, { active, hit }] of all.entries()) {
            const engine = index + 1;
            const missing = Math.max(0, 1 - (hit * 16) / tokens);
            const queued = Math.max(0, active - most);
            const compute = (queued * passNs[most]! + passNs[Math.min(most, active + 1)]!) / 1e9;
            expect(answer.computeCost[engine]).toBeCloseTo(compute, 9);
            expect(answer.cacheCost[engine]).toBeCloseTo(missing, 12);
            expect(answer.networkCost[engine]).toBeCloseTo((growingBytes * missing + fixedBytes) / (3e9 * (1 - load)) + 7e-6, 9);
          }
        },
      ),
    );
  });
});
