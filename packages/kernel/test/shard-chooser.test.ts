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

function stretch(eventRate: number, stoppedNs: number): SegmentResult {
  return { eventRate, stoppedNs, stretchEvents: 1_000_000 } as SegmentResult;
}

describe('the choice of shards by auto', () => {
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
