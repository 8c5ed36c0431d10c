import { engineRole } from '@braess/protocol';
import {
  advance,
  cancel,
  changeRole,
  computedTokens,
  countingBlocks,
  createPolynomial,
  type EngineEvents,
  type EngineRules,
  type EngineState,
  engineEvent,
  forEachGapRun,
  gapNs,
  importDynamoProfile,
  nextEventNs,
  releaseHeld,
  setSpeedFactor,
  slotState,
  submit,
  type TimingModel,
  transferDone,
} from '@braess/serving';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { engineOf, integerIn, plainTiming, Recorder, randomFrom, rulesOf } from './support.ts';

/**
 * The lazy engine against the one that steps each pass, over random loads: same events with the same times to the nanosecond, the same gaps,
 * the same state at the end. Loads are tight in memory and seats, so preemption, refusal by blocks, chunking and arrivals in mid-pass all occur.
 */
interface Outcome {
  events: string[];
  gaps: Map<number, number>;
  freeBlocks: number;
  counters: string;
  calls: number;
}

/** Ten times what the longest load takes, pass by pass. */
const mostSteps = 25_000;

function run(seed: number, rules: EngineRules, timing: TimingModel, role: number): Outcome {
  const random = randomFrom(seed);
  const engine = engineOf(role, rules, timing as never);
  const recorder = new Recorder();
  const gaps = new Map<number, number>();
  const dueNs: { atNs: number; act: () => void }[] = [];
  const live = new Map<number, number>();
  const count = integerIn(random, 5, 40);
  let atNs = 0;
  for (let id = 0; id < count; id++) {
    // Bursts, gaps, and arrivals at odd times within passes.
    atNs += random() < 0.3 ? 0 : Math.floor(random() * random() * 400e6);
    const request = {
      id,
      promptTokens: integerIn(random, 1, 200),
      outputTokens: integerIn(random, 1, 120),
      priority: integerIn(random, 0, 2),
      transferred: role === engineRole.decode && random() < 0.8,
    };
    const arrivalNs = atNs;
    dueNs.push({
      atNs,
      act: () => {
        const slot = submit(engine, countingBlocks, request, arrivalNs);
        if (slot >= 0) live.set(id, slot);
      },
    });
    if (random() < 0.1) {
      const cancelNs = atNs + Math.floor(random() * 1e9);
      dueNs.push({ atNs: cancelNs, act: () => cancelLive(engine, live, id, cancelNs) });
    }
  }
  const speedNs = Math.floor(random() * atNs) + 1;
  dueNs.push({ atNs: speedNs, act: () => setSpeedFactor(engine, countingBlocks, 0.7, speedNs) });
  const roleNs = atNs + 1_500_000_000;
  dueNs.push({ atNs: roleNs, act: () => changeRole(engine, countingBlocks, engineRole.aggregated, roleNs) });
  let calls = 0;
  let lastNs = 0;
  for (let step = 0; ; step++) {
    if (step === mostSteps)
      throw new Error(`the engine is not done after ${mostSteps} steps: at ${lastNs} ns, next ${nextEventNs(engine)} ns`);
    dueNs.sort((a, b) => a.atNs - b.atNs);
    const outside = dueNs[0]?.atNs ?? Number.POSITIVE_INFINITY;
    const nowNs = Math.min(outside, nextEventNs(engine));
    if (nowNs === Number.POSITIVE_INFINITY) break;
    lastNs = nowNs;
    advance(engine, countingBlocks, nowNs, recorder.events);
    calls++;
    collectGaps(recorder.events, gaps);
    for (const row of recorder.take()) react(engine, row, live, dueNs);
    if (outside === nowNs) dueNs.shift()!.act();
  }
  return {
    events: recorder.rows.map((row) => `${row.timeNs} ${row.kind} ${row.request} ${row.value}`),
    gaps: new Map([...gaps].sort((a, b) => a[0] - b[0])),
    freeBlocks: engine.pool.freeBlocks,
    counters: `${engine.passes} ${engine.preemptionCount} ${engine.decodeTokens} ${engine.decodeCount} ${engine.busyNs} ${engine.prefillTokensDone}`,
    calls,
  };
}

