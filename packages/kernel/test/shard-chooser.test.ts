import { availableParallelism } from 'node:os';
import { describe, expect, it } from 'vitest';
import { actorKind, defineProgram, message, modelOf } from '../src/index.js';
import type { SegmentResult } from '../src/segment.js';
import { ShardChooser } from '../src/shard-choice.js';

const tick = message('tick');
const idle = actorKind({ name: 'idle', messages: { tick }, state: () => ({}), on: { tick() {} } });
const program = defineProgram(undefined, 'chooser', (world) => {
  for (let cell = 0; cell < 100; cell++) world.actor(`idle${cell}`, idle, undefined);
  world.lookahead('default', 'default', 1000);
});

function stretch(eventRate: number, stoppedNs: number, stretchEvents = 1_000_000): SegmentResult {
  return { eventRate, stoppedNs, stretchEvents } as SegmentResult;
}

/** The reason on one shard for windows of `perWindow` events a shard; undefined when a trial is due. Only two shards are asked for by hand. */
function reasonFor(perWindow: number, eventMicroseconds: number): string | undefined {
  const chooser = new ShardChooser(modelOf(program, undefined));
  // The lookahead is 1000 ns: over 1 ms of simulated time there are 1000 windows.
  chooser.note(stretch(1e6 / eventMicroseconds, 1e6, perWindow * chooser.maximumShards * 1000), 0);
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

  // A large start (all actors at time 0, in one instant) can use up the whole first stretch: then no event falls into its measured half.
  it.each([0, Number.NaN])('is not made on a stretch that measured nothing (rate %d)', (nothing) => {
    const chooser = new ShardChooser(modelOf(program, undefined));
    chooser.note(stretch(nothing, 1), 0);
    chooser.note(stretch(1e6, 2), 1);
    chooser.note(stretch(nothing, 3), 2);
    chooser.note(stretch(2e6, 4), 3);
    // Either there was nothing to choose, or the two measured stretches decide.
    expect(chooser.choice?.reason).toMatch(/^(only one core|2\.00 times one shard in a trial)$/);
  });
});
