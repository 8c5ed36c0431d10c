import {
  comparePhold,
  measureCodec,
  measureDecisions,
  measureGames,
  measureGrid,
  measureGrowth,
  measureStartup,
  phold,
  pholdPlan,
} from '@braess/bench';
import { modelOf, run, Simulation } from '@braess/kernel';
import { describe, expect, it } from 'vitest';
import { workRoundsPerMicrosecond } from '../src/calibrate.js';
import { judge } from '../src/growth.js';
import { BenchError, median } from '../src/measured.js';
import { requireAgreement } from '../src/phold-comparison.js';
import { runPlainPhold } from '../src/plain-engine.js';

const seed = 'bench 5';

describe('phold', () => {
  const plan = pholdPlan({ actors: 200, remote: 0.25, lookahead: 0.1, events: 6000 }, 3);

  it('has one fingerprint on the plain engine and on the kernel', () => {
    const plain = runPlainPhold(plan.parameters, seed, plan.untilNs, plan.warmNs);
    const simulation = new Simulation(modelOf(phold, plan.parameters), { seed, shards: 3 });
    simulation.runUntil(plan.untilNs);
    expect({ fingerprint: plain.fingerprint, events: plain.events }, `seed '${seed}'`).toEqual({
      fingerprint: simulation.fingerprint,
      events: simulation.eventCount,
    });
    expect(plain.steadyEvents).toBeLessThan(plain.events);
    // The mean delay is kept, so the events come out near what was asked for (their number is nearly Poisson: 5 standard deviations).
    expect(Math.abs(plain.events - 200 - 6000)).toBeLessThan(5 * Math.sqrt(6000));
  });

  it('compares the engines and reports their common fingerprint', async () => {
    const steps: string[] = [];
    const options = { actors: 200, remote: 0.25, lookahead: 0.1, shards: 2, workMicroseconds: 0.1, events: 6000, seed, rounds: 2 };
    const result = await comparePhold({ ...options, progress: (_share, step) => steps.push(step) });
    const { fingerprint, eventCount } = await run(phold, plan.parameters, { seed, untilNs: plan.untilNs, transport: 'memory' });
    expect(result).toMatchObject({ fingerprint, events: eventCount, shards: 2, interrupted: false });
    expect(result.rounds).toHaveLength(2);
    for (const round of result.rounds) for (const rate of Object.values(round)) expect(rate).toBeGreaterThan(0);
    expect(steps).toContain('round 2: plain engine');
  });

  it('returns what there is when it is stopped before it begins', async () => {
    const options = { actors: 20, remote: 0.25, lookahead: 0.1, shards: 2, workMicroseconds: 0, events: 1000, seed };
    const result = await comparePhold({ ...options, signal: AbortSignal.abort(new Error('stop')) });
    expect(result).toMatchObject({ interrupted: true, rounds: [], eventsPerSecond: null, fingerprint: null });
  });

  it('refuses engines that disagree, with the seed and the replay command', () => {
    const first = { fingerprint: 'aa', events: 5 };
    const where = { seed, replay: 'braess bench phold --seed x' };
    requireAgreement(first, { engine: 'one shard', ...first }, where);
    const disagree = (fingerprint: string, events: number) => () =>
      requireAgreement(first, { engine: 'two shards', fingerprint, events }, where);
    expect(disagree('ab', 5)).toThrow(/fingerprint aa over 5 .* ab over 5 on two shards, seed 'bench 5'.*\n {2}replay: braess bench phold/);
    expect(disagree('aa', 6)).toThrow(BenchError);
  });

  it('calibrates its extra work', () => {
    const rounds = workRoundsPerMicrosecond();
    // Three dependent operations a round: between one round in 100 ns and one in 0.1 ns on any machine there is.
    expect(rounds).toBeGreaterThan(10);
    expect(rounds).toBeLessThan(10_000);
  });
});

describe('codec', () => {
  it('brings back what it was given, batch by batch', () => {
    const { rows } = measureCodec({ batches: 18 });
    expect(rows.map((row) => row.load)).toEqual(['numeric', 'body']);
    for (const row of rows) expect(row.nsPerMessage).toBeGreaterThan(0);
    // Four header words and four fields a message, and the msgpack frame around the batch.
    expect(rows[0]?.bytesPerMessage).toBeGreaterThan(64);
    expect(rows[0]?.bytesPerMessage).toBeLessThan(65);
    expect(measureCodec({ batches: 18 }).rows.map((row) => row.hash)).toEqual(rows.map((row) => row.hash));
    expect(measureCodec({ batches: 36 }).rows[0]?.hash).not.toBe(rows[0]?.hash);
  });
});

