import type { NetworkSite } from '../oracle/site.js';
import { definePolicy, type Policy, type Random, type ReadonlyColumn } from './policy.js';
import type { EngineView, RouterRequest } from './router-policy.js';

/** What a frontend tells its admission policy. */
export interface AdmissionView {
  readonly nowNs: number;
  /** Requests this frontend has accepted and not yet settled, the waiting ones included. */
  readonly inFlight: number;
  /** Requests that wait in this frontend for an engine. */
  readonly waiting: number;
  readonly engines: EngineView;
}

/** Decides whether a request may enter at all. */
export interface AdmissionPolicy<Parameters = unknown, State = unknown> extends Policy<'admission', Parameters> {
  createState?(parameters: Parameters, engines: number): State;
  /** True to let it in, false to reject it. */
  admit(view: AdmissionView, request: RouterRequest, parameters: Parameters, state: State, random: Random): boolean;
}

export function defineAdmissionPolicy<Parameters, State>(
  declaration: Omit<AdmissionPolicy<Parameters, State>, 'kind'>,
): AdmissionPolicy<Parameters, State> {
  return definePolicy<AdmissionPolicy<Parameters, State>>('admission', declaration);
}

/** How fast an engine is, as a profiler finds it before it serves: straight lines through measured points. */
export interface SpeedProfile {
  /** A prompt alone takes base + its tokens x token, ns. */
  readonly prefillBaseNs: number;
  readonly prefillTokenNs: number;
  /** A decode pass takes base + sequences x sequence + their contexts in tokens x context token, ns. */
  readonly decodeBaseNs: number;
  readonly decodeSequenceNs: number;
  readonly decodeContextTokenNs: number;
}

/** What a planner sees: roles and states as announced, loads as last reported. */
export interface PlannerView {
  readonly nowNs: number;
  readonly engines: EngineView;
  /** 0 active, 1 draining, 2 switching, 3 starting, 4 dead, 5 off, 6 draining with nothing left but KV that waits to be fetched. */
  readonly status: EngineView['role'];
  /** By engine number; all zeros where nobody profiled them. */
  readonly profiles: readonly SpeedProfile[];
  readonly blockTokens: number;
  /** Longest context the engines take. */
  readonly contextTokens: number;
}

/** What a planner may order. Orders reach the engines after the control delay. */
export interface PlannerActions {
  /** Drain the engine and switch it to a role (0 aggregated, 1 prefill, 2 decode). */
  changeRole(engine: number, role: number): void;
  /** Start an engine that is off (or dead: then when it is mended) in a role. */
  startEngine(engine: number, role: number): void;
  /** Give an engine's GPUs back: it drains and is off. */
  stopEngine(engine: number): void;
}

/** Moves engines between roles. */
export interface PlannerPolicy<Parameters = unknown, State = unknown> extends Policy<'planner', Parameters> {
  /** It knows a prefill and a decode pool and nothing else: a cluster of aggregated engines is refused, where it would do nothing. */
  readonly movesBetweenPools?: boolean;
  /** Plan every so many ns while load reports come in; absent: never by period. */
  periodNs?(parameters: Parameters): number;
  /** Plan at these simulated times, whatever is reported. */
  timesNs?(parameters: Parameters): readonly number[];
  /** Engines that the parameters name: a scenario that has one of them not is refused before it runs. */
  engineNames?(parameters: Parameters): readonly string[];
  createState?(parameters: Parameters, engines: number): State;
  plan(view: PlannerView, actions: PlannerActions, parameters: Parameters, state: State, random: Random): void;
}

export function definePlannerPolicy<Parameters, State>(
  declaration: Omit<PlannerPolicy<Parameters, State>, 'kind'>,
): PlannerPolicy<Parameters, State> {
  return definePolicy<PlannerPolicy<Parameters, State>>('planner', declaration);
}

/** The transfer an oracle is asked about. */
export interface OracleQuestion {
  readonly nowNs: number;
  readonly prefillEngine: number;
  /** As in `RouterView`: KV of the whole prompt, and what of it moves whatever an engine holds. */
  readonly transferBytes: number;
  readonly fixedBytes: number;
  /** Engines asked about: `candidates[0] .. candidates[count - 1]`. */
  readonly candidates: EngineView['role'];
  readonly count: number;
  readonly site: NetworkSite;
  /** Whether `pathCongestion` is wanted. */
  readonly paths: boolean;
  /** The frontend's own view, as its router has it: account, load reports, prefixes held. */
  readonly inputTokens: number;
  readonly blockTokens: number;
  readonly engines: EngineView;
  readonly overlapBlocks: EngineView['role'];
}

/** Where an oracle writes, by engine: see `NetworkView`. */
export interface OracleAnswer {
  readonly tier: Float64Array;
  readonly bytesPerSecond: Float64Array;
  readonly latencyNs: Float64Array;
  readonly transferNs: Float64Array;
  readonly congestion: Float64Array;
  readonly pathCongestion: Float64Array;
  readonly computeCost: Float64Array;
  readonly cacheCost: Float64Array;
  readonly networkCost: Float64Array;
  /**
   * Says the same of all engines of a tier, which costs less than to write columns: distances by engine (-1 unknown), the others by tier. Columns asked for
   * afterwards are filled with it.
   */
  answerByTier(
    question: Pick<OracleQuestion, 'candidates' | 'count' | 'transferBytes'>,
    tiers: ReadonlyColumn,
    congestion: ReadonlyColumn,
    bytesPerSecond: ReadonlyColumn,
    latencyNs: ReadonlyColumn,
  ): void;
}

