import type { Topology } from './topology.js';
import { LINK_CLASSES, NODE_KINDS, TIER_COUNT, tier } from './topology.js';

/**
 * Equal-cost multi-path routing. A path is a shortest path over living links; at every switch one of the links on such a
 * path is chosen by hash, independently of the choice at other switches.
 */
export interface Routes {
  /** Share of nominal capacity of each link that is left: 1 healthy, 0 dead. */
  linkShare: Float64Array;
  /** Where there is a choice, links below this share are passed over (0: hashing is blind to degradation, as on plain switches). */
  avoidBelowShare: number;
  /** Distance to a destination from each node (255: unreachable), computed when first asked for. */
  distancesTo: Map<number, Uint8Array>;
  /** Number of destinations kept before the table is started afresh; bounds memory, never changes a result. */
  destinationLimit: number;
}

const UNREACHABLE = 255;
/** About 64 MB of distance tables at most. */
const ROUTE_TABLE_BYTES = 64 * 1024 * 1024;
/** GPUs, hosts and storage end paths; NICs and switches pass traffic on. */
const TRANSIT = Uint8Array.from(NODE_KINDS, (kind) => (kind === 'gpu' || kind === 'host' || kind === 'storage' ? 0 : 1));

/**
 * Length of a link by class. PCIe counts 2, so that two GPUs on one NIC speak over NVLink and bounce off the NIC only when
 * NVLink is down; every path between servers has two PCIe links, so nothing else changes.
 */
const LENGTH = Uint8Array.from(LINK_CLASSES, (linkClass) => (linkClass === 'pcie' ? 2 : 1));

/** Most links a path may have; the longest in a healthy multi-zone tree has 11. */
export const HOP_LIMIT = 24;

export function createRoutes(topology: Topology, avoidBelowShare = 0): Routes {
  if (!(avoidBelowShare >= 0 && avoidBelowShare <= 1)) throw new Error(`avoidBelowShare is ${avoidBelowShare}; it must lie in 0..1`);
  return {
    linkShare: new Float64Array(topology.linkCount).fill(1),
    avoidBelowShare,
    distancesTo: new Map(),
    destinationLimit: Math.max(16, Math.floor(ROUTE_TABLE_BYTES / topology.nodeCount)),
  };
}

/** Sets what is left of a link, 0 (dead) to 1 (healthy). Paths already handed out are the caller's to change. */
export function setLinkShare(topology: Topology, routes: Routes, link: number, share: number): void {
  if (!(link >= 0 && link < topology.linkCount)) throw new Error(`link ${link} does not exist; ids are 0..${topology.linkCount - 1}`);
  if (!(share >= 0 && share <= 1)) throw new Error(`share of link ${link} is ${share}; it must lie in 0..1 (0 dead, 1 healthy)`);
  const before = routes.linkShare[link]!;
  routes.linkShare[link] = share;
  // Distances see only dead or alive.
  if (before > 0 !== share > 0) routes.distancesTo.clear();
}

/** Distance from each node to `destination` over living links, 255 where there is no way. */
function distancesToward(topology: Topology, routes: Routes, destination: number): Uint8Array {
  const known = routes.distancesTo.get(destination);
  if (known !== undefined) return known;
  if (routes.distancesTo.size >= routes.destinationLimit) routes.distancesTo.clear();
  const hops = measureDistances(topology, routes.linkShare, destination);
  routes.distancesTo.set(destination, hops);
  return hops;
}

/** Dial's algorithm: nodes are settled in rings of equal distance, since a link's length is 1 or 2. */
function measureDistances(topology: Topology, linkShare: Float64Array, destination: number): Uint8Array {
  const distances = new Uint8Array(topology.nodeCount).fill(UNREACHABLE);
  const rings: number[][] = [[destination]];
  distances[destination] = 0;
  for (let distance = 0; distance < rings.length && distance < HOP_LIMIT; distance++) {
    for (const node of rings[distance] ?? []) {
      if (distances[node] !== distance || (node !== destination && TRANSIT[topology.nodeKinds[node]!] === 0)) continue;
      for (let i = topology.incomingStart[node]!; i < topology.incomingStart[node + 1]!; i++) {
        const link = topology.incomingLinks[i]!;
        const from = topology.linkFrom[link]!;
        const next = distance + LENGTH[topology.linkClasses[link]!]!;
        if (linkShare[link] === 0 || distances[from]! <= next) continue;
        distances[from] = next;
        (rings[next] ??= []).push(from);
      }
    }
  }
  return distances;
}

