import { createRegimeDetector, ewmaCrossingSamples, observeRegime, type RegimeDetectorOptions } from '@braess/control';
import { describe, expect, it } from 'vitest';

describe('EWMA regime detector', () => {
  const published: RegimeDetectorOptions = { weight: 0.3, thresholds: [0.3, 2], samplesInARow: 3, releaseFraction: 1 };

  it('takes the samples that hand computation gives: crossing, then three in a row', () => {
    // From 0.2 to 1.0: s = 0.2 + 0.8 (1 - 0.7^k): k = 1 gives 0.44 >= 0.3, so the change comes with the third sample.
    const detector = createRegimeDetector();
    observeRegime(detector, published, 0.2);
    expect([1, 1, 1].map((sample) => observeRegime(detector, published, sample))).toEqual([false, false, true]);
    expect(detector).toMatchObject({ regime: 1, changes: 1 });
    expect(detector.smoothed).toBeCloseTo(0.2 + 0.8 * (1 - 0.343), 12);
    // From 1 s towards 2.2 s: 2.2 - 1.2 x 0.7^k >= 2 first at k = 6 (0.7^6 = 0.118 <= 1/6 < 0.168 = 0.7^5).
    expect(ewmaCrossingSamples(1, 2.2, 2, 0.3)).toBe(6);
    const slow = { ...createRegimeDetector(), smoothed: 1, regime: 1, candidate: 1 };
    const changes = Array.from({ length: 10 }, () => observeRegime(slow, published, 2.2));
    expect(changes.indexOf(true)).toBe(6 + 3 - 2);
  });

  it('does not flap on a signal that alternates about a threshold', () => {
    const detector = createRegimeDetector();
    for (let index = 0; index < 200; index++) observeRegime(detector, { ...published, weight: 1 }, index % 2 === 0 ? 0.29 : 0.31);
    expect(detector.changes).toBe(0);
  });

  it('starts counting again when the samples disagree about the new regime', () => {
    const detector = createRegimeDetector();
    const changes = [0.4, 5, 0.4, 5, 0.4, 5, 5, 5].map((sample) => observeRegime(detector, { ...published, weight: 1 }, sample));
    expect(changes.indexOf(true)).toBe(7);
    expect(detector.regime).toBe(2);
  });

  it('holds a regime between release and threshold with hysteresis, and leaves it without', () => {
    const settle = (releaseFraction: number) => {
      const options = { ...published, weight: 1, releaseFraction };
      const detector = createRegimeDetector();
      for (const sample of [0.4, 0.4, 0.4, 0.28, 0.28, 0.28]) observeRegime(detector, options, sample);
      return detector.regime;
    };
    expect(settle(0.8)).toBe(1);
    expect(settle(1)).toBe(0);
  });

  it('goes over two thresholds at once, ignores missing samples and knows what is never reached', () => {
    const detector = createRegimeDetector();
    for (const sample of [9, Number.NaN, 9, Number.NaN, 9]) observeRegime(detector, published, sample);
    expect(detector).toMatchObject({ regime: 2, changes: 1, missing: 2, samples: 3 });
    expect(ewmaCrossingSamples(0, 1, 2, 0.3)).toBe(Number.POSITIVE_INFINITY);
    expect(ewmaCrossingSamples(3, 9, 2, 0.3)).toBe(0);
  });
});
