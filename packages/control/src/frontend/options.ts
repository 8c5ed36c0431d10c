import { KernelError } from '@braess/kernel';
import { type FixedKv, type KvEventColumns, type MeasureListener, noFixedKv } from '@braess/protocol';
import type { NetworkSite } from '../oracle/site.js';
import type { AdmissionPolicy, OraclePolicy } from '../policy/control-policies.js';
import { type BoundPolicy, bindPolicy } from '../policy/policy.js';
import type { RouterPolicy } from '../policy/router-policy.js';
import { loadAwareRouter } from '../router/decode/cache-and-load.js';
import { type DecodeStage, type DecodeStageOptions, decodeStage } from './decode-stage.js';
import type { EngineEntry } from './engines.js';
import { anyHealth, type OracleHealth } from './oracle-watch.js';

/**
 * Which engine holds which prompt blocks, as told by KV events. The cluster backs it with kvbm's prefix index; `State` is plain data and belongs to one
 * frontend.
 */
export interface OverlapIndex<State = unknown> {
  createState(engines: number): State;
  apply(state: State, engine: number, events: KvEventColumns): void;
  /** The same for one removed block. */
  remove(state: State, engine: number, identity: number): void;
  /** Writes the number of leading blocks of the chain that each engine holds to `counts[engine]`, for every engine. */
  overlap(state: State, chain: Float64Array, counts: Int32Array): void;
  /** Forgets an engine's blocks: it died. */
  clear(state: State, engine: number): void;
}

/** What the frontends of a cluster are built with; delays and times in ns. */
export interface FrontendOptions {
  /** All engines, in the order of their numbers. May be filled until the run begins. */
  readonly engines: readonly EngineEntry[];
  /** KV block size of the engines, the unit of `chain` and of overlap. */
  readonly blockTokens: number;
  readonly clientDelayNs: number;
  readonly engineDelayNs: number;
  /** Chooses prefill engines, and engines that do both. */
  readonly prefillRouter: BoundPolicy<RouterPolicy>;
  readonly decodeRouter: BoundPolicy<RouterPolicy>;
  readonly admission?: BoundPolicy<AdmissionPolicy>;
  readonly overlap?: OverlapIndex;
  readonly oracle?: BoundPolicy<OraclePolicy>;
  /** The actor that runs it, where it listens to telemetry: none or one. May be filled until the run begins. */
  readonly oracleActor?: readonly { readonly id: number }[];
  /** When it is not to be trusted; requests then go to the least loaded engine. */
  readonly oracleHealth?: Partial<OracleHealth>;
  /** What is known of the network beforehand; default nothing. */
  readonly site?: NetworkSite;
  /** KV bytes of a token: what a transfer is said to move. */
  readonly kvBytesPerToken?: number;
  /** And what does not grow with the prompt; default nothing. */
  readonly fixedKv?: FixedKv;
  /** What narrows the choice of a decode engine. */
  readonly decodeStage?: DecodeStageOptions;
  readonly queue?: QueueOptions;
  /** Places a request is sent to at most, the first included, before it is rejected or failed (default 3). */
  readonly maxAttempts?: number;
  /** What happens to the requests of an engine that dies: start over elsewhere (default), or fail. */
  readonly onEngineDeath?: 'retry' | 'fail';
  /** Requests in flight at most; one more is rejected (default 4,194,304). */
  readonly maxInFlight?: number;
  /** Record what each decision saw, for each request whose number is divisible by `every` (default 0: none), `candidates` of them at most (8). */
  readonly decisions?: { readonly every: number; readonly candidates?: number };
  /** All frontends, to share accounts of load; without it each knows only its own requests. */
  readonly replicaSync?: { readonly frontends: readonly { readonly id: number }[]; readonly periodNs: number; readonly delayNs: number };
  /** Hears of every assignment to a decode or aggregated engine, in batches: the price-of-anarchy actor. */
  readonly assignmentListener?: MeasureListener;
  /** Which token is a request's first: that of the engine that decodes (default), or with 'prefill' the end of its prefill. */
  readonly firstTokenAt?: 'decode' | 'prefill';
  /** Tell the clients how their requests ended (default true). Clients that only send need no answer: a message a request less. */
  readonly answerClients?: boolean;
  /** Where the run is cut: 1 ns before, what is known of each request in flight is recorded (`requestInFlight`). Default: it ends by itself. */
  readonly endNs?: number;
  /** A controller watches: it scrapes this frontend, and may change its router parameters. The list may be filled until the run begins. */
  readonly controller?: {
    readonly actors: readonly { readonly id: number }[];
    readonly delayNs: number;
    readonly signal: 'server' | 'client';
  };
  /** Refusal codes of the engines that no other engine would judge differently, such as a prompt that is too long (default none). */
  readonly permanentRefusals?: readonly number[];
  /** Refusal codes of engines that no longer serve what they did when they were chosen: not active, another role (default none). */
  readonly movedRefusals?: readonly number[];
}

/** When all engines of a stage are busy, requests wait here. An engine at a limit is no candidate. */
export interface QueueOptions {
  /**
   * `fcfs`: in order of arrival. `wspt`: least (tokens to compute) / (1 + priority) first, which lowers the mean TTFT.
   * `fair`: equal prompt tokens for every tenant that has something waiting.
   */
  readonly order?: 'fcfs' | 'wspt' | 'fair';
  /** Requests that may wait; one more is rejected (default 65,536). */
  readonly limit?: number;
  /** An engine with this many requests of this frontend is busy (default: never). */
  readonly maxEngineRequests?: number;
  /** An engine with this many prompt tokens to compute is busy for first placements (default: never). */
  readonly maxEnginePrefillTokens?: number;
}

