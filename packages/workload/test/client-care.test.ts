import { Simulation } from '@braess/kernel';
import { outcome } from '@braess/protocol';
import { type CareClientState, type ClientOptions, inFlightRequests, NO_RETRY, type RetrySpec } from '@braess/workload';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AT_ONCE, countsOf, type FakeFrontend, MS, seenBy, simulate, tableOf } from './client-world.js';

const TICK: ClientOptions = { table: tableOf([]), blockTokens: 64, submitDelayNs: 1000 };
const WORKERS = { style: 'workers', inFlight: 4, meanThinkMs: 0, think: 'exponential', taskLimit: 0 } as const;
const SEMAPHORE = { ...WORKERS, style: 'semaphore', taskLimit: 1_000_000 } as const;

function rowsEvery(count: number, periodNs: number) {
  return tableOf(Array.from({ length: count }, (_unused, index) => ({ arrivalNs: index * periodNs })));
}

function records(simulation: ReturnType<typeof simulate>) {
  return simulation
    .takeRecords()
    .filter(({ type }) => type === 'clientRequest')
    .map(({ timeNs, fields: [request, attempts, cameNs, waitNs, code] }) => ({ timeNs, request, attempts, cameNs, waitNs, code }));
}

describe('closed loop', () => {
  it('of workers before one exponential server is the machine-repair queue, and obeys Little', () => {
    const [machines, thinkMs, serviceMs, requests] = [6, 10, 4, 60_000];
    const options: ClientOptions = {
      ...TICK,
      table: rowsEvery(requests, 0),
      loop: { ...WORKERS, inFlight: machines, meanThinkMs: thinkMs },
    };
    const frontend: FakeFrontend = { servers: 1, meanServiceNs: serviceMs * MS, exponential: true, replyNs: 1000 };
    const simulation = simulate({ options, frontend, terse: true });
    simulation.runUntil();
    const seconds = simulation.processedNs / 1e9;
    // Machine repair (M/M/1//N): p0 = 1 / sum N!/(N-n)! (service/think)^n, throughput (1 - p0) / service.
    let [term, sum] = [1, 1];
    for (let n = 0; n < machines; n++) sum += term *= ((machines - n) * serviceMs) / thinkMs;
    const throughput = ((1 - 1 / sum) * 1000) / serviceMs;
    expect(requests / seconds / throughput).toBeGreaterThan(0.985);
    expect(requests / seconds / throughput).toBeLessThan(1.015);
    // Little: residence = N / throughput - think.
    const ended = records(simulation);
    const meanMs = ended.reduce((total, { timeNs, cameNs }) => total + timeNs - cameNs!, 0) / ended.length / MS;
    expect(meanMs / ((machines * 1000) / (requests / seconds) - thinkMs)).toBeCloseTo(1, 1);
    expect(countsOf(simulation)).toMatchObject({ submitted: requests, completed: requests });
  });

  it('never has more than its permits in flight, tasks in order of arrival', () => {
    const options: ClientOptions = { ...TICK, table: rowsEvery(40, MS), loop: { ...SEMAPHORE, inFlight: 3, taskLimit: 20 } };
    const simulation = simulate({ options, frontend: AT_ONCE });
    simulation.runUntil();
    // Three permits of 5.002 ms each against a task a ms: a queue builds up until the limit of 20 refuses.
    const seen = seenBy(simulation);
    for (const { atNs } of seen)
      expect(seen.filter((other) => other.atNs <= atNs && other.atNs > atNs - 5 * MS).length).toBeLessThanOrEqual(3);
    expect(seen.map((entry) => entry.request)).toEqual(seen.map((entry) => entry.request).sort((a, b) => a - b));
    const ended = records(simulation);
    expect(ended).toHaveLength(40);
    // Waits in the client are in the records: request 3 waits for request 0's permit, back at 5.002 ms.
    expect(ended.find(({ request }) => request === 3)).toMatchObject({ cameNs: 3 * MS, waitNs: 2_002_000 });
    expect(countsOf(simulation)).toMatchObject({ completed: 40 - countsOf(simulation).rejected });
    const tight = simulate({ options: { ...options, loop: { ...SEMAPHORE, inFlight: 3, taskLimit: 2 } }, frontend: AT_ONCE });
    tight.runUntil();
    expect(countsOf(tight).rejected).toBeGreaterThan(5);
    expect(records(tight).filter(({ code, waitNs }) => code === outcome.rejected && waitNs === -1)).toHaveLength(countsOf(tight).rejected);
  });
});