/** Transfers end some time after their reservation, holds some time after the prefill: a fixed function of the request, alike for both engines. */
function react(
  engine: EngineState<{ freeBlocks: number }> & ReturnType<typeof engineOf>,
  row: { kind: number; request: number; timeNs: number },
  live: Map<number, number>,
  dueNs: { atNs: number; act: () => void }[],
): void {
  const slot = live.get(row.request)!;
  const atNs = row.timeNs + 1_000_003 * (1 + ((row.request * 7) % 90));
  if (row.kind === engineEvent.reserved) {
    dueNs.push({ atNs, act: () => engine.requests.state[slot] === slotState.reserved && transferDone(engine, countingBlocks, slot, atNs) });
  } else if (row.kind === engineEvent.prefillDone) {
    dueNs.push({ atNs, act: () => engine.requests.state[slot] === slotState.held && releaseHeld(engine, countingBlocks, slot, atNs) });
  } else if (row.kind === engineEvent.finished || row.kind === engineEvent.failed) {
    live.delete(row.request);
  }
}

function cancelLive(engine: ReturnType<typeof engineOf>, live: Map<number, number>, id: number, nowNs: number): void {
  const slot = live.get(id);
  if (slot === undefined || engine.requests.id[slot] !== id || engine.requests.state[slot] === slotState.free) return;
  live.delete(id);
  // A transfer or hold in progress is left alone, so that its end finds its request.
  const state = engine.requests.state[slot];
  if (state !== slotState.reserved && state !== slotState.held && state !== slotState.ready) cancel(engine, countingBlocks, slot, nowNs);
}

function collectGaps(events: EngineEvents, gaps: Map<number, number>): void {
  for (let i = 0; i < events.stretches; i++) {
    for (let pass = events.stretchFrom[i]!; pass < events.stretchTo[i]!; pass++) {
      const gap = gapNs(events, i, pass);
      gaps.set(gap, (gaps.get(gap) ?? 0) + events.stretchSequences[i]!);
    }
  }
}

const table = importDynamoProfile(
  {
    prefill_isl: [1, 100, 300],
    prefill_ttft: [5, 9, 21],
    x_kv_usage: [0.1, 0.5, 0.9, 0.05, 0.4, 0.8, 0.2, 0.7],
    y_context_length: [20, 20, 20, 90, 90, 90, 160, 160],
    z_itl: [6, 9, 15, 6.5, 8, 16, 8, 13],
    max_kv_tokens: 480,
  },
  'test table',
);

const timings: [string, () => TimingModel][] = [
  ['roofline', () => plainTiming()],
  [
    'roofline of GPUs with sequences of their own',
    () => plainTiming({ ranks: 4, sharedTokenNs: 300, fixedSequenceNs: 5000, fixedTokenNs: 40 }),
  ],
  ['roofline of windows that fill up', () => plainTiming({ ranks: 2, windowTokens: 40, windowContextNs: 3000, windowPairNs: 20 })],
  [
    'roofline of two halves that grows past its exchanges',
    () =>
      plainTiming({
        ranks: 2,
        twoBatchOverlap: true,
        collectivePassNs: 5_000_000,
        decodeCollectiveTokenNs: 3_000,
        collectiveTokenNs: 60_000,
      }),
  ],
  ['roofline of drafted tokens', () => plainTiming({ draftTokens: 3, draftNs: 700_000, passTokens: 2.44, decodeContextNs: 97.3 })],
  ['roofline that grows past its launches', () => plainTiming({ launchPassNs: 7_150_000 })],
  ['polynomial', () => createPolynomial(480)],
  ['polynomial with its floor in reach', () => ({ ...createPolynomial(480), decodeFloorMs: 12 })],
  ['table', () => structuredClone(table)],
];

