import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type InputEntry, type RunRecord, run, startRun } from '@braess/kernel';
import { type FaultParameters, faultProgram, oneFingerprint, randomProgram } from '@braess/kernel/testing';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { randomSpec } from './random-specs.js';

const ring: FaultParameters = { actors: 6, fault: 'none', failing: 3, atCount: 20, hops: 60, delayNs: 1000 };

function keyOf(entry: RunRecord): string {
  return `${entry.timeNs}/${entry.step}/${entry.actor}/${entry.number}/${entry.type}/${entry.fields.join(',')}`;
}

describe('external input', () => {
  const token = (timeNs: number, actor: number, hops: number): InputEntry => ({
    timeNs,
    actor: `ring00000${actor}`,
    message: 'token',
    fields: [hops],
    body: null,
  });

  it('from a log gives one fingerprint on every shard count and transport, also restored', async () => {
    const inputs = [token(0, 2, 5), token(1000, 0, 3), token(1000, 0, 4), token(40_000, 5, 9)];
    const withInputs = await oneFingerprint(faultProgram, ring, { inputs, pacedMs: 10 });
    expect(withInputs).not.toBe(await oneFingerprint(faultProgram, ring, { matrix: 'memory' }));
  });

  it('injected live is logged as it entered, and the log replays to the same fingerprint', async () => {
    const untilNs = 100_000_000;
    const records: RunRecord[] = [];
    const live = startRun(faultProgram, ring, {
      shards: 2,
      live: true,
      untilNs,
      pace: 0.5,
      sink: { write: (batch) => void records.push(...batch) },
    });
    await new Promise((resolve) => setTimeout(resolve, 60));
    for (let sent = 0; sent < 5; sent++) live.inject({ actor: `ring00000${sent}`, message: 'token', fields: [10 + sent], body: null });
    const result = await live.result;
    expect(result.inputs).toHaveLength(5);
    expect(result.eventCount).toBe(6 + 6 * 61 + 11 + 12 + 13 + 14 + 15);
    const inputs = [...result.inputs].sort((a, b) => a.timeNs - b.timeNs);
    for (const shards of [1, 3]) {
      const replayed: RunRecord[] = [];
      const again = await run(faultProgram, ring, {
        shards,
        transport: 'memory',
        untilNs,
        inputs,
        sink: { write: (batch) => void replayed.push(...batch) },
      });
      expect(again.fingerprint).toBe(result.fingerprint);
      expect(again.recordFingerprint).toBe(result.recordFingerprint);
      expect(replayed.map(keyOf)).toEqual(records.map(keyOf));
    }
  });

  it.each([
    ['an unknown actor', { ...token(0, 0, 1), actor: 'nobody' }, /no actor has this name/],
    ['an unknown message', { ...token(0, 0, 1), message: 'coin' }, /handles no 'coin'; it handles \[token\]/],
    ['too few fields', { ...token(0, 0, 1), fields: [] }, /has 0 fields; it needs 1 \[hops\]/],
    ['a fractional time', token(0.5, 0, 1), /must be a whole number/],
  ])('refuses %s', (_what, entry, message) => {
    expect(() => startRun(faultProgram, ring, { inputs: [entry as InputEntry] })).toThrow(message);
  });

  it('refuses a log that is not in the order of time', () => {
    expect(() => startRun(faultProgram, ring, { inputs: [token(5, 0, 1), token(4, 0, 1)] })).toThrow(/entry 1 is stamped 4 ns/);
  });
});

