import { z } from 'zod';
import { defineControllerPolicy } from '../policy/control-policies.js';
import { createRegimeDetector, observeRegime, type RegimeDetector } from './regime-detector.js';

/** Router parameters of the three regimes of arXiv 2606.17081: calm, past the first threshold, past the second. */
const publishedRegimes = [
  { tau: 0, omega: 1 },
  { tau: 0.7, omega: 1 },
  { tau: 0.8, omega: 0.1 },
];

const weight = z.number().gt(0).max(1).describe('Weight of the newest sample in the moving average');
const samplesInARow = z.int().min(1).describe('Samples that must agree on the same new regime');
const regimes = z
  .array(z.record(z.string(), z.json()))
  .min(2)
  .describe('Router parameters of each regime: one more than there are thresholds');
const rising = (values: readonly number[]): boolean => values.every((value, index) => index === 0 || value > values[index - 1]!);
const thresholds = z.array(z.number().positive()).min(1).refine(rising, 'thresholds must rise');

/** A metric that is smoothed and held against thresholds. */
const smoothed = (metric: string, limits: number[]) => ({
  metric: z.string().default(metric),
  thresholds: thresholds.default(limits),
  weight: weight.default(0.3),
  samplesInARow: samplesInARow.default(3),
});

interface RegimeParameters {
  readonly thresholds: readonly number[];
  readonly weight: number;
  readonly samplesInARow: number;
  readonly releaseFraction: number;
  readonly regimes: readonly Readonly<Record<string, unknown>>[];
}

/** One more regime than thresholds. */
const fits = ({ thresholds: levels, regimes: sets }: Pick<RegimeParameters, 'thresholds' | 'regimes'>): boolean =>
  sets.length === levels.length + 1;
const fitsMessage = { message: 'regimes must be one more than thresholds', path: ['regimes'] };

/** The new regime's parameters when the sample changed the regime. */
function follow(detector: RegimeDetector, parameters: RegimeParameters, sample: number): Readonly<Record<string, unknown>> | null {
  return observeRegime(detector, parameters, sample) ? (parameters.regimes[detector.regime] ?? null) : null;
}

/** The controller of arXiv 2606.17081: EWMA of TTFT P99, two thresholds, three samples in a row, no hysteresis. */
export const adaptiveController = defineControllerPolicy({
  name: 'adaptive',
  description:
    'Regimes by the EWMA of TTFT P99 against two thresholds, three samples in a row, as in arXiv 2606.17081 (defaults: its 340B).',
  parameters: z
    .strictObject({
      ...smoothed('ttft_p99_ms', [1000, 10_000]),
      regimes: regimes.default(publishedRegimes),
    })
    .refine(fits, fitsMessage),
  choices: ({ regimes: sets }) => sets,
  createState: createRegimeDetector,
  decide: (view, parameters, state) =>
    follow(state, { ...parameters, releaseFraction: 1 }, view.metrics.get(parameters.metric) ?? Number.NaN),
});

export const hysteresisController = defineControllerPolicy({
  name: 'hysteresis',
  description: 'As adaptive, but a regime is left only well below its threshold and never before it has lasted a while.',
  parameters: z
    .strictObject({
      ...smoothed('ttft_p99_ms', [1000, 10_000]),
      releaseFraction: z.number().gt(0).max(1).default(0.5).describe('Share of a threshold below which its regime is left'),
      leastSeconds: z.number().min(0).default(30).describe('A regime lasts at least this long before it is left downwards'),
      regimes: regimes.default(publishedRegimes),
    })
    .refine(fits, fitsMessage),
  choices: ({ regimes: sets }) => sets,
  createState: () => ({ detector: createRegimeDetector(), sinceNs: 0 }),
  decide(view, parameters, state) {
    const { detector } = state;
    const before = detector.regime;
    const { sinceNs } = state;
    const found = follow(detector, parameters, view.metrics.get(parameters.metric) ?? Number.NaN);
    if (found === null) return null;
    if (detector.regime < before && view.nowNs - sinceNs < parameters.leastSeconds * 1e9) {
      // Not yet: the streak is kept, so that it leaves with the first sample after its time.
      detector.regime = before;
      detector.streak = parameters.samplesInARow - 1;
      detector.changes--;
      return null;
    }
    state.sinceNs = view.nowNs;
    return found;
  },
});

