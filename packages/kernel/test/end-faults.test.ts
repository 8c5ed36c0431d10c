import { KernelError, type RunOptions, run } from '@braess/kernel';
import { echoProgram } from '@braess/kernel/testing';
import { describe, expect, it } from 'vitest';

/** x ticks 20 times, every 2 us, and y hears of each 1 us later: nothing is left after 41 us. */
const ticks = { ticking: 'x', tickNs: 2000, lastTick: 20 };
const runs: [string, RunOptions][] = [
  ['in memory', { transport: 'memory' }],
  ['in memory on 2 shards', { transport: 'memory', shards: 2 }],
  ['on a thread', {}],
  ['on 2 threads', { shards: 2 }],
  ['on 2 threads with checkpoints on the way', { shards: 2, checkpointEveryNs: 7000 }],
];

describe('what actors find wrong with their states', () => {
  it.each(runs)('is told of a run that ended by itself: %s', async (_name, options) => {
    expect((await run(echoProgram, ticks, options)).endFaults).toEqual(['y: has seen 20']);
    expect((await run(echoProgram, ticks, { ...options, untilNs: 50_000 })).endFaults).toEqual(['y: has seen 20']);
  });

  it.each(runs)('is not told of one that was cut, also where only one of the shards has something left: %s', async (_name, options) => {
    expect((await run(echoProgram, ticks, { ...options, untilNs: 40_500 })).endFaults).toEqual([]);
    expect((await run(echoProgram, ticks, { ...options, untilNs: 9_000 })).endFaults).toEqual([]);
  });

  it('is waited for no longer than for a handler', async () => {
    const going = run(echoProgram, { ...ticks, atEnd: 'stall' }, { shards: 2, limits: { handlerLimitMs: 300 } });
    await expect(going).rejects.toMatchObject({
      code: 'handler-stalled',
      site: { message: 'atEnd', actor: expect.stringMatching(/^[xy]$/) },
    });
  });

  it.each(runs.slice(0, 4))('is an error that names the actor where it cannot be told: %s', async (_name, options) => {
    for (const [atEnd, code, reason] of [
      ['throw', 'handler-failed', /RangeError: no end/],
      ['text', 'bad-value', /atEnd returned a string; it must return a list of sentences/],
      ['promise', 'forbidden', /atEnd returned a promise/],
    ] as const) {
      const error = await run(echoProgram, { ...ticks, atEnd }, options).then(
        () => undefined,
        (thrown: unknown) => thrown,
      );
      expect(error).toBeInstanceOf(KernelError);
      expect(error).toMatchObject({ code, reason: expect.stringMatching(reason), site: { message: 'atEnd', seed: '1' } });
      expect(['x', 'y']).toContain((error as KernelError).site.actor);
    }
  });
});
