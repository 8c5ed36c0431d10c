import { engineRole, engineStatus } from '@braess/protocol';
import {
  advance,
  type BlockAccounting,
  type CountingPool,
  cancel,
  changeRole,
  countingBlocks,
  createLinear,
  engineEvent,
  importDynamoProfile,
  killEngine,
  liveRequests,
  nextEventNs,
  quietUntilNs,
  releaseHeld,
  setSpeedFactor,
  slotState,
  startEngine,
  stopEngine,
  submit,
  submitRefusal,
  transferDone,
} from '@braess/serving';
import { describe, expect, it } from 'vitest';
import { type Accounting, engineOf, plainTiming, Recorder, rulesOf } from './support.ts';

// With these terms a decode pass takes 1 ms and a chunk 1 ms, whatever is in it, so times can be told by hand.
const flat = plainTiming({
  hostPassNs: 1_000_000,
  hostSequenceNs: 0,
  prefillPassNs: 0,
  tokenNs: 0,
  weightNs: 0,
  contextNs: 0,
  pairNs: 0,
  prefillContextNs: 0,
});
const ms = 1_000_000;

type Engine = ReturnType<typeof engineOf>;

function start(
  role: number,
  overrides = {},
): { engine: Engine; recorder: Recorder; to: (ns: number, accounting?: Accounting) => string[] } {
  const engine = engineOf(role, rulesOf(overrides), flat);
  const recorder = new Recorder();
  const to = (ns: number, accounting: Accounting = countingBlocks): string[] => {
    advance(engine, accounting, ns, recorder.events);
    return recorder.take().map((row) => `${row.timeNs / ms}: ${nameOf(row.kind)} ${row.request}`);
  };
  return { engine, recorder, to };
}

function nameOf(kind: number): string {
  return Object.entries(engineEvent).find(([, value]) => value === kind)![0];
}

function request(id: number, promptTokens: number, outputTokens: number, transferred = false) {
  return { id, promptTokens, outputTokens, transferred };
}

describe('one request', () => {
  it('chunks its prompt, then decodes a token a pass', () => {
    const { engine, to } = start(engineRole.aggregated);
    submit(engine, countingBlocks, request(1, 300, 5), 0);
    // 300 tokens at 128 a pass: three passes; then four decodes.
    expect(to(100 * ms)).toEqual(['3: firstToken 1', '7: finished 1']);
    expect(engine.pool.freeBlocks).toBe(1000);
    expect(nextEventNs(engine)).toBe(Number.POSITIVE_INFINITY);
  });

  it('joins at the boundary after its arrival in mid-pass', () => {
    const { engine, to } = start(engineRole.aggregated);
    submit(engine, countingBlocks, request(1, 10, 50), 0);
    to(5.5 * ms);
    submit(engine, countingBlocks, request(2, 10, 2), 5.5 * ms);
    expect(quietUntilNs(engine, 5.5 * ms)).toBe(6 * ms);
    expect(to(10 * ms)).toEqual(['7: firstToken 2', '8: finished 2']);
  });

  it('reports output blocks when asked', () => {
    const { engine, to } = start(engineRole.aggregated, { blockEvents: true });
    submit(engine, countingBlocks, request(1, 30, 40), 0);
    // 30 tokens after 1 ms; blocks are full at 32, 48 and 64 tokens.
    expect(to(100 * ms)).toEqual(['1: firstToken 1', '3: blockFilled 1', '19: blockFilled 1', '35: blockFilled 1', '40: finished 1']);
  });

  it('is refused with a reason', () => {
    const { engine } = start(engineRole.aggregated, { maxModelTokens: 500, capacityBlocks: 20, maxWaiting: 1 });
    expect(submit(engine, countingBlocks, request(1, 500, 1), 0)).toBe(submitRefusal.promptTooLong);
    expect(submit(engine, countingBlocks, request(1, 300, 100), 0)).toBe(submitRefusal.exceedsKvMemory);
    expect(submit(engine, countingBlocks, request(1, 0, 1), 0)).toBe(submitRefusal.badLength);
    expect(submit(engine, countingBlocks, request(1, Number.NaN, 1), 0)).toBe(submitRefusal.badLength);
    expect(submit(engine, countingBlocks, request(1, 10, 1), 0)).toBeGreaterThanOrEqual(0);
    expect(submit(engine, countingBlocks, request(2, 10, 1), 0)).toBe(submitRefusal.queueFull);
  });

  it('must be advanced to before calls from outside', () => {
    const { engine, to } = start(engineRole.aggregated);
    submit(engine, countingBlocks, request(1, 10, 2), 0);
    to(0);
    expect(() => submit(engine, countingBlocks, request(2, 10, 2), 3 * ms)).toThrow(/event due at 1000000 ns; call advance first/);
  });
});

