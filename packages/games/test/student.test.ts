import { meanInterval } from '@braess/games';
import { expect, it } from 'vitest';

/** Student's t density, without its constant, integrated by Simpson's rule from 0 to x. */
function halfMass(freedom: number, x: number): number {
  const steps = 4000;
  const density = (t: number): number => Math.exp((-(freedom + 1) / 2) * Math.log1p((t * t) / freedom));
  let sum = density(0) + density(x);
  for (let step = 1; step < steps; step++) sum += (step % 2 === 0 ? 2 : 4) * density((step * x) / steps);
  return (sum * x) / steps / 3;
}

/** 97.5 % quantile by bisection; the whole mass of one side ends where the density is nothing any more. */
function quantile(freedom: number): number {
  // Substituting t = tan(a) sqrt(freedom) makes the half line finite: the density becomes cos(a)^(freedom - 1).
  const steps = 20_000;
  let whole = 0;
  for (let step = 0; step < steps; step++)
    whole += (Math.exp((freedom - 1) * Math.log(Math.cos(((step + 0.5) * Math.PI) / 2 / steps))) * Math.PI) / 2 / steps;
  whole *= Math.sqrt(freedom);
  let low = 0;
  let high = 20;
  while (high - low > 1e-6) {
    const middle = (low + high) / 2;
    if (halfMass(freedom, middle) < 0.95 * whole) low = middle;
    else high = middle;
  }
  return low;
}

it("the interval of a mean is Student's t", () => {
  for (const values of [
    [3, 4],
    [10, 12, 9, 11, 13],
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
  ]) {
    const { mean, halfWidth, low, high } = meanInterval(values);
    const average = values.reduce((sum, value) => sum + value) / values.length;
    const deviation = Math.sqrt(values.map((value) => (value - average) ** 2).reduce((sum, value) => sum + value) / (values.length - 1));
    const reach = (quantile(values.length - 1) * deviation) / Math.sqrt(values.length);
    expect(mean).toBeCloseTo(average, 12);
    expect(halfWidth as number).toBeCloseTo(reach, 2);
    expect(high as number).toBeCloseTo(average + reach, 2);
    expect(low as number).toBeCloseTo(average - reach, 2);
  }
  expect(meanInterval([7])).toEqual({ mean: 7, halfWidth: null, low: null, high: null });
});
