/** A source of independent uniform numbers in [0, 1); every sampler takes exactly one draw a sample. */
export type Uniform = () => number;

/** Keeps inverse distribution functions away from their infinite ends; the step of a 53-bit uniform. */
const SMALLEST_PROBABILITY = 2 ** -53;

/** Inverse of the exponential distribution with mean 1. */
export function exponentialQuantile(probability: number): number {
  return -Math.log(1 - probability);
}

// Wichura, "Algorithm AS 241: The percentage points of the normal distribution", Applied Statistics 37 (1988), PPND16: about 1e-16.
const CENTRE_TOP = [
  3.3871328727963665, 133.14166789178438, 1971.5909503065513, 13731.69376550946, 45921.95393154987, 67265.7709270087, 33430.57558358813,
  2509.0809287301227,
];
const CENTRE_BOTTOM = [
  1, 42.31333070160091, 687.1870074920579, 5394.196021424751, 21213.794301586597, 39307.89580009271, 28729.085735721943, 5226.495278852854,
];
const MIDDLE_TOP = [
  1.4234371107496835, 4.630337846156546, 5.769497221460691, 3.6478483247632045, 1.2704582524523684, 0.2417807251774506,
  0.022723844989269184, 0.0007745450142783414,
];
const MIDDLE_BOTTOM = [
  1, 2.053191626637759, 1.6763848301838038, 0.6897673349851, 0.14810397642748008, 0.015198666563616457, 0.0005475938084995345,
  1.0507500716444169e-9,
];
const TAIL_TOP = [
  6.657904643501103, 5.463784911164114, 1.7848265399172913, 0.29656057182850487, 0.026532189526576124, 0.0012426609473880784,
  0.000027115555687434876, 2.0103343992922881e-7,
];
const TAIL_BOTTOM = [
  1, 0.599832206555888, 0.1369298809227358, 0.014875361290850615, 0.0007868691311456133, 0.000018463183175100548, 1.421511758316446e-7,
  2.0442631033899397e-15,
];

/** Inverse of the standard normal distribution. */
export function normalQuantile(probability: number): number {
  const centred = probability - 0.5;
  if (Math.abs(centred) <= 0.425) {
    const square = 0.180625 - centred * centred;
    return (centred * polynomial(CENTRE_TOP, square)) / polynomial(CENTRE_BOTTOM, square);
  }
  const tail = Math.max(SMALLEST_PROBABILITY, centred < 0 ? probability : 1 - probability);
  const root = Math.sqrt(-Math.log(tail));
  const value =
    root <= 5
      ? polynomial(MIDDLE_TOP, root - 1.6) / polynomial(MIDDLE_BOTTOM, root - 1.6)
      : polynomial(TAIL_TOP, root - 5) / polynomial(TAIL_BOTTOM, root - 5);
  return centred < 0 ? -value : value;
}

function polynomial(coefficients: number[], x: number): number {
  let value = 0;
  for (let index = coefficients.length - 1; index >= 0; index--) value = value * x + coefficients[index]!;
  return value;
}

/**
 * Inverse of the gamma distribution with mean 1 and the given shape (1 / CV^2): Newton's method in the logarithm of x, which keeps small
 * shapes well-behaved, started from Wilson and Hilferty's (1931) cube approximation and kept inside a shrinking bracket.
 */
export function gammaQuantile(probability: number, shape: number): number {
  if (probability <= 0) return 0;
  const logGammaShape = logGamma(shape);
  let low = -745 / Math.min(1, shape);
  let high = Math.log(shape + 40 * Math.sqrt(shape) + 60);
  let logX = Math.max(low, Math.min(high, gammaGuess(probability, shape, logGammaShape)));
  for (let step = 0; step < 100; step++) {
    const x = Math.exp(logX);
    const excess = gammaProbability(x, shape) - probability;
    if (excess > 0) high = logX;
    else low = logX;
    // The derivative of P(shape, e^z) in z is x times the density.
    const next = logX - excess / Math.exp(shape * logX - x - logGammaShape);
    const moved = next > low && next < high ? next : (low + high) / 2;
    if (Math.abs(moved - logX) < 1e-13 * Math.max(1, Math.abs(logX))) return Math.exp(moved) / shape;
    logX = moved;
  }
  return Math.exp(logX) / shape;
}

/** ln x to start from: Wilson-Hilferty, or the leading term of the series, x^shape / Gamma(shape + 1) = p, where the cube is not positive. */
function gammaGuess(probability: number, shape: number, logGammaShape: number): number {
  const root = 1 - 1 / (9 * shape) + normalQuantile(probability) / (3 * Math.sqrt(shape));
  if (root > 0.2) return Math.log(shape) + 3 * Math.log(root);
  return (Math.log(probability) + Math.log(shape) + logGammaShape) / shape;
}

/** The regularised lower incomplete gamma function P(shape, x): series below shape + 1, Lentz's continued fraction above (DLMF 8.11, 8.9). */
export function gammaProbability(x: number, shape: number): number {
  if (x <= 0) return 0;
  const front = Math.exp(shape * Math.log(x) - x - logGamma(shape));
  return x < shape + 1 ? front * lowerSeries(x, shape) : 1 - front * upperFraction(x, shape);
}

function lowerSeries(x: number, shape: number): number {
  let term = 1 / shape;
  let sum = term;
  for (let index = 1; index < 1000 && term > sum * 1e-17; index++) {
    term *= x / (shape + index);
    sum += term;
  }
  return sum;
}

function upperFraction(x: number, shape: number): number {
  const tiny = 1e-300;
  let b = x + 1 - shape;
  let c = 1 / tiny;
  let d = 1 / b;
  let value = d;
  for (let index = 1; index < 1000; index++) {
    const a = -index * (index - shape);
    b += 2;
    d = a * d + b;
    d = 1 / (Math.abs(d) < tiny ? tiny : d);
    c = b + a / c;
    if (Math.abs(c) < tiny) c = tiny;
    value *= d * c;
    if (Math.abs(d * c - 1) < 1e-16) break;
  }
  return value;
}

/** ln of the gamma function: Stirling's series (DLMF 5.11.1) after shifting the argument beyond 10. */
export function logGamma(x: number): number {
  let shift = 0;
  let argument = x;
  for (; argument < 10; argument++) shift += Math.log(argument);
  const inverse = 1 / (argument * argument);
  const series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse * (1 / 1680 - inverse / 1188)))) / argument;
  return (argument - 0.5) * Math.log(argument) - argument + 0.9189385332046728 + series - shift;
}

/** cos of `turns` full turns, by its Taylor series: the built-in function differs between Node versions. */
export function cosineOfTurns(turns: number): number {
  const folded = Math.abs(turns - Math.round(turns));
  const near = folded <= 0.25 ? folded : 0.5 - folded;
  const square = near * near * 39.47841760435743;
  let sum = 1;
  let term = 1;
  for (let index = 1; index <= 11; index++) {
    term *= -square / ((2 * index - 1) * (2 * index));
    sum += term;
  }
  return folded <= 0.25 ? sum : -sum;
}

/** sin of `turns` full turns. */
export function sineOfTurns(turns: number): number {
  return cosineOfTurns(turns - 0.25);
}
