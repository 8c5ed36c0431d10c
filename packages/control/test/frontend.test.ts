import { OUTCOME, outcome, REASON } from '@braess/protocol';
import { describe, expect, it } from 'vitest';
import { engineLog, frontendOf, imbalance, rows, settledOf, simulate } from './fakes.js';
import { randomStream } from './random-stream.js';

const server = { role: 0, prefillNs: 10_000, tokenNs: 100 };

describe('the life of a request', () => {
  it('goes through prefill, transfer and decode at the times that the delays add up to', () => {
    // Client delay 1,000, engine delay 500.
    const simulation = simulate({
      engines: [
        { role: 1, prefillNs: 10_000 },
        { role: 2, transferNs: 3000, tokenNs: 100 },
      ],
      requests: [
        { atNs: 0, inputTokens: 1 },
        { atNs: 100_000, inputTokens: 40, outputTokens: 5 },
      ],
    });
    simulation.runUntil();
    const [, row] = rows(simulation);
    const { actors } = frontendOf(simulation).engines;
    expect(row).toEqual({
      requestId: 1,
      tenantId: 0,
      outcome: OUTCOME.completed,
      reason: REASON.none,
      attempts: 1,
      preemptions: 0,
      networkTier: 2,
      prefillWorkerId: actors[0],
      decodeWorkerId: actors[1],
      inputTokens: 40,
      outputTokens: 5,
      cachedTokensG1: 0,
      cachedTokensG2: 0,
      cachedTokensG3: 0,
      cachedTokensG4: 0,
      transferBytes: 100,
      arrivalNs: 101_000,
      queuedNs: 101_500,
      prefillStartNs: 101_500,
      prefillEndNs: 111_500,
      transferStartNs: 112_500,
      transferEndNs: 115_500,
      firstTokenNs: 115_500,
      lastTokenNs: 115_900,
      endNs: 116_400,
      maxItlNs: 100,
      tierFetchNs: 0,
      tierFetchBytes: 0,
    });
    expect(settledOf(simulation)[1]).toEqual({
      request: 1,
      outcome: outcome.completed,
      atNs: 117_400,
      firstTokenNs: 115_500,
      lastTokenNs: 115_900,
      outputTokens: 5,
    });
    expect(engineLog(simulation, 1).decodes[1]).toEqual({ request: 1, atNs: 112_500, prefillEngine: actors[0] });
  });

  it('is one stage on an aggregated engine, and the queue there follows from the service times', () => {
    const requests = Array.from({ length: 5 }, (_, index) => ({ atNs: 4000 * index, inputTokens: 16, outputTokens: 3 }));
    const simulation = simulate({ engines: [server], requests });
    simulation.runUntil();
    // Starts at 1,500 and then every 10,000, as prompts come faster than that.
    expect(rows(simulation).map((row) => [row.prefillStartNs, row.firstTokenNs, row.lastTokenNs])).toEqual(
      requests.map((_, index) => [1500 + 10_000 * index, 11_500 + 10_000 * index, 11_700 + 10_000 * index]),
    );
  });

  it('is the same where clients want no answer, less the answers', () => {
    const requests = Array.from({ length: 5 }, (_, index) => ({ atNs: 4000 * index, inputTokens: 16, outputTokens: 3 }));
    const run = (answerClients: boolean) => {
      const simulation = simulate({ engines: [server], requests, options: { answerClients } });
      simulation.runUntil();
      return { rows: rows(simulation), answers: settledOf(simulation).length, events: simulation.eventCount };
    };
    const told = run(true);
    const untold = run(false);
    expect(told.rows.length).toBe(5);
    expect(untold).toEqual({ rows: told.rows, answers: 0, events: told.events - 5 });
  });

  it('leaves no load behind', () => {
    const engines = [
      { role: 1, prefillNs: 5000 },
      { role: 1, prefillNs: 5000 },
      { role: 2, transferNs: 900, tokenNs: 100 },
    ];
    const requests = Array.from({ length: 50 }, (_, index) => ({
      atNs: 700 * index,
      inputTokens: 10 * index + 1,
      outputTokens: 1 + (index % 7),
    }));
    const simulation = simulate({ engines, requests, router: 'kv' });
    simulation.runUntil();
    const { engines: columns, slots } = frontendOf(simulation);
    expect([...columns.activeRequests, ...columns.activePrefillTokens, ...columns.activeBlocks]).toEqual(new Array(9).fill(0));
    expect(slots.freeSlots.length).toBe(slots.used);
    expect(slots.used).toBeLessThan(50);
  });

  it('waits as M/D/1 when arrivals are random', () => {
    const random = randomStream(11);
    const load = 0.7;
    let atNs = 0;
    const requests = Array.from({ length: 20_000 }, () => {
      atNs += Math.round((-Math.log(1 - random()) * 10_000) / load);
      return { atNs, inputTokens: 1 };
    });
    const simulation = simulate({ engines: [server], requests }, { strict: false });
    simulation.runUntil();
    const waits = rows(simulation).map((row) => row.prefillStartNs - row.queuedNs);
    const mean = waits.reduce((a, b) => a + b) / waits.length;
    // Pollaczek-Khinchine: W = rho / (2 (1 - rho)) service times.
    expect(mean / ((load / (2 * (1 - load))) * 10_000)).toBeCloseTo(1, 1);
  });
});

