import {
  affineLatency,
  createPoaWindow,
  latencySeconds,
  type PoaOptions,
  type PoaSnapshot,
  PUBLISHED_POA_OPTIONS,
  poaHat,
  poaOverWindow,
  pushPoa,
} from '@braess/games';
import { describe, expect, it } from 'vitest';
import { testStream } from './random.js';

function snapshot(perWorker: readonly number[], waiting: number, latencyOf: (request: number) => number): PoaSnapshot {
  const workers = perWorker.flatMap((count, worker) => new Array<number>(count).fill(worker));
  const workerOfRequest = Int32Array.from([...workers, ...new Array<number>(waiting).fill(-1)]);
  return { workerOfRequest, realisedLatencySeconds: Float64Array.from(workerOfRequest, (_, request) => latencyOf(request)) };
}

function value(result: ReturnType<typeof poaHat>): number {
  if (result.status === 'undefined') throw new Error(`undefined: ${result.reason}`);
  return result.value;
}

const sameUnits: PoaOptions = {
  ...PUBLISHED_POA_OPTIONS,
  definition: 'same-units',
  rows: 'in-service',
  slotsPerWorker: 1,
  minimumInFlight: 1,
};

describe('PoA-hat', () => {
  it('is height x (C / (X E))^2 as published: flat below the limit, quadratic above it, whatever the split', () => {
    // A closed loop of C with S in service at E seconds each: X = S / E, every latency C / X = C E / S. a = E / height.
    const [serviceSeconds, height] = [5.6, 18.7];
    const slope = serviceSeconds / height;
    for (const [inFlight, inService, split] of [
      [8, 8, [5, 3]],
      [96, 96, [50, 46]],
      [128, 100, [50, 50]],
      [384, 100, [90, 10]],
    ] as const) {
      const seen = snapshot(split, inFlight - inService, () => (inFlight * serviceSeconds) / inService);
      const latency = split.map(() => affineLatency(slope, 0));
      const ratio = inFlight / inService;
      expect(value(poaHat(seen, latency))).toBeCloseTo(height * ratio * ratio, 9);
    }
  });

  it('reports fewer than 5 in flight as undefined, not as a number', () => {
    const latency = [affineLatency(1, 0), affineLatency(1, 0)];
    expect(
      poaHat(
        snapshot([2, 2], 0, () => 1),
        latency,
      ),
    ).toEqual({ status: 'undefined', reason: 'too-few-in-flight', rows: 4, workersPastPole: 0 });
    expect(
      poaHat(
        snapshot([3, 2], 0, () => 1),
        latency,
      ).status,
    ).toBe('defined');
    expect(
      poaHat(
        snapshot([0, 0], 9, () => 1),
        latency,
      ),
    ).toMatchObject({ status: 'undefined', reason: 'zero-denominator' });
    expect(
      poaHat(
        snapshot([3, 3], 0, () => Number.NaN),
        latency,
      ),
    ).toMatchObject({ status: 'undefined', reason: 'latency-unknown' });
  });

  it('is 1 for the optimal assignment with same-unit costs and never below 1 for a feasible one', () => {
    const random = testStream(29);
    let above = 0;
    for (let round = 0; round < 200; round++) {
      const workers = 3 + Math.floor(random() * 4);
      const latency = Array.from({ length: workers }, () => affineLatency(random(), random()));
      const order = Array.from({ length: workers }, (_, worker) => worker).sort(() => random() - 0.5);
      const workerOfRequest = Int32Array.from(order.slice(0, workers - 1));
      const fixedSeconds = Float64Array.from({ length: (workers - 1) * workers }, () => random() * 3);
      const reportedLoad = Float64Array.from({ length: workers }, () => Math.floor(random() * 9));
      const seen = { workerOfRequest, realisedLatencySeconds: new Float64Array(workers - 1), fixedSeconds, reportedLoad };
      const made = poaHat(seen, latency, { ...sameUnits, loadNotion: 'reported' });
      expect(made).toMatchObject({ status: 'defined', feasible: true });
      expect(value(made)).toBeGreaterThanOrEqual(1 - 1e-12);
      if (value(made) > 1 + 1e-9) above++;
      // The best of all assignments, by enumeration, must be exactly 1.
      const best = Math.min(
        ...injections(workers - 1, workers).map((trial) =>
          value(poaHat({ ...seen, workerOfRequest: Int32Array.from(trial) }, latency, { ...sameUnits, loadNotion: 'reported' })),
        ),
      );
      expect(best).toBeCloseTo(1, 12);
    }
    expect(above).toBeGreaterThan(50);
  });

  it('with loads that follow the placement is 1 for a balanced and known for an unbalanced one', () => {
    const options: PoaOptions = { ...PUBLISHED_POA_OPTIONS, definition: 'load-dependent' };
    const latency = [affineLatency(1, 0), affineLatency(1, 0)];
    expect(
      value(
        poaHat(
          snapshot([4, 4], 3, () => 9),
          latency,
          options,
        ),
      ),
    ).toBe(1);
    // 6^2 + 2^2 = 40 against 2 x 4^2 = 32.
    expect(
      value(
        poaHat(
          snapshot([6, 2], 0, () => 9),
          latency,
          options,
        ),
      ),
    ).toBe(40 / 32);
  });

  it('changes with every named option', () => {
    const pole = { slopeSeconds: 0.1, interceptSeconds: 0.2, poleScale: 1, saturationLoad: 7, poleExponent: 1 };
    const latency = [pole, pole, pole];
    const seen: PoaSnapshot = { ...snapshot([8, 3, 1], 2, (request) => 1 + request), reportedLoad: Float64Array.of(2, 2, 2) };
    const l = (load: number) => latencySeconds(pole, load);
    const clamped = 0.1 * 8 + 0.2 + 1 / 0.5;
    const total = (14 * 15) / 2;
    const base = { ...PUBLISHED_POA_OPTIONS };
    expect(value(poaHat(seen, latency, base))).toBeCloseTo(total / (clamped + l(3) + l(1)), 12);
    expect(value(poaHat(seen, latency, { ...base, rows: 'in-service' }))).toBeCloseTo(78 / (clamped + l(3) + l(1)), 12);
    expect(value(poaHat(seen, latency, { ...base, aggregate: 'mean' }))).toBeCloseTo(total / 14 / ((clamped + l(3) + l(1)) / 3), 12);
    expect(value(poaHat(seen, latency, { ...base, pastPole: 'exclude' }))).toBeCloseTo(total / (l(3) + l(1)), 12);
    expect(value(poaHat(seen, latency, { ...base, slotsPerWorker: 2 }))).toBeCloseTo(total / (2 * (clamped + l(3) + l(1))), 12);
    expect(value(poaHat(seen, latency, { ...base, slotsPerWorker: 'unlimited' }))).toBeCloseTo(total / (14 * l(1)), 12);
    expect(value(poaHat(seen, latency, { ...base, loadNotion: 'reported' }))).toBeCloseTo(total / (3 * l(2)), 12);
    // Own request taken off: one of worker 0 sees 7 (still clamped), one of worker 1 sees 2, worker 2's own sees 0.
    expect(value(poaHat(seen, latency, { ...base, loadNotion: 'excluding-self' }))).toBeCloseTo(
      total / (0.1 * 7 + 0.2 + 2 + l(2) + l(0)),
      12,
    );
    expect(poaHat(seen, latency, { ...base, pastPole: 'infinite' })).toMatchObject({
      status: 'undefined',
      reason: 'past-pole',
      workersPastPole: 1,
    });
    expect(() => poaHat(seen, latency, { ...base, pastPole: 'error' })).toThrow(/past saturationLoad 7/);
    expect(poaHat(seen, latency, { ...base, minimumInFlight: 15 }).status).toBe('undefined');
    expect(() =>
      poaHat(
        snapshot([8, 3, 1], 2, () => 1),
        latency,
        { ...base, loadNotion: 'reported' },
      ),
    ).toThrow(/reportedLoad is missing/);
  });
});

