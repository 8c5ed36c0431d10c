import { cosineOfTurns, exponentialQuantile, gammaQuantile, sineOfTurns, type Uniform } from './distributions.js';
import { checkPositive } from './lengths.js';

/** An arrival process. */
export type ArrivalSpec =
  | { kind: 'constant'; ratePerSecond: number }
  | { kind: 'poisson'; ratePerSecond: number }
  /** Independent gamma gaps with coefficient of variation `cv`: above 1 bursty, below 1 regular. */
  | { kind: 'gamma'; ratePerSecond: number; cv: number }
  /** Poisson whose rate switches between two values after exponential times (a two-state MMPP, an interrupted Poisson process at off rate 0). */
  | { kind: 'on-off'; onRatePerSecond: number; offRatePerSecond: number; meanOnS: number; meanOffS: number }
  /** Poisson with rate mean * (1 + amplitude * cos(2 pi (t - peakS) / periodS)); amplitude 0 to 1. */
  | { kind: 'diurnal'; meanRatePerSecond: number; amplitude: number; periodS: number; peakS: number };

/** Where the process stands; plain data. */
export interface ArrivalState {
  timeS: number;
  /** On-off only: the present phase and its end. */
  on: boolean;
  phaseEndS: number;
}

/** Starts before the first arrival, at time 0; an on-off process starts at the beginning of an on phase. */
export function createArrivalState(): ArrivalState {
  return { timeS: 0, on: false, phaseEndS: 0 };
}

/**
 * The next arrival in integer ns. One draw from `uniform` an arrival; on-off processes also draw from `phaseUniform`, once a phase, so
 * that phases and arrivals are independent.
 */
export function nextArrivalNs(spec: ArrivalSpec, state: ArrivalState, uniform: Uniform, phaseUniform: Uniform): number {
  const probability = uniform();
  switch (spec.kind) {
    case 'constant':
      state.timeS += 1 / spec.ratePerSecond;
      break;
    case 'poisson':
      state.timeS += exponentialQuantile(probability) / spec.ratePerSecond;
      break;
    case 'gamma':
      state.timeS += gammaQuantile(probability, 1 / (spec.cv * spec.cv)) / spec.ratePerSecond;
      break;
    case 'on-off':
      advanceOnOff(spec, state, exponentialQuantile(probability), phaseUniform);
      break;
    case 'diurnal':
      state.timeS = invertDiurnal(spec, state.timeS, exponentialQuantile(probability));
      break;
    default:
      spec satisfies never;
  }
  return Math.round(state.timeS * 1e9);
}

/** The long-run arrival rate. */
export function meanRatePerSecond(spec: ArrivalSpec): number {
  if (spec.kind === 'diurnal') return spec.meanRatePerSecond;
  if (spec.kind !== 'on-off') return spec.ratePerSecond;
  return (spec.onRatePerSecond * spec.meanOnS + spec.offRatePerSecond * spec.meanOffS) / (spec.meanOnS + spec.meanOffS);
}

/** Refuses a specification that has no meaning. */
export function checkArrivals(spec: ArrivalSpec, name: string): void {
  switch (spec.kind) {
    case 'constant':
    case 'poisson':
      checkPositive(spec.ratePerSecond, `${name}.ratePerSecond`);
      break;
    case 'gamma':
      checkPositive(spec.ratePerSecond, `${name}.ratePerSecond`);
      if (!(spec.cv >= 0.05 && spec.cv <= 20)) throw new RangeError(`${name}.cv is ${spec.cv}; must be from 0.05 to 20`);
      break;
    case 'on-off':
      checkPositive(spec.onRatePerSecond, `${name}.onRatePerSecond`);
      checkPositive(spec.meanOnS, `${name}.meanOnS`);
      checkPositive(spec.meanOffS, `${name}.meanOffS`);
      if (!(spec.offRatePerSecond >= 0 && Number.isFinite(spec.offRatePerSecond))) {
        throw new RangeError(`${name}.offRatePerSecond is ${spec.offRatePerSecond}; must be 0 or more`);
      }
      break;
    case 'diurnal':
      checkPositive(spec.meanRatePerSecond, `${name}.meanRatePerSecond`);
      checkPositive(spec.periodS, `${name}.periodS`);
      if (!(spec.amplitude >= 0 && spec.amplitude <= 1))
        throw new RangeError(`${name}.amplitude is ${spec.amplitude}; must be from 0 to 1`);
      if (!Number.isFinite(spec.peakS)) throw new RangeError(`${name}.peakS is ${spec.peakS}; must be a finite number of seconds`);
      break;
    default:
      throw new RangeError(
        `${name}.kind is ${String((spec satisfies never as ArrivalSpec).kind)}; one of constant, poisson, gamma, on-off, diurnal`,
      );
  }
}

/** Moves on until the rate, integrated over the phases, has used up `work` expected arrivals. */
function advanceOnOff(spec: ArrivalSpec & { kind: 'on-off' }, state: ArrivalState, work: number, phaseUniform: Uniform): void {
  for (;;) {
    const rate = state.on ? spec.onRatePerSecond : spec.offRatePerSecond;
    const available = (state.phaseEndS - state.timeS) * rate;
    if (work < available) {
      state.timeS += work / rate;
      return;
    }
    work -= available;
    state.timeS = state.phaseEndS;
    state.on = !state.on;
    state.phaseEndS += exponentialQuantile(phaseUniform()) * (state.on ? spec.meanOnS : spec.meanOffS);
  }
}

/** The time at which the integral of the rate since `startS` reaches `work`: bisection with Newton's steps inside. */
function invertDiurnal(spec: ArrivalSpec & { kind: 'diurnal' }, startS: number, work: number): number {
  const target = diurnalIntegral(spec, startS) + work;
  // The sine part of the integral stays within +-amplitude * mean * period / 2 pi, which brackets the time.
  const slack = (spec.amplitude * spec.periodS) / Math.PI;
  let low = startS;
  let high = startS + work / spec.meanRatePerSecond + slack;
  let time = Math.min(high, startS + work / spec.meanRatePerSecond);
  for (let step = 0; step < 100 && high - low > 1e-10; step++) {
    const excess = diurnalIntegral(spec, time) - target;
    if (excess > 0) high = time;
    else low = time;
    const rate = spec.meanRatePerSecond * (1 + spec.amplitude * cosineOfTurns((time - spec.peakS) / spec.periodS));
    const newton = time - excess / rate;
    if (Math.abs(newton - time) < 1e-10) return Math.max(startS, newton);
    time = newton > low && newton < high ? newton : (low + high) / 2;
  }
  return time;
}

function diurnalIntegral(spec: ArrivalSpec & { kind: 'diurnal' }, timeS: number): number {
  const swing = (spec.amplitude * spec.periodS) / (2 * Math.PI);
  return spec.meanRatePerSecond * (timeS + swing * sineOfTurns((timeS - spec.peakS) / spec.periodS));
}