/** A link's counters as last reported. */
export interface LinkObservation {
  readonly nowNs: number;
  readonly link: number;
  readonly utilisation: number;
  readonly transferBytes: number;
  readonly flows: number;
  readonly marks: number;
  readonly pausedNs: number;
  readonly site: NetworkSite;
}

/** What an oracle policy sees when its beat comes or it publishes. */
export interface OracleView {
  readonly nowNs: number;
  readonly engines: number;
  readonly site: NetworkSite;
  /** Whether a router wants the load of single links. */
  readonly paths: boolean;
}

/** What an oracle policy may do at its beat. */
export interface OracleActions {
  /** Moves bytes from one engine's place to another's through the network and, if `backBytes` is above 0, back; the end comes to `probed`. */
  probe(from: number, to: number, forthBytes: number, backBytes: number): void;
}

/** A probe that has ended. */
export interface ProbeObservation {
  readonly nowNs: number;
  readonly from: number;
  readonly to: number;
  readonly forthBytes: number;
  readonly backBytes: number;
  /** It found no way. */
  readonly lost: boolean;
  /** Time each way took; -1 where there was none. */
  readonly forthNs: number;
  readonly backNs: number;
  readonly site: NetworkSite;
}

/**
 * Predicts transfers. `observe`, `probed`, `beat` and `publish` run in the oracle's own actor, on its state; `answer` runs in the frontends, on what was last
 * published (without `publish`: a copy of the state), so it knows what messages have told. What it does not write stays unknown (-1, NaN).
 */
export interface OraclePolicy<Parameters = unknown, State = unknown, Knowledge = State> extends Policy<'oracle', Parameters> {
  /** `answer` writes the same columns for every candidate each time, so nothing has to be forgotten in between. */
  readonly writesAll?: boolean;
  /** Period of link reports it wants, ns; 0: each change as it happens. `router.linkReportMs` of the scenario overrides it; default 1 s. */
  linkReportNs?(parameters: Parameters): number;
  createState?(parameters: Parameters, engines: number): State;
  /** A link report has arrived. */
  observe?(observation: LinkObservation, parameters: Parameters, state: State): void;
  /** Period of `beat`, ns (default 1 s); it goes on while requests are in flight, and something is published each time. */
  beatNs?(parameters: Parameters): number;
  beat?(view: OracleView, actions: OracleActions, parameters: Parameters, state: State, random: Random): void;
  probed?(observation: ProbeObservation, parameters: Parameters, state: State): void;
  /** What the frontends get to answer from, and when it was true; null: nothing is sent. Called after reports, probes and beats. */
  publish?(view: OracleView, parameters: Parameters, state: State, random: Random): { madeAtNs: number; knowledge: Knowledge } | null;
  answer(question: OracleQuestion, answer: OracleAnswer, parameters: Parameters, knowledge: Knowledge, random: Random): void;
}

export function defineOraclePolicy<Parameters, State, Knowledge = State>(
  declaration: Omit<OraclePolicy<Parameters, State, Knowledge>, 'kind'>,
): OraclePolicy<Parameters, State, Knowledge> {
  return definePolicy<OraclePolicy<Parameters, State, Knowledge>>('oracle', declaration);
}

/**
 * Metrics as scraped, of all targets together. What was not measured is not there. `ttft_p50_ms`, `ttft_p90_ms`, `ttft_p99_ms`, `ttft_mean_ms` and
 * `ttft_count`: of the window; `inflight_requests`, `router_queue`: now; `placement_poa`: price of anarchy of where the requests decode, if all
 * engines are equal and latency grows linearly with load; `poa_hat`: live PoA-hat where `telemetry.poa` is set; and whatever other actors tell.
 */
export interface ControllerView {
  readonly nowNs: number;
  readonly metrics: ReadonlyMap<string, number>;
}

/** Watches scraped metrics and changes router parameters: `decide`, called once a scrape, returns the new ones, or null to change nothing. */
export interface ControllerPolicy<Parameters = unknown, State = unknown> extends Policy<'controller', Parameters> {
  createState?(parameters: Parameters): State;
  /** Every set of router parameters it may return, where that is known beforehand: those that cannot be applied are refused before the run. */
  choices?(parameters: Parameters): readonly Readonly<Record<string, unknown>>[];
  decide(view: ControllerView, parameters: Parameters, state: State, random: Random): Readonly<Record<string, unknown>> | null;
}

export function defineControllerPolicy<Parameters, State>(
  declaration: Omit<ControllerPolicy<Parameters, State>, 'kind'>,
): ControllerPolicy<Parameters, State> {
  return definePolicy<ControllerPolicy<Parameters, State>>('controller', declaration);
}