describe('connections', () => {
  it.each(['fifo', 'lifo'] as const)('%s: the order in which waiting requests are sent', (order) => {
    const options: ClientOptions = { ...TICK, table: rowsEvery(6, 1000), connections: { connections: 1, order, queueLimit: 9 } };
    const simulation = simulate({ options, frontend: AT_ONCE });
    simulation.runUntil();
    const sent = seenBy(simulation).map((entry) => entry.request);
    expect(sent).toEqual(order === 'fifo' ? [0, 1, 2, 3, 4, 5] : [0, 5, 4, 3, 2, 1]);
    const last = records(simulation).at(-1)!;
    // Five services of 5 ms with 2 us of messages each lie before the last one's.
    expect(last.waitNs).toBe(5 * 5_002_000 - last.cameNs!);
  });

  it('random: another order by seed, all of them; a full queue rejects', () => {
    const options: ClientOptions = {
      ...TICK,
      table: rowsEvery(30, 1000),
      connections: { connections: 1, order: 'random', queueLimit: 20 },
    };
    const simulation = simulate({ options, frontend: AT_ONCE });
    simulation.runUntil();
    const sent = seenBy(simulation).map((entry) => entry.request);
    expect([...sent].sort((a, b) => a - b)).toEqual(Array.from({ length: 21 }, (_unused, index) => index));
    expect(sent).not.toEqual([...sent].sort((a, b) => a - b));
    expect(countsOf(simulation)).toMatchObject({ submitted: 30, completed: 21, rejected: 9 });
  });
});

describe('timeouts and retries', () => {
  const retry: RetrySpec = { timeoutMs: 20, attempts: 3, backoffMs: 8, backoffFactor: 2, maxBackoffMs: 100, jitter: 'none' };

  it('retry what was rejected, with growing pauses', () => {
    const options: ClientOptions = { ...TICK, table: rowsEvery(1, 0), retry };
    const ends = (_request: number, attempt: number) => (attempt < 3 ? outcome.rejected : outcome.completed);
    const simulation = simulate({ options, frontend: { ...AT_ONCE, ends } });
    simulation.runUntil();
    // Each attempt takes 5.002 ms, then 8 and 16 ms of pause.
    expect(seenBy(simulation).map((entry) => entry.atNs - 1000)).toEqual([0, 13_002_000, 34_004_000]);
    expect(records(simulation)).toMatchObject([{ attempts: 3, waitNs: 0, code: outcome.completed }]);
  });

  it('cancel at the timeout, send again once the frontend has let go, and give up', () => {
    const options: ClientOptions = { ...TICK, table: rowsEvery(1, 0), retry: { ...retry, attempts: 2 } };
    const simulation = simulate({ options, frontend: { ...AT_ONCE, meanServiceNs: 50 * MS } });
    simulation.runUntil();
    const { cancels } = simulation.stateOf('control/frontend0') as { cancels: { atNs: number }[] };
    expect(cancels.map((entry) => entry.atNs)).toEqual([20_001_000, 48_001_000]);
    expect(seenBy(simulation).map(({ atNs, deadlineNs }) => [atNs, deadlineNs])).toEqual([
      [1000, 20 * MS],
      [28_001_000, 48 * MS],
    ]);
    expect(countsOf(simulation)).toMatchObject({ submitted: 1, timedOut: 1 });
    expect(records(simulation)).toMatchObject([{ timeNs: 48 * MS, attempts: 2, code: outcome.timedOut }]);
    expect((simulation.stateOf('clients/client0') as CareClientState).lateAnswers).toBe(1);
  });

  it('end while waiting for a connection, too, and hold the deadline over all attempts', () => {
    const connections = { connections: 1, order: 'fifo', queueLimit: 5 } as const;
    const options: ClientOptions = { ...TICK, table: rowsEvery(2, 0), connections, retry: { ...NO_RETRY, deadlineMs: 4 } };
    const simulation = simulate({ options, frontend: AT_ONCE });
    simulation.runUntil();
    // The first frees its connection at 4 ms, when the second's time is over as well.
    expect(
      records(simulation)
        .map(({ timeNs, waitNs, code }) => [timeNs, waitNs, code])
        .sort(),
    ).toEqual(
      [
        [4 * MS, -1, outcome.timedOut],
        [4 * MS, 0, outcome.timedOut],
      ].sort(),
    );
  });
});

describe('sessions', () => {
  const table = tableOf([0, 1, 2, 3].map((turn) => ({ arrivalNs: turn * 3 * MS, session: 0 })));
  const sessions = { next: 'arrival', meanThinkMs: 0, think: 'constant', afterFailure: 'continue' } as const;

  it('send a turn at its arrival or at the answer before, whichever is later', () => {
    const simulation = simulate({ options: { ...TICK, table, sessions }, frontend: AT_ONCE });
    simulation.runUntil();
    expect(seenBy(simulation).map((entry) => entry.atNs)).toEqual([1000, 5_003_000, 10_005_000, 15_007_000]);
  });

  it('think after each answer', () => {
    const thinking = { ...sessions, next: 'think', meanThinkMs: 10 } as const;
    const simulation = simulate({ options: { ...TICK, table, sessions: thinking }, frontend: AT_ONCE });
    simulation.runUntil();
    expect(seenBy(simulation).map((entry) => entry.atNs)).toEqual([0, 1, 2, 3].map((turn) => 1000 + turn * 15_002_000));
  });

  it('abandon the turns behind a failed one when told to', () => {
    const ends = (request: number) => (request === 1 ? outcome.failed : outcome.completed);
    const options: ClientOptions = { ...TICK, table, sessions: { ...sessions, afterFailure: 'abandon' } };
    const simulation = simulate({ options, frontend: { ...AT_ONCE, ends } });
    simulation.runUntil();
    expect(simulation.stateOf('clients/client0')).toMatchObject({ abandonedTurns: 2, counts: { submitted: 2, completed: 1, failed: 1 } });
  });
});

