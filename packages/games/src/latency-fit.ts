import { GameInputError, requireAbove, requireLength } from './input-check.js';
import { inversePower } from './inverse-power.js';
import { affineLatency, latencySeconds, type SaturatingLatency } from './latency-model.js';

/** A saturating latency model fitted to measured points. */
export interface LatencyFit {
  readonly model: SaturatingLatency;
  /** Root mean square of (model - measured) / measured, or of model - measured (seconds) under `absolute`. */
  readonly rootMeanSquareError: number;
  readonly largestError: number;
  /** The same root mean square for the best affine model: when it is hardly larger, the data hold no pole and n_sat means nothing. */
  readonly affineRootMeanSquareError: number;
  /** True when the model has a pole and it lowers the mean square error at least tenfold against the affine model. */
  readonly poleIdentified: boolean;
}

export interface LatencyFitOptions {
  /** n_sat, if known (for example the maximum number of sequences). Default: searched above the largest measured load. */
  readonly saturationLoad?: number;
  /** beta, if known. Default: searched in [0.25, 4]. */
  readonly poleExponent?: number;
  /** `relative` weighs each point by 1 / latency squared, fit for latencies over decades; `absolute` by 1. Default `relative`. */
  readonly residual?: 'relative' | 'absolute';
}

/**
 * Least-squares fit of l(n) = a n + b + d / (n_sat - n)^beta with a, b, d >= 0.
 * Method: variable projection (G. H. Golub, V. Pereyra, SIAM J. Numer. Anal. 10, 1973): for given (n_sat, beta) the three coefficients are
 * an exact non-negative least-squares problem; the two others are found by a grid and a shrinking compass search, deterministic.
 * Bias: all points are taken to lie below the pole, so points measured past the knee of a closed loop (finite because the loop limits
 * them) push n_sat above the largest load. Undefined (an error) with fewer points than free parameters.
 */
export function fitLatency(loads: ArrayLike<number>, latenciesSeconds: ArrayLike<number>, options: LatencyFitOptions = {}): LatencyFit {
  const data = checkPoints(loads, latenciesSeconds, options);
  const affine = projectAffine(data);
  const gap = options.saturationLoad === undefined ? undefined : Math.log(options.saturationLoad / data.largestLoad - 1);
  const exponent = options.poleExponent === undefined ? undefined : Math.log(options.poleExponent);
  const best = searchShape(data, gap, exponent);
  const model = best.squares < affine.squares ? best.model : affine.model;
  const points = data.load.length;
  let largestError = 0;
  for (let index = 0; index < points; index++) {
    largestError = Math.max(largestError, Math.abs(latencySeconds(model, data.load[index]!) - data.latency[index]!) * data.weight[index]!);
  }
  const squares = Math.min(best.squares, affine.squares);
  return {
    model,
    rootMeanSquareError: Math.sqrt(squares / points),
    largestError,
    affineRootMeanSquareError: Math.sqrt(affine.squares / points),
    poleIdentified: model.poleScale > 0 && squares * 10 <= affine.squares,
  };
}

interface Points {
  readonly load: Float64Array;
  readonly latency: Float64Array;
  /** Factor on each residual. */
  readonly weight: Float64Array;
  readonly largestLoad: number;
}

interface Candidate {
  readonly model: SaturatingLatency;
  /** Weighted sum of squared residuals. */
  readonly squares: number;
}

/** Shape coordinates: log of (n_sat / largest load - 1) and log of beta. */
function searchShape(data: Points, fixedGap: number | undefined, fixedExponent: number | undefined): Candidate {
  const gaps = fixedGap === undefined ? range(Math.log(1e-3), Math.log(10), 24) : [fixedGap];
  const exponents = fixedExponent === undefined ? range(Math.log(0.25), Math.log(4), 12) : [fixedExponent];
  let gap = gaps[0]!;
  let exponent = exponents[0]!;
  let best = projectPole(data, gap, exponent);
  const attempt = (nextGap: number, nextExponent: number): boolean => {
    const candidate = projectPole(data, nextGap, nextExponent);
    if (!(candidate.squares < best.squares)) return false;
    best = candidate;
    gap = nextGap;
    exponent = nextExponent;
    return true;
  };
  for (const nextGap of gaps) for (const nextExponent of exponents) attempt(nextGap, nextExponent);
  const directions = compass(fixedGap === undefined, fixedExponent === undefined);
  // The valley is curved and narrow (n_sat and beta trade off), hence diagonals, and many small steps.
  for (let step = 0.2, rounds = 0; step > 1e-10 && rounds < 20_000 && directions.length > 0; rounds++) {
    let moved = false;
    for (const [dg, de] of directions) {
      const nextExponent = Math.min(Math.log(4), Math.max(Math.log(0.25), exponent + de * step));
      if (attempt(Math.max(Math.log(1e-6), gap + dg * step), fixedExponent ?? nextExponent)) moved = true;
    }
    step *= moved ? 1.5 : 0.5;
  }
  return best;
}

function compass(gapFree: boolean, exponentFree: boolean): [number, number][] {
  const steps: [number, number][] = [];
  for (const dg of gapFree ? [-1, -0.5, 0, 0.5, 1] : [0]) {
    for (const de of exponentFree ? [-1, -0.5, 0, 0.5, 1] : [0]) if (dg !== 0 || de !== 0) steps.push([dg, de]);
  }
  return steps;
}

function projectPole(data: Points, logGap: number, logExponent: number): Candidate {
  const saturationLoad = data.largestLoad * (1 + Math.exp(logGap));
  const poleExponent = Math.exp(logExponent);
  const pole = data.load.map((load) => inversePower(saturationLoad - load, poleExponent));
  const { coefficients, squares } = nonNegativeLeastSquares(data, [data.load, new Float64Array(data.load.length).fill(1), pole]);
  const [slopeSeconds, interceptSeconds, poleScale] = coefficients as [number, number, number];
  return { model: { slopeSeconds, interceptSeconds, poleScale, saturationLoad, poleExponent }, squares };
}

