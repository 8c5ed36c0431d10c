import {
  acquireConnection,
  attemptEndsNs,
  backoffMs,
  type ClosedLoopSpec,
  cancelWaiting,
  checkRetry,
  createClosedLoop,
  createConnectionPool,
  finishRequest,
  finishTask,
  NO_RETRY,
  nextAttemptNs,
  offerTask,
  type PoolOrder,
  type RetrySpec,
  releaseConnection,
  takeRequest,
  thinkNs,
  waitingRequests,
} from '@braess/workload';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { uniformFrom } from './streams.js';

describe('connection pool', () => {
  it.each(['fifo', 'lifo', 'random'] as PoolOrder[])('%s agrees with a plain list under any sequence of calls', (order) => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 4 }),
        fc.nat(150),
        fc.array(fc.nat(99), { maxLength: 800 }),
        (connections, queueLimit, script) => {
          const pool = createConnectionPool({ connections, order, queueLimit });
          const list: number[] = [];
          let inUse = 0;
          let next = 0;
          for (const step of script) {
            if (step < 50) {
              const expected = inUse < connections ? 'connected' : list.length < queueLimit ? 'queued' : 'refused';
              expect(acquireConnection(pool, next)).toBe(expected);
              if (expected === 'connected') inUse++;
              if (expected === 'queued') list.push(next);
              next++;
            } else if (step < 75 && inUse > 0) {
              const got = releaseConnection(pool, () => step / 100);
              if (list.length === 0) inUse--;
              const expected = order === 'fifo' ? list[0] : order === 'lifo' ? list.at(-1) : got;
              expect(got).toBe(expected ?? -1);
              if (got >= 0) expect(list.splice(list.indexOf(got), 1)).toEqual([got]);
            } else {
              const victim = list[step % Math.max(1, list.length)] ?? next;
              expect(cancelWaiting(pool, victim)).toBe(list.includes(victim));
              if (list.includes(victim)) list.splice(list.indexOf(victim), 1);
            }
            expect(pool.inUse).toBe(inUse);
            expect(waitingRequests(pool)).toBe(list.length);
            expect(pool.waiting.length).toBeLessThanOrEqual(2 * list.length + 64);
          }
          expect(structuredClone(pool)).toEqual(pool);
        },
      ),
      { numRuns: 60 },
    );
  });

  it('random picks every waiting request alike', () => {
    const counts = new Array<number>(5).fill(0);
    const uniform = uniformFrom(1);
    for (let run = 0; run < 5000; run++) {
      const pool = createConnectionPool({ connections: 1, order: 'random', queueLimit: 9 });
      for (let request = 0; request < 6; request++) acquireConnection(pool, request);
      counts[releaseConnection(pool, uniform) - 1]!++;
    }
    for (const count of counts) expect(Math.abs(count - 1000)).toBeLessThan(4.5 * Math.sqrt(800));
  });

  it('refuses misuse', () => {
    expect(() => createConnectionPool({ connections: 0, order: 'fifo', queueLimit: 1 })).toThrow(/connections is 0/);
    const pool = createConnectionPool({ connections: 1, order: 'fifo', queueLimit: 5 });
    expect(() => releaseConnection(pool, Math.random)).toThrow(/none is in use/);
    acquireConnection(pool, 1);
    acquireConnection(pool, 2);
    expect(() => acquireConnection(pool, 2)).toThrow(/already waits/);
  });
});

describe('retries', () => {
  const spec: RetrySpec = {
    timeoutMs: 100,
    deadlineMs: 1000,
    attempts: 5,
    backoffMs: 10,
    backoffFactor: 2,
    maxBackoffMs: 50,
    jitter: 'none',
  };

  it('pause exponentially up to the limit, then give up', () => {
    checkRetry(spec);
    expect([1, 2, 3, 4, 5].map((attempt) => backoffMs(spec, attempt))).toEqual([10, 20, 40, 50, 50]);
    expect(nextAttemptNs(spec, 1, 0, 7e6, Math.random)).toBe(17e6);
    expect(nextAttemptNs(spec, 5, 0, 7e6, Math.random)).toBe(-1);
    expect(nextAttemptNs(NO_RETRY, 1, 0, 0, Math.random)).toBe(-1);
  });

  it('keep timeout and deadline', () => {
    expect(attemptEndsNs(spec, 0, 500e6)).toBe(600e6);
    expect(attemptEndsNs(spec, 0, 950e6)).toBe(1000e6);
    expect(attemptEndsNs(NO_RETRY, 0, 5)).toBe(Number.POSITIVE_INFINITY);
    expect(nextAttemptNs(spec, 1, 0, 995e6, Math.random)).toBe(-1);
  });

  it('jitter within their bounds, one draw each', () => {
    for (const [jitter, low] of [
      ['full', 0],
      ['equal', 20],
    ] as const) {
      expect(nextAttemptNs({ ...spec, jitter }, 3, 0, 0, () => 0)).toBe(low * 1e6);
      expect(nextAttemptNs({ ...spec, jitter }, 3, 0, 0, () => 0.5)).toBe(((low + 40) / 2) * 1e6);
    }
  });

  it('are checked', () => {
    expect(() => checkRetry({ ...spec, attempts: 0 })).toThrow(/attempts is 0/);
    expect(() => checkRetry({ ...spec, timeoutMs: -1 })).toThrow(/timeoutMs is -1/);
    expect(() => checkRetry({ ...spec, backoffFactor: 0.5 })).toThrow(/backoffFactor is 0.5/);
  });
});

