import { EventSlab, slotLayout } from '@braess/kernel/internals';
import { describe, expect, it } from 'vitest';
import type { compareQueues } from '../src/queues/compare-queues.js';
import { createQueue, loadNames, loads, queueNames, runHold } from '../src/queues/hold-model.js';

const { senderOffset, slotWords, stepOffset } = slotLayout;

describe('event queues on the hold model', () => {
  it('pop in one order on every load and size', async () => {
    // The threads load the built files, as the command does.
    const built = (await import('@braess/bench')) as { compareQueues: typeof compareQueues };
    const { rows, interrupted } = await built.compareQueues({ seed: '3', operations: 2000, pending: [5, 300], rounds: 1 });
    expect(interrupted).toBe(false);
    expect(rows.map(({ load, pending }) => `${load} ${pending}`)).toEqual(loadNames.flatMap((load) => [`${load} 5`, `${load} 300`]));
    for (const row of rows) expect(row.hash).toMatch(/^[0-9a-f]{8}$/);
  });

  it.each(loadNames)('give other hashes for other keys: %s', (load) => {
    const hashOf = (pending: number): string => runHold({ queue: 'kernel', load, pending, operations: 400, seed: '1' }).hash;
    expect(hashOf(30)).not.toBe(hashOf(31));
  });

  it.each(queueNames.flatMap((queue) => loadNames.map((load) => [queue, load] as const)))(
    '%s pops %s in the order of a plain sort',
    (name, load) => {
      const seed = 20_240_607;
      const slab = new EventSlab(2 ** 24);
      const queue = createQueue(name, slab);
      const random = mulberry(seed);
      let pending: { key: [number, number, number, number]; slot: number }[] = [];
      let sequence = 0;
      const push = (timeNs: number, step: number): void => {
        const slot = slab.allocate();
        const sender = Math.floor(random() * 4);
        slab.words[slot * slotWords] = timeNs;
        slab.words[slot * slotWords + 1] = sequence;
        slab.integers[slot * 2 * slotWords + stepOffset] = step;
        slab.integers[slot * 2 * slotWords + senderOffset] = sender;
        pending.push({ key: [timeNs, step, sender, sequence++], slot });
        queue.push(slot);
      };
      for (let i = 0; i < 200; i++) push(loads[load](random), 0);
      // Grows, holds, shrinks: the calendar rebuilds on the way.
      for (let round = 0; round < 3000; round++) {
        pending = pending.sort((a, b) => compareKeys(a.key, b.key));
        const expected = pending.shift();
        const slot = queue.popBefore(Number.POSITIVE_INFINITY);
        expect(slot, `seed ${seed}, round ${round}`).toBe(expected?.slot ?? -1);
        if (expected === undefined) break;
        slab.free(slot);
        const births = round < 300 ? 2 : round < 2000 ? 1 : 0;
        for (let birth = 0; birth < births; birth++) {
          const distanceNs = loads[load](random);
          push(expected.key[0] + distanceNs, distanceNs === 0 ? expected.key[1] + 1 : 0);
        }
      }
      expect(pending).toHaveLength(0);
      expect(queue.popBefore(Number.POSITIVE_INFINITY)).toBe(-1);
    },
  );

  it.each(queueNames)('%s keeps events at or after the bound', (name) => {
    const slab = new EventSlab(2 ** 20);
    const queue = createQueue(name, slab);
    const slot = slab.allocate();
    slab.words[slot * slotWords] = 100;
    queue.push(slot);
    expect(queue.popBefore(100)).toBe(-1);
    expect(queue.popBefore(101)).toBe(slot);
  });
});

function compareKeys(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return (a[i] as number) - (b[i] as number);
  return 0;
}

function mulberry(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}