describe('prefill and decode engines', () => {
  it('holds KV at the prefill side until it is released', () => {
    const { engine, to } = start(engineRole.prefill, { capacityBlocks: 10 });
    const slot = submit(engine, countingBlocks, request(1, 100, 50), 0);
    submit(engine, countingBlocks, request(2, 100, 50), 0);
    expect(to(20 * ms)).toEqual(['1: prefillDone 1']);
    expect(engine.requests.state[slot]).toBe(slotState.held);
    // Ten blocks hold one such prompt (seven), not two.
    releaseHeld(engine, countingBlocks, slot, 20 * ms);
    expect(to(40 * ms)).toEqual(['21: prefillDone 2']);
  });

  it('reserves at the decode side first, and shows the first token one pass after the transfer', () => {
    const { engine, to } = start(engineRole.decode, { capacityBlocks: 10 });
    const slot = submit(engine, countingBlocks, request(1, 100, 4, true), 0);
    submit(engine, countingBlocks, request(2, 60, 4, true), 0);
    expect(to(0)).toEqual(['0: reserved 1']);
    expect(engine.pool.freeBlocks).toBe(3);
    expect(nextEventNs(engine)).toBe(Number.POSITIVE_INFINITY);
    transferDone(engine, countingBlocks, slot, 7 * ms);
    // 103 KV tokens fit the seven blocks; they are free at 11 ms, and the second is reserved.
    expect(to(30 * ms)).toEqual(['8: firstToken 1', '11: finished 1', '11: reserved 2']);
    expect(() => transferDone(engine, countingBlocks, slot, 30 * ms)).toThrow(/transferDone of slot 0 in state 0/);
  });

  it('credits a cached prefix in whole blocks, and always computes the last token', () => {
    const seen: number[] = [];
    const cachedOf = (tokens: number): BlockAccounting<CountingPool> => ({
      ...countingBlocks,
      admit: (pool, id, needed) => (countingBlocks.admit(pool, id, needed) < 0 ? -1 : tokens),
      computed: (_pool, _id, computed) => seen.push(computed),
    });
    const { engine, to } = start(engineRole.aggregated);
    const slot = submit(engine, cachedOf(200), request(1, 300, 2), 0);
    // 200 cached tokens are 12 whole blocks, 192 tokens; 108 remain: one pass.
    expect(to(20 * ms, cachedOf(200))).toEqual(['1: firstToken 1', '2: finished 1']);
    expect(engine.requests.cachedTokens[slot]).toBe(192);
    const full = submit(engine, cachedOf(320), request(2, 320, 2), 20 * ms);
    to(40 * ms, cachedOf(320));
    expect(engine.requests.cachedTokens[full]).toBe(304);
    expect(seen).toEqual([300, 320]);
  });
});

describe('cancel', () => {
  it('takes out waiting, running and held requests and gives their blocks back', () => {
    const { engine, to } = start(engineRole.aggregated, { maxSequences: 1 });
    const running = submit(engine, countingBlocks, request(1, 10, 500), 0);
    const waiting = submit(engine, countingBlocks, request(2, 10, 5), 0);
    submit(engine, countingBlocks, request(3, 10, 2), 0);
    to(4.5 * ms);
    expect(cancel(engine, countingBlocks, waiting, 4.5 * ms)).toBe(true);
    expect(cancel(engine, countingBlocks, running, 4.5 * ms)).toBe(false);
    expect(to(30 * ms)).toEqual(['5: left 1', '6: firstToken 3', '7: finished 3']);
    expect(engine.pool.freeBlocks).toBe(1000);
    expect(liveRequests(engine.requests)).toBe(0);
  });
});

