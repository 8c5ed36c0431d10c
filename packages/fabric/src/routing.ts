import {
  createDistanceTables,
  type DistanceTable,
  type DistanceTables,
  distanceToward,
  HOP_LIMIT,
  isEntrance,
  LENGTH,
  lookToward,
  noteDeadLink,
  UNREACHABLE,
} from './distances.js';
import { TIER_COUNT, type Topology, TRANSIT, tier } from './topology.js';

/**
 * Equal-cost multi-path routing. A path is a shortest path over living links; at every switch one of the links on such a
 * path is chosen by hash, independently of the choice at other switches.
 */
export interface Routes {
  /** Share of nominal capacity of each link that is left: 1 healthy, 0 dead. */
  linkShare: Float64Array;
  /** Where there is a choice, links below this share are passed over (0: hashing is blind to degradation, as on plain switches). */
  avoidBelowShare: number;
  distances: DistanceTables;
  /** What `nextLink` has to choose from, by node x nodes + destination. */
  linksToward: Map<number, Int32Array>;
}

/** Pairs of a node and a destination whose links are kept: some 30 MB at most. */
const keptChoices = 1 << 17;

export function createRoutes(topology: Topology, avoidBelowShare = 0): Routes {
  if (!(avoidBelowShare >= 0 && avoidBelowShare <= 1)) throw new Error(`avoidBelowShare is ${avoidBelowShare}; it must lie in 0..1`);
  return {
    linkShare: new Float64Array(topology.linkCount).fill(1),
    avoidBelowShare,
    distances: createDistanceTables(topology),
    linksToward: new Map(),
  };
}

/** Sets what is left of a link, 0 (dead) to 1 (healthy). Paths already handed out are the caller's to change. */
export function setLinkShare(topology: Topology, routes: Routes, link: number, share: number): void {
  if (!(link >= 0 && link < topology.linkCount)) throw new Error(`link ${link} does not exist; ids are 0..${topology.linkCount - 1}`);
  if (!(share >= 0 && share <= 1)) throw new Error(`share of link ${link} is ${share}; it must lie in 0..1 (0 dead, 1 healthy)`);
  const before = routes.linkShare[link]!;
  routes.linkShare[link] = share;
  routes.linksToward.clear();
  // Distances see only dead or alive.
  if (before > 0 !== share > 0) noteDeadLink(routes.distances, share > 0 ? -1 : 1);
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
  const table = lookToward(topology, routes.linkShare, routes.distances, source, destination);
  if (distanceToward(topology, table, source) === UNREACHABLE) return -1;
  const flowHash = hashFlow(source, destination, flowId);
  let hopCount = 0;
  for (let node = source; node !== destination; hopCount++) {
    if (hopCount === path.length)
      throw new Error(`a path has more links than the path buffer holds (${path.length}); use HOP_LIMIT (${HOP_LIMIT})`);
    const link = chooseLink(topology, routes, table, node, destination, flowHash);
    path[hopCount] = link;
    node = topology.linkTo[link]!;
  }
  return hopCount;
}

/** The link a flow takes at a node on its way, the same that `choosePath` puts into its path; -1 when there is no way from here. */
export function nextLink(topology: Topology, routes: Routes, node: number, source: number, destination: number, flowId: number): number {
  const links = linksToward(topology, routes, node, destination);
  if (links.length < 2) return links.length === 0 ? -1 : links[0]!;
  return links[choice(hashFlow(source, destination, flowId), node, links.length)]!;
}

/** Links to choose from at a node, kept for who asks again with each chunk. */
function linksToward(topology: Topology, routes: Routes, node: number, destination: number): Int32Array {
  const key = node * topology.nodeCount + destination;
  const known = routes.linksToward.get(key);
  if (known !== undefined) return known;
  const table = lookToward(topology, routes.linkShare, routes.distances, node, destination);
  const isReached = distanceToward(topology, table, node) !== UNREACHABLE;
  const count = isReached ? collectLinks(topology, routes, table, node, destination) : 0;
  const links = candidates.slice(0, count);
  if (routes.linksToward.size >= keptChoices) routes.linksToward.clear();
  routes.linksToward.set(key, links);
  return links;
}