describe('conservation', () => {
  it('holds at any stop time, with everything going wrong at once', () => {
    const random = randomStream(2);
    const requests = Array.from({ length: 400 }, (_, index) => ({
      atNs: index * 900,
      inputTokens: 1 + Math.floor(random() * 300),
      outputTokens: 1 + Math.floor(random() * 40),
      ...(random() < 0.2 ? { cancelAtNs: index * 900 + Math.floor(random() * 60_000) } : {}),
      ...(random() < 0.2 ? { deadlineNs: index * 900 + Math.floor(random() * 40_000) } : {}),
    }));
    const engines = [
      { role: 1, prefillTokenNs: 20, refuseAt: 6 },
      { role: 1, prefillTokenNs: 20, dieAtNs: 150_000 },
      { role: 2, transferNs: 3000, tokenNs: 200, refuseAt: 10 },
      { role: 2, transferNs: 3000, tokenNs: 200, dieAtNs: 200_000 },
      {
        role: 2,
        transferNs: 3000,
        tokenNs: 200,
        states: [
          [100_000, 2, 1],
          [250_000, 2, 0],
        ] as const,
      },
    ];
    const simulation = simulate({ engines, requests, options: { queue: { limit: 20, maxEngineRequests: 8 } } });
    for (let stopNs = 0; stopNs <= 600_000; stopNs += 7000) {
      simulation.runUntil(stopNs);
      expect(imbalance(simulation), `at ${stopNs} ns`).toBe(0);
    }
    simulation.runUntil();
    const { counters, slotOf, engines: columns } = frontendOf(simulation);
    expect(counters.submitted).toBe(400);
    expect(slotOf.size).toBe(0);
    expect(settledOf(simulation).length).toBe(400);
    expect([...columns.activeRequests, ...columns.activePrefillTokens, ...columns.activeBlocks]).toEqual(new Array(15).fill(0));
    // The case is worthless unless each of these happened.
    for (const name of ['completed', 'rejected', 'cancelled', 'timedOut', 'retries', 'strayReports'] as const)
      expect(counters[name], name).toBeGreaterThan(0);
    const recorded = rows(simulation);
    expect(recorded.length).toBe(400);
    const count = (wanted: number): number => recorded.filter((row) => row.outcome === wanted).length;
    expect(count(OUTCOME.completed)).toBe(counters.completed);
    expect(count(OUTCOME.rejected)).toBe(counters.rejected);
    expect(count(OUTCOME.failed)).toBe(counters.failed + counters.cancelled + counters.timedOut);
  });
});

describe('the same run', () => {
  const cluster = {
    engines: [
      { role: 1, prefillTokenNs: 30 },
      { role: 1, prefillTokenNs: 30 },
      { role: 2, transferNs: 2000, tokenNs: 100, dieAtNs: 90_000 },
      { role: 2, transferNs: 2000, tokenNs: 100 },
    ],
    requests: Array.from({ length: 200 }, (_, index) => ({ atNs: 800 * index, inputTokens: 1 + ((index * 37) % 200), outputTokens: 5 })),
    router: 'kv',
    routerParameters: { tau: 0.4 },
    options: { queue: { maxEngineRequests: 6, order: 'wspt' as const }, decisions: { every: 5 } },
  };
  it('has the same fingerprint on any shards, strict or not, and from a checkpoint', () => {
    const results = [1, 2, 3].flatMap((shards) =>
      [true, false].map((strict) => {
        const simulation = simulate(cluster, { shards, strict });
        simulation.runUntil(70_000);
        const restored = simulate(cluster, { shards: 2, strict, from: simulation.checkpoint() });
        simulation.runUntil();
        restored.runUntil();
        return [simulation.fingerprint, simulation.recordFingerprint, restored.fingerprint, restored.recordFingerprint];
      }),
    );
    const [fingerprint, records] = results[0] as string[];
    for (const result of results) expect(result).toEqual([fingerprint, records, fingerprint, records]);
  });
});
