/**
 * Goal: transfers share a device max-min fairly and end at the right nanosecond. Method: closed forms for equal transfers, and a second implementation that
 * finds each rate by bisection on the water level and moves in the same events, on random starts.
 */
import {
  advance,
  createFairPipe,
  type FairPipe,
  HOST_DRAM_BANDWIDTH,
  NVME_BANDWIDTH,
  nextCompletionNs,
  offeredBytesPerSecond,
  startTransfer,
  transfersUnderWay,
} from '@braess/kvbm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';

const GB = 1e9;

interface Start {
  atNs: number;
  worker: number;
  bytes: number;
}

/** Runs all starts (in order of time) through the pipe; the completion time of each. `polls` are further times at which somebody calls advance. */
function runPipe(pipe: FairPipe, starts: Start[], polls: number[] = []): number[] {
  const ends = new Array<number>(starts.length).fill(-1);
  const out = new Float64Array(starts.length);
  const take = (nowNs: number) => {
    const count = advance(pipe, nowNs, out);
    for (let index = 0; index < count; index++) ends[out[index]!] = nowNs;
  };
  const runTo = (nowNs: number) => {
    while (nextCompletionNs(pipe) <= nowNs) take(nextCompletionNs(pipe));
    // Nothing more was due: a caller that wakes at these times only notices every completion in time.
    if (nowNs < Number.MAX_SAFE_INTEGER) expect(advance(pipe, nowNs, out)).toBe(0);
  };
  const agenda = [...starts.map((start, id) => ({ atNs: start.atNs, id })), ...polls.map((atNs) => ({ atNs, id: -1 }))];
  agenda.sort((a, b) => a.atNs - b.atNs || a.id - b.id);
  for (const { atNs, id } of agenda) {
    runTo(atNs);
    if (id < 0) take(atNs);
    else expect(startTransfer(pipe, id, starts[id]!.worker, starts[id]!.bytes, atNs)).toBe(true);
  }
  runTo(Number.MAX_SAFE_INTEGER);
  return ends;
}

/** Continuous time, rates by bisection: each transfer gets min(level, its worker's cap / transfers of the worker), the level such that the device is full. */
function idealEnds(starts: Start[], device: number, cap: number, latencyNs: number): number[] {
  const left = starts.map((start) => start.bytes);
  const joins = starts.map((start) => start.atNs + latencyNs);
  const ends = new Array<number>(starts.length).fill(Number.NaN);
  let now = 0;
  for (;;) {
    const moving = starts.map((_, id) => id).filter((id) => joins[id]! <= now && Number.isNaN(ends[id]));
    const perWorker = new Map<number, number>();
    for (const id of moving) perWorker.set(starts[id]!.worker, (perWorker.get(starts[id]!.worker) ?? 0) + 1);
    const rateAt = (id: number, level: number) => Math.min(level, cap / perWorker.get(starts[id]!.worker)!);
    let [low, high] = [0, device];
    for (let round = 0; round < 200; round++) {
      const level = (low + high) / 2;
      if (moving.reduce((sum, id) => sum + rateAt(id, level), 0) > device) high = level;
      else low = level;
    }
    const nextJoin = Math.min(...joins.filter((join) => join > now));
    const nextEnd = Math.min(...moving.map((id) => now + left[id]! / rateAt(id, low)));
    const next = Math.min(nextJoin, nextEnd);
    if (!Number.isFinite(next)) return ends;
    for (const id of moving) {
      left[id]! -= rateAt(id, low) * (next - now);
      if (left[id]! <= 1e-6) ends[id] = next;
    }
    now = next;
  }
}