/**
 * Regimes by how unfair the placement is rather than by how slow requests are: a queue before the routers leaves the placement as good as before,
 * and no routing parameter can shorten it.
 */
export const poaController = defineControllerPolicy({
  name: 'poa-driven',
  description: 'Regimes by the price of anarchy of the placement: acts only when other routing could help.',
  parameters: z
    .strictObject({
      /** `placement_poa` is exact for equal decode engines of linear latency; `poa_hat` is what a PoA actor measures. */
      ...smoothed('placement_poa', [1.1, 1.5]),
      releaseFraction: z.number().gt(0).max(1).default(0.95),
      regimes: regimes.default(publishedRegimes),
    })
    .refine(fits, fitsMessage),
  choices: ({ regimes: sets }) => sets,
  createState: createRegimeDetector,
  decide: (view, parameters, state) => follow(state, parameters, view.metrics.get(parameters.metric) ?? Number.NaN),
});

interface GradientState {
  load: number;
  latency: number;
  /** Load before latency took off, NaN while no knee is known, and the regime that the gradient there asks for. */
  kneeLoad: number;
  steepest: number;
  detector: RegimeDetector;
}

/** Finds the knee as the load where latency takes off, then follows the load, which moves before the latency does. */
export const gradientController = defineControllerPolicy({
  name: 'gradient',
  description: 'Regimes by the gradient of TTFT over load: learns where the knee is, then follows the load.',
  parameters: z
    .strictObject({
      metric: z.string().default('ttft_p99_ms'),
      load: z.string().default('inflight_requests'),
      thresholds: thresholds.default([25, 1000]).describe('Metric units (ms) per request in flight'),
      leastLoadChange: z.number().positive().default(4).describe('Smaller changes of load tell nothing of the gradient'),
      samplesInARow: samplesInARow.default(2),
      regimes: regimes.default(publishedRegimes),
    })
    .refine(fits, fitsMessage),
  choices: ({ regimes: sets }) => sets,
  createState: (): GradientState => ({
    load: Number.NaN,
    latency: Number.NaN,
    kneeLoad: Number.NaN,
    steepest: 0,
    detector: createRegimeDetector(),
  }),
  decide(view, parameters, state) {
    const load = view.metrics.get(parameters.load) ?? Number.NaN;
    const latency = view.metrics.get(parameters.metric) ?? Number.NaN;
    if (Number.isNaN(load) || Number.isNaN(latency)) return null;
    learnKnee(state, parameters, load, latency);
    const past = !Number.isNaN(state.kneeLoad) && load > state.kneeLoad;
    return follow(state.detector, { ...parameters, weight: 1, releaseFraction: 1 }, past ? state.steepest : 0);
  },
});

function learnKnee(
  state: GradientState,
  { leastLoadChange, thresholds: [first = 0] }: { readonly leastLoadChange: number; readonly thresholds: readonly number[] },
  load: number,
  latency: number,
): void {
  const moved = load - state.load;
  if (Number.isNaN(state.load) || Math.abs(moved) >= leastLoadChange) {
    const gradient = (latency - state.latency) / moved;
    if (gradient >= first) {
      state.kneeLoad = Math.min(load, state.load);
      state.steepest = gradient;
    }
    state.load = load;
    state.latency = latency;
    return;
  }
  // The load stands still while latency goes on: the queue behind the same change of load is still growing.
  const since = load - state.kneeLoad;
  if (since >= leastLoadChange) state.steepest = Math.max(state.steepest, (latency - state.latency) / since);
}