describe('PoA-hat over a window', () => {
  const one = (numeratorSeconds: number, denominatorSeconds: number) =>
    ({
      status: 'defined',
      value: numeratorSeconds / denominatorSeconds,
      numeratorSeconds,
      denominatorSeconds,
      rows: 9,
      pairs: 2,
      workersPastPole: 0,
      feasible: true,
    }) as const;

  it('forgets what is older than its duration and combines as named', () => {
    const window = createPoaWindow(10, 3);
    pushPoa(window, 0, one(100, 1));
    pushPoa(window, 6, one(30, 10));
    pushPoa(window, 12, one(10, 1));
    pushPoa(window, 12, { status: 'undefined', reason: 'too-few-in-flight', rows: 2, workersPastPole: 0 });
    expect(poaOverWindow(window, 12)).toBe(40 / 11);
    expect(poaOverWindow(window, 12, 'mean-of-ratios')).toBe(6.5);
    expect(window).toMatchObject({ undefinedSnapshots: 1, displaced: 0 });
    expect(poaOverWindow(window, 16)).toBe(10);
    expect(poaOverWindow(window, 99)).toBeUndefined();
  });

  it('counts what a full ring pushes out', () => {
    const window = createPoaWindow(1000, 2);
    for (let time = 0; time < 5; time++) pushPoa(window, time, one(time, 1));
    expect(window.displaced).toBe(3);
    expect(poaOverWindow(window, 5)).toBe(3.5);
  });
});

function injections(rows: number, columns: number): number[][] {
  if (rows === 0) return [[]];
  return injections(rows - 1, columns).flatMap((head) =>
    Array.from({ length: columns }, (_, column) => column)
      .filter((column) => !head.includes(column))
      .map((column) => [...head, column]),
  );
}
