import type { ActorReference } from '@braess/kernel';
import type { FairPipeOptions } from '../fair-pipe.js';
import type { OffloadMode, TierStoreOptions } from '../tier-store.js';

/** The device of a tier in a server (G2, G3): what its transfers share. */
export interface TierDevice {
  /** `workers` is given by the set-up. */
  readonly pipe: Omit<FairPipeOptions, 'workers'>;
  /** True when reads and writes have the bandwidth each (PCIe); false when they share it (NVMe). */
  readonly duplex: boolean;
}

/** The fabric through which the bytes of a storage tier (G4) go. */
export interface TierFabric {
  readonly actor: ActorReference;
  /** Who takes the transfers from a node, where each has an actor of its own (chunk fidelity): its id. Default `actor`. */
  readonly endpointOf?: (node: number) => number;
  readonly delayNs: number;
  /** Time of the storage service before the bytes of a transfer begin to move. */
  readonly latencyNs: number;
  /** What a fetch is estimated to get, bytes per second. */
  readonly estimateBytesPerSecond: number;
  /** Node of the topology of an engine or tier (by actor id), and of the tier itself. */
  readonly nodeOf: (actor: number) => number;
}

/** Constants of one kind of tier. */
export interface TierKindOptions {
  /** Name of the actor kind; by default g2, g3 or g4. */
  readonly name?: string;
  /** 2 host DRAM, 3 NVMe, 4 network storage. */
  readonly tier: 2 | 3 | 4;
  readonly blockBytes: number;
  /** Capacity, eviction policy by name, frequency filter. */
  readonly store: Omit<TierStoreOptions, 'name'>;
  readonly through: { readonly device: TierDevice } | { readonly fabric: TierFabric };
  /** Delay of answers to who asked; 0 inside a server. */
  readonly answerDelayNs: number;
  /** When blocks go on to the tier below, where the set-up names one, and the delay to it. */
  readonly offload?: OffloadMode;
  readonly belowDelayNs?: number;
  /** Blocks that may be on their way down; more are dropped and counted. By default as many as the tier holds. */
  readonly offloadLimitBlocks?: number;
  /** Records of use each period while there is work. */
  readonly series?: { readonly periodNs: number };
  /** Cell classes it may send to; needed where other actors' promises shall widen windows. */
  readonly sendsTo?: readonly string[];
}

/** What differs between tiers of one kind. */
export interface TierSetup {
  /** Actors that it serves, each with its share of the device; any other sender counts as one more. Read when the run begins. */
  readonly workers?: readonly ActorReference[];
  readonly below?: ActorReference;
}