function chooseLink(topology: Topology, routes: Routes, table: DistanceTable, node: number, destination: number, flowHash: number): number {
  const count = collectLinks(topology, routes, table, node, destination);
  return candidates[count === 1 ? 0 : choice(flowHash, node, count)]!;
}

/** The node salts the hash: with one hash for all switches a flow that went left once would go left everywhere. */
function choice(flowHash: number, node: number, count: number): number {
  return Math.floor((mixInto(flowHash, node) / 4294967296) * count);
}

/** Writes the links to choose from into `candidates`; returns how many. */
function collectLinks(topology: Topology, routes: Routes, table: DistanceTable, node: number, destination: number): number {
  let count = collectCandidates(topology, routes.linkShare, table, node, destination, routes.avoidBelowShare);
  if (count === 0 && routes.avoidBelowShare > 0) count = collectCandidates(topology, routes.linkShare, table, node, destination, 0);
  if (count > 0) return count;
  throw new Error(
    `no living link leads from ${topology.nodeNames[node]} to ${topology.nodeNames[destination]}; distance table out of date`,
  );
}

// Filled and read within one choice; never state.
let candidates = new Int32Array(256);

/** Writes the links of a node that lie on a shortest path into `candidates`, ascending; returns how many. */
function collectCandidates(
  topology: Topology,
  linkShare: Float64Array,
  table: DistanceTable,
  node: number,
  destination: number,
  least: number,
): number {
  const { outgoingStart, outgoingLinks } = topology;
  const end = outgoingStart[node + 1]!;
  if (end - outgoingStart[node]! > candidates.length) candidates = new Int32Array(2 * (end - outgoingStart[node]!));
  const distance = distanceToward(topology, table, node);
  const place = topology.backbonePlace[node]!;
  if (place >= 0 && !isEntrance(table, node)) return collectOnBackbone(topology, linkShare, table, place, distance, least);
  let count = 0;
  for (let i = outgoingStart[node]!; i < end; i++) {
    const link = outgoingLinks[i]!;
    if (isCandidate(topology, linkShare, table, link, destination, distance, least)) candidates[count++] = link;
  }
  return count;
}

/** The same where all links that count are of the backbone: of the hundreds of links at a switch most others lead to servers. */
function collectOnBackbone(
  topology: Topology,
  linkShare: Float64Array,
  table: DistanceTable,
  place: number,
  distance: number,
  least: number,
): number {
  const { backboneStart, backboneLinks, backboneTo } = topology;
  const { lengths } = table;
  let count = 0;
  for (let i = backboneStart[place]!; i < backboneStart[place + 1]!; i++) {
    if (lengths[backboneTo[i]!]! + 1 !== distance) continue;
    const link = backboneLinks[i]!;
    if (linkShare[link] !== 0 && linkShare[link]! >= least) candidates[count++] = link;
  }
  return count;
}

function isCandidate(
  topology: Topology,
  linkShare: Float64Array,
  table: DistanceTable,
  link: number,
  destination: number,
  distance: number,
  least: number,
): boolean {
  const to = topology.linkTo[link]!;
  if (
    distanceToward(topology, table, to) + LENGTH[topology.linkClasses[link]!]! !== distance ||
    linkShare[link] === 0 ||
    linkShare[link]! < least
  )
    return false;
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
  const table = lookToward(topology, routes.linkShare, routes.distances, source, destination);
  const found: number[][] = [];
  if (distanceToward(topology, table, source) === UNREACHABLE) return found;
  const path: number[] = [];
  const walk = (node: number): void => {
    if (node === destination) {
      found.push(path.slice());
      return;
    }
    for (let i = topology.outgoingStart[node]!; i < topology.outgoingStart[node + 1]! && found.length < limit; i++) {
      const link = topology.outgoingLinks[i]!;
      if (!isCandidate(topology, routes.linkShare, table, link, destination, distanceToward(topology, table, node), 0)) continue;
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
  const table = lookToward(topology, routes.linkShare, routes.distances, source, destination);
  const stages: Int32Array[] = [];
  if (distanceToward(topology, table, source) === UNREACHABLE) return stages;
  for (let nodes = new Set([source]); !nodes.has(destination); ) {
    const links: number[] = [];
    for (const node of nodes) {
      const count = collectCandidates(topology, routes.linkShare, table, node, destination, 0);
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
