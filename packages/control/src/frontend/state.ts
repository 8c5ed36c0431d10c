import type { Context } from '@braess/kernel';
import { engineRole, engineStatus } from '@braess/protocol';
import { NetworkAnswer } from '../oracle/network-answer.js';
import { networkTiers } from '../oracle/site.js';
import { type BoundPolicy, bindPolicy, policyState, type Random } from '../policy/policy.js';
import type { RouterPolicy, RouterRequest, RouterView } from '../policy/router-policy.js';
import { type AssignmentGathering, createAssignments } from './assignments.js';
import { createEngineColumns, type EngineColumns } from './engines.js';
import { createFairOrder, type FairOrder } from './fair-order.js';
import type { FrontendSettings } from './options.js';
import { createOracleSeen, type OracleSeen } from './oracle-watch.js';
import { createRequestIndex, type RequestIndex } from './request-index.js';
import { grownSlots, type RequestSlots } from './slots.js';
import type { Steering } from './steering.js';
import { createStillness, type Stillness } from './stillness.js';
import { createWaitingQueue, type WaitingQueue } from './waiting-queue.js';
import { createWatch, type FrontendWatch } from './watch.js';

export const frontendStreams = ['admission', 'prefillRouter', 'decodeRouter', 'oracle'] as const;
/** Context of a frontend, with the random streams of its policies. */
export type FrontendContext = Context<(typeof frontendStreams)[number]>;

/** Submitted = completed + rejected + failed + cancelled + timedOut + requests in `slotOf`, always. */
export interface FrontendCounters {
  submitted: number;
  completed: number;
  rejected: number;
  failed: number;
  cancelled: number;
  timedOut: number;
  /** Attempts after the first. */
  retries: number;
  /** Reports about requests that were already over (or had moved on), as after a cancel. */
  strayReports: number;
  /** KV event batches that went missing, and reports dropped by a telemetry fault. */
  kvEventGaps: number;
  droppedReports: number;
  mostWaiting: number;
}

/** Plain data. */
export interface FrontendState {
  engines: EngineColumns;
  slots: RequestSlots;
  /** Slot by request number. */
  slotOf: RequestIndex;
  /** Requests without an engine, and prefilled ones without a decode engine. */
  firstQueue: WaitingQueue;
  decodeQueue: WaitingQueue;
  /** Prefilled ones with long prompts, where they wait apart. */
  longQueue: WaitingQueue;
  /** Waiting ones will be looked at again, or decided together. */
  decodeArmed: boolean;
  /** Turn of the decision that is awaited; one that was ordered before is void. */
  decodeTurn: number;
  readonly decodeStill: Stillness;
  /** Active engines by stage, ascending. */
  firstCandidates: Int32Array;
  firstCount: number;
  firstStageHasPrefill: boolean;
  decodeCandidates: Int32Array;
  decodeCount: number;
  prefillRouter: unknown;
  decodeRouter: unknown;
  admission: unknown;
  oracle: OracleSeen;
  overlap: unknown;
  fairOrder: FairOrder;
  telemetryLost: boolean;
  /** KV transfers of this frontend under way: by tier, and by prefill engine and tier. */
  tierTransfers: Float64Array;
  sourceTransfers: Float64Array;
  /** Requests that these moved the KV of and that have not ended, in the same way. */
  tierRequests: Float64Array;
  sourceRequests: Float64Array;
  /** Dispatches called off: part of what engines know later ones by. */
  recalled: number;
  syncArmed: boolean;
  /** Timer of the last moment before the run is cut, -1 while nothing is in flight or it is not cut. */
  endTimer: number;
  /** Null but in a counterfactual fork. */
  steering: Steering | null;
  /** Parameters of the routers; null while they are those of the scenario. */
  prefillParameters: unknown;
  decodeParameters: unknown;
  /** What a controller is told, null where there is none. */
  watch: FrontendWatch | null;
  /** Assignments the listener has not been told yet. */
  assigned: AssignmentGathering;
  /** Last account of each peer, by its actor id: requests, prefill tokens, blocks of each engine. */
  peerLoads: Map<number, Float64Array>;
  counters: FrontendCounters;
}

export function createFrontendState(settings: FrontendSettings, setup?: FrontendSetup): FrontendState {
  const engines = createEngineColumns(settings.engines);
  const { count } = engines;
  const { prefillRouter, decodeRouter, admission } = settings;
  const state: FrontendState = {
    engines,
    slots: grownSlots(32),
    slotOf: createRequestIndex(),
    firstQueue: createWaitingQueue(settings.queue.limit),
    // What is prefilled was let in already; the table of requests in flight bounds it.
    decodeQueue: createWaitingQueue(settings.maxInFlight),
    longQueue: createWaitingQueue(settings.maxInFlight),
    decodeArmed: false,
    decodeTurn: 0,
    decodeStill: createStillness(),
    firstCandidates: new Int32Array(count),
    firstCount: 0,
    firstStageHasPrefill: false,
    decodeCandidates: new Int32Array(count),
    decodeCount: 0,
    prefillRouter: policyState(prefillRouter, count),
    decodeRouter: policyState(decodeRouter, count),
    admission: admission === undefined ? null : policyState(admission, count),
    oracle: createOracleSeen(settings, count),
    overlap: settings.overlap?.createState(count) ?? null,
    fairOrder: createFairOrder(),
    telemetryLost: false,
    tierTransfers: new Float64Array(networkTiers),
    sourceTransfers: new Float64Array(networkTiers * count),
    tierRequests: new Float64Array(networkTiers),
    sourceRequests: new Float64Array(networkTiers * count),
    recalled: 0,
    syncArmed: false,
    endTimer: -1,
    steering: null,
    ...ownParameters(settings, setup?.parameters),
    watch: createWatch(settings),
    assigned: createAssignments(),
    peerLoads: new Map(),
    counters: {
      submitted: 0,
      completed: 0,
      rejected: 0,
      failed: 0,
      cancelled: 0,
      timedOut: 0,
      retries: 0,
      strayReports: 0,
      kvEventGaps: 0,
      droppedReports: 0,
      mostWaiting: 0,
    },
  };
  listCandidates(state);
  return state;
}

