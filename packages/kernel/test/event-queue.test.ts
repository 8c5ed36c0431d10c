import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventQueue } from '../src/event-queue.js';
import { EventSlab, slotLayout } from '../src/event-slab.js';
import { TimerTable } from '../src/timer-table.js';

const { cancelledTarget, senderOffset, slotWords, stepOffset, targetOffset } = slotLayout;

interface Key {
  readonly timeNs: number;
  readonly step: number;
  readonly sender: number;
  readonly sequence: number;
}

/** The second implementation: a plain array, sorted anew for every look. */
class SortedArray {
  #keys: Key[] = [];
  push(key: Key): void {
    this.#keys.push(key);
    this.#keys.sort((a, b) => a.timeNs - b.timeNs || a.step - b.step || a.sender - b.sender || a.sequence - b.sequence);
  }
  popBefore(boundNs: number): Key | undefined {
    return this.#keys[0] !== undefined && this.#keys[0].timeNs < boundNs ? this.#keys.shift() : undefined;
  }
  peekTimeNs(): number {
    return this.#keys[0]?.timeNs ?? Number.POSITIVE_INFINITY;
  }
  cancel(sequence: number): void {
    this.#keys = this.#keys.filter((key) => key.sequence !== sequence);
  }
  get count(): number {
    return this.#keys.length;
  }
}

/** The queue under test, fed with keys. */
class Keyed {
  readonly slab = new EventSlab(2 ** 28, 16);
  readonly queue = new EventQueue(this.slab);
  readonly #slotOfSequence = new Map<number, number>();
  push(key: Key): void {
    const slot = this.slab.allocate();
    this.slab.words[slot * slotWords] = key.timeNs;
    this.slab.words[slot * slotWords + 1] = key.sequence;
    this.slab.integers[slot * 2 * slotWords + stepOffset] = key.step;
    this.slab.integers[slot * 2 * slotWords + senderOffset] = key.sender;
    this.slab.integers[slot * 2 * slotWords + targetOffset] = 0;
    this.#slotOfSequence.set(key.sequence, slot);
    this.queue.push(slot);
  }
  popBefore(boundNs: number): Key | undefined {
    const slot = this.queue.popBefore(boundNs);
    if (slot < 0) return undefined;
    const { words, integers } = this.slab;
    const key = {
      timeNs: words[slot * slotWords] as number,
      step: integers[slot * 2 * slotWords + stepOffset] as number,
      sender: integers[slot * 2 * slotWords + senderOffset] as number,
      sequence: words[slot * slotWords + 1] as number,
    };
    this.slab.free(slot);
    return key;
  }
  cancel(sequence: number): void {
    this.slab.integers[(this.#slotOfSequence.get(sequence) as number) * 2 * slotWords + targetOffset] = cancelledTarget;
  }
}

function drainBoth(queue: Keyed, array: SortedArray): void {
  while (array.count > 0) expect(queue.popBefore(Number.POSITIVE_INFINITY)).toEqual(array.popBefore(Number.POSITIVE_INFINITY));
  expect(queue.popBefore(Number.POSITIVE_INFINITY)).toBeUndefined();
  expect(queue.slab.liveCount).toBe(0);
}

type Step =
  | { readonly do: 'push'; readonly timeNs: number; readonly step: number; readonly sender: number }
  | { readonly do: 'pop'; readonly aheadNs: number }
  | { readonly do: 'peek' }
  | { readonly do: 'cancel'; readonly which: number }
  | { readonly do: 'sweep' };

const timeNs = fc.oneof(
  fc.constantFrom(0, 1, 5, 5, 5, 2 ** 32 - 1, 2 ** 32, 2 ** 32 + 3, 2 ** 33, 2 ** 53 - 1),
  fc.nat(100),
  fc.nat(1_000_000),
  fc.maxSafeNat(),
  fc.nat(52).map((bits) => 2 ** bits),
);

const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 6,
      arbitrary: fc.record({ do: fc.constant('push' as const), timeNs, step: fc.nat(2), sender: fc.integer({ min: -1, max: 3 }) }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant('pop' as const), aheadNs: fc.constantFrom(0, 1, 100, Number.POSITIVE_INFINITY) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('peek' as const) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('cancel' as const), which: fc.nat(1000) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('sweep' as const) }) },
  ),
  { maxLength: 300 },
);

