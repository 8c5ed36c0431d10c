import { engineRole } from '@braess/protocol';
import { advance, countingBlocks, engineEvent, releaseHeld, submit } from '@braess/serving';
import { describe, expect, it } from 'vitest';
import { engineOf, plainTiming, Recorder, rulesOf } from './support.ts';

const ms = 1_000_000;
/** Each pass takes 10 ms, whatever is in it. */
const flat = plainTiming({
  hostPassNs: 0,
  launchPassNs: 10 * ms,
  hostSequenceNs: 0,
  prefillPassNs: 0,
  tokenNs: 0,
  weightNs: 0,
  contextNs: 0,
  pairNs: 0,
  prefillContextNs: 0,
});

function prefillEnds(holdsSlots: boolean, pulledNs: number): number[] {
  const engine = engineOf(engineRole.prefill, rulesOf({ maxSequences: 2, holdsSlots }), flat);
  const recorder = new Recorder();
  const slots = [0, 1, 2].map((id) => submit(engine, countingBlocks, { id, promptTokens: 20, outputTokens: 5, transferred: false }, 0));
  advance(engine, countingBlocks, pulledNs, recorder.events);
  for (const slot of slots.slice(0, 2)) releaseHeld(engine, countingBlocks, slot, pulledNs);
  advance(engine, countingBlocks, 1000 * ms, recorder.events);
  return recorder.take().flatMap(({ kind, timeNs }) => (kind === engineEvent.prefillDone ? [timeNs / ms] : []));
}

describe('prefill admission', () => {
  it('two at a time: the third follows in the next pass, or once a slot is pulled empty where slots are held', () => {
    expect(prefillEnds(false, 73 * ms)).toEqual([10, 10, 20]);
    expect(prefillEnds(true, 73 * ms)).toEqual([10, 10, 83]);
  });
});

describe('stalls at new batch sizes', () => {
  it('the first pass at each size takes longer, later ones do not', () => {
    const engine = engineOf(engineRole.aggregated, rulesOf({ newBatchStallNs: 7 * ms }), flat);
    const recorder = new Recorder();
    submit(engine, countingBlocks, { id: 0, promptTokens: 20, outputTokens: 3, transferred: false }, 0);
    advance(engine, countingBlocks, 500 * ms, recorder.events);
    submit(engine, countingBlocks, { id: 1, promptTokens: 20, outputTokens: 4, transferred: false }, 500 * ms);
    submit(engine, countingBlocks, { id: 2, promptTokens: 20, outputTokens: 2, transferred: false }, 500 * ms);
    advance(engine, countingBlocks, 2000 * ms, recorder.events);
    // Alone: 17 for the first pass of one, then 10 each. Two together: 17 for the first pass of two, then 10.
    const ends = recorder.take().flatMap(({ kind, request, timeNs }) => (kind === engineEvent.finished ? [[request, timeNs / ms]] : []));
    expect(ends).toEqual([
      [0, 37],
      [2, 527],
      [1, 547],
    ]);
  });
});
