import {
  assignLeastCost,
  bindPolicy,
  builtInPolicy,
  decisionColumns,
  defineOraclePolicy,
  defineRouterPolicy,
  type NetworkSite,
  networkTiers,
  type OraclePolicy,
} from '@braess/control';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { engineLog, type FakeRequest, imbalance, router, simulate } from './fakes.js';

interface Decided {
  readonly chosen: number;
  /** Cost by decode engine. */
  readonly costs: ReadonlyMap<number, number>;
}

/** What each decode decision saw. */
function decisionsOf(simulation: ReturnType<typeof simulate>): Decided[] {
  const [place, taken, cost] = ['candidateId', 'chosen', 'score'].map((name) => columnOf(name));
  return simulation.takeRecords().flatMap(({ body, fields }) => {
    if (typeof body !== 'object' || body === null || !('policy' in body) || body.policy !== 'netkv-joint') return [];
    expect(fields[1]).toBe(1);
    const { rows } = body as unknown as { rows: Float64Array };
    const costs = new Map<number, number>();
    let chosen = -1;
    for (let at = 0; at < rows.length; at += decisionColumns.length) {
      costs.set(rows[at + place!]!, rows[at + cost!]!);
      if (rows[at + taken!] === 1) chosen = rows[at + place!]!;
    }
    return [{ chosen, costs }];
  });
}

function columnOf(name: string): number {
  const index = (decisionColumns as readonly string[]).indexOf(name);
  expect(index).toBeGreaterThanOrEqual(0);
  return index;
}

/** Least sum over all ways to place the requests, no engine with more than its even share: every one of them tried. */
function leastSum(rows: readonly Decided[], share: number): number {
  const load = new Map<number, number>();
  const search = (row: number): number => {
    if (row === rows.length) return 0;
    let least = Number.POSITIVE_INFINITY;
    for (const [engine, cost] of rows[row]!.costs) {
      const here = load.get(engine) ?? 0;
      if (here === share) continue;
      load.set(engine, here + 1);
      least = Math.min(least, cost + search(row + 1));
      load.set(engine, here);
    }
    return least;
  };
  return search(0);
}

describe('a least-cost assignment', () => {
  it('of a few rows to many columns is the least of all there are', () => {
    // Few values, so that many columns cost the same.
    const row = fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 14, maxLength: 14 });
    fc.assert(
      fc.property(fc.array(row, { minLength: 1, maxLength: 3 }), (costs) => {
        const columns = Array.from(assignLeastCost(Float64Array.from(costs.flat()), costs.length, 14));
        expect(new Set(columns).size).toBe(costs.length);
        const least = (from: number, taken: readonly number[]): number =>
          from === costs.length
            ? 0
            : Math.min(...costs[from]!.map((cost, at) => (taken.includes(at) ? 1e9 : cost + least(from + 1, [...taken, at]))));
        expect(columns.reduce((sum, column, at) => sum + costs[at]![column]!, 0)).toBe(least(0, []));
        if (costs.length === 1) expect(columns).toEqual([costs[0]!.indexOf(Math.min(...costs[0]!))]);
      }),
    );
  });
});

describe('netkv-joint', () => {
  it('assigns what waits together at the least sum that any assignment has, by trying them all', () => {
    const tiers = fc.array(fc.array(fc.integer({ min: 0, max: 4 }), { minLength: 4, maxLength: 4 }), { minLength: 3, maxLength: 3 });
    const tokens = fc.array(fc.integer({ min: 16, max: 4000 }), { minLength: 2, maxLength: 6 });
    const rates = fc.array(fc.integer({ min: 1, max: 400 }), { minLength: networkTiers, maxLength: networkTiers });
    fc.assert(
      fc.property(tiers, tokens, rates, (tierRows, sizes, speeds) => {
        const rows = tierRows.map((row) => Int8Array.from([-1, -1, -1, ...row]));
        const site = {
          tiersFrom: (engine: number) => rows[engine]!,
          tierBetween: (from: number, to: number) => rows[from]![to],
          tierBytesPerSecond: Float64Array.from(speeds, (speed) => speed * 1e8),
          tierLatencyNs: new Float64Array(networkTiers),
        } as unknown as NetworkSite;
        const engines = [
          ...Array.from({ length: 3 }, () => ({ role: 1, prefillNs: 1000 })),
          ...Array.from({ length: 4 }, () => ({ role: 2, transferNs: 5e6, tokenNs: 10 })),
        ];
        const requests: FakeRequest[] = sizes.map((inputTokens, index) => ({ atNs: index, inputTokens, outputTokens: 2 }));
        const simulation = simulate({
          engines,
          requests,
          router: 'round-robin',
          options: {
            site,
            kvBytesPerToken: 1000,
            decodeRouter: router('netkv-joint', { windowMs: 1 }),
            oracle: bindPolicy(builtInPolicy('oracle', 'static-tier') as OraclePolicy),
            decisions: { every: 1, candidates: 8 },
          },
        });
        simulation.runUntil();
        expect(imbalance(simulation)).toBe(0);
        const decided = decisionsOf(simulation);
        expect(decided.length).toBe(sizes.length);
        const sum = decided.reduce((all, { chosen, costs }) => all + costs.get(chosen)!, 0);
        const share = Math.ceil(sizes.length / 4);
        const least = leastSum(decided, share);
        expect(least).toBeGreaterThan(0);
        expect(Math.abs(sum / least - 1)).toBeLessThan(1e-9);
        // Within the shares, too.
        for (const engine of decided[0]!.costs.keys())
          expect(decided.filter(({ chosen }) => chosen === engine).length).toBeLessThanOrEqual(share);
      }),
      { numRuns: 60 },
    );
  });
});