/**
 * Writes the path of a flow into `path` (link ids) and returns its number of links: 0 when source and destination are the
 * same node, -1 when there is no way. The same (source, destination, flow id) takes the same path while links stay as they are.
 */
export function choosePath(
  topology: Topology,
  routes: Routes,
  source: number,
  destination: number,
  flowId: number,
  path: Int32Array,
): number {
  const distances = distancesToward(topology, routes, destination);
  if (distances[source] === UNREACHABLE) return -1;
  const flowHash = hashFlow(source, destination, flowId);
  let hopCount = 0;
  for (let node = source; node !== destination; hopCount++) {
    if (hopCount === path.length)
      throw new Error(`a path has more links than the path buffer holds (${path.length}); use HOP_LIMIT (${HOP_LIMIT})`);
    const link = chooseLink(topology, routes, distances, node, destination, flowHash);
    path[hopCount] = link;
    node = topology.linkTo[link]!;
  }
  return hopCount;
}

/** The link a flow takes at a node on its way, the same that `choosePath` puts into its path; -1 when there is no way from here. */
export function nextLink(topology: Topology, routes: Routes, node: number, source: number, destination: number, flowId: number): number {
  const distances = distancesToward(topology, routes, destination);
  if (distances[node] === UNREACHABLE) return -1;
  return chooseLink(topology, routes, distances, node, destination, hashFlow(source, destination, flowId));
}

function chooseLink(
  topology: Topology,
  routes: Routes,
  distances: Uint8Array,
  node: number,
  destination: number,
  flowHash: number,
): number {
  let count = collectCandidates(topology, routes.linkShare, distances, node, destination, routes.avoidBelowShare);
  if (count === 0 && routes.avoidBelowShare > 0) count = collectCandidates(topology, routes.linkShare, distances, node, destination, 0);
  if (count === 0) {
    throw new Error(
      `no living link leads from ${topology.nodeNames[node]} to ${topology.nodeNames[destination]}; distance table out of date`,
    );
  }
  // The node salts the hash: with one hash for all switches a flow that went left once would go left everywhere.
  return candidates[count === 1 ? 0 : Math.floor((mixInto(flowHash, node) / 4294967296) * count)]!;
}

// Filled and read within one choice; never state.
let candidates = new Int32Array(256);

/** Writes the links of a node that lie on a shortest path into `candidates`, ascending; returns how many. */
function collectCandidates(
  topology: Topology,
  linkShare: Float64Array,
  distances: Uint8Array,
  node: number,
  destination: number,
  least: number,
): number {
  const { outgoingStart, outgoingLinks } = topology;
  const end = outgoingStart[node + 1]!;
  if (end - outgoingStart[node]! > candidates.length) candidates = new Int32Array(2 * (end - outgoingStart[node]!));
  const distance = distances[node]!;
  let count = 0;
  for (let i = outgoingStart[node]!; i < end; i++) {
    const link = outgoingLinks[i]!;
    if (isCandidate(topology, linkShare, distances, link, destination, distance, least)) candidates[count++] = link;
  }
  return count;
}

function isCandidate(
  topology: Topology,
  linkShare: Float64Array,
  distances: Uint8Array,
  link: number,
  destination: number,
  distance: number,
  least: number,
): boolean {
  const to = topology.linkTo[link]!;
  if (distances[to]! + LENGTH[topology.linkClasses[link]!]! !== distance || linkShare[link] === 0 || linkShare[link]! < least) return false;
  return to === destination || TRANSIT[topology.nodeKinds[to]!] === 1;
}