describe('restarts', () => {
  async function withMarker(work: (markerFile: string) => Promise<void>): Promise<void> {
    const folder = mkdtempSync(join(tmpdir(), 'braess-restart-'));
    try {
      await work(join(folder, 'marker'));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  it.each([
    [1, 0],
    [2, 0],
    [2, 5],
  ])('on %i shards with a sink that takes %i ms a batch lose and double no record', async (shards, sinkMs) => {
    const expected: RunRecord[] = [];
    const calm = await run(faultProgram, ring, { transport: 'memory', sink: { write: (batch) => void expected.push(...batch) } });
    await withMarker(async (markerFile) => {
      const records: RunRecord[] = [];
      const result = await run(faultProgram, { ...ring, fault: 'exit-once', markerFile } as FaultParameters, {
        shards,
        restarts: 1,
        checkpointEveryNs: 7000,
        sink: {
          async write(batch) {
            if (sinkMs > 0) await new Promise((resolve) => setTimeout(resolve, sinkMs));
            records.push(...batch);
          },
        },
      });
      expect(existsSync(markerFile)).toBe(true);
      expect(result.restarts).toBe(1);
      expect(result.fingerprint).toBe(calm.fingerprint);
      expect(result.recordFingerprint).toBe(calm.recordFingerprint);
      expect(records.map(keyOf)).toEqual(expected.map(keyOf));
      expect(result.recordCount).toBe(expected.length);
    });
  });

  it('forget record batches of the lost stretch that still wait for a slow sink', { timeout: 120_000 }, async () => {
    // Seven actors lie unevenly on two shards, so that one shard has sent on more of its records than the other when the thread is lost.
    const long: FaultParameters = { ...ring, actors: 7, burst: 10, hops: 3000, atCount: 27_000 };
    let expected = 0;
    const count = (batch: readonly RunRecord[]): void => void (expected += batch.length);
    const calm = await run(faultProgram, long, { transport: 'memory', sink: { write: count } });
    await withMarker(async (markerFile) => {
      const heldFile = `${markerFile}.held`;
      const seen = new Set<string>();
      let records = 0;
      const result = await run(faultProgram, { ...long, fault: 'exit-once', markerFile, waitForFile: heldFile } as FaultParameters, {
        shards: 2,
        restarts: 1,
        checkpointEveryNs: 1_500_000,
        sink: {
          async write(batch) {
            // Held from before the thread is lost until the next stretch has come as far as the lost one.
            if ((batch[0] as RunRecord).timeNs > 1_500_000 && !existsSync(heldFile)) {
              writeFileSync(heldFile, '');
              while (!existsSync(`${markerFile}.again`)) await new Promise((resolve) => setTimeout(resolve, 20));
            }
            for (const entry of batch) seen.add(keyOf(entry));
            records += batch.length;
          },
        },
      });
      expect([result.restarts, result.fingerprint]).toEqual([1, calm.fingerprint]);
      expect([records, seen.size]).toEqual([expected, expected]);
    });
  });

  it('give up when the allowed count is used up, naming the shard', async () => {
    await expect(run(faultProgram, { ...ring, fault: 'exit' }, { shards: 2, restarts: 1, checkpointEveryNs: 7000 })).rejects.toMatchObject({
      code: 'worker-lost',
      site: { shard: 1, seed: '1' },
    });
  });
});

describe('checkpoints while running', () => {
  it('change nothing: a run cut into many stretches on threads has the records and fingerprint of an uncut one', {
    timeout: 120_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(randomSpec(80), fc.integer({ min: 20, max: 400 }), fc.integer({ min: 1, max: 3 }), async (spec, everyNs, shards) => {
        const expected: RunRecord[] = [];
        const found: RunRecord[] = [];
        const whole = await run(randomProgram, spec, { transport: 'memory', sink: { write: (batch) => void expected.push(...batch) } });
        const cut = await run(randomProgram, spec, {
          shards,
          checkpointEveryNs: Math.max(everyNs, Math.ceil(whole.stoppedNs / 10)),
          sink: { write: (batch) => void found.push(...batch) },
        });
        expect([cut.fingerprint, cut.stoppedNs]).toEqual([whole.fingerprint, whole.stoppedNs]);
        expect(found.map(keyOf)).toEqual(expected.map(keyOf));
      }),
      { seed: 4711, numRuns: 15 },
    );
  });
});
