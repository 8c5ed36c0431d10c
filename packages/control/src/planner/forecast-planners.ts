import { engineRole } from '@braess/protocol';
import { z } from 'zod';
import { definePlannerPolicy, type PlannerActions, type PlannerView } from '../policy/control-policies.js';
import { createDemand, type DemandState, type Forecast, lookAhead, type Outlook } from './forecast.js';
import { convert, giveBack, movingEngines, offEngine } from './pools.js';

const common = {
  intervalSeconds: z.number().positive().default(10),
  ttftMs: z.number().positive().default(2000).describe('Bound on TTFT'),
  itlMs: z.number().positive().default(50).describe('Bound on the gap between tokens'),
  horizonSeconds: z.number().positive().default(30).describe('How far ahead the queue is extrapolated'),
  waitForMoves: z.boolean().default(true).describe('Order nothing while an engine still drains, switches or starts'),
  leastEngines: z.int().min(1).default(1).describe('Engines that each role keeps'),
};

interface CommonParameters {
  readonly ttftMs: number;
  readonly itlMs: number;
  readonly horizonSeconds: number;
  readonly waitForMoves: boolean;
  readonly leastEngines: number;
}

/** Change of the number of prefill and of decode engines: one engine starts, stops or changes its role. */
type Step = readonly [prefill: 1 | 0 | -1, decode: 1 | 0 | -1];

const stay: Step = [0, 0];
const toPrefill: Step = [1, -1];
const toDecode: Step = [-1, 1];
const startPrefill: Step = [1, 0];
const startDecode: Step = [0, 1];
const stopPrefill: Step = [-1, 0];
const stopDecode: Step = [0, -1];

/** An engine that is off may be started. */
interface Room {
  readonly spare: boolean;
}

/** Takes one step, as `choose` says. */
function planBy(
  view: PlannerView,
  actions: PlannerActions,
  parameters: CommonParameters,
  state: DemandState,
  choose: (outlook: Outlook & Room) => Step,
): void {
  const outlook = lookAhead(view, state, parameters.horizonSeconds);
  if (outlook.prefill.engines.length === 0 || outlook.decode.engines.length === 0) return;
  if (parameters.waitForMoves && movingEngines(view) > 0) return;
  const [prefill, decode] = choose({ ...outlook, spare: offEngine(view, engineRole.prefill) >= 0 });
  if (prefill + decode > 0) {
    const role = prefill > 0 ? engineRole.prefill : engineRole.decode;
    actions.startEngine(offEngine(view, role), role);
  } else if (prefill + decode < 0) giveBack(view, actions, prefill < 0 ? outlook.prefill : outlook.decode, parameters.leastEngines);
  else if (prefill > 0) convert(view, actions, outlook.decode, engineRole.prefill, parameters.leastEngines);
  else if (prefill < 0) convert(view, actions, outlook.prefill, engineRole.decode, parameters.leastEngines);
}

/**
 * As NVIDIA Dynamo's SLA planner (docs: SLA-based planner): latencies predicted from the engines' profiles; an engine goes, to the other role or altogether,
 * only where the rest stays safe.
 */
export const slaPlanner = definePlannerPolicy({
  name: 'sla',
  description:
    'Predicts TTFT and ITL from the engine profiles; a pool gives an engine to the other, or back, only when it stays within its bound without it.',
  parameters: z.strictObject({
    ...common,
    safeShare: z
      .number()
      .gt(0)
      .max(1)
      .default(0.8)
      .describe('Share of a bound, and of what it can compute and hold, that the smaller pool must keep'),
    giveBack: z.boolean().default(true).describe('Stop an engine where both pools are in time and safe without it'),
  }),
  movesBetweenPools: true,
  periodNs: ({ intervalSeconds }) => Math.round(intervalSeconds * 1e9),
  createState: createDemand,
  plan(view, actions, parameters, state) {
    planBy(view, actions, parameters, state, ({ prefill, decode, forecast, spare }) => {
      const p = prefill.engines.length;
      const d = decode.engines.length;
      const { ttftMs, itlMs, safeShare, leastEngines: least } = parameters;
      const now = forecast(p, d);
      const prefillLate = now.ttftMs > ttftMs;
      const decodeLate = now.itlMs > itlMs || now.kvUse > 1;
      const prefillSafe = (seen: Forecast): boolean => seen.ttftMs <= safeShare * ttftMs && seen.prefillUse <= safeShare;
      const decodeSafe = (seen: Forecast): boolean => seen.itlMs <= safeShare * itlMs && seen.kvUse <= safeShare;
      if (prefillLate && spare) return startPrefill;
      if (decodeLate && spare) return startDecode;
      if (prefillLate) return !decodeLate && d > least && decodeSafe(forecast(p + 1, d - 1)) ? toPrefill : stay;
      if (decodeLate) return p > least && prefillSafe(forecast(p - 1, d + 1)) ? toDecode : stay;
      if (!parameters.giveBack) return stay;
      if (p > least && prefillSafe(forecast(p - 1, d))) return stopPrefill;
      return d > least && decodeSafe(forecast(p, d - 1)) ? stopDecode : stay;
    });
  },
});