describe('who waits for a joint decision', () => {
  const decode = { role: 2, transferNs: 0, tokenNs: 10_000 };
  const prefills = Array.from({ length: 6 }, () => ({ role: 1, prefillNs: 1000 }));

  it('keeps the turn of its priority, and among equals of its arrival, when there is no room', () => {
    const requests: FakeRequest[] = [0, 0, 0, 5, 0, 5].map((priority, index) => ({
      atNs: 10 * index,
      inputTokens: 16,
      outputTokens: 2,
      priority,
    }));
    const simulation = simulate({
      engines: [...prefills, decode],
      requests,
      router: 'round-robin',
      options: {
        queue: { maxEngineRequests: 1 },
        decodeStage: { nearPriority: 100 },
        decodeRouter: router('netkv-joint', { windowMs: 0, together: 4 }),
      },
    });
    simulation.runUntil();
    expect(imbalance(simulation)).toBe(0);
    expect(engineLog(simulation, 6).decodes.map(({ request }) => request)).toEqual([0, 3, 5, 1, 2, 4]);
  });

  it('goes at once with a full group, and with less when the window has passed', () => {
    const windowNs = 1e9;
    const requests: FakeRequest[] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((place) => ({
      atNs: 100_000 * place,
      inputTokens: 16,
      outputTokens: 2,
    }));
    const decodesOf = (groups: object) => {
      const simulation = simulate({
        engines: [...prefills, decode, decode],
        requests,
        router: 'round-robin',
        options: { decodeRouter: router('netkv-joint', groups) },
      });
      simulation.runUntil();
      expect(imbalance(simulation)).toBe(0);
      return [6, 7].flatMap((engine) => engineLog(simulation, engine).decodes).sort((a, b) => a.request - b.request);
    };
    // Alone, each is placed as soon as its prompt is computed.
    const ready = decodesOf({ windowMs: 0, together: 1 }).map(({ atNs }) => atNs);
    const waits = decodesOf({ windowMs: 1000, together: 4 }).map(({ atNs }, place) => atNs - ready[place]!);
    const groups = [3, 3, 3, 3, 7, 7, 7, 7].map((last, place) => ready[last]! - ready[place]!);
    expect(waits).toEqual([...groups, windowNs, windowNs - 100_000]);
    // Those behind a full group wait for a window of their own; nobody for the end of one that was cut short.
    expect(new Set(ready.slice(1).map((atNs, place) => atNs - ready[place]!))).toEqual(new Set([100_000]));
  });

  it('leaves nobody behind of many that come in one instant, and decides them in groups without waiting', () => {
    const requests: FakeRequest[] = Array.from({ length: 10 }, () => ({ atNs: 0, inputTokens: 16, outputTokens: 2 }));
    const simulation = simulate({
      engines: [...Array.from({ length: 10 }, () => ({ role: 1, prefillNs: 1000 })), decode, decode],
      requests,
      router: 'round-robin',
      options: { decodeRouter: router('netkv-joint', { windowMs: 1000, together: 3 }) },
    });
    simulation.runUntil();
    expect(imbalance(simulation)).toBe(0);
    const decodes = [10, 11].flatMap((engine) => engineLog(simulation, engine).decodes);
    expect(decodes.length).toBe(10);
    // The third arrival of the instant fills a group; whoever came in the same instant goes along.
    expect(new Set(decodes.map(({ atNs }) => atNs)).size).toBe(1);
  });

  it('is decided on where transfers never end, as evenly as where they take no time', () => {
    for (const congestion of [0, 1]) {
      const tiers = Int8Array.from([-1, -1, -1, -1, -1, -1, 2, 2]);
      const five = (value: number): Float64Array => new Float64Array(networkTiers).fill(value);
      const site = {
        tiersFrom: () => tiers,
        tierBetween: (_: number, to: number) => tiers[to],
        tierBytesPerSecond: five(1e9),
        tierLatencyNs: five(0),
      } as unknown as NetworkSite;
      const oracle = defineOraclePolicy({
        name: 'fixed',
        description: 'One load.',
        parameters: z.strictObject({}),
        answer: (question, answer) => answer.answerByTier(question, tiers, five(congestion), five(1e9), five(0)),
      });
      const requests: FakeRequest[] = Array.from({ length: 12 }, (_, index) => ({ atNs: index, inputTokens: 16, outputTokens: 2 }));
      const simulation = simulate({
        engines: [...prefills, decode, decode],
        requests,
        router: 'round-robin',
        options: { site, kvBytesPerToken: 1000, decodeRouter: router('netkv-joint', { windowMs: 1 }), oracle: bindPolicy(oracle) },
      });
      simulation.runUntil();
      expect([6, 7].map((engine) => engineLog(simulation, engine).decodes.length)).toEqual([6, 6]);
    }
  });

  it('stops the run where its policy leaves a candidate without a cost', () => {
    const silent = defineRouterPolicy({
      name: 'silent',
      description: 'Writes no scores.',
      parameters: z.strictObject({}),
      joint: () => ({ windowNs: 0, together: 4 }),
      choose(view) {
        view.scores[view.candidates[1]!] = Number.NaN;
        return view.candidates[0]!;
      },
    });
    const run = simulate({
      engines: [...prefills, decode, decode],
      requests: [{ atNs: 0, inputTokens: 16, outputTokens: 2 }],
      router: 'round-robin',
      options: { decodeRouter: bindPolicy(silent) },
    });
    expect(() => run.runUntil()).toThrow(/router policy 'silent'.*request 0.*score of engine 7/);
  });
});
