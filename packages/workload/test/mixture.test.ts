import {
  generatedRequests,
  generateRequests,
  type IndependentWorkloadSpec,
  type MixturePart,
  mixRequests,
  type RequestTable,
  type SessionWorkloadSpec,
  tableRequests,
} from '@braess/workload';
import { describe, expect, it } from 'vitest';
import { tableOf } from './client-world.js';
import { streamsFrom } from './streams.js';

const CHAT: IndependentWorkloadSpec = {
  kind: 'independent',
  arrivals: { kind: 'poisson', ratePerSecond: 6 },
  inputTokens: { kind: 'exponential', meanTokens: 300 },
  outputTokens: { kind: 'constant', tokens: 100 },
  prefix: { groups: 3, popularity: { kind: 'uniform' }, prefixTokens: { kind: 'constant', tokens: 160 }, part: 'included' },
};
const BATCH: IndependentWorkloadSpec = {
  kind: 'independent',
  arrivals: { kind: 'poisson', ratePerSecond: 2 },
  inputTokens: { kind: 'uniform', minTokens: 5000, maxTokens: 9000 },
  outputTokens: { kind: 'constant', tokens: 20 },
};
const AGENTS: SessionWorkloadSpec = {
  kind: 'sessions',
  sessionArrivals: { kind: 'constant', ratePerSecond: 1 },
  turns: { kind: 'constant', tokens: 3 },
  firstTokens: { kind: 'constant', tokens: 100 },
  turnTokens: { kind: 'constant', tokens: 10 },
  outputTokens: { kind: 'constant', tokens: 5 },
  meanThinkS: 2,
  maxInputTokens: 1000,
};

const parts = (): MixturePart[] => [
  { tenant: 'chat', requests: generatedRequests(CHAT, streamsFrom(1)) },
  { tenant: 'batch', requests: generatedRequests(BATCH, streamsFrom(2)) },
  { tenant: 'agents', requests: generatedRequests(AGENTS, streamsFrom(3)) },
];

const rowsOf = (table: RequestTable, tenant: string): number[] =>
  Array.from({ length: table.requestCount }, (_, row) => row).filter((row) => table.tenantNames[table.tenant[row]!] === tenant);
const hashesOf = (table: RequestTable, row: number): number[] => [
  ...table.blockHashes.subarray(table.blockOffsets[row]!, table.blockOffsets[row + 1]!),
];

