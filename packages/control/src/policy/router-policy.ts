import { KernelError } from '@braess/kernel';
import { definePolicy, type Policy, type Random, type ReadonlyColumn } from './policy.js';

/** What a choice is for: an engine that computes the prompt, one that decodes after a transfer, or one that does both. */
export const routerStage = { prefill: 0, decode: 1, aggregated: 2 } as const;
export const routerStageNames = ['prefill', 'decode', 'aggregated'] as const;

/**
 * The engines as one frontend believes them to be, a column a quantity, a row an engine. The first block is the frontend's own account of what it has
 * dispatched and what has come back (and, with replica sync, what the other frontends told); the rest is from the engines' last load reports.
 */
export interface EngineView {
  readonly count: number;
  readonly names: readonly string[];
  /** 0 aggregated, 1 prefill, 2 decode. */
  readonly role: ReadonlyColumn;
  /** Requests dispatched there and not yet over there. */
  readonly activeRequests: ReadonlyColumn;
  /** Prompt tokens dispatched there, less the overlap believed at dispatch, whose prefill has not been reported done. */
  readonly activePrefillTokens: ReadonlyColumn;
  /** Prompt blocks of the requests there. A block that two requests share counts twice. */
  readonly activeBlocks: ReadonlyColumn;
  /** When the last load report arrived, -1 for never. The columns below are 0 until then. */
  readonly reportedAtNs: ReadonlyColumn;
  readonly queuedTokens: ReadonlyColumn;
  readonly runningSequences: ReadonlyColumn;
  readonly waitingSequences: ReadonlyColumn;
  readonly usedBlocks: ReadonlyColumn;
  readonly totalBlocks: ReadonlyColumn;
  /** Fixed facts of the engine, 0 where they are unknown: most sequences of a pass, KV blocks in all. */
  readonly maxSequences: ReadonlyColumn;
  readonly capacityBlocks: ReadonlyColumn;
  /**
   * Its profile: a decode pass of b sequences takes `passNs[passStart[engine] + b]` (b from 0 to `maxSequences`) and `contextTokenNs` for each token attended
   * to, ns. All 0 where it has none.
   */
  readonly passNs: ReadonlyColumn;
  readonly passStart: ReadonlyColumn;
  readonly contextTokenNs: ReadonlyColumn;
}

/** What a network oracle says about moving a request's KV from its prefill engine to each engine. */
export interface NetworkView extends CostColumns {
  /** Topology distance, 0 nearest (see `networkTiers`), -1 unknown. */
  readonly tier: ReadonlyColumn;
  /** Bandwidth of a transfer that has the network to itself, and one-way latency; NaN unknown. */
  readonly bytesPerSecond: ReadonlyColumn;
  readonly latencyNs: ReadonlyColumn;
  /** Expected time of the whole transfer; NaN unknown. */
  readonly transferNs: ReadonlyColumn;
  /** 0 idle .. 1 saturated; NaN unknown. */
  readonly congestion: ReadonlyColumn;
  /** Load of the fullest stage on the way, where the policy reads paths and the oracle hears of links; NaN unknown. */
  readonly pathCongestion: ReadonlyColumn;
  /** The same as a handful of numbers, while the oracle knows candidates by their tier alone and nobody has asked for a column; else null. */
  readonly byTier?: TierRows | null;
  /** The columns of costs, null while the oracle tells none: all unknown. */
  readonly costs?: CostColumns | null;
}

/** Costs that an oracle may tell apart: compute and network in seconds, cache as a share of the prompt; NaN unknown. */
export interface CostColumns {
  readonly computeCost: ReadonlyColumn;
  readonly cacheCost: ReadonlyColumn;
  readonly networkCost: ReadonlyColumn;
}

/** What an oracle says of all engines of a tier: row `tier + 1` of each, row 0 for the unknown tier. */
export interface TierRows {
  /** Topology distance by engine, -1 unknown. */
  readonly tier: ReadonlyColumn;
  readonly bytesPerSecond: ReadonlyColumn;
  readonly latencyNs: ReadonlyColumn;
  readonly transferNs: ReadonlyColumn;
  readonly congestion: ReadonlyColumn;
}

