import { actorKind, defineProgram, message } from '@braess/kernel';
import { type FaultParameters, FingerprintMismatch, faultProgram, oneFingerprint } from '@braess/kernel/testing';
import { describe, expect, it } from 'vitest';

const ring: FaultParameters = { actors: 4, fault: 'none', failing: 0, atCount: 0, hops: 6, delayNs: 10 };

async function mismatchOf(running: Promise<string>): Promise<FingerprintMismatch> {
  try {
    await running;
  } catch (error) {
    if (error instanceof FingerprintMismatch) return error;
    throw error;
  }
  throw new Error('oneFingerprint found no mismatch');
}

describe('oneFingerprint', () => {
  it('gives the same fingerprint for a clean program over the whole matrix', async () => {
    const all = await oneFingerprint(faultProgram, ring, { seed: 7, pacedMs: 10 });
    expect(all).toMatch(/^[0-9a-f]{16}$/);
    expect(await oneFingerprint(faultProgram, { ...ring, hops: 7 }, { seed: 7, matrix: 'memory' })).not.toBe(all);
  });

  it('names actor, time and message where a body that is still held by its sender changes', async () => {
    // Each actor sends its own tally object and goes on counting in it. On one shard the receiver reads the later count; the codec between
    // shards takes the earlier one. Actor 1 receives first what actor 0 sent at its start (count 1) after actor 0 has passed one more on
    // only in its second message: at 10 ns every actor has sent once, and passes one on before or after it receives, by the ids.
    const found = await mismatchOf(oneFingerprint(faultProgram, { ...ring, fault: 'share-body' }, { seed: 7, matrix: 'memory' }));
    expect(found.variant).toBe('memory, 2 shards');
    // At 10 ns actors run by sender: what actor 3 sent (to actor 0) is not first; actor 0's message runs first (at actor 1), then actor 1's (at
    // actor 2), when actor 1 has just passed on one more: a count of 2 where the codec, crossing from cell 1 to cell 2, took 1.
    expect(found.actor).toBe('ring000002');
    expect(found.timeNs).toBe(10);
    expect(found.messageName).toBe('token');
    expect(found.message).toContain('{"count":2}');
    expect(found.message).toContain('{"count":1}');
    expect(found.message).toContain("seed '7'");
    expect(found.replay).toMatch(/^node --input-type=module --eval/);
  });

  it('names the difference on threads too, by recording the program in its workers', async () => {
    const found = await mismatchOf(oneFingerprint(faultProgram, { ...ring, fault: 'share-body' }, { matrix: 'threads' }));
    expect(found.variant).toBe('threads, 2 shards');
    expect([found.actor, found.timeNs, found.messageName]).toEqual(['ring000002', 10, 'token']);
  });

  it('says so when the program itself changes from run to run', async () => {
    const tick = message('tick', ['value']);
    let runs = 0;
    const restless = actorKind({
      name: 'restless',
      messages: { tick },
      state: () => ({}),
      start(_state, context) {
        context.send(context.self, tick, 1, runs++ === 1 ? 1 : 0);
      },
      on: { tick() {} },
    });
    const program = defineProgram(undefined, 'restless', (world) => void world.actor('a', restless, undefined));
    const running = oneFingerprint(program, undefined, { matrix: 'memory' });
    // The second run (the cut) draws the odd value and ends before it arrives; from the third on all agree again, so only the cut's checkpoint differs.
    await expect(running).rejects.toThrow(/checkpoint of 'memory, checkpoint on 1, restored on 3 shards' at 1 ns differs/);
  });

  it('names the record that differs', async () => {
    const tick = message('tick');
    const noted = message('noted', ['value']);
    let built = 0;
    const program = defineProgram(undefined, 'notes', (world) => {
      const number = built++;
      const kind = actorKind({
        name: 'notes',
        messages: { tick },
        state: () => ({}),
        start: (_state, context) => void context.send(context.self, tick, 5),
        on: { tick: (_state, _message, context) => context.emit(noted, Math.min(number, 3)) },
      });
      world.actor('writer', kind, undefined);
    });
    const found = await mismatchOf(oneFingerprint(program, undefined, { matrix: 'memory' }));
    expect([found.actor, found.timeNs, found.messageName]).toEqual(['writer', 5, "record 'noted'"]);
  });

  it('refuses the thread matrix for a program that threads cannot load', async () => {
    const program = defineProgram(undefined, 'local', () => undefined);
    await expect(oneFingerprint(program, undefined)).rejects.toThrow(/has no module URL/);
  });
});
