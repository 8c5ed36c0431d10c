import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import { actorKind, defineProgram, message, modelOf } from '../src/index.js';
import { ShardChooser } from '../src/shard-choice.js';

const tick = message('tick');
const idle = actorKind({ name: 'idle', messages: { tick }, state: () => ({}), on: { tick() {} } });
const program = defineProgram(undefined, 'chooser', (world) => {
  for (let cell = 0; cell < 100; cell++) world.actor(`idle${cell}`, idle, undefined);
  world.lookahead('default', 'default', 1000);
});

/** Readings of a stretch that runs `rate` events a second, `perNs` of them in a nanosecond of simulated time, taken every 20 ms until told to stop. */
function watchStretch(chooser: ShardChooser, rate: number, perNs: number, { forMs = 5000, busyShards = 1 } = {}): number {
  const reading = (elapsedMs: number) => {
    const events = (rate * elapsedMs) / 1000;
    return { waitedMs: Math.max(0, chooser.shards - busyShards) * elapsedMs, events, elapsedMs, spanNs: events / perNs };
  };
  for (let elapsedMs = 20; elapsedMs <= forMs; elapsedMs += 20) {
    if (chooser.look(reading(elapsedMs))) return elapsedMs;
  }
  if (chooser.choice === undefined) chooser.endStretch(reading(forMs));
  return Number.POSITIVE_INFINITY;
}

/** Events in a nanosecond when a window of two shards, 1000 ns of lookahead, holds `perShard` each. */
const windowOf = (perShard: number): number => (2 * perShard) / 1000;

/** The reason on one shard for windows of `perWindow` events a shard; undefined when a trial is due. */
function reasonFor(perWindow: number, eventMicroseconds: number): string | undefined {
  const chooser = new ShardChooser(modelOf(program, undefined));
  const stoppedAtMs = watchStretch(chooser, 1e6 / eventMicroseconds, windowOf(perWindow));
  expect(stoppedAtMs).toBe(chooser.choice === undefined ? 600 : Number.POSITIVE_INFINITY);
  return chooser.choice?.reason;
}

