import { KernelError } from './errors.js';

/**
 * The mathematics a handler may use: functions that give the same bits on every supported Node version. `Math.pow` and `**` do not
 * (V8 changed their implementation), so use `power`. `Math.sqrt`, `Math.log`, `Math.exp`, `Math.log1p` and `Math.expm1` are safe.
 */
export function power(base: number, exponent: number): number {
  if (Number.isInteger(exponent) && Math.abs(exponent) <= 1024) return integerPower(base, exponent);
  // Error of about |exponent * ln(base)| units in the last place; integers and square roots above and below are exact to rounding.
  if (exponent === 0.5) return Math.sqrt(base);
  return Math.exp(exponent * Math.log(base));
}

function integerPower(base: number, exponent: number): number {
  let result = 1;
  let factor = base;
  for (let rest = Math.abs(exponent); rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result *= factor;
    factor *= factor;
  }
  return exponent < 0 ? 1 / result : result;
}

/** Exponential sample with the given mean by inverse CDF; `uniform` in [0, 1). */
export function exponential(uniform: number, mean: number): number {
  return -mean * Math.log(1 - uniform); // 1 - u is exact for the 32-bit draws of a stream.
}

/** Standard normal sample by inverse CDF (P. J. Acklam's rational approximation, relative error below 1.15e-9); `uniform` in [0, 1). */
export function standardNormal(uniform: number): number {
  const low = 0.02425;
  if (!(uniform >= 0 && uniform < 1)) throw new KernelError('bad-value', `standardNormal(${uniform}): the argument must lie in [0, 1)`);
  if (uniform === 0) return standardNormal(2 ** -33);
  if (uniform < low) return normalTail(Math.sqrt(-2 * Math.log(uniform)));
  if (uniform > 1 - low) return -normalTail(Math.sqrt(-2 * Math.log(1 - uniform)));
  const q = uniform - 0.5;
  const r = q * q;
  const numerator =
    (((((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r + 138.357751867269) * r - 30.66479806614716) * r +
      2.506628277459239) *
    q;
  const denominator =
    ((((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r + 66.80131188771972) * r - 13.28068155288572) * r + 1;
  return numerator / denominator;
}

function normalTail(q: number): number {
  const numerator =
    ((((-0.007784894002430293 * q - 0.3223964580411365) * q - 2.400758277161838) * q - 2.549732539343734) * q + 4.374664141464968) * q +
    2.938163982698783;
  const denominator = (((0.007784695709041462 * q + 0.3224671290700398) * q + 2.445134137142996) * q + 3.754408661907416) * q + 1;
  return numerator / denominator;
}