/** Options with all defaults. */
export interface FrontendSettings
  extends Required<
    Omit<
      FrontendOptions,
      | 'admission'
      | 'overlap'
      | 'oracle'
      | 'oracleActor'
      | 'oracleHealth'
      | 'site'
      | 'decodeStage'
      | 'queue'
      | 'decisions'
      | 'replicaSync'
      | 'controller'
      | 'assignmentListener'
      | 'endNs'
    >
  > {
  readonly admission: BoundPolicy<AdmissionPolicy> | undefined;
  readonly overlap: OverlapIndex | undefined;
  readonly oracle: BoundPolicy<OraclePolicy> | undefined;
  readonly site: NetworkSite | undefined;
  readonly oracleActor: NonNullable<FrontendOptions['oracleActor']>;
  readonly oracleHealth: OracleHealth;
  readonly decodeStage: DecodeStage;
  /** Chooses decode engines while the oracle is ill. */
  readonly fallback: BoundPolicy<RouterPolicy>;
  readonly queue: Required<QueueOptions>;
  readonly decisions: { readonly every: number; readonly candidates: number };
  readonly replicaSync: FrontendOptions['replicaSync'];
  readonly controller: FrontendOptions['controller'];
  readonly assignmentListener: MeasureListener | undefined;
  readonly endNs: number;
}

/** Fills in defaults. @throws KernelError `bad-option` naming the option, its value and its limits. */
export function frontendSettings(options: FrontendOptions): FrontendSettings {
  const queue = {
    order: 'fcfs' as const,
    limit: 65_536,
    maxEngineRequests: Number.POSITIVE_INFINITY,
    maxEnginePrefillTokens: Number.POSITIVE_INFINITY,
    ...options.queue,
  };
  const decisions = { candidates: 8, ...(options.decisions ?? { every: 0 }) };
  const settings: FrontendSettings = {
    kvBytesPerToken: 0,
    fixedKv: noFixedKv,
    maxAttempts: 3,
    onEngineDeath: 'retry',
    maxInFlight: 1 << 22,
    firstTokenAt: 'decode',
    answerClients: true,
    permanentRefusals: [],
    movedRefusals: [],
    ...options,
    admission: options.admission,
    // An index that no policy reads is not kept: its events are passed over.
    overlap: readsOverlap(options) ? options.overlap : undefined,
    oracle: options.oracle,
    site: options.site,
    oracleActor: options.oracleActor ?? [],
    oracleHealth: { ...anyHealth, ...options.oracleHealth },
    decodeStage: decodeStage(options.decodeStage ?? {}, options.decodeRouter),
    fallback: bindPolicy<RouterPolicy>(loadAwareRouter),
    queue,
    decisions,
    replicaSync: options.replicaSync,
    controller: options.controller,
    assignmentListener: options.assignmentListener,
    endNs: options.endNs ?? Number.POSITIVE_INFINITY,
  };
  checkLimit('blockTokens', settings.blockTokens, 1);
  checkLimit('clientDelayNs', settings.clientDelayNs, 0);
  checkLimit('engineDelayNs', settings.engineDelayNs, 0);
  checkLimit('maxAttempts', settings.maxAttempts, 1, 255);
  checkLimit('maxInFlight', settings.maxInFlight, 1);
  checkLimit('queue.limit', queue.limit, 0);
  checkLimit('decisions.every', decisions.every, 0);
  checkLimit('decisions.candidates', decisions.candidates, 1);
  if (queue.maxEngineRequests !== Number.POSITIVE_INFINITY) checkLimit('queue.maxEngineRequests', queue.maxEngineRequests, 1);
  if (queue.maxEnginePrefillTokens !== Number.POSITIVE_INFINITY)
    checkLimit('queue.maxEnginePrefillTokens', queue.maxEnginePrefillTokens, 1);
  if (options.replicaSync !== undefined) checkLimit('replicaSync.periodNs', options.replicaSync.periodNs, 1);
  if (readsNetwork(options) && options.oracle !== undefined) checkLimit('kvBytesPerToken', settings.kvBytesPerToken, 1);
  return settings;
}

/** Whether an index is kept: whether a router policy reads overlap and there is one. */
function readsOverlap(options: FrontendOptions): boolean {
  return options.overlap !== undefined && (readsPrefillOverlap(options.prefillRouter) || readsDecodeOverlap(options.decodeRouter));
}

/** Whether a router's policy wants to know what engines of the first stage hold, and what decode engines do. */
export function readsPrefillOverlap(router: BoundPolicy<RouterPolicy>): boolean {
  return router.policy.reads?.overlap === true;
}

export function readsDecodeOverlap(router: BoundPolicy<RouterPolicy>): boolean {
  return router.policy.reads?.decodeOverlap === true;
}

function readsNetwork(options: FrontendOptions): boolean {
  return options.decodeRouter.policy.reads?.network === true;
}

function checkLimit(name: string, value: number, least: number, most = Number.MAX_SAFE_INTEGER): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw new KernelError('bad-option', `frontend option ${name} is ${value}; it must be a whole number from ${least} to ${most}`);
}