function projectAffine(data: Points): Candidate {
  const { coefficients, squares } = nonNegativeLeastSquares(data, [data.load, new Float64Array(data.load.length).fill(1)]);
  return { model: affineLatency(coefficients[0]!, coefficients[1]!), squares };
}

/** Exact for these few columns: tries every subset of positive coefficients and keeps the best non-negative solution. */
function nonNegativeLeastSquares(data: Points, columns: readonly Float64Array[]): { coefficients: number[]; squares: number } {
  let best = {
    coefficients: columns.map(() => 0),
    squares: squaresOf(
      data,
      columns,
      columns.map(() => 0),
    ),
  };
  for (let subset = 1; subset < 1 << columns.length; subset++) {
    const chosen = columns.map((_, index) => index).filter((index) => (subset >> index) & 1);
    const solved = leastSquares(
      data,
      chosen.map((index) => columns[index]!),
    );
    if (solved === undefined || solved.some((value) => value < 0)) continue;
    const coefficients = columns.map(() => 0);
    chosen.forEach((index, position) => {
      coefficients[index] = solved[position]!;
    });
    const squares = squaresOf(data, columns, coefficients);
    if (squares < best.squares) best = { coefficients, squares };
  }
  return best;
}

/** Modified Gram-Schmidt on the weighted columns: normal equations would square their condition. Undefined when columns are dependent. */
function leastSquares(data: Points, columns: readonly Float64Array[]): number[] | undefined {
  const basis = columns.map((column) => column.map((value, index) => value * data.weight[index]!));
  const rest = data.latency.map((value, index) => value * data.weight[index]!);
  const triangle = columns.map(() => new Float64Array(columns.length));
  const projected = new Float64Array(columns.length);
  for (let k = 0; k < basis.length; k++) {
    const original = Math.sqrt(dot(columns[k]!, columns[k]!, data.weight));
    const norm = Math.sqrt(dot(basis[k]!, basis[k]!));
    if (!(norm > 1e-12 * original)) return undefined;
    triangle[k]![k] = norm;
    for (let index = 0; index < rest.length; index++) basis[k]![index] = basis[k]![index]! / norm;
    for (let later = k + 1; later < basis.length; later++) triangle[k]![later] = subtractProjection(basis[later]!, basis[k]!);
    projected[k] = subtractProjection(rest, basis[k]!);
  }
  const solution = new Array<number>(columns.length).fill(0);
  for (let k = columns.length - 1; k >= 0; k--) {
    let value = projected[k]!;
    for (let later = k + 1; later < columns.length; later++) value -= triangle[k]![later]! * solution[later]!;
    solution[k] = value / triangle[k]![k]!;
  }
  return solution;
}

function subtractProjection(vector: Float64Array, unit: Float64Array): number {
  const length = dot(vector, unit);
  for (let index = 0; index < vector.length; index++) vector[index] = vector[index]! - length * unit[index]!;
  return length;
}

function dot(left: Float64Array, right: Float64Array, weight?: Float64Array): number {
  let sum = 0;
  for (let index = 0; index < left.length; index++) {
    const factor = weight === undefined ? 1 : weight[index]! * weight[index]!;
    sum += left[index]! * right[index]! * factor;
  }
  return sum;
}

function squaresOf(data: Points, columns: readonly Float64Array[], coefficients: readonly number[]): number {
  let squares = 0;
  for (let index = 0; index < data.load.length; index++) {
    let residual = -data.latency[index]!;
    for (let column = 0; column < columns.length; column++) residual += coefficients[column]! * columns[column]![index]!;
    residual *= data.weight[index]!;
    squares += residual * residual;
  }
  return squares;
}

function range(low: number, high: number, steps: number): number[] {
  return Array.from({ length: steps }, (_, step) => low + ((high - low) * step) / (steps - 1));
}

function checkPoints(loads: ArrayLike<number>, latencies: ArrayLike<number>, options: LatencyFitOptions): Points {
  requireLength('latenciesSeconds', latencies.length, loads.length, `${loads.length} loads`);
  const needed = 3 + (options.saturationLoad === undefined ? 1 : 0) + (options.poleExponent === undefined ? 1 : 0);
  const distinct = new Set(Array.from(loads)).size;
  if (distinct < needed) {
    throw new GameInputError(
      `${distinct} distinct loads cannot fix ${needed} parameters; measure more loads, or give saturationLoad or poleExponent`,
    );
  }
  const load = Float64Array.from(loads);
  const latency = Float64Array.from(latencies);
  for (let index = 0; index < load.length; index++) {
    if (!(load[index]! >= 0 && load[index]! < Number.POSITIVE_INFINITY)) {
      throw new GameInputError(`loads[${index}] is ${load[index]}; it must be finite and at least 0`);
    }
    requireAbove(`latenciesSeconds[${index}]`, latency[index]!, 0);
  }
  const largestLoad = load.reduce((largest, value) => Math.max(largest, value), 0);
  if (options.saturationLoad !== undefined && options.saturationLoad <= largestLoad) {
    throw new GameInputError(
      `saturationLoad ${options.saturationLoad} is not above the largest measured load ${largestLoad}; drop points past the pole`,
    );
  }
  if (options.poleExponent !== undefined) requireAbove('poleExponent', options.poleExponent, 0);
  const weight = latency.map((value) => (options.residual === 'absolute' ? 1 : 1 / value));
  return { load, latency, weight, largestLoad };
}