const LOOP: ClosedLoopSpec = { style: 'workers', inFlight: 4, meanThinkMs: 200, think: 'exponential', requests: 4000, taskLimit: 4000 };

/** Worker loops against a server of exponential service for each request (no queue), by a plain event list. */
function runWorkers(spec: ClosedLoopSpec, serviceMs: number): { throughputPerMs: number; meanInFlight: number } {
  const loop = createClosedLoop(spec);
  const uniform = uniformFrom(7);
  const events: { atMs: number; ends: boolean }[] = Array.from({ length: spec.inFlight }, () => ({ atMs: 0, ends: false }));
  let [nowMs, area] = [0, 0];
  while (events.length > 0) {
    events.sort((a, b) => a.atMs - b.atMs);
    const event = events.shift()!;
    area += loop.inFlight * (event.atMs - nowMs);
    nowMs = event.atMs;
    if (event.ends) {
      finishRequest(loop);
      events.push({ atMs: nowMs + thinkNs(spec, uniform) / 1e6, ends: false });
    } else if (takeRequest(loop) >= 0) events.push({ atMs: nowMs - serviceMs * Math.log(1 - uniform()), ends: true });
  }
  expect(loop).toMatchObject({ offered: spec.requests, finished: spec.requests, inFlight: 0 });
  return { throughputPerMs: spec.requests / nowMs, meanInFlight: area / nowMs };
}

describe('closed loop', () => {
  it('of workers obeys Little: throughput N / (service + think), and in flight throughput x service', () => {
    const { throughputPerMs, meanInFlight } = runWorkers(LOOP, 100);
    expect(throughputPerMs / (4 / 300)).toBeCloseTo(1, 1);
    expect(meanInFlight / (throughputPerMs * 100)).toBeCloseTo(1, 1);
  });

  it('of tasks with a semaphore never exceeds its permits, serves in order, and counts what it refuses', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 5 }), fc.nat(20), fc.array(fc.boolean(), { maxLength: 400 }), (inFlight, taskLimit, script) => {
        const loop = createClosedLoop({ ...LOOP, style: 'semaphore', inFlight, taskLimit });
        const waiting: number[] = [];
        let [running, next, refused] = [0, 0, 0];
        for (const offer of script) {
          if (offer) {
            const expected = running < inFlight ? 'start' : waiting.length < taskLimit ? 'wait' : 'refused';
            expect(offerTask(loop, next)).toBe(expected);
            if (expected === 'start') running++;
            else if (expected === 'wait') waiting.push(next);
            else refused++;
            next++;
          } else if (running > 0) {
            const started = waiting.shift() ?? -1;
            expect(finishTask(loop)).toBe(started);
            if (started < 0) running--;
          }
          expect(loop).toMatchObject({ inFlight: running, refused, offered: next });
        }
      }),
    );
  });

  it('thinks exponentially or constantly, one draw each', () => {
    expect(thinkNs({ ...LOOP, think: 'constant' }, () => 0.9)).toBe(200e6);
    expect(thinkNs(LOOP, () => 0.5)).toBe(Math.round(200e6 * Math.log(2)));
  });

  it('refuses misuse', () => {
    expect(() => createClosedLoop({ ...LOOP, inFlight: 0 })).toThrow(/inFlight is 0/);
    expect(() => createClosedLoop({ ...LOOP, meanThinkMs: -1 })).toThrow(/meanThinkMs is -1/);
    expect(() => offerTask(createClosedLoop(LOOP), 1)).toThrow(/called as semaphore/);
    expect(() => finishRequest(createClosedLoop(LOOP))).toThrow(/none is in flight/);
  });
});