describe('speed, roles, death', () => {
  it('a slow GPU slows its group from the next pass on', () => {
    const { engine, to } = start(engineRole.aggregated);
    submit(engine, countingBlocks, request(1, 10, 11), 0);
    to(3.5 * ms);
    setSpeedFactor(engine, countingBlocks, 0.5, 3.5 * ms);
    // Four tokens by 4 ms; seven more at 2 ms each.
    expect(to(100 * ms)).toEqual(['18: finished 1']);
  });

  it('drains, then takes 5 s to change its role', () => {
    const { engine, to } = start(engineRole.prefill);
    const slot = submit(engine, countingBlocks, request(1, 10, 9), 0);
    to(0);
    changeRole(engine, countingBlocks, engineRole.decode, 0.5 * ms);
    expect(submit(engine, countingBlocks, request(2, 10, 9), 0.5 * ms)).toBe(submitRefusal.notActive);
    expect(to(50 * ms)).toEqual(['1: prefillDone 1']);
    // The hold is over at 50 ms: only now is it drained.
    releaseHeld(engine, countingBlocks, slot, 50 * ms);
    expect(to(6000 * ms)).toEqual(['5050: ready -1']);
    expect(engine.role).toBe(engineRole.decode);
    expect(engine.status).toBe(engineStatus.active);
  });

  it('drains, then is off until a start; one that is to be off does not come back with its GPU', () => {
    const { engine, recorder, to } = start(engineRole.prefill);
    const slot = submit(engine, countingBlocks, request(1, 10, 9), 0);
    to(0);
    stopEngine(engine, countingBlocks, 0.5 * ms);
    expect(submit(engine, countingBlocks, request(2, 10, 9), 0.5 * ms)).toBe(submitRefusal.notActive);
    expect(to(50 * ms)).toEqual(['1: prefillDone 1']);
    expect(engine.status).toBe(engineStatus.draining);
    releaseHeld(engine, countingBlocks, slot, 50 * ms);
    expect(to(9000 * ms)).toEqual([]);
    expect([engine.status, nextEventNs(engine)]).toEqual([engineStatus.off, Number.POSITIVE_INFINITY]);
    expect(submit(engine, countingBlocks, request(3, 10, 9), 9000 * ms)).toBe(submitRefusal.notActive);
    startEngine(engine, engineRole.decode, 9000 * ms);
    expect(to(70_000 * ms)).toEqual(['69000: ready -1']);
    expect(engine.role).toBe(engineRole.decode);

    submit(engine, countingBlocks, request(4, 10, 9, true), 70_000 * ms);
    stopEngine(engine, countingBlocks, 70_001 * ms);
    recorder.rows.length = 0;
    killEngine(engine, countingBlocks, 70_001 * ms, recorder.events);
    expect(engine.status).toBe(engineStatus.off);
    expect(() => stopEngine(engine, countingBlocks, 70_002 * ms)).toThrow('only an active engine can be stopped');
  });

  it('an idle engine starts to switch at once', () => {
    const { engine, to } = start(engineRole.prefill);
    changeRole(engine, countingBlocks, engineRole.decode, 3 * ms);
    expect(to(9000 * ms)).toEqual(['5003: ready -1']);
  });

  it('loses its requests when a GPU dies, and is ready 60 s after a start', () => {
    for (const role of Object.values(engineRole)) {
      const { engine, recorder, to } = start(role);
      for (let id = 0; id < 12; id++) submit(engine, countingBlocks, request(id, 60 + id, 40, role === engineRole.decode), 0);
      to(6.5 * ms);
      recorder.rows.length = 0;
      killEngine(engine, countingBlocks, 6.5 * ms, recorder.events);
      const lost = recorder.take();
      expect(lost).toHaveLength(12);
      expect(lost.every((row) => row.kind === engineEvent.failed && row.timeNs === 6.5 * ms)).toBe(true);
      expect(engine.pool.freeBlocks).toBe(1000);
      expect(nextEventNs(engine)).toBe(Number.POSITIVE_INFINITY);
      expect(submit(engine, countingBlocks, request(99, 10, 1), 7 * ms)).toBe(submitRefusal.notActive);
      startEngine(engine, engineRole.aggregated, 7 * ms);
      expect(to(60_008 * ms)).toEqual(['60007: ready -1']);
      submit(engine, countingBlocks, request(100, 10, 1), 60_008 * ms);
      expect(to(60_010 * ms)).toEqual(['60009: firstToken 100', '60009: finished 100']);
    }
  });
});

