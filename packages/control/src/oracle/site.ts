import type { ReadonlyColumn } from '../policy/policy.js';

/** Network distances: same node, same rack (or rail), same pod, across pods, across zones. */
export const networkTiers = 5;

/** What an operator's inventory says of the network. Nothing in it changes while the cluster runs: no load, no fault. */
export interface NetworkSite {
  /** Network distance of every engine from one, by engine: a value 0..4, or -1 where it is unknown. */
  tiersFrom(engine: number): ReadonlyColumn;
  /** The same of one pair alone. */
  tierBetween(from: number, to: number): number;
  /** By tier: bandwidth of a transfer that has the network to itself, all its flows together, and one-way latency; NaN where no pair has that distance. */
  readonly tierBytesPerSecond: ReadonlyColumn;
  readonly tierLatencyNs: ReadonlyColumn;
  /** Flows that a transfer moves in side by side: where parts move GPU by GPU, or engines span servers. The least of all engines. */
  readonly flowsPerTransfer: number;
  /** By tier: share of its links that background traffic is known to take. */
  readonly tierBackground: ReadonlyColumn;
  /** By tier: links that its transfers cross and nearer ones do not (NICs, leaf uplinks, core uplinks, zone links). */
  readonly tierLinks: ReadonlyColumn;
  /** Whether KV may leave an engine, and arrive there, in the roles they start with. */
  isSource(engine: number): boolean;
  isTarget(engine: number): boolean;
  /** Links on the shortest ways from one engine to another, by stage; a transfer's hash takes one of each. */
  pathStages(from: number, to: number): readonly ReadonlyColumn[];
  /** By link: the tier it is counted in, -1 for links inside servers and to storage. */
  readonly linkTier: ReadonlyColumn;
}

const unknown = new Float64Array(networkTiers).fill(Number.NaN);
const none = new Float64Array(networkTiers);
let unknownTiers = new Int8Array(0);

/** A network of which nothing is known. */
const unknownSite: NetworkSite = Object.freeze({
  tiersFrom: () => unknownTiers,
  tierBetween: () => -1,
  tierBytesPerSecond: unknown,
  tierLatencyNs: unknown,
  flowsPerTransfer: 1,
  tierBackground: none,
  tierLinks: none,
  linkTier: unknownTiers,
  isSource: () => false,
  isTarget: () => false,
  pathStages: () => [],
});

/** The same for so many engines. */
export function siteOf(site: NetworkSite | undefined, engines: number): NetworkSite {
  if (site !== undefined) return site;
  if (unknownTiers.length < engines) unknownTiers = new Int8Array(engines).fill(-1);
  return unknownSite;
}