describe('growth', () => {
  it('runs the events and the timers it says', async () => {
    const { rows } = await measureGrowth({ events: 4000, actors: 40, seed });
    expect(rows.map((row) => row.load)).toEqual(['events', 'timers']);
    const timers = rows[1];
    expect(timers?.count).toBe(4000);
    const again = await measureGrowth({ events: 4000, actors: 40, seed });
    expect(again.rows.map((row) => row.fingerprint)).toEqual(rows.map((row) => row.fingerprint));
  });

  it('tells a leak from a start-up', () => {
    const start = [50, 100, 150, 200];
    expect(judge([...start, ...Array.from({ length: 12 }, () => 200)])).toEqual({ growthMb: 0, constant: true });
    const leak = Array.from({ length: 100 }, (_, i) => 100 + i);
    expect(judge(leak).constant).toBe(false);
    expect(judge(leak).growthMb).toBeCloseTo(50, 0);
  });
});

describe('grid', () => {
  it('has one fingerprint on one shard, two and auto', async () => {
    const place = { actors: [30], lookaheads: [0.5], workMicroseconds: [0] };
    const { rows } = await measureGrid({ events: 3000, seed, ...place });
    expect(rows).toHaveLength(1);
    const { parameters, untilNs } = pholdPlan({ actors: 30, remote: 0.25, lookahead: 0.5, events: 3000 }, 0);
    expect(rows[0]?.fingerprint).toBe(runPlainPhold(parameters, seed, untilNs).fingerprint);
    expect(rows[0]?.twoShardsStopped).toBe(false);
  });

  it('stops two shards at their limit and keeps their rate', async () => {
    const place = { actors: [30], lookaheads: [0.01], workMicroseconds: [0], twoShardsLimitMs: 1500 };
    const { rows } = await measureGrid({ events: 2_000_000, seed, ...place });
    expect(rows[0]?.twoShardsStopped).toBe(true);
    expect(rows[0]?.twoShardsEventsPerSecond).toBeGreaterThan(0);
  });
});

describe('startup', () => {
  it('starts every cell', async () => {
    const { cells, fingerprint } = await measureStartup({ cells: 300, seed });
    expect(cells).toBe(300);
    const { parameters } = pholdPlan({ actors: 300, remote: 0.25, lookahead: 0.1, events: 300 }, 0);
    expect(fingerprint).toBe(runPlainPhold(parameters, seed, 1).fingerprint);
  });
});

describe('median', () => {
  it.each([
    [[3, 1, 2], 2],
    [[4, 1, 3, 2], 2.5],
    [[7], 7],
  ])('of %j is %d', (values, expected) => {
    expect(median(values)).toBe(expected);
  });

  it('of nothing is not a number', () => {
    expect(median([])).toBeNaN();
  });
});

describe('decisions', () => {
  it('measures every policy at every number of candidates', () => {
    const { rows } = measureDecisions({ decisions: 100, candidates: [16, 64], policies: ['load-aware', 'netkv'] });
    expect(rows.map(({ policy, candidates }) => [policy, candidates])).toEqual([
      ['load-aware', 16],
      ['load-aware', 64],
      ['netkv', 16],
      ['netkv', 64],
    ]);
    for (const { usPerDecision } of rows) expect(usPerDecision).toBeGreaterThanOrEqual(0);
    expect(rows.map(({ growth }) => growth === null)).toEqual([true, false, true, false]);
  });
});

describe('games', () => {
  it('times every kind of game and of costs, and checks what it found', () => {
    const result = measureGames({ players: 60, workers: 5, size: 24, rounds: 2, seed });
    expect(result.nash.map(({ start }) => start)).toEqual(Array(4).fill(['one by one', 'all at one']).flat());
    // Equal workers, players one by one: an equilibrium from the start, which one sweep confirms.
    expect(result.nash[0]).toMatchObject({ sweeps: 1, moves: 0 });
    // All at one of five equal workers: four fifths must go.
    expect(result.nash[1]!.moves).toBeGreaterThanOrEqual(48);
    expect(result.assignment.map(({ worstCase }) => worstCase)).toEqual([false, false, false, true]);
    for (const { cpuMs, slowestMs } of [...result.nash, ...result.assignment]) expect(slowestMs).toBeGreaterThanOrEqual(cpuMs);
  });
});