describe('state', () => {
  it('is plain data: a clone in the middle of a stretch goes on the same way', () => {
    const { engine, to } = start(engineRole.aggregated);
    for (let id = 0; id < 20; id++) submit(engine, countingBlocks, request(id, 50 + 9 * id, 30 + id), 0);
    to(12.3 * ms);
    const recorder = new Recorder();
    const clone = structuredClone(engine);
    advance(clone, countingBlocks, 900 * ms, recorder.events);
    expect(recorder.take().map((row) => `${row.timeNs / ms}: ${nameOf(row.kind)} ${row.request}`)).toEqual(to(900 * ms));
    expect(clone).toEqual(engine);
  });

  it('shares nothing between engines of one timing model', () => {
    const table = importDynamoProfile(
      { prefill_isl: [1, 9], prefill_ttft: [1, 9], x_kv_usage: [0.1, 0.2], y_context_length: [5, 5], z_itl: [1, 2], max_kv_tokens: 99 },
      'test',
    );
    const one = engineOf(engineRole.aggregated, rulesOf(), table as never);
    const two = engineOf(engineRole.aggregated, rulesOf(), table as never);
    expect(one.timing).not.toBe(two.timing);
    expect(one.timing).toEqual(two.timing);
  });

  it('refuses contradicting rules', () => {
    expect(() => engineOf(0, rulesOf({ maxBatchedTokens: 4 }))).toThrow(/maxBatchedTokens 4 is below maxSequences 8/);
    expect(() => engineOf(0, rulesOf({ blockTokens: 0 }))).toThrow(/blockTokens is 0/);
  });
});

describe('prompts computed independently', () => {
  const rules = rulesOf({ independentPrompts: true, maxSequences: 3, capacityBlocks: 100 });
  const timing = createLinear({ prefillMs: 10, prefillMsPerToken: 0.1, decodeMs: 1, decodeMsPerSequence: 0 });
  const prompt = (id: number, promptTokens: number) => ({ id, promptTokens, outputTokens: 5, transferred: false });

  it('each takes the time it would take alone, as an M/G/infinity server', () => {
    const engine = engineOf(engineRole.prefill, rules, timing);
    const recorder = new Recorder();
    submit(engine, countingBlocks, prompt(1, 100), 0);
    advance(engine, countingBlocks, 0, recorder.events);
    expect(nextEventNs(engine)).toBe(20 * ms);
    submit(engine, countingBlocks, prompt(2, 40), 3 * ms);
    advance(engine, countingBlocks, 3 * ms, recorder.events);
    expect(nextEventNs(engine)).toBe(17 * ms);
    advance(engine, countingBlocks, 30 * ms, recorder.events);
    expect(recorder.take().map(({ kind, timeNs, request }) => [nameOf(kind), timeNs / ms, request])).toEqual([
      ['prefillDone', 17, 2],
      ['prefillDone', 20, 1],
    ]);
  });

  it('one more than may run waits for the first to end, one without memory for its release', () => {
    const engine = engineOf(engineRole.prefill, rules, timing);
    const recorder = new Recorder();
    const slots = [1, 2, 3, 4].map((id) => submit(engine, countingBlocks, prompt(id, 30 * 16), 0));
    advance(engine, countingBlocks, 200 * ms, recorder.events);
    // 58 ms each; the fourth has to wait for 30 of the 100 blocks, which the others hold until their transfers are over.
    expect(recorder.take().map(({ timeNs, request }) => [timeNs / ms, request])).toEqual([
      [58, 1],
      [58, 2],
      [58, 3],
    ]);
    releaseHeld(engine, countingBlocks, slots[0]!, 200 * ms);
    advance(engine, countingBlocks, 300 * ms, recorder.events);
    expect(recorder.take().map(({ timeNs, request }) => [timeNs / ms, request])).toEqual([[258, 4]]);
  });
});