const equilibriumParameters = {
  ...common,
  leastGain: z.number().min(0).default(0.02).describe('Share of the requests by which a move must raise the payoff'),
  enginePrice: z
    .number()
    .min(0)
    .default(0)
    .describe('Share of the requests that an engine must be worth: one that is worth less is given back (0: none is)'),
};

/**
 * Share of latencies within a bound when the predicted one is the median of a log-logistic distribution: 1 / (1 + (predicted / bound)^4). The shape 4 is
 * assumed: a P99 of about three medians.
 */
function within(predicted: number, bound: number): number {
  const ratio = predicted / bound;
  const square = ratio * ratio;
  return 1 / (1 + square * square);
}

/** Payoff of prefill: share of the requests that come whose first token is in time. */
function prefillPayoff({ ttftMs, flow }: Forecast, bounds: Pick<CommonParameters, 'ttftMs'>): number {
  return flow * within(ttftMs, bounds.ttftMs);
}

/** Payoff of decode: share of the requests that come which reach it, find room, and get their tokens in time. */
function decodePayoff({ itlMs, kvUse, flow }: Forecast, bounds: Pick<CommonParameters, 'itlMs'>): number {
  return flow * Math.min(1, 1 / kvUse) * within(itlMs, bounds.itlMs);
}

/**
 * The variational equilibrium of game 1 in whole engines: an engine changes sides when the marginal payoff there, with the other pool's engines held, is
 * larger than where it is. Prefill does not see what it does to decode.
 */
export const gnepPlanner = definePlannerPolicy({
  name: 'gnep',
  description: 'Variational equilibrium: moves an engine to the pool whose own SLO attainment gains more by it.',
  parameters: z.strictObject(equilibriumParameters),
  movesBetweenPools: true,
  periodNs: ({ intervalSeconds }) => Math.round(intervalSeconds * 1e9),
  createState: createDemand,
  plan(view, actions, parameters, state) {
    planBy(view, actions, parameters, state, (outlook) => {
      const p = outlook.prefill.engines.length;
      const d = outlook.decode.engines.length;
      const ofPrefill = (engines: number): number => prefillPayoff(outlook.forecast(engines, d), parameters);
      const ofDecode = (engines: number): number => decodePayoff(outlook.forecast(p, engines), parameters);
      // Each sees its own payoff, with the other where it is.
      const gain = ([prefill, decode]: Step): number => ofPrefill(p + prefill) - ofPrefill(p) + ofDecode(d + decode) - ofDecode(d);
      return bestStep(outlook, parameters, gain);
    });
  },
});

/** The social optimum of game 1: a move must raise the sum of both payoffs, what prefill does to decode counted. */
export const socialPlanner = definePlannerPolicy({
  name: 'social',
  description:
    'Social optimum: moves an engine when the SLO attainment of both pools together gains, the effect of prefill on decode counted.',
  parameters: z.strictObject(equilibriumParameters),
  movesBetweenPools: true,
  periodNs: ({ intervalSeconds }) => Math.round(intervalSeconds * 1e9),
  createState: createDemand,
  plan(view, actions, parameters, state) {
    planBy(view, actions, parameters, state, (outlook) => {
      const p = outlook.prefill.engines.length;
      const d = outlook.decode.engines.length;
      const welfare = ([prefill, decode]: Step): number => {
        const seen = outlook.forecast(p + prefill, d + decode);
        return prefillPayoff(seen, parameters) + decodePayoff(seen, parameters);
      };
      const now = welfare(stay);
      return bestStep(outlook, parameters, (step) => welfare(step) - now);
    });
  },
});

type EquilibriumParameters = Pick<z.output<z.ZodObject<typeof equilibriumParameters>>, 'leastGain' | 'enginePrice' | 'leastEngines'>;

/** The step of greatest gain, the price of engines counted, that is worth taking; of equals the first. */
function bestStep(
  { prefill, decode, spare }: Outlook & Room,
  { leastGain, enginePrice, leastEngines }: EquilibriumParameters,
  gain: (step: Step) => number,
): Step {
  const prefillGives = prefill.engines.length > leastEngines;
  const decodeGives = decode.engines.length > leastEngines;
  const steps = [
    ...(decodeGives ? [toPrefill] : []),
    ...(prefillGives ? [toDecode] : []),
    ...(spare ? [startPrefill, startDecode] : []),
    ...(enginePrice > 0 && prefillGives ? [stopPrefill] : []),
    ...(enginePrice > 0 && decodeGives ? [stopDecode] : []),
  ];
  let best = stay;
  let bestSurplus = 0;
  for (const step of steps) {
    const engines = step[0] + step[1];
    // Giving back needs no gain beyond the price: else engines of little worth would never go.
    const surplus = gain(step) - enginePrice * engines - (engines < 0 ? 0 : leastGain);
    if (surplus > bestSurplus) [best, bestSurplus] = [step, surplus];
  }
  return best;
}