/** What the program passes for one frontend. */
export interface FrontendSetup {
  /** Router parameters of this frontend, over those of the scenario. */
  readonly parameters?: Readonly<Record<string, unknown>>;
}

/**
 * Parameters over the bound ones, checked anew. They are those of `router.policy`: a decode stage with a policy of its own keeps its own.
 * @throws KernelError `bad-option` when the policy does not take them.
 */
export function ownParameters(
  { prefillRouter, decodeRouter }: Pick<FrontendSettings, 'prefillRouter' | 'decodeRouter'>,
  parameters: Readonly<Record<string, unknown>> | undefined,
): Pick<FrontendState, 'prefillParameters' | 'decodeParameters'> {
  if (parameters === undefined) return { prefillParameters: null, decodeParameters: null };
  const over = ({ policy, parameters: bound, source }: BoundPolicy<RouterPolicy>): unknown =>
    bindPolicy(policy, { ...(bound as object), ...structuredClone(parameters) }, source).parameters;
  return {
    prefillParameters: over(prefillRouter),
    decodeParameters: decodeRouter.policy === prefillRouter.policy ? over(decodeRouter) : null,
  };
}

/** Lists the active engines by stage; after any change of a role or status. */
export function listCandidates(state: FrontendState): void {
  const { engines, firstCandidates, decodeCandidates } = state;
  state.firstCount = 0;
  state.decodeCount = 0;
  state.firstStageHasPrefill = false;
  for (let engine = 0; engine < engines.count; engine++) {
    if (engines.status[engine] !== engineStatus.active) continue;
    const role = engines.role[engine];
    if (role === engineRole.decode) decodeCandidates[state.decodeCount++] = engine;
    else firstCandidates[state.firstCount++] = engine;
    if (role === engineRole.prefill) state.firstStageHasPrefill = true;
  }
}

/** A view as its owner fills it in. */
export type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** What a frontend kind holds outside its actors' state: settings, and objects filled anew for each use. */
export interface FrontendDesk {
  readonly settings: FrontendSettings;
  readonly view: Writable<RouterView>;
  readonly request: Writable<RouterRequest>;
  network: NetworkAnswer;
  /** What the inventory says in its place. */
  inventory: NetworkAnswer;
  /** Overlap by engine; `zeros` stands in for it where there is none. */
  overlap: Int32Array;
  zeros: Int32Array;
  /** Candidates left after limits. */
  free: Int32Array;
  scores: Float64Array;
  /** The handler's context while a policy is asked. */
  context: FrontendContext | undefined;
  readonly random: { readonly admission: Random; readonly prefillRouter: Random; readonly decodeRouter: Random; readonly oracle: Random };
}

export function createDesk(settings: FrontendSettings): FrontendDesk {
  const none = new Int32Array(0);
  const unread = new Float64Array(0);
  const noTransfers = new Float64Array(networkTiers);
  const draw = (stream: (typeof frontendStreams)[number]) => (): number => (desk.context as FrontendContext).random(stream);
  const desk: FrontendDesk = {
    settings,
    view: {
      nowNs: 0,
      stage: 0,
      blockTokens: settings.blockTokens,
      candidates: none,
      count: 0,
      engines: undefined as unknown as EngineColumns,
      overlapBlocks: none,
      network: null,
      prefillEngine: -1,
      transferBytes: 0,
      fixedBytes: 0,
      tierTransfers: noTransfers,
      sourceTransfers: noTransfers,
      tierRequests: noTransfers,
      sourceRequests: noTransfers,
      scores: unread,
    },
    request: { request: 0, inputTokens: 0, outputTokens: 0, tenant: 0, priority: 0, attempt: 1, ageNs: 0 },
    network: new NetworkAnswer(0),
    inventory: new NetworkAnswer(0),
    overlap: none,
    zeros: none,
    free: none,
    scores: unread,
    context: undefined,
    random: {
      admission: draw('admission'),
      prefillRouter: draw('prefillRouter'),
      decodeRouter: draw('decodeRouter'),
      oracle: draw('oracle'),
    },
  };
  return desk;
}

/** Sizes the reused columns; the number of engines is known only once a state is there. */
export function sizeDesk(desk: FrontendDesk, count: number): void {
  if (desk.zeros.length === count) return;
  desk.overlap = new Int32Array(count);
  desk.zeros = new Int32Array(count);
  desk.free = new Int32Array(count);
  desk.scores = new Float64Array(count);
  desk.network = new NetworkAnswer(count);
  desk.inventory = new NetworkAnswer(count);
}
