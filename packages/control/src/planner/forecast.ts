import type { PlannerView } from '../policy/control-policies.js';
import { decodePool, type PoolLoad, prefillPool, profileOf } from './pools.js';

/** What a planner remembers to see how fast prompts come; plain data. */
export interface DemandState {
  queuedTokens: number;
  atNs: number;
  /** Prompt tokens that came a second, smoothed; NaN before the second plan. */
  tokensPerSecond: number;
}

export const createDemand = (): DemandState => ({ queuedTokens: 0, atNs: -1, tokensPerSecond: Number.NaN });

/** What a split of the engines would do, predicted from the engine profiles. */
export interface Forecast {
  readonly ttftMs: number;
  readonly itlMs: number;
  /** Wanted over available KV of the decode pool. */
  readonly kvUse: number;
  /** Share of the prompts that come which prefill can compute. */
  readonly flow: number;
  /** Prompt tokens that come over those that prefill can compute; past 1 the queue grows. */
  readonly prefillUse: number;
}

/** The present split, and forecasts of others. */
export interface Outlook {
  readonly prefill: PoolLoad;
  readonly decode: PoolLoad;
  forecast(prefillEngines: number, decodeEngines: number): Forecast;
}

/**
 * A fluid forecast over `horizonSeconds`. Prompts come at the rate at which the queue grew plus what the busy engines computed; a prompt waits for half
 * of the backlog at the end of the horizon; decode holds as many sequences as now, times the change of what prefill lets through.
 */
export function lookAhead(view: PlannerView, demand: DemandState, horizonSeconds: number): Outlook {
  const prefill = prefillPool(view);
  const decode = decodePool(view);
  const { prefillBaseNs, prefillTokenNs } = profileOf(view, prefill);
  const engineRate = 1e9 / prefillTokenNs;
  const came = noteDemand(view, demand, prefill, engineRate);
  const flowOf = (engines: number): number => (came <= 0 ? 1 : Math.min(1, (engines * engineRate) / came));
  const { decodeBaseNs, decodeSequenceNs, decodeContextTokenNs } = profileOf(view, decode);
  const blocksOfEngine = decode.engines.length === 0 ? 0 : decode.totalBlocks / decode.engines.length;
  return {
    prefill,
    decode,
    forecast(prefillEngines, decodeEngines) {
      const rate = prefillEngines * engineRate;
      const backlog = prefill.queuedTokens + Math.max(0, came - rate) * (horizonSeconds / 2);
      const growth = flowOf(prefillEngines) / flowOf(prefill.engines.length);
      const sequences = (decode.sequences * growth) / decodeEngines;
      const contextTokens = (decode.usedBlocks * view.blockTokens * growth) / decodeEngines;
      return {
        ttftMs: prefillBaseNs / 1e6 + (1e3 * backlog) / rate,
        itlMs: (decodeBaseNs + decodeSequenceNs * sequences + decodeContextTokenNs * contextTokens) / 1e6,
        kvUse: blocksOfEngine === 0 ? 0 : (decode.wantedBlocks * growth) / (decodeEngines * blocksOfEngine),
        flow: flowOf(prefillEngines),
        prefillUse: came / rate,
      };
    },
  };
}

/** Prompt tokens a second that come. */
function noteDemand(view: PlannerView, demand: DemandState, prefill: PoolLoad, engineRate: number): number {
  const busy = prefill.engines.filter((engine) => view.engines.queuedTokens[engine]! > 0).length;
  if (demand.atNs >= 0) {
    const seconds = (view.nowNs - demand.atNs) / 1e9;
    const came = Math.max(0, busy * engineRate + (prefill.queuedTokens - demand.queuedTokens) / seconds);
    // Half of what is new: one report is a moment, not a rate.
    demand.tokensPerSecond = Number.isNaN(demand.tokensPerSecond) ? came : (demand.tokensPerSecond + came) / 2;
  }
  demand.atNs = view.nowNs;
  demand.queuedTokens = prefill.queuedTokens;
  return Number.isNaN(demand.tokensPerSecond) ? busy * engineRate : demand.tokensPerSecond;
}
