import { engineRole } from '@braess/protocol';
import { advance, countingBlocks, createPassShape, engineEvent, mixedPassNs, nextEventNs, submit } from '@braess/serving';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { engineOf, integerIn, plainTiming, Recorder, randomFrom, rulesOf } from './support.ts';

/**
 * A second, naive engine, written from the rules in words: lists of objects, one pass at a time, every quantity recomputed from scratch, one
 * block at a time. Its passes take the time of a pass of that shape, so times agree only to the rounding of single passes.
 */
interface Job {
  id: number;
  prompt: number;
  output: number;
  atNs: number;
  /** Larger is more urgent; all alike where the engine goes by arrival. */
  priority: number;
  /** KV tokens present. */
  kv: number;
  /** Output tokens shown. */
  shown: number;
  blocks: number;
  /** Preempted, and not yet back to where it was. */
  recomputing: boolean;
}

interface Limits {
  blockTokens: number;
  maxSequences: number;
  maxBatchedTokens: number;
  maxChunkTokens: number;
  capacityBlocks: number;
}

interface Shown {
  kind: number;
  id: number;
  timeNs: number;
}

function naive(jobs: Job[], limits: Limits, passNs: (decodes: Job[], chunks: [Job, number][]) => number): Shown[] {
  const shown: Shown[] = [];
  const arriving = [...jobs];
  let waiting: Job[] = [];
  let running: Job[] = [];
  let nowNs = 0;
  const known = (job: Job): number => job.prompt + job.shown;
  const line = (job: Job, first: boolean): void => {
    const behind = waiting.filter((other) => (first ? other.priority > job.priority : other.priority >= job.priority));
    waiting = [...behind, job, ...waiting.filter((other) => !behind.includes(other))];
  };
  const free = (): number => limits.capacityBlocks - jobs.reduce((sum, job) => sum + job.blocks, 0);
  for (let guard = 0; arriving.length + waiting.length + running.length > 0; guard++) {
    if (guard > 200_000) throw new Error('the naive engine does not end');
    // An idle engine takes what comes at this instant; a busy one only what came before the boundary.
    if (waiting.length + running.length === 0) nowNs = Math.max(nowNs, arriving[0]!.atNs);
    while (arriving.length > 0 && (arriving[0]!.atNs < nowNs || (running.length === 0 && arriving[0]!.atNs === nowNs)))
      line(arriving.shift()!, false);
    let preempted = false;
    for (const job of [...running]) {
      if (!running.includes(job) || !isDecoding(job)) continue;
      while (running.includes(job) && job.kv + 1 > job.blocks * limits.blockTokens) {
        if (free() > 0) job.blocks++;
        else {
          const least = Math.min(...running.map((other) => other.priority));
          const victim = running.findLast((other) => other.priority === least)!;
          running = running.filter((other) => other !== victim);
          victim.blocks = 0;
          victim.kv = 0;
          victim.recomputing = victim.shown > 0;
          line(victim, true);
          shown.push({ kind: engineEvent.preempted, id: victim.id, timeNs: nowNs });
          preempted = true;
        }
      }
    }
    let budget = limits.maxBatchedTokens;
    const work: [Job, number][] = [];
    for (const job of running) {
      const tokens = Math.min(known(job) - job.kv, isDecoding(job) ? 1 : limits.maxChunkTokens, budget);
      budget -= tokens;
      if (tokens > 0) work.push([job, tokens]);
    }
    while (!preempted && waiting.length > 0 && running.length < limits.maxSequences && budget > 0) {
      const job = waiting[0]!;
      const need = Math.ceil(known(job) / limits.blockTokens);
      if (need > free()) break;
      job.blocks = need;
      waiting.shift();
      running.push(job);
      const tokens = Math.min(known(job), limits.maxChunkTokens, budget);
      budget -= tokens;
      work.push([job, tokens]);
    }
    if (work.length === 0) continue;
    const decodes = work.map(job0).filter(isDecoding);
    const chunks = work.filter((entry) => !decodes.includes(entry[0]));
    nowNs += passNs(decodes, chunks);
    // What is to be seen: decodes in running order, then prompts.
    for (const [job, tokens] of work) job.kv += tokens;
    for (const job of [...decodes, ...chunks.map(job0)]) {
      if (job.kv < known(job)) continue;
      if (job.shown === 0) shown.push({ kind: engineEvent.firstToken, id: job.id, timeNs: nowNs });
      else if (job.recomputing) shown.push({ kind: engineEvent.resumed, id: job.id, timeNs: nowNs });
      job.recomputing = false;
      job.shown++;
      if (job.shown === job.output) {
        shown.push({ kind: engineEvent.finished, id: job.id, timeNs: nowNs });
        job.blocks = 0;
        running = running.filter((other) => other !== job);
      }
    }
  }
  return shown;
}