describe('any client', () => {
  it('accounts for every request, also with all features at once, alike on one and two shards', () => {
    const pick = fc.record({
      style: fc.constantFrom('open', 'workers', 'semaphore'),
      inFlight: fc.integer({ min: 2, max: 5 }),
      taskLimit: fc.nat(6),
      meanThinkMs: fc.constantFrom(0, 2),
      order: fc.constantFrom('fifo', 'lifo', 'random', 'none'),
      connections: fc.integer({ min: 1, max: 4 }),
      queueLimit: fc.nat(8),
      timeoutMs: fc.constantFrom(3, 12, 60),
      attempts: fc.integer({ min: 1, max: 3 }),
      clients: fc.integer({ min: 1, max: 2 }),
      wait: fc.boolean(),
      abandon: fc.boolean(),
      codes: fc.array(fc.nat(4), { minLength: 1, maxLength: 7 }),
      arrivals: fc.array(fc.nat(6), { minLength: 1, maxLength: 60 }),
      // Most often none: turns that come so many ms after the answer before, whatever the sessions.
      delays: fc.oneof(fc.constant([]), fc.array(fc.constantFrom(-1, 0, 4), { minLength: 1, maxLength: 5 })),
    });
    fc.assert(
      fc.property(pick, (it) => {
        let atNs = 0;
        const rows = it.arrivals.map((gap, index) => ({ arrivalNs: (atNs += gap * 500_000), session: index % 4 === 0 ? -1 : index % 3 }));
        const delays = it.style === 'workers' ? [] : it.delays;
        const table = tableOf(rows);
        if (delays.length > 0)
          table.delayNs = Float64Array.from(rows, ({ session }, row) => (session < 0 ? -1 : delays[row % delays.length]! * MS));
        const loop = it.style === 'open' ? { style: it.style } : { ...WORKERS, ...it, style: it.style, think: 'exponential' as const };
        const options: ClientOptions = {
          ...TICK,
          table,
          clients: it.clients,
          loop: loop as never,
          retry: { timeoutMs: it.timeoutMs, attempts: it.attempts, backoffMs: 1, backoffFactor: 2, maxBackoffMs: 4, jitter: 'full' },
          ...(it.order === 'none' ? {} : { connections: { connections: it.connections, order: it.order, queueLimit: it.queueLimit } }),
          ...(it.wait && it.style !== 'workers'
            ? { sessions: { next: 'arrival', meanThinkMs: 0, think: 'constant', afterFailure: it.abandon ? 'abandon' : 'continue' } }
            : {}),
        } as ClientOptions;
        const ends = (request: number, attempt: number) => it.codes[(request + attempt) % it.codes.length]!;
        const setting = { options, frontend: { servers: 3, meanServiceNs: 6 * MS, exponential: true, replyNs: 1000, ends } };
        const simulation = simulate(setting);
        simulation.runUntil();
        let total = 0;
        for (let client = 0; client < it.clients; client++) {
          const state = simulation.stateOf(`clients/client${client}`) as CareClientState;
          total += state.counts.submitted + state.abandonedTurns;
          expect(inFlightRequests(state.counts)).toBe(0);
          expect(state).toMatchObject({ freed: 0, due: [], active: new Map() });
          expect([state.pool?.inUse ?? 0, state.loop?.inFlight ?? 0]).toEqual([0, 0]);
        }
        expect(total).toBe(rows.length);
        const ended = new Map(records(simulation).map((record) => [record.request!, record]));
        const turnBefore = new Map<number, number>();
        for (const [row, { session }] of rows.entries()) {
          const before = ended.get(turnBefore.get(session) ?? -1);
          if (session >= 0) turnBefore.set(session, row);
          if (before !== undefined && ended.has(row) && (table.delayNs[row] ?? -1) >= 0)
            expect(ended.get(row)!.cameNs! - before.timeNs).toBe(table.delayNs[row]);
        }
        const halves = simulate(setting, 2);
        halves.runUntil();
        expect([halves.fingerprint, halves.recordFingerprint]).toEqual([simulation.fingerprint, simulation.recordFingerprint]);
        const half = simulate(setting, 2);
        half.runUntil(10 * MS);
        const restored = new Simulation(half.model, { from: half.checkpoint() });
        restored.runUntil();
        expect([restored.fingerprint, restored.recordFingerprint]).toEqual([simulation.fingerprint, simulation.recordFingerprint]);
      }),
      { numRuns: 150 },
    );
  });
});