describe('the choice of shards by auto', () => {
  it.skipIf(availableParallelism() !== 2)(
    'stays on one shard where two cannot win: 2 m c / ((m + sqrt(m / pi)) c + 2 us) under 1.05',
    () => {
      for (const [perWindow, eventMicroseconds] of [
        [3, 0.2],
        [10, 0.15],
        [1, 1],
        [5, 1.2],
        [12, 1],
        [50, 0.15],
      ] as const) {
        const busy = (perWindow + Math.sqrt(perWindow / Math.PI)) * eventMicroseconds;
        const gain = (2 * perWindow * eventMicroseconds) / (busy + 2);
        const reason = reasonFor(perWindow, eventMicroseconds);
        if (gain < 1.05) expect(reason).toMatch(`2 shards would run at ${gain.toFixed(2)} of one`);
        else expect(reason).toBeUndefined();
      }
    },
  );

  it.skipIf(availableParallelism() !== 2)(
    'breaks a run only to change the count: once for a trial that wins, twice for one that loses',
    () => {
      for (const [trialRate, chosen, breaks] of [
        [1.5e6, 'many', 1],
        [0.9e6, 'one', 2],
      ] as const) {
        const chooser = new ShardChooser(modelOf(program, undefined));
        expect(watchStretch(chooser, 1e6, windowOf(20))).toBe(600);
        expect(chooser.shards).toBe(chooser.maximumShards);
        expect(watchStretch(chooser, trialRate, windowOf(20))).toBe(breaks === 1 ? Number.POSITIVE_INFINITY : 1200);
        expect(chooser.choice).toEqual({
          shards: chosen === 'one' ? 1 : chooser.maximumShards,
          reason: expect.stringContaining((trialRate / 1e6).toFixed(2)),
        });
      }
    },
  );

  it.skipIf(availableParallelism() !== 2)('adds up stretches that end before a phase does, as between checkpoints', () => {
    const chooser = new ShardChooser(modelOf(program, undefined));
    for (let stretch = 0; stretch < 5; stretch++)
      expect(watchStretch(chooser, 1e6, windowOf(20), { forMs: 100 })).toBe(Number.POSITIVE_INFINITY);
    expect(chooser.choice).toBeUndefined();
    expect(watchStretch(chooser, 1e6, windowOf(20))).toBe(100);
    expect(chooser.shards).toBe(chooser.maximumShards);
  });

  it.skipIf(availableParallelism() !== 2)(
    'tries two at a glance where windows are full, and judges by how many are at work at a time',
    () => {
      for (const [busyShards, shards] of [
        [1.9, 2],
        [1.1, 1],
      ] as const) {
        const chooser = new ShardChooser(modelOf(program, undefined));
        expect(watchStretch(chooser, 1e6, windowOf(1000))).toBe(200);
        expect(watchStretch(chooser, 1e6, windowOf(1000), { busyShards })).toBe(shards === 2 ? Number.POSITIVE_INFINITY : 1200);
        expect(chooser.choice).toEqual({ shards, reason: `${busyShards.toFixed(2)} of 2 shards were at work at a time in a trial` });
      }
    },
  );

  it.skipIf(availableParallelism() < 2)('also adds up stretches that are over before anybody looked at them', () => {
    const chooser = new ShardChooser(modelOf(program, undefined));
    const stretch = { events: 5000, elapsedMs: 5, waitedMs: 0, spanNs: 5000 / windowOf(20) };
    let stretches = 0;
    for (; chooser.shards === 1 && stretches < 1000; stretches++) chooser.endStretch(stretch);
    expect(stretches).toBe(600 / 5);
    for (stretches = 0; chooser.choice === undefined && stretches < 1000; stretches++) chooser.endStretch({ ...stretch, elapsedMs: 4 });
    expect(stretches).toBe(1200 / 4);
    expect(chooser.choice?.reason).toBe('1.25 times one shard in a trial');
  });

  it.skipIf(availableParallelism() < 2)('judges a trial in which one of the shards has nothing to do', () => {
    const chooser = new ShardChooser(modelOf(program, undefined));
    expect(watchStretch(chooser, 1e6, windowOf(20))).toBe(600);
    // No event of that shard: how far it came stays at 0.
    for (let elapsedMs = 20; elapsedMs <= 1200; elapsedMs += 20)
      chooser.look({ events: 900 * elapsedMs, elapsedMs, waitedMs: elapsedMs, spanNs: 0 });
    expect(chooser.choice).toMatchObject({ shards: 1, reason: expect.stringContaining('ran at 0.90 of one') });
  });

  it.skipIf(availableParallelism() < 2)('leaves a run alone that waits for its pace on one shard already', () => {
    const chooser = new ShardChooser(modelOf(program, undefined));
    for (let elapsedMs = 20; elapsedMs <= 600; elapsedMs += 20) {
      const events = 100 * elapsedMs;
      expect(chooser.look({ events, elapsedMs, waitedMs: 0.9 * elapsedMs, spanNs: events / windowOf(20) })).toBe(false);
    }
    expect(chooser.choice).toEqual({ shards: 1, reason: 'one shard keeps up: it had nothing to do for 90 % of the time' });
  });

  // A large start (all actors at time 0, in one instant) can use up the whole first phase: then no simulated time passes in its measured third.
  it.skipIf(availableParallelism() !== 2)('waits while one instant fills all of the phase', () => {
    const chooser = new ShardChooser(modelOf(program, undefined));
    expect(chooser.look({ waitedMs: 0, events: 1000, elapsedMs: 500, spanNs: 0 })).toBe(false);
    expect(chooser.look({ waitedMs: 0, events: 2000, elapsedMs: 700, spanNs: 0 })).toBe(false);
    expect(chooser.choice).toBeUndefined();
    expect(chooser.look({ waitedMs: 0, events: 3000, elapsedMs: 800, spanNs: 10 })).toBe(true);
  });
});
