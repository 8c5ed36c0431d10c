import { reproduce, reproductionSuite } from '@braess/lab';
import { describe, expect, it } from 'vitest';

const suite = reproductionSuite('poa')!;

describe('the price-of-anarchy suite', () => {
  it('has the published numbers of arXiv 2606.17081 under its ids', () => {
    const parts = suite.parts({ quick: false });
    expect(parts.map(({ id }) => id)).toEqual([
      'exp1.340b-1p2d',
      'exp2.70b-1p2d',
      'exp2.70b-1p5d',
      'exp3.340b-1p2d',
      'exp3.70b-1p2d',
      'exp3.70b-1p5d',
      'exp4.340b-1p2d',
      'exp4.70b-1p2d',
      'exp4.70b-1p5d',
      'exp5',
    ]);
    // Static in the spike: at least 20 runs of worker loops.
    expect(parts[3]!.cases.filter(({ settings }) => !settings.some((setting) => /style|frontends/.test(setting)))).toHaveLength(20);
  });

  it('reproduces experiment 1: the knee, the plateau, a flat ITL, and Little holds', { timeout: 60_000 }, async () => {
    const { rows } = await reproduce(suite, { quick: true, experiments: [1], parallel: 2 });
    const row = (id: string) => rows.find((each) => each.id === `exp1.340b-1p2d.${id}`)!;
    expect(row('knee')).toMatchObject({ published: 128, emulated: 128, basis: 'assumed' });
    expect(row('plateau.poa')).toMatchObject({ published: 18.7, basis: 'fit' });
    expect(row('plateau.spread').emulated).toBeLessThan(0.5);
    expect(row('itl-p99.spread').emulated).toBeLessThan(2);
    expect(row('384.poa')).toMatchObject({ published: 283.6, basis: 'assumed' });
    expect(row('96.ttft-p99')).toMatchObject({ published: 544, unit: 'ms', basis: 'fit' });
    for (const { note } of rows.filter(({ id }) => id.endsWith('.rps'))) {
      const percent = Number(/Little ([+-][\d.]+) %/.exec(note!)![1]);
      expect(Math.abs(percent)).toBeLessThan(5);
    }
    // The closed loop's identity, from other numbers than Little's: C / X = TTFT + decode, 242 gaps of 22 ms on average.
    const [rps, ttft] = [row('64.rps').emulated!, row('64.ttft-mean').emulated!];
    expect(64 / rps / (ttft / 1e3 + 242 * 0.022)).toBeGreaterThan(0.96);
    expect(64 / rps / (ttft / 1e3 + 242 * 0.022)).toBeLessThan(1.04);
  });
});