describe('the event queue', () => {
  it('equals a sorted array under random pushes (also into the past of what was peeked), bounded pops, cancels and sweeps', () => {
    fc.assert(
      fc.property(steps, (plan) => {
        const queue = new Keyed();
        const array = new SortedArray();
        const pending = new Set<number>();
        let sequence = 0;
        for (const step of plan) {
          if (step.do === 'push') {
            const key = { timeNs: step.timeNs, step: step.step, sender: step.sender, sequence: sequence++ };
            queue.push(key);
            array.push(key);
            pending.add(key.sequence);
          } else if (step.do === 'pop') {
            const bound = array.peekTimeNs() + step.aheadNs;
            const expected = array.popBefore(bound);
            expect(queue.popBefore(bound)).toEqual(expected);
            if (expected !== undefined) pending.delete(expected.sequence);
          } else if (step.do === 'peek') expect(queue.queue.peekTimeNs()).toBe(array.peekTimeNs());
          else if (step.do === 'cancel') {
            const [chosen] = [...pending].slice(step.which % Math.max(1, pending.size));
            if (chosen === undefined) continue;
            queue.cancel(chosen);
            array.cancel(chosen);
            pending.delete(chosen);
          } else queue.queue.retain((slot) => queue.slab.integers[slot * 2 * slotWords + targetOffset] !== cancelledTarget);
        }
        drainBoth(queue, array);
      }),
      { seed: 1, numRuns: 1500 },
    );
  });

  it.each([
    ['all keys equal', (index: number) => ({ timeNs: 7, step: 0, sender: 0, sequence: index })],
    ['all times equal, senders in reverse', (index: number) => ({ timeNs: 7, step: index % 3, sender: 5000 - index, sequence: index })],
    ['one far outlier', (index: number) => ({ timeNs: index === 17 ? 2 ** 53 - 1 : index % 50, step: 0, sender: index, sequence: index })],
    ['half far outliers', (index: number) => ({ timeNs: index % 2 === 0 ? 2 ** 52 + index : index, step: 0, sender: 0, sequence: index })],
    ['gaps doubling up to 2^53', (index: number) => ({ timeNs: 2 ** (index % 53), step: 0, sender: index, sequence: index })],
    ['descending', (index: number) => ({ timeNs: 10_000_000 - index * 100, step: 0, sender: 0, sequence: index })],
    ['two clusters', (index: number) => ({ timeNs: (index % 2) * 2 ** 40 + (index % 7), step: 0, sender: index, sequence: index })],
  ])('sorts 5,000 events: %s', (_what, keyOf) => {
    const queue = new Keyed();
    const keys = Array.from({ length: 5000 }, (_, index) => keyOf(index));
    for (const key of keys) queue.push(key);
    keys.sort((a, b) => a.timeNs - b.timeNs || a.step - b.step || a.sender - b.sender || a.sequence - b.sequence);
    for (const key of keys) expect(queue.popBefore(Number.POSITIVE_INFINITY)).toEqual(key);
    expect(queue.popBefore(Number.POSITIVE_INFINITY)).toBeUndefined();
  });

  it.each([2 ** 32, 2 ** 32 + 1, 2 ** 33, 2 ** 40, 2 ** 52])('takes events %i ns before one that was already looked at', (distanceNs) => {
    // A shard looks at its first event, then receives earlier ones from another shard.
    const queue = new Keyed();
    const array = new SortedArray();
    const far = { timeNs: distanceNs + 100, step: 0, sender: 0, sequence: 0 };
    queue.push(far);
    array.push(far);
    expect(queue.queue.peekTimeNs()).toBe(distanceNs + 100);
    for (let index = 1; index < 64; index++) {
      const key = { timeNs: 100 + index, step: 0, sender: 0, sequence: index };
      queue.push(key);
      array.push(key);
    }
    drainBoth(queue, array);
  });

  it('stays correct when nearly everything is cancelled', () => {
    const queue = new Keyed();
    const array = new SortedArray();
    for (let index = 0; index < 3000; index++) {
      const key = { timeNs: (index * 7919) % 1000, step: 0, sender: index % 5, sequence: index };
      queue.push(key);
      if (index % 100 === 0) array.push(key);
    }
    for (let index = 0; index < 3000; index++) if (index % 100 !== 0) queue.cancel(index);
    expect(queue.queue.peekTimeNs()).toBe(array.peekTimeNs());
    drainBoth(queue, array);
  });

  it('holds events up to its limit and no further', () => {
    const slab = new EventSlab(84 * 2000, 16);
    for (let index = 0; index < 2000; index++) slab.allocate();
    expect(() => slab.allocate()).toThrow(/fill their 2000 slots; raise limits.pendingBytes/);
  });
});

describe('the timer table', () => {
  it('equals a Map under random adds and removes', () => {
    const operation = fc.record({ owner: fc.nat(3), sequence: fc.nat(60), add: fc.boolean() });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 400 }), (operations) => {
        const slab = new EventSlab(2 ** 20, 16);
        const table = new TimerTable(slab);
        const map = new Map<string, number>();
        for (const { owner, sequence, add } of operations) {
          const key = `${owner}/${sequence}`;
          if (!add) {
            expect(table.remove(owner, sequence)).toBe(map.get(key) ?? -1);
            map.delete(key);
          } else if (!map.has(key)) {
            const slot = slab.allocate();
            slab.words[slot * slotWords + 1] = sequence;
            slab.integers[slot * 2 * slotWords + senderOffset] = owner;
            table.add(slot);
            map.set(key, slot);
          }
        }
        for (const [key, slot] of map) {
          const [owner, sequence] = key.split('/').map(Number);
          expect(table.remove(owner as number, sequence as number)).toBe(slot);
        }
      }),
      { seed: 2, numRuns: 500 },
    );
  });
});
