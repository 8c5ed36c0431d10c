import { affineLatency, type PoaOptions, PUBLISHED_POA_OPTIONS, poaHat, poaHatOfLoads, withRealised } from '@braess/games';
import { describe, expect, it } from 'vitest';
import { testStream } from './random.js';

describe('PoA-hat from counts', () => {
  it('is that of the requests one by one, under every choice that is left open', () => {
    const random = testStream(11);
    const pick = <Value>(...values: readonly Value[]): Value => values[Math.floor(random() * values.length)]!;
    const seen = new Map<string, number>();
    for (let trial = 0; trial < 2000; trial++) {
      const loads = Int32Array.from({ length: 1 + Math.floor(random() * 5) }, () => Math.floor(random() * 9));
      const inService = loads.reduce((sum, load) => sum + load, 0);
      const waiting = Math.floor(random() * 6);
      const options: PoaOptions = {
        ...PUBLISHED_POA_OPTIONS,
        definition: pick('published', 'published', 'same-units', 'load-dependent'),
        rows: pick('in-flight', 'in-service'),
        slotsPerWorker: pick<number | 'unlimited'>(1, 3, 'unlimited'),
        loadNotion: pick('in-service', 'excluding-self'),
        aggregate: pick('sum', 'mean'),
        pastPole: pick('clamp', 'infinite', 'exclude'),
      };
      const model = pick(affineLatency(0.3, pick(0, 0.1)), {
        slopeSeconds: 0.1,
        interceptSeconds: 0.2,
        poleScale: 1,
        saturationLoad: 6,
        poleExponent: 1,
      });
      const workerOfRequest = Int32Array.from(
        [...loads].flatMap((load, worker) => new Array<number>(load).fill(worker)).concat(new Array<number>(waiting).fill(-1)),
      );
      const meanSeconds = 1 + 9 * random();
      const expected = poaHat(
        { workerOfRequest, realisedLatencySeconds: new Float64Array(workerOfRequest.length).fill(meanSeconds) },
        [...loads].map(() => model),
        options,
      );
      const found = withRealised(poaHatOfLoads(loads, inService + waiting, model, options), meanSeconds, options);
      seen.set(expected.status === 'undefined' ? expected.reason : 'defined', 1);
      if (expected.status === 'undefined') expect(found).toEqual(expected);
      else {
        expect(found).toMatchObject({ status: 'defined', rows: expected.rows, pairs: expected.pairs, feasible: expected.feasible });
        if (found.status === 'defined') {
          if (found.value !== expected.value) expect(Math.abs(found.value - expected.value)).toBeLessThanOrEqual(1e-12 * expected.value);
          expect(found.denominatorSeconds / expected.denominatorSeconds).toBeCloseTo(1, 12);
        }
      }
    }
    expect([...seen.keys()].sort()).toEqual(expect.arrayContaining(['defined', 'past-pole', 'too-few-in-flight']));
  });

  it('without a worker or a latency is undefined', () => {
    expect(poaHatOfLoads(new Int32Array(0), 9, affineLatency(1, 0), PUBLISHED_POA_OPTIONS)).toMatchObject({ reason: 'no-workers' });
    const hat = poaHatOfLoads(Int32Array.of(4, 4), 8, affineLatency(1, 0), PUBLISHED_POA_OPTIONS);
    expect(withRealised(hat, Number.NaN, PUBLISHED_POA_OPTIONS)).toMatchObject({ status: 'undefined', reason: 'latency-unknown' });
    // Eight requests of 12 s over the cheapest slot of each worker, 4 s: 96 / 8.
    expect(withRealised(hat, 12, PUBLISHED_POA_OPTIONS)).toMatchObject({ value: 12, numeratorSeconds: 96, denominatorSeconds: 8 });
  });
});