/** What a router policy reads. One reused object: never keep it. */
export interface RouterView {
  readonly nowNs: number;
  /** A value of `routerStage`. */
  readonly stage: number;
  readonly blockTokens: number;
  /** Engines to choose from: `candidates[0] .. candidates[count - 1]`, ascending engine numbers; `count` is at least 1. */
  readonly candidates: ReadonlyColumn;
  readonly count: number;
  readonly engines: EngineView;
  /** Leading blocks of the prompt that each engine is believed to hold. All 0 unless the policy reads overlap (in the decode stage: `decodeOverlap`). */
  readonly overlapBlocks: ReadonlyColumn;
  /** The oracle's answer in the decode stage, null without an oracle or when the policy does not read it. */
  readonly network: NetworkView | null;
  /** The engine that holds the prompt's KV in the decode stage, else -1. */
  readonly prefillEngine: number;
  /** KV of the whole prompt, bytes; 0 outside the decode stage. */
  readonly transferBytes: number;
  /** Of these, what moves whatever an engine holds: windows and states of models that have such layers. */
  readonly fixedBytes: number;
  /** By tier: KV transfers that this frontend started and that have not ended, all, and those from `prefillEngine`. */
  readonly tierTransfers: ReadonlyColumn;
  readonly sourceTransfers: ReadonlyColumn;
  /** By tier: requests whose KV moved so and that have not ended, all of this frontend, and those from `prefillEngine`. */
  readonly tierRequests: ReadonlyColumn;
  readonly sourceRequests: ReadonlyColumn;
  /** By engine: a policy may write its cost of each candidate here (lower is better); decision records show it. */
  readonly scores: Float64Array;
}

/** The request to place. One reused object: never keep it. */
export interface RouterRequest {
  readonly request: number;
  readonly inputTokens: number;
  /** The answer's length. A real router does not know it: a policy that reads it is clairvoyant. */
  readonly outputTokens: number;
  readonly tenant: number;
  readonly priority: number;
  /** 1 for the first time this request is placed. */
  readonly attempt: number;
  /** Time since it reached the frontend. */
  readonly ageNs: number;
}

/** What `choose` of a policy that declares `waits` may return in the decode stage: no candidate now; it is asked again soon. */
export const waitForRoom = -1;

/** Chooses the engine for a request. Give either `cost` (the lowest wins, ties at random) or `choose`. */
export interface RouterPolicy<Parameters = unknown, State = unknown> extends Policy<'router', Parameters> {
  /** What the view must hold for it; what no policy reads is not computed. */
  readonly reads?: { readonly overlap?: boolean; readonly decodeOverlap?: boolean; readonly network?: boolean; readonly paths?: boolean };
  /** It may return `waitForRoom`. */
  readonly waits?: boolean;
  /** Decode decisions are gathered for `windowNs` and made together, the scores being costs: the assignment with the least sum wins (of several: `ties`). */
  joint?(parameters: Parameters): {
    readonly windowNs: number;
    readonly together: number;
    readonly ties?: 'random' | 'least-loaded' | 'first';
  };
  /** Share of KV memory that a decode engine must keep free with the request there, by this frontend's own account; an engine that cannot is no candidate. */
  reserve?(parameters: Parameters): number;
  /** Plain data that the policy may change when it is asked. Each stage has its own. */
  createState?(parameters: Parameters, engines: number): State;
  /** Cost of one candidate, any finite number; lower is better. */
  cost?(view: RouterView, engine: number, request: RouterRequest, parameters: Parameters, state: State): number;
  /** The number of the engine chosen, one of the candidates. */
  choose?(view: RouterView, request: RouterRequest, parameters: Parameters, state: State, random: Random): number;
}

/**
 * Declares a router policy.
 * @throws KernelError `bad-model` unless exactly one of `cost` and `choose` is given.
 */
export function defineRouterPolicy<Parameters, State>(
  declaration: Omit<RouterPolicy<Parameters, State>, 'kind'>,
): RouterPolicy<Parameters, State> {
  if ((typeof declaration.cost === 'function') === (typeof declaration.choose === 'function'))
    throw new KernelError('bad-model', `router policy '${declaration.name}' must have either a function 'cost' or a function 'choose'`);
  return definePolicy<RouterPolicy<Parameters, State>>('router', declaration);
}
