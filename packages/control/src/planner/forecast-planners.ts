import { z } from 'zod';
import { engineRole } from '../frontend/engines.js';
import { definePlannerPolicy, type PlannerActions, type PlannerView } from '../policy/control-policies.js';
import { createDemand, type DemandState, type Forecast, lookAhead, type Outlook } from './forecast.js';
import { convert, movingEngines } from './pools.js';

const common = {
  intervalSeconds: z.number().positive().default(10),
  ttftMs: z.number().positive().default(2000).describe('Bound on TTFT'),
  itlMs: z.number().positive().default(50).describe('Bound on the gap between tokens'),
  horizonSeconds: z.number().positive().default(30).describe('How far ahead the queue is extrapolated'),
  waitForMoves: z.boolean().default(true).describe('Order nothing while an engine still drains or switches'),
};

interface CommonParameters {
  readonly ttftMs: number;
  readonly itlMs: number;
  readonly horizonSeconds: number;
  readonly waitForMoves: boolean;
}

/** Moves one engine as `choose` says: to prefill above 0, to decode below. */
function planBy(
  view: PlannerView,
  actions: PlannerActions,
  parameters: CommonParameters,
  state: DemandState,
  choose: (outlook: Outlook) => number,
): void {
  const outlook = lookAhead(view, state, parameters.horizonSeconds);
  if (outlook.prefill.engines.length === 0 || outlook.decode.engines.length === 0) return;
  if (parameters.waitForMoves && movingEngines(view) > 0) return;
  const move = choose(outlook);
  if (move > 0) convert(view, actions, outlook.decode, engineRole.prefill);
  else if (move < 0) convert(view, actions, outlook.prefill, engineRole.decode);
}

/** As NVIDIA Dynamo's SLA planner (docs: SLA-based planner): latencies predicted from the engines' profiles; an engine goes only where the rest stays safe. */
export const slaPlanner = definePlannerPolicy({
  name: 'sla',
  description:
    'Predicts TTFT and ITL from the engine profiles; a pool gives an engine away only when it stays within its bound without it.',
  parameters: z.strictObject({
    ...common,
    safeShare: z.number().gt(0).max(1).default(0.8).describe('Share of a bound that the smaller pool must keep'),
  }),
  periodNs: ({ intervalSeconds }) => Math.round(intervalSeconds * 1e9),
  createState: createDemand,
  plan(view, actions, parameters, state) {
    planBy(view, actions, parameters, state, ({ prefill, decode, forecast }) => {
      const p = prefill.engines.length;
      const d = decode.engines.length;
      const { ttftMs, itlMs, safeShare } = parameters;
      const now = forecast(p, d);
      const prefillLate = now.ttftMs > ttftMs;
      const decodeLate = now.itlMs > itlMs || now.kvUse > 1;
      if (prefillLate && !decodeLate && d > 1) {
        const then = forecast(p + 1, d - 1);
        return then.itlMs <= safeShare * itlMs && then.kvUse <= safeShare ? 1 : 0;
      }
      if (decodeLate && !prefillLate && p > 1) return forecast(p - 1, d + 1).ttftMs <= safeShare * ttftMs ? -1 : 0;
      return 0;
    });
  },
});

const equilibriumParameters = {
  ...common,
  leastGain: z.number().min(0).default(0.02).describe('Share of the requests by which a move must raise the payoff'),
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
  periodNs: ({ intervalSeconds }) => Math.round(intervalSeconds * 1e9),
  createState: createDemand,
  plan(view, actions, parameters, state) {
    planBy(view, actions, parameters, state, ({ prefill, decode, forecast }) => {
      const p = prefill.engines.length;
      const d = decode.engines.length;
      const ofPrefill = (engines: number): number => prefillPayoff(forecast(engines, d), parameters);
      const ofDecode = (engines: number): number => decodePayoff(forecast(p, engines), parameters);
      const toPrefill = d > 1 ? ofPrefill(p + 1) - ofPrefill(p) - (ofDecode(d) - ofDecode(d - 1)) : Number.NEGATIVE_INFINITY;
      const toDecode = p > 1 ? ofDecode(d + 1) - ofDecode(d) - (ofPrefill(p) - ofPrefill(p - 1)) : Number.NEGATIVE_INFINITY;
      return bestMove(toPrefill, toDecode, parameters.leastGain);
    });
  },
});

/** The social optimum of game 1: a move must raise the sum of both payoffs, what prefill does to decode counted. */
export const socialPlanner = definePlannerPolicy({
  name: 'social',
  description:
    'Social optimum: moves an engine when the SLO attainment of both pools together gains, the effect of prefill on decode counted.',
  parameters: z.strictObject(equilibriumParameters),
  periodNs: ({ intervalSeconds }) => Math.round(intervalSeconds * 1e9),
  createState: createDemand,
  plan(view, actions, parameters, state) {
    planBy(view, actions, parameters, state, ({ prefill, decode, forecast }) => {
      const p = prefill.engines.length;
      const d = decode.engines.length;
      const welfare = (engines: number, others: number): number => {
        const seen = forecast(engines, others);
        return prefillPayoff(seen, parameters) + decodePayoff(seen, parameters);
      };
      const now = welfare(p, d);
      const toPrefill = d > 1 ? welfare(p + 1, d - 1) - now : Number.NEGATIVE_INFINITY;
      const toDecode = p > 1 ? welfare(p - 1, d + 1) - now : Number.NEGATIVE_INFINITY;
      return bestMove(toPrefill, toDecode, parameters.leastGain);
    });
  },
});

function bestMove(toPrefill: number, toDecode: number, leastGain: number): number {
  if (Math.max(toPrefill, toDecode) <= leastGain) return 0;
  return toPrefill >= toDecode ? 1 : -1;
}
