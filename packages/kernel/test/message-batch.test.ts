import { MessageBatch, slotLayout, unpackMessages } from '@braess/kernel/internals';
import fc from 'fast-check';
import { unpack } from 'msgpackr';
import { describe, expect, it } from 'vitest';

const { bodyFlag } = slotLayout;

interface Message {
  readonly timeNs: number;
  readonly sequence: number;
  readonly sender: number;
  readonly target: number;
  readonly kind: number;
  readonly fields: readonly number[];
  readonly body: unknown;
}

const messages: fc.Arbitrary<Message[]> = fc.array(
  fc.record({
    timeNs: fc.maxSafeNat(),
    sequence: fc.maxSafeNat(),
    sender: fc.nat(1e6),
    target: fc.nat(1e6),
    kind: fc.nat(200),
    fields: fc.array(fc.double({ noNaN: true }), { maxLength: 6 }),
    body: fc.option(fc.record({ tokens: fc.integer(), tier: fc.string() }), { nil: undefined }),
  }),
  { minLength: 1, maxLength: 60 },
);

function fill(batch: MessageBatch, sent: readonly Message[]): void {
  for (const { timeNs, sequence, sender, target, kind, fields, body } of sent) {
    batch.append(timeNs, sequence, sender, target, kind | (body === undefined ? 0 : bodyFlag), fields.length);
    const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = fields;
    batch.storeFields(fields.length, a, b, c, d, e, f);
    if (body !== undefined) batch.appendBody(body, 16, target);
  }
}

function received(packed: Uint8Array): Message[] {
  const all: Message[] = [];
  unpackMessages(packed, (timeNs, sequence, sender, target, kindWord, words, at, count, body) => {
    all.push({ timeNs, sequence, sender, target, kind: kindWord & ~bodyFlag, fields: [...words.subarray(at, at + count)], body });
  });
  return all;
}

describe('a batch of messages', () => {
  it('is the msgpack array [binary columns, bodies], whatever the front before it and however large', () => {
    // One batch for all, so that what an earlier batch has left behind would show.
    const batches = [new MessageBatch(2 ** 24), new MessageBatch(2 ** 24, undefined, 134)];
    fc.assert(
      fc.property(messages, fc.integer({ min: 1, max: 30 }), (some, times) => {
        const sent = Array.from({ length: times }, () => some).flat();
        for (const batch of batches) {
          fill(batch, sent);
          const packed = batch.pack().slice();
          const [columns, bodies] = unpack(packed) as [Uint8Array, unknown[]];
          expect(columns.byteLength).toBe(8 * sent.reduce((sum, { fields }) => sum + 4 + fields.length, 0));
          expect(bodies).toEqual(sent.flatMap(({ body }) => (body === undefined ? [] : [body])));
          expect(received(packed)).toEqual(sent);
        }
      }),
      { seed: 11, numRuns: 150 },
    );
  });

  it('is refused when it does not begin with its columns', () => {
    const batch = new MessageBatch(2 ** 20);
    fill(batch, [{ timeNs: 1, sequence: 2, sender: 3, target: 4, kind: 5, fields: [6], body: undefined }]);
    const packed = batch.pack().slice();
    const otherType = packed.slice();
    otherType[0] = 0x93;
    const tooLong = packed.slice();
    tooLong[3] = 0x7f;
    for (const bytes of [otherType, tooLong, packed.slice(0, 20)]) expect(() => received(bytes)).toThrow(/does not begin with its columns/);
  });
});