/**
 * 32-bit hash of a flow: source, destination, low and high half of the flow id, each folded in with the finaliser of
 * MurmurHash3 (Austin Appleby, public domain), which lets every input bit flip every output bit with probability about 1/2.
 */
export function hashFlow(source: number, destination: number, flowId: number): number {
  let hash = mixInto(0, source);
  hash = mixInto(hash, destination);
  hash = mixInto(hash, (flowId % 4294967296) | 0);
  return mixInto(hash, Math.floor(flowId / 4294967296) | 0);
}

/** Folds a 32-bit value into a hash; 0x9e3779b1 is 2^32 over the golden ratio (Knuth, TAOCP 3, 6.4), so that order counts. */
function mixInto(hash: number, value: number): number {
  let mixed = (Math.imul(hash, 0x9e3779b1) + value + 0x7f4a7c15) | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

/** All equal-cost paths of a pair as lists of link ids, at most `limit` of them, in ascending order of links. */
export function equalCostPaths(topology: Topology, routes: Routes, source: number, destination: number, limit = 4096): number[][] {
  const distances = distancesToward(topology, routes, destination);
  const found: number[][] = [];
  if (distances[source] === UNREACHABLE) return found;
  const path: number[] = [];
  const walk = (node: number): void => {
    if (node === destination) {
      found.push(path.slice());
      return;
    }
    for (let i = topology.outgoingStart[node]!; i < topology.outgoingStart[node + 1]! && found.length < limit; i++) {
      const link = topology.outgoingLinks[i]!;
      if (!isCandidate(topology, routes.linkShare, distances, link, destination, distances[node]!, 0)) continue;
      path.push(link);
      walk(topology.linkTo[link]!);
      path.pop();
    }
  };
  walk(source);
  return found;
}

/** Links of a healthy network that the shortest paths of a pair may take, by their place on the way; hashing chooses one of each. */
export function pathStages(topology: Topology, routes: Routes, source: number, destination: number): Int32Array[] {
  const distances = distancesToward(topology, routes, destination);
  const stages: Int32Array[] = [];
  if (distances[source] === UNREACHABLE) return stages;
  for (let nodes = new Set([source]); !nodes.has(destination); ) {
    const links: number[] = [];
    for (const node of nodes) {
      const count = collectCandidates(topology, routes.linkShare, distances, node, destination, 0);
      for (let place = 0; place < count; place++) links.push(candidates[place]!);
    }
    stages.push(Int32Array.from(links).sort());
    nodes = new Set(links.map((link) => topology.linkTo[link]!));
  }
  return stages;
}

/** Propagation and switching time along a path. */
export function pathLatencyNs(topology: Topology, path: Int32Array | number[], hopCount = path.length): number {
  let latencyNs = 0;
  for (let hop = 0; hop < hopCount; hop++) latencyNs += topology.linkLatencyNs[path[hop]!]!;
  return latencyNs;
}

/** Nominal bandwidth and base latency of a network tier. */
export interface TierNominal {
  bytesPerSecond: number;
  latencyNs: number;
}

/**
 * What an operator would state per tier (index 0..4, null where no pair has that tier): slowest link and latency of a path from the
 * first GPU to the first other GPU at that distance. All pairs of a tier are alike in the trees built here, but for zones of unlike latency.
 */
export function tierNominals(topology: Topology, routes: Routes): (TierNominal | null)[] {
  const result: (TierNominal | null)[] = Array(TIER_COUNT).fill(null);
  const path = new Int32Array(HOP_LIMIT);
  const first = topology.gpus[0]!;
  for (const gpu of topology.gpus) {
    const level = tier(topology, first, gpu);
    if (gpu === first || result[level] !== null) continue;
    const hopCount = choosePath(topology, routes, first, gpu, 0, path);
    if (hopCount < 0) continue;
    let bytesPerSecond = Number.POSITIVE_INFINITY;
    for (let hop = 0; hop < hopCount; hop++) bytesPerSecond = Math.min(bytesPerSecond, topology.linkBytesPerSecond[path[hop]!]!);
    result[level] = { bytesPerSecond, latencyNs: pathLatencyNs(topology, path, hopCount) };
  }
  return result;
}