/** Pairs of which the one that came later and is more urgent was first to show a token. */
function overtaken(jobs: readonly Job[], rows: readonly { kind: number; request: number; timeNs: number }[]): number {
  const firstNs = new Map(rows.filter(({ kind }) => kind === engineEvent.firstToken).map(({ request, timeNs }) => [request, timeNs]));
  let count = 0;
  for (const early of jobs)
    for (const late of jobs)
      if (late.atNs > early.atNs && late.priority > early.priority && firstNs.get(late.id)! < firstNs.get(early.id)!) count++;
  return count;
}

const isDecoding = (job: Job): boolean => job.shown > 0 && !job.recomputing;
const job0 = (entry: [Job, number]): Job => entry[0];

describe('batching, chunking and preemption against a naive model', () => {
  it('shows the same events in the same order at the same times', () => {
    let preemptions = 0;
    let chunked = 0;
    let overtakes = 0;
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 2 ** 31 }),
        fc.constantFrom(1, 3, 8),
        fc.integer({ min: 22, max: 50 }),
        fc.constantFrom(8, 40, 400),
        fc.constantFrom(Number.POSITIVE_INFINITY, 50, 7),
        fc.boolean(),
        (seed, maxSequences, capacityBlocks, maxBatchedTokens, chunk, byPriority) => {
          const random = randomFrom(seed);
          // Pass times in whole microseconds, so that sums of passes need no rounding and both engines agree to the nanosecond.
          const timing = plainTiming({ contextNs: 1000, pairNs: 2000, prefillContextNs: 0 });
          const maxChunkTokens = Math.min(chunk, maxBatchedTokens);
          const rules = rulesOf({
            maxSequences,
            capacityBlocks,
            maxBatchedTokens,
            byPriority,
            ...(chunk < maxBatchedTokens ? { maxChunkTokens } : {}),
          });
          const jobs: Job[] = [];
          let atNs = 0;
          for (let id = 0; id < integerIn(random, 3, 25); id++) {
            atNs += random() < 0.3 ? 0 : Math.floor(random() * 300e6);
            jobs.push({
              id,
              prompt: integerIn(random, 1, 180),
              output: integerIn(random, 1, 150),
              atNs,
              priority: byPriority ? integerIn(random, -1, 1) : 0,
              kv: 0,
              shown: 0,
              blocks: 0,
              recomputing: false,
            });
          }
          const engine = engineOf(engineRole.aggregated, rules, timing);
          const recorder = new Recorder();
          let next = 0;
          for (;;) {
            const arrivalNs = jobs[next]?.atNs ?? Number.POSITIVE_INFINITY;
            const dueNs = nextEventNs(engine);
            if (arrivalNs === Number.POSITIVE_INFINITY && dueNs === Number.POSITIVE_INFINITY) break;
            // All arrivals of one instant first, so that an idle engine takes them together.
            const nowNs = Math.min(arrivalNs, dueNs);
            if (nowNs === arrivalNs && !(engine.passKind === 0 && dueNs === nowNs)) advance(engine, countingBlocks, nowNs, recorder.events);
            if (nowNs === arrivalNs) {
              const job = jobs[next++]!;
              const { id, prompt, output, priority } = job;
              submit(engine, countingBlocks, { id, promptTokens: prompt, outputTokens: output, priority, transferred: false }, nowNs);
            } else advance(engine, countingBlocks, nowNs, recorder.events);
            recorder.take();
          }
          const shape = createPassShape();
          const expected = naive(jobs, { ...rules, maxChunkTokens }, (decodes, chunks) => {
            Object.assign(shape, createPassShape());
            for (const job of decodes) {
              shape.decodeSequences++;
              shape.decodeContextTokens += job.kv + 1;
            }
            for (const [job, tokens] of chunks) {
              if (tokens === 1 && job.kv > 0) {
                shape.decodeSequences++;
                shape.decodeContextTokens += job.kv + 1;
                continue;
              }
              shape.prefillSequences++;
              shape.prefillTokens += tokens;
              for (let i = 1; i <= tokens; i++) shape.prefillPairs += job.kv + i;
              shape.prefillContextTokens += job.kv + tokens;
            }
            return mixedPassNs(timing, shape, 1);
          });
          expect(recorder.rows.map((row) => [row.kind, row.request, row.timeNs])).toEqual(
            expected.map((row) => [row.kind, row.id, row.timeNs]),
          );
          if (byPriority) overtakes += overtaken(jobs, recorder.rows);
          preemptions += expected.filter((row) => row.kind === engineEvent.preempted).length;
          if (Math.min(maxBatchedTokens, chunk) < 180) chunked++;
          expect(engine.pool.freeBlocks).toBe(capacityBlocks);
        },
      ),
      { numRuns: 250, seed: 11 },
    );
    expect(preemptions).toBeGreaterThan(50);
    expect(chunked).toBeGreaterThan(20);
    expect(overtakes).toBeGreaterThan(50);
  });
});