describe('fair pipe', () => {
  it('moves one transfer at the cap of its worker: latency + bytes / 32 GB/s', () => {
    const pipe = createFairPipe({ deviceBytesPerSecond: 80 * GB, workerBytesPerSecond: 32 * GB, workers: 8, latencyNs: 5000 });
    expect(runPipe(pipe, [{ atNs: 100, worker: 3, bytes: 64_000_000 }])).toEqual([100 + 5000 + 2_000_000]);
  });

  it('shares: two of one worker halve its cap, eight workers share the host, NVMe has one cap', () => {
    const dram = () => createFairPipe({ ...HOST_DRAM_BANDWIDTH, workers: 8 });
    const same = { atNs: 0, bytes: 16_000_000 };
    expect(
      runPipe(dram(), [
        { ...same, worker: 0 },
        { ...same, worker: 0 },
      ]),
    ).toEqual([1_000_000, 1_000_000]);
    expect(
      runPipe(
        dram(),
        Array.from({ length: 8 }, (_, worker) => ({ ...same, worker })),
      ),
    ).toEqual(new Array(8).fill(1_600_000));
    const nvme = createFairPipe({ ...NVME_BANDWIDTH, workerBytesPerSecond: Number.POSITIVE_INFINITY, workers: 8 });
    expect(
      runPipe(nvme, [
        { ...same, worker: 0 },
        { ...same, worker: 1 },
      ]),
    ).toEqual([3_200_000, 3_200_000]);
  });

  it('changes the shares as transfers come and go', () => {
    // 10 bytes/ns: A alone for 100 ns (1,000 bytes), then half each; B's 500 bytes take 100 ns; A's last 500 bytes of 2,000 go at full rate.
    const pipe = createFairPipe({ deviceBytesPerSecond: 10 * GB, workerBytesPerSecond: 10 * GB, workers: 2 });
    const starts = [
      { atNs: 0, worker: 0, bytes: 2000 },
      { atNs: 100, worker: 1, bytes: 500 },
    ];
    expect(runPipe(pipe, starts)).toEqual([250, 200]);
  });

  it('is noticed at the next poll, while the bandwidth is free from the true end on', () => {
    const pipe = createFairPipe({ deviceBytesPerSecond: 10 * GB, workerBytesPerSecond: 10 * GB, workers: 2, pollPeriodNs: 1000 });
    const starts = [
      { atNs: 0, worker: 0, bytes: 2000 },
      { atNs: 0, worker: 1, bytes: 10_000 },
    ];
    // Half each until 400 ns, then the other's 8,000 bytes alone until 1,200 ns.
    expect(runPipe(pipe, starts)).toEqual([1000, 2000]);
  });

  const start = fc.record({ atNs: fc.nat(20_000), worker: fc.nat(3), bytes: fc.integer({ min: 1, max: 300_000 }) });

  it('agrees with the ideal processor-sharing course to within the rounding to whole nanoseconds', () => {
    fc.assert(
      fc.property(
        fc.array(start, { minLength: 1, maxLength: 25, size: 'max' }),
        fc.constantFrom(12, 25, 80),
        fc.constantFrom(0, 700),
        (starts, device, latencyNs) => {
          const pipe = createFairPipe({ deviceBytesPerSecond: device * GB, workerBytesPerSecond: 20 * GB, workers: 4, latencyNs });
          const ends = runPipe(pipe, starts);
          const ideal = idealEnds(starts, device, Math.min(20, device), latencyNs);
          // Each completion is rounded up by less than 1 ns, and holds its share that much longer.
          for (let id = 0; id < starts.length; id++) expect(Math.abs(ends[id]! - ideal[id]!)).toBeLessThanOrEqual(1 + starts.length);
          expect(transfersUnderWay(pipe)).toBe(0);
          const asked = starts.reduce((sum, one) => sum + one.bytes, 0);
          expect(Math.abs(pipe.movedBytes - asked)).toBeLessThan(asked * 1e-9);
        },
      ),
      { numRuns: 60, seed: 5 },
    );
  });

  it('does not depend on how often it is asked, nor on a restore by copy', () => {
    const options = { deviceBytesPerSecond: 25 * GB, workerBytesPerSecond: 20 * GB, workers: 4, latencyNs: 300, pollPeriodNs: 128 };
    fc.assert(
      fc.property(
        fc.array(start, { minLength: 1, maxLength: 20, size: 'max' }),
        fc.array(fc.nat(60_000), { maxLength: 40, size: 'max' }),
        (starts, polls) => {
          const plain = createFairPipe(options);
          const polled = structuredClone(createFairPipe(options));
          expect(runPipe(polled, starts, polls)).toEqual(runPipe(plain, starts));
          expect(polled.movedBytes).toBe(plain.movedBytes);
        },
      ),
      { numRuns: 60, seed: 6 },
    );
  });

  it('tells the rate a new transfer would get', () => {
    const pipe = createFairPipe({ deviceBytesPerSecond: 80 * GB, workerBytesPerSecond: 32 * GB, workers: 4 });
    const out = new Float64Array(8);
    expect(offeredBytesPerSecond(pipe, 0)).toBeCloseTo(32 * GB, 0);
    for (let worker = 1; worker < 4; worker++) startTransfer(pipe, worker, worker, 1e9, 0);
    advance(pipe, 0, out);
    expect(offeredBytesPerSecond(pipe, 0)).toBeCloseTo(20 * GB, 0);
    expect(offeredBytesPerSecond(pipe, 1)).toBeCloseTo(16 * GB, 0);
  });

  it('refuses at its limit and throws on what it cannot mean', () => {
    const pipe = createFairPipe({ deviceBytesPerSecond: GB, workerBytesPerSecond: GB, workers: 1, transferLimit: 1 });
    expect(startTransfer(pipe, 1, 0, 10, 50)).toBe(true);
    expect(startTransfer(pipe, 2, 0, 10, 50)).toBe(false);
    expect(() => startTransfer(pipe, 2, 1, 10, 50)).toThrow(/worker 1 is not in 0..0/);
    expect(() => startTransfer(pipe, 2, 0, 0, 50)).toThrow(/transfer 2 of 0 bytes/);
    expect(() => startTransfer(pipe, 2, 0, 10, 51)).toThrow(/advance the pipe to the start first/);
    expect(() => createFairPipe({ deviceBytesPerSecond: 0, workerBytesPerSecond: GB, workers: 1 })).toThrow(/deviceBytesPerSecond = 0/);
    expect(() => createFairPipe({ deviceBytesPerSecond: 1, workerBytesPerSecond: 1, workers: 1, latencyNs: 0.5 })).toThrow(
      /latencyNs = 0.5/,
    );
  });
});
