import type { ActorReference } from '@braess/kernel';
import type { FixedKv } from '@braess/protocol';
import type { EngineRules } from '../engine-state.js';
import type { TimingModel } from '../timing.js';
import type { EngineBlocks } from './engine-blocks.js';
import type { OnboardPlanner } from './onboarding.js';

/** Where KV is moved from engine to engine. */
export interface EngineFabric {
  readonly actor: ActorReference;
  readonly delayNs: number;
  /** Where transfers from a node are asked for, when each node has an actor of its own (chunk fidelity): its id. Default `actor`. */
  readonly endpointOf?: (node: number) => number;
  /**
   * Nodes of the topology at which an engine (by actor id) sends and receives the KV of a dispatch of a request: one, or its GPUs in order of rank, each
   * with its part.
   */
  readonly nodesOf: (engine: number, dispatch: number) => readonly number[];
}

/** Without a fabric a transfer takes latency + bytes / bandwidth, whatever else moves. */
export interface ClosedFormTransfer {
  readonly latencyNs: number;
  readonly bytesPerSecond: number;
}

/** The tiers below an engine; see `onboarding.ts`. */
export interface EngineTiers {
  /** When blocks are copied down to the first tier: as they are computed, or as HBM evicts them. */
  readonly offload: 'write-through' | 'on-eviction' | 'never';
  /** To a tier of the engine's own cell, and to one elsewhere (the last, when `lastIsRemote`). */
  readonly localDelayNs: number;
  readonly remoteDelayNs: number;
  readonly lastIsRemote: boolean;
  /** Which tier each of the set-up's is: 2, 3 or 4. */
  readonly levels: readonly (2 | 3 | 4)[];
  /** How many of the blocks found to bring up; by default the number with the least estimated time. */
  readonly plan?: OnboardPlanner;
}

/**
 * Constants of one kind of engine. A program may hold several kinds with different names (fast and slow GPUs). Arrays of references are read
 * when the run begins, so the program may still add to them after it made the kind.
 */
export interface EngineKindOptions<Pool> {
  /** Name of the actor kind, 'engine' by default. */
  readonly name?: string;
  readonly rules: EngineRules;
  readonly timing: TimingModel;
  readonly blocks: EngineBlocks<Pool>;
  /** KV bytes of one token, over all GPUs of the group. */
  readonly kvBytesPerToken: number;
  /** What moves with a prompt beside it; default nothing. */
  readonly fixedKv?: FixedKv;
  /** Delay of messages to frontends and planner (control), and to other servers. */
  readonly controlDelayNs: number;
  readonly serverDelayNs: number;
  readonly fabric?: EngineFabric;
  /** Used without a fabric; by default 50 GB/s (one 400 Gb/s NIC) and no latency. */
  readonly transfer?: ClosedFormTransfer;
  /** Layers of the model, where KV leaves layer by layer while its prompt is computed; by default it leaves whole, afterwards. */
  readonly overlapLayers?: number;
  /** Whether a request's client wants every token as it comes. */
  readonly streams?: (request: number) => boolean;
  /** Tell the frontend when the KV of a request has arrived (default false). */
  readonly arrivalReports?: boolean;
  /** Load reports go to these actors each period while the engine has work, and once after. */
  readonly loadReports?: { readonly to: readonly ActorReference[]; readonly periodNs: number };
  /** KV events go to these actors, gathered over the period (0: as they come). */
  readonly kvEvents?: { readonly to: readonly ActorReference[]; readonly periodNs: number };
  /** Changes of role and status go to these actors. */
  readonly stateReports?: { readonly to: readonly ActorReference[] };
  readonly tiers?: EngineTiers;
  /**
   * Records for the sink: series each period while there is work; ITL gaps when 2,048 rows are together, when a period ends with the engine idle, and a
   * last time 1 ns before `endNs`, where the run is cut (it must be given then, or the gaps of the last moments are missing).
   */
  readonly telemetry?: EngineTelemetryOptions;
  /** Time from repair of the last dead GPU until the engine serves again; 60 s by default. */
  readonly restartNs?: number;
  /** One actor in each cell that is promised silence while a pass runs, and the delay to it. Never a cell of another server. */
  readonly promises?: readonly { readonly to: ActorReference; readonly delayNs: number }[];
  /** Cell classes it may send to; needed for promises to widen windows. */
  readonly sendsTo?: readonly string[];
}

export interface EngineTelemetryOptions {
  readonly gaps: boolean;
  readonly series: boolean;
  readonly periodNs: number;
  readonly endNs?: number;
  /** Tells the gaps of so many tenants apart, `of` giving the tenant of a request; absent: of none. */
  readonly tenants?: { readonly count: number; readonly of: (request: number) => number };
}

/** What differs between engines of one kind. */
export interface EngineSetup {
  /** A value of `engineRole`. */
  readonly role: number;
  /** GPUs of the group. */
  readonly members: number;
  /** GPU actors of the group (same cell), told of their HBM use each telemetry period where series are on. Read when the run begins. */
  readonly gpus?: readonly ActorReference[];
  /** Tier actors below HBM, nearest first. */
  readonly tiers?: readonly ActorReference[];
  /** An engine that is not started serves only after `startEngine`. */
  readonly started?: boolean;
}

/** Ids of references, read once the program is built. */
export class LazyIds {
  readonly #references: readonly ActorReference[];
  #ids: number[] | undefined;

  constructor(references: readonly ActorReference[] | undefined) {
    this.#references = references ?? [];
  }

  get list(): readonly number[] {
    this.#ids ??= this.#references.map((reference) => reference.id);
    return this.#ids;
  }
}
