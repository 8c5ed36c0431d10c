/**
 * Goal: evictions by growth show at their pass, and the engine wakes for those alone that somebody hears of. Method: a cache whose blocks stand in a row, named or
 * not, under a lazy engine and under one that steps each pass; the wakes of a single request follow by hand.
 */
import { engineRole } from '@braess/protocol';
import {
  advance,
  type BlockAccounting,
  type CountingPool,
  countingBlocks,
  createEngine,
  type EngineRules,
  nextEventNs,
  submit,
} from '@braess/serving';
import { describe, expect, it } from 'vitest';
import { integerIn, plainTiming, Recorder, randomFrom, rulesOf } from './support.ts';

/** `cached` blocks are evicted from the front on; true for those that can be looked up. */
interface RowPool extends CountingPool {
  cached: boolean[];
  removed: boolean[];
}

const rowBlocks: BlockAccounting<RowPool> = {
  ...countingBlocks,
  free: (pool) => pool.freeBlocks,
  available: (pool) => pool.freeBlocks + pool.cached.length,
  anonymousLead: (pool, limit) => {
    const first = pool.cached.indexOf(true);
    return Math.min(limit, first < 0 ? pool.cached.length : first);
  },
  admit: (pool, id, tokens) => {
    makeRoom(pool, Math.ceil(tokens / pool.blockTokens));
    return countingBlocks.admit(pool, id, tokens);
  },
  grow: (pool, blocks) => {
    makeRoom(pool, blocks);
    countingBlocks.grow(pool, blocks);
  },
};

function makeRoom(pool: RowPool, blocks: number): void {
  const short = Math.min(blocks - pool.freeBlocks, pool.cached.length);
  if (short <= 0) return;
  pool.removed.push(...pool.cached.splice(0, short));
  pool.freeBlocks += short;
}

interface Outcome {
  /** Times of the engine's wakes, and at which of them named blocks went. */
  wakesNs: number[];
  namedNs: number[];
  events: string[];
  removed: boolean[];
}

function run(rules: EngineRules, cached: boolean[], requests: { atNs: number; promptTokens: number; outputTokens: number }[]): Outcome {
  const pool: RowPool = { ...countingPool(rules, cached.length), cached: [...cached], removed: [] };
  const engine = createEngine({ role: engineRole.aggregated, rules, timing: plainTiming(), pool });
  const recorder = new Recorder();
  const outcome: Outcome = { wakesNs: [], namedNs: [], events: [], removed: pool.removed };
  let next = 0;
  for (;;) {
    const outsideNs = requests[next]?.atNs ?? Number.POSITIVE_INFINITY;
    const nowNs = Math.min(outsideNs, nextEventNs(engine));
    if (nowNs === Number.POSITIVE_INFINITY) return outcome;
    const before = pool.removed.length;
    if (nextEventNs(engine) <= nowNs) outcome.wakesNs.push(nowNs);
    advance(engine, rowBlocks, nowNs, recorder.events);
    for (const named of pool.removed.slice(before)) if (named) outcome.namedNs.push(nowNs);
    for (const { kind, request, timeNs, value } of recorder.take()) outcome.events.push(`${timeNs} ${kind} ${request} ${value}`);
    if (outsideNs > nowNs) continue;
    const { promptTokens, outputTokens } = requests[next]!;
    submit(engine, rowBlocks, { id: next++, promptTokens, outputTokens, transferred: false }, nowNs);
  }
}

const countingPool = ({ capacityBlocks, blockTokens }: EngineRules, cachedBlocks: number): CountingPool => ({
  blockTokens,
  capacityBlocks,
  freeBlocks: capacityBlocks - cachedBlocks,
});

describe('an engine with a full cache', () => {
  // One block is free, for the prompt of 16 tokens. Each block of 16 output tokens evicts one: the first at the first decode pass, 12 in all.
  const cached = [false, false, true, false, true, true, false, false, false, false, true, false, false, false];
  const request = { atNs: 0, promptTokens: 16, outputTokens: 192 };
  const named = cached.slice(0, 12).filter((each) => each).length;
  // It starts, ends its prompt, and finishes; the first block goes as the prompt ends.
  const always = 3;
  const rules = rulesOf({ capacityBlocks: cached.length + 1 });

  it.each([
    ['that somebody hears of', 'named', always + named],
    ['where all are heard of', 'any', always + 11],
    ['where nobody listens', undefined, always],
  ] as const)('wakes for evictions %s only', (_which, heard, wakes) => {
    const { wakesNs, removed } = run(heard === undefined ? rules : { ...rules, exactEvictions: heard }, cached, [request]);
    expect(removed).toEqual(cached.slice(0, 12));
    expect(wakesNs.length).toBe(wakes);
  });

  it('evicts what is heard of when the engine that steps each pass does', () => {
    let saved = 0;
    let told = 0;
    for (let seed = 1; seed <= 60; seed++) {
      const random = randomFrom(seed);
      const capacityBlocks = integerIn(random, 60, 120);
      const row = Array.from({ length: integerIn(random, 20, 60) }, () => random() < 0.4);
      let atNs = 0;
      const requests = Array.from({ length: integerIn(random, 2, 9) }, () => {
        atNs += Math.floor(random() * 300e6);
        return { atNs, promptTokens: integerIn(random, 1, 100), outputTokens: integerIn(random, 1, 300) };
      });
      for (const exactEvictions of ['named', 'any'] as const) {
        const lazy = run(rulesOf({ capacityBlocks, exactEvictions }), row, requests);
        const stepped = run(rulesOf({ capacityBlocks, exactEvictions, stepwise: true }), row, requests);
        expect(lazy.events).toEqual(stepped.events);
        expect(lazy.namedNs).toEqual(stepped.namedNs);
        told += lazy.namedNs.length;
        saved += stepped.wakesNs.length - lazy.wakesNs.length;
      }
    }
    expect(told).toBeGreaterThan(500);
    expect(saved).toBeGreaterThan(5000);
  });
});