describe('the lazy engine equals the pass-by-pass engine', { timeout: 15_000 }, () => {
  for (const [name, timing] of timings) {
    for (const [roleName, role] of Object.entries(engineRole)) {
      it(`${name}, ${roleName}`, () => {
        let preemptions = 0;
        let saved = 0;
        fc.assert(
          fc.property(
            fc.integer({ min: 1, max: 2 ** 31 }),
            fc.constantFrom(1, 2, 8),
            fc.integer({ min: 24, max: 60 }),
            fc.constantFrom(8, 48, 512),
            fc.boolean(),
            fc.boolean(),
            fc.boolean(),
            (seed, sequences, capacityBlocks, budget, blockEvents, byPriority, holdsSlots) => {
              const newBatchStallNs = seed % 3 === 0 ? 3_000_000 : 0;
              const rules = rulesOf({
                maxSequences: sequences,
                maxBatchedTokens: budget,
                capacityBlocks,
                blockEvents,
                byPriority,
                holdsSlots,
                newBatchStallNs,
                ...(seed % 4 === 0 ? { maxChunkTokens: Math.min(budget, 16) } : {}),
              });
              const lazy = run(seed, rules, timing(), role);
              const stepped = run(seed, { ...rules, stepwise: true }, timing(), role);
              expect(lazy.events).toEqual(stepped.events);
              expect(lazy.gaps).toEqual(stepped.gaps);
              expect(lazy.counters).toBe(stepped.counters);
              expect(lazy.freeBlocks).toBe(capacityBlocks);
              expect(stepped.freeBlocks).toBe(capacityBlocks);
              preemptions += lazy.events.filter((row) => row.split(' ')[1] === String(engineEvent.preempted)).length;
              saved += stepped.calls - lazy.calls;
            },
          ),
          { numRuns: 60, seed: 7, endOnFailure: true },
        );
        // The loads must reach what they are meant to reach.
        if (role !== engineRole.prefill) {
          expect(preemptions).toBeGreaterThan(20);
          expect(saved).toBeGreaterThan(1000);
        }
      });
    }
  }
});

describe('gap runs', () => {
  it('sorts the gaps of a stretch into buckets exactly as one by one', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2_000, max: 40_000_000 }),
        fc.integer({ min: -2_000, max: 20_000 }),
        fc.integer({ min: -3, max: 3 }),
        fc.integer({ min: 0, max: 50 }),
        fc.integer({ min: 1, max: 600 }),
        (c0, c1, c2, from, passes) => {
          const recorder = new Recorder();
          const events = recorder.events;
          events.stretches = 1;
          events.stretchSequences[0] = 3;
          events.stretchFrom[0] = from;
          events.stretchTo[0] = from + passes;
          events.stretchC0Ns[0] = c0 + 40_000_000 + 0.37;
          events.stretchC1Ns[0] = c1 + 0.11;
          events.stretchC2Ns[0] = c2 * 0.3;
          const bucketOf = (gap: number): number => Math.floor(Math.log(Math.max(1, gap)) * 200);
          const totals = new Map<number, [number, number]>();
          forEachGapRun(events, 0, bucketOf, (bucket, count, sumNs) => {
            const [n, sum] = totals.get(bucket) ?? [0, 0];
            totals.set(bucket, [n + count, sum + sumNs]);
          });
          const expected = new Map<number, [number, number]>();
          for (let pass = from; pass < from + passes; pass++) {
            const gap = gapNs(events, 0, pass);
            const [n, sum] = expected.get(bucketOf(gap)) ?? [0, 0];
            expected.set(bucketOf(gap), [n + 3, sum + 3 * gap]);
          }
          expect(new Map([...totals].sort((a, b) => a[0] - b[0]))).toEqual(new Map([...expected].sort((a, b) => a[0] - b[0])));
        },
      ),
      { numRuns: 200, seed: 3 },
    );
  });
});

describe('state of a request in the middle of a stretch', { timeout: 15_000 }, () => {
  it('counts its tokens after settling', () => {
    const engine = engineOf(engineRole.aggregated, rulesOf());
    const recorder = new Recorder();
    const slot = submit(engine, countingBlocks, { id: 1, promptTokens: 20, outputTokens: 50, transferred: false }, 0);
    advance(engine, countingBlocks, 0, recorder.events);
    advance(engine, countingBlocks, nextEventNs(engine), recorder.events);
    expect(computedTokens(engine, slot)).toBe(20);
    advance(engine, countingBlocks, nextEventNs(engine), recorder.events);
    expect(computedTokens(engine, slot)).toBe(20 + 49);
  });
});
