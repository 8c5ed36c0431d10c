/** Goal: records reach the sink in their order, none lost or doubled. Method: random records of several shards in random batches, against sorting them all. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { record } from '../src/index.js';
import { RecordMerger } from '../src/record-merger.js';
import { compareRecords, RecordBuffer, RecordCursor, type RunRecord } from '../src/records.js';

const types = [record('bare', []), record('pair', ['a', 'b']), record('six', ['a', 'b', 'c', 'd', 'e', 'f'])] as const;

/** One record as it is drawn: how much later than the shard's last, its step, which of the shard's actors, its type, whether it has a body, and whether a batch ends behind it. */
const drawn = fc.tuple(fc.nat(2), fc.nat(1), fc.nat(2), fc.nat(2), fc.boolean(), fc.boolean());
const shardsDrawn = fc.array(fc.array(drawn, { maxLength: 60, size: 'max' }), { minLength: 1, maxLength: 3 });

interface Batches {
  readonly all: RunRecord[];
  /** By shard: batches, each with the time that all records added so far lie before. */
  readonly ofShard: { readonly batch: ReturnType<RecordBuffer['take']>; readonly throughNs: number }[][];
}

function batchesOf(shards: readonly (readonly (readonly [number, number, number, number, boolean, boolean])[])[]): Batches {
  const all: RunRecord[] = [];
  const numbers = new Map<number, number>();
  const ofShard = shards.map((entries, shard) => {
    const buffer = new RecordBuffer();
    const batches: Batches['ofShard'][number] = [];
    let timeNs = 0;
    // A shard emits in the order of time and step, in any order of actors.
    let step = 0;
    const take = (throughNs: number): void => {
      const { typeNames, columns, bodies } = buffer.take();
      batches.push({ batch: { typeNames, columns: columns.slice(), bodies }, throughNs });
    };
    for (const [later, higher, actorOfShard, typeIndex, hasBody, cut] of entries) {
      step = later > 0 ? higher : step + higher;
      timeNs += later;
      const actor = 10 * actorOfShard + shard;
      const number = numbers.get(actor) ?? 0;
      numbers.set(actor, number + 1);
      const type = types[typeIndex as 0 | 1 | 2];
      const values = [actor, number, 3, 4, 5, 6];
      const body = hasBody ? { of: `${actor}-${number}` } : undefined;
      buffer.append(timeNs, step, actor, number, type, hasBody, actor, number, 3, 4, 5, 6);
      if (hasBody) buffer.appendBody(body);
      all.push({ timeNs, step, actor, number, type: type.name, fields: values.slice(0, type.fields.length), body });
      if (cut) take(timeNs);
    }
    take(Number.POSITIVE_INFINITY);
    return batches;
  });
  return { all: all.sort(compareRecords), ofShard };
}

/** Hands all batches over, the shards in turn, as they would report. */
async function feed(merger: RecordMerger, { ofShard }: Batches, upTo = Number.POSITIVE_INFINITY): Promise<void> {
  merger.begin(ofShard.length);
  for (let turn = 0; ofShard.some((batches) => turn < batches.length) && turn < upTo; turn++) {
    for (const [shard, batches] of ofShard.entries()) {
      const next = batches[turn];
      if (next === undefined) continue;
      merger.add(shard, next.batch);
      await merger.pass(shard, next.throughNs);
    }
  }
}

describe('record merger', () => {
  it('hands on what sorting all records gives, as objects and as columns, also when a stretch ends with records that wait', async () => {
    await fc.assert(
      fc.asyncProperty(shardsDrawn, fc.boolean(), async (shards, cut) => {
        const batches = batchesOf(shards);
        const written: RunRecord[] = [];
        const read: RunRecord[] = [];
        const ways = [
          new RecordMerger({ write: (records) => void written.push(...records) }),
          new RecordMerger({
            writeColumns: async (batch) => {
              await Promise.resolve(); // The columns hold while the sink takes its time.
              for (const cursor = new RecordCursor(batch); cursor.next(); ) read.push(cursor.record());
            },
          }),
        ];
        for (const merger of ways) {
          await feed(merger, batches);
          if (cut) merger.begin(2);
          await merger.close();
          expect(merger.count).toBe(batches.all.length);
        }
        expect(written).toEqual(batches.all);
        expect(read).toEqual(batches.all);
      }),
      { numRuns: 150 },
    );
  });

  it('sorts an instant at which very many actors emit, the last one first', async () => {
    const actors = 200_000; // Placed one by one they would take minutes.
    const buffer = new RecordBuffer();
    for (let actor = actors - 1; actor >= 0; actor--) buffer.append(7, 0, actor, 0, types[1], false, actor, 1, 0, 0, 0, 0);
    let next = 0;
    const merger = new RecordMerger({
      writeColumns(batch) {
        for (const cursor = new RecordCursor(batch); cursor.next(); next++)
          if (cursor.actor !== next || cursor.columns[cursor.fieldsAt] !== next) throw new Error(`actor ${cursor.actor} at place ${next}`);
      },
    });
    merger.begin(1);
    merger.add(0, buffer.take());
    await merger.pass(0, 8);
    expect(next).toBe(actors);
    await merger.close();
  });

  it('leaves out what was written before a restart', async () => {
    await fc.assert(
      fc.asyncProperty(shardsDrawn, fc.nat(8), async (shards, turns) => {
        const batches = batchesOf(shards);
        const written: RunRecord[] = [];
        const merger = new RecordMerger({ write: (records) => void written.push(...records) });
        await feed(merger, batches, turns);
        merger.rewind();
        await feed(merger, batches);
        await merger.close();
        expect(written).toEqual(batches.all);
        expect(merger.count).toBe(batches.all.length);
      }),
      { numRuns: 100 },
    );
  });
});
