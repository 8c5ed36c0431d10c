import { outcome } from '@braess/protocol';
import { type ClientOptions, expandBlocks, inFlightRequests, readTrace } from '@braess/workload';
import { describe, expect, it } from 'vitest';
import { AT_ONCE, countsOf, MS, type Seen, seenBy, simulate, tableOf } from './client-world.js';
import { uniformFrom } from './streams.js';
import { realTrace, withTrace } from './traces.js';

describe('open loop', () => {
  it('sends every request exactly at its arrival, several of one instant too, and counts outcomes', () => {
    const uniform = uniformFrom(3);
    let atNs = 0;
    const rows = Array.from({ length: 500 }, () => ({ arrivalNs: (atNs += Math.floor(uniform() * 3) * 700_001) }));
    const ends = [outcome.completed, outcome.rejected, outcome.failed, outcome.cancelled, outcome.timedOut];
    const options: ClientOptions = { table: tableOf(rows), blockTokens: 64, submitDelayNs: 250_000 };
    const simulation = simulate({ options, frontend: { ...AT_ONCE, ends: (request) => ends[request % 5]! } });
    simulation.runUntil(200 * MS);
    const halfway = countsOf(simulation);
    const due = rows.filter((row) => row.arrivalNs < 200 * MS).length;
    expect(halfway.submitted).toBe(due);
    expect(inFlightRequests(halfway)).toBe(rows.filter((row) => row.arrivalNs < 200 * MS && row.arrivalNs + 5_251_000 >= 200 * MS).length);
    simulation.runUntil();
    expect(seenBy(simulation).map((seen) => [seen.request, seen.atNs])).toEqual(rows.map((row, index) => [index, row.arrivalNs + 250_000]));
    expect(countsOf(simulation)).toMatchObject({
      submitted: 500,
      completed: 100,
      rejected: 100,
      failed: 100,
      cancelled: 100,
      timedOut: 100,
    });
  });

  it('carries tenants with their priorities, and the chain of full blocks only', () => {
    const table = tableOf(
      [
        { arrivalNs: 0, inputTokens: 130, tenant: 1, hashes: [7, 8, 9] },
        { arrivalNs: 0, inputTokens: 130, tenant: 0, hashes: [7, 8, 11] },
        { arrivalNs: 5, inputTokens: 31 },
      ],
      64,
    );
    table.tenantNames = ['batch', 'chat'];
    const options: ClientOptions = { table, blockTokens: 32, submitDelayNs: 1000, priorities: [-1, 5] };
    const simulation = simulate({ options, frontend: AT_ONCE });
    simulation.runUntil();
    const [first, second, third] = seenBy(simulation) as [Seen, Seen, Seen];
    expect([first, second, third].map(({ tenant, priority, deadlineNs }) => [tenant, priority, deadlineNs])).toEqual([
      [1, 5, -1],
      [0, -1, -1],
      [0, -1, -1],
    ]);
    const blocks = new Float64Array(5);
    expandBlocks(table, 0, 32, blocks);
    // 130 tokens are four full blocks of 32; the fifth is partial.
    expect(first.chain).toEqual(Array.from(blocks.subarray(0, 4)));
    expect(second.chain).toEqual(first.chain);
    expect(third.chain).toBeNull();
  });

  it('deals requests over clients and frontends, sessions together, and follows a move', () => {
    const rows = Array.from({ length: 300 }, (_unused, index) => ({ arrivalNs: index * MS, session: index % 3 === 0 ? index % 7 : -1 }));
    for (const frontendBy of ['own', 'turn', 'hash'] as const) {
      const options: ClientOptions = { table: tableOf(rows), blockTokens: 64, submitDelayNs: 1000, clients: 3, frontendBy };
      const simulation = simulate({ options, frontend: AT_ONCE, frontends: 3 });
      simulation.runUntil();
      const seen = [0, 1, 2].map((frontend) => seenBy(simulation, frontend));
      expect(
        seen
          .flat()
          .map((entry) => entry.request)
          .sort((a, b) => a - b),
      ).toEqual(rows.map((_row, index) => index));
      for (const entries of seen) expect(entries.length).toBeGreaterThan(60);
      for (let session = 0; session < 7; session++) {
        const clients = new Set(
          seen
            .flat()
            .filter((entry) => rows[entry.request]!.session === session)
            .map((entry) => entry.client),
        );
        expect(clients.size).toBe(1);
        if (frontendBy === 'turn') continue;
        expect(seen.filter((entries) => entries.some((entry) => rows[entry.request]!.session === session))).toHaveLength(1);
      }
    }
    const options: ClientOptions = { table: tableOf(rows), blockTokens: 64, submitDelayNs: 1000 };
    const simulation = simulate({ options, frontend: AT_ONCE, frontends: 2 });
    const move = { actor: 'clients/client0', message: 'moveClient' };
    simulation.inject({ ...move, timeNs: 100 * MS + 1, fields: [simulation.actorId('control/frontend1')] });
    simulation.inject({ ...move, timeNs: 200 * MS + 1, fields: [-1] });
    simulation.runUntil();
    const moved = seenBy(simulation, 1).map((entry) => entry.request);
    expect(moved).toEqual(Array.from({ length: 100 }, (_unused, index) => 101 + index));
  });

  it('promises silence up to the next arrival, which widens windows and changes nothing else', () => {
    const table = tableOf(Array.from({ length: 400 }, (_unused, index) => ({ arrivalNs: index * 40_000 })));
    const options: ClientOptions = { table, blockTokens: 64, submitDelayNs: 1000 };
    const [plain, promising] = [options, { ...options, promiseTo: ['control'] }].map((each) => {
      const simulation = simulate({ options: each, frontend: AT_ONCE }, 2);
      simulation.runUntil();
      return simulation;
    }) as [ReturnType<typeof simulate>, ReturnType<typeof simulate>];
    expect(promising.fingerprint).toBe(plain.fingerprint);
    expect(promising.rounds).toBeLessThan(plain.rounds);
  });

  it(withTrace('replays a Mooncake trace with its shared prefixes', 'traces/mooncake_toolagent_head_1000.jsonl.gz'), async () => {
    const path = realTrace('traces/mooncake_toolagent_head_1000.jsonl.gz');
    if (path === null) return;
    const { table } = await readTrace(path);
    const simulation = simulate({ options: { table, blockTokens: 64, submitDelayNs: 1000 }, frontend: AT_ONCE });
    simulation.runUntil();
    const seen = seenBy(simulation);
    expect(seen).toHaveLength(table.requestCount);
    expect(seen.every((entry) => entry.atNs === table.arrivalNs[entry.request]! + 1000)).toBe(true);
    expect(seen.every((entry) => entry.chain!.length === Math.floor(table.inputTokens[entry.request]! / 64))).toBe(true);
    // Blocks seen before, counted with the chain as key, equal whole trace blocks seen before, eight engine blocks each, but for the last one.
    const known = new Set<number>();
    const knownTrace = new Set<number>();
    let [hits, traceHits] = [0, 0];
    for (const entry of seen) {
      for (const block of entry.chain!) known.has(block) ? hits++ : known.add(block);
      for (let index = table.blockOffsets[entry.request]!; index < table.blockOffsets[entry.request + 1]!; index++) {
        knownTrace.has(table.blockHashes[index]!) ? traceHits++ : knownTrace.add(table.blockHashes[index]!);
      }
    }
    expect(traceHits).toBeGreaterThan(1000);
    expect(hits / (8 * traceHits)).toBeGreaterThan(0.99);
    expect(hits / (8 * traceHits)).toBeLessThan(1.01);
  });
});