describe('a mixture', () => {
  it('of two Poisson processes is one of the summed rate', () => {
    const count = 40_000;
    const table = mixRequests(parts().slice(0, 2), { requests: count });
    const seconds = table.arrivalNs[count - 1]! / 1e9;
    // The time of the n-th arrival has a standard deviation of sqrt(n) / rate.
    expect(Math.abs(seconds - count / 8)).toBeLessThan((4 * Math.sqrt(count)) / 8);
    // Gaps are exponential: Kolmogorov and Smirnov's distance at the 0.1 % level.
    const gaps = [...table.arrivalNs].map((time, row) => (time - (table.arrivalNs[row - 1] ?? 0)) / 1e9).sort((a, b) => a - b);
    let distance = 0;
    for (const [rank, gap] of gaps.entries()) distance = Math.max(distance, Math.abs(1 - Math.exp(-8 * gap) - (rank + 0.5) / count));
    expect(distance).toBeLessThan(1.95 / Math.sqrt(count));
    // A quarter of them are batch, each independently of the one before.
    const batch = rowsOf(table, 'batch').length;
    expect(Math.abs(batch - count / 4)).toBeLessThan(4 * Math.sqrt(count * 0.25 * 0.75));
  });

  it('has the lengths of each tenant', () => {
    const table = mixRequests(parts().slice(0, 2), { requests: 40_000 });
    for (const [tenant, mean, deviation] of [
      ['chat', 300, 300],
      ['batch', 7000, 4000 / Math.sqrt(12)],
    ] as const) {
      const rows = rowsOf(table, tenant);
      const found = rows.reduce((sum, row) => sum + table.inputTokens[row]!, 0) / rows.length;
      // Exponential lengths are rounded up to whole tokens of 1 or more: half a token at most.
      expect(Math.abs(found - mean)).toBeLessThan((4 * deviation) / Math.sqrt(rows.length) + 0.5);
    }
  });

  it('has of each part what that gives alone, in order of arrival', () => {
    const table = mixRequests(parts(), { requests: 3000 });
    for (let row = 1; row < 3000; row++) expect(table.arrivalNs[row]).toBeGreaterThanOrEqual(table.arrivalNs[row - 1]!);
    for (const [tenant, spec, seed] of [
      ['chat', CHAT, 1],
      ['batch', BATCH, 2],
      ['agents', AGENTS, 3],
    ] as const) {
      const rows = rowsOf(table, tenant);
      const alone = generateRequests(spec, streamsFrom(seed), { requests: rows.length });
      for (const column of ['arrivalNs', 'inputTokens', 'outputTokens'] as const)
        expect(rows.map((row) => table[column][row])).toEqual([...alone[column]]);
      // Identities have other names, one for each.
      const renamed = new Map<number, number>();
      const sessions = new Map<number, number>();
      for (const [place, row] of rows.entries()) {
        const [own, other] = [hashesOf(alone, place), hashesOf(table, row)];
        expect(other).toHaveLength(own.length);
        for (const [block, hash] of own.entries()) expect(renamed.get(hash) ?? other[block]).toBe(other[block]);
        for (const [block, hash] of own.entries()) renamed.set(hash, other[block]!);
        const session = alone.session[place]!;
        expect(sessions.get(session) ?? table.session[row]).toBe(table.session[row]);
        sessions.set(session, table.session[row]!);
      }
      expect(new Set(renamed.values()).size).toBe(renamed.size);
      expect(new Set(sessions.values()).size).toBe(sessions.size);
    }
  });

  it('of equal parts shares no block and no session between them', () => {
    const twice = [CHAT, AGENTS].flatMap((spec) =>
      [1, 1].map((seed, copy) => ({ tenant: `${copy}`, requests: generatedRequests(spec, streamsFrom(seed)) })),
    );
    const table = mixRequests(twice, { requests: 400 });
    const [first, second] = ['0', '1'].map((tenant) => rowsOf(table, tenant));
    expect(first!.length).toBe(200);
    const blocks = new Set(first!.flatMap((row) => hashesOf(table, row)));
    const sessions = new Set(first!.map((row) => table.session[row]).filter((session) => session! >= 0));
    expect(blocks.size).toBeGreaterThan(20);
    expect(sessions.size).toBeGreaterThan(5);
    expect(second!.flatMap((row) => hashesOf(table, row)).filter((hash) => blocks.has(hash))).toEqual([]);
    expect(second!.filter((row) => sessions.has(table.session[row]!))).toEqual([]);
  });

  it('of a trace and a generator keeps the tenants, sessions and delays of the trace, and ends by the limit', () => {
    const trace = tableOf([
      { arrivalNs: 0, session: 0 },
      { arrivalNs: 1e9, tenant: 1 },
      { arrivalNs: 2e9, session: 0 },
    ]);
    trace.tenantNames = ['gold', 'free'];
    trace.delayNs = Float64Array.of(-1, -1, 7);
    const steady: IndependentWorkloadSpec = { ...BATCH, arrivals: { kind: 'constant', ratePerSecond: 1 } };
    const mixture = (): MixturePart[] => [
      { requests: tableRequests(trace) },
      { tenant: 'batch', requests: generatedRequests(steady, streamsFrom(1)) },
    ];
    const table = mixRequests(mixture(), { untilNs: 3.5e9 });
    expect([...table.arrivalNs]).toEqual([0, 1e9, 1e9, 2e9, 2e9, 3e9]);
    expect([...table.tenant].map((tenant) => table.tenantNames[tenant])).toEqual(['gold', 'free', 'batch', 'gold', 'batch', 'batch']);
    expect([...table.session]).toEqual([0, -1, -1, 0, -1, -1]);
    expect([...table.delayNs]).toEqual([-1, -1, -1, 7, -1, -1]);
    expect(mixRequests(mixture(), { requests: 4 }).requestCount).toBe(4);
    // Traces alone end by themselves.
    expect(mixRequests(mixture().slice(0, 1), {}).requestCount).toBe(3);
  });

  it('has blocks of one size', () => {
    const mooncake: MixturePart = { requests: generatedRequests({ kind: 'mooncake-like' }, streamsFrom(1)) };
    expect(() => mixRequests([...parts(), mooncake], { requests: 10 })).toThrow(/blocks of 16 and 512 tokens/);
    expect(mixRequests([parts()[1]!, mooncake], { requests: 10 }).blockTokens).toBe(512);
  });
});
