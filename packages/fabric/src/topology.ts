/**
 * A cluster's network as a plain-data directed graph in typed arrays. Node and link ids are dense integers
 * that depend on the topology alone, so routing, allocators and counters index arrays by them.
 */

/** Node kinds in code order; `Topology.nodeKinds[node]` is an index into this list. */
export const NODE_KINDS = ['gpu', 'nvswitch', 'host', 'nic', 'leaf', 'spine', 'core', 'gateway', 'storage'] as const;
export type NodeKind = (typeof NODE_KINDS)[number];

/** By node kind: GPUs, hosts and storage end paths; NICs and switches pass traffic on. */
export const TRANSIT = Uint8Array.from(NODE_KINDS, (kind) => (kind === 'gpu' || kind === 'host' || kind === 'storage' ? 0 : 1));

/** Link classes in code order; `Topology.linkClasses[link]` is an index into this list. Both directions share a class. */
export const LINK_CLASSES = ['nvlink', 'pcie', 'host', 'nic', 'leaf-uplink', 'core-uplink', 'gateway', 'inter-zone', 'storage'] as const;
export type LinkClass = (typeof LINK_CLASSES)[number];

/** Network distance of two end points: same node, same rack (or rail), same pod, across pods, across zones. */
export type Tier = 0 | 1 | 2 | 3 | 4;
export const TIER_COUNT = 5;

/** The graph. All arrays are indexed by node id or link id; -1 in a place column means "not inside one". */
export interface Topology {
  kind: string;
  nodeCount: number;
  linkCount: number;
  nodeNames: string[];
  nodeKinds: Uint8Array;
  /** Zone, pod, leaf group (rack, or rail of a pod) and server of each node, each numbered over the whole cluster. */
  nodeZone: Int32Array;
  nodePod: Int32Array;
  nodeLeafGroup: Int32Array;
  nodeServer: Int32Array;
  linkFrom: Int32Array;
  linkTo: Int32Array;
  /** Nominal capacity, bytes per second, of this direction. */
  linkBytesPerSecond: Float64Array;
  linkLatencyNs: Float64Array;
  linkClasses: Uint8Array;
  /** Link of the opposite direction of the same cable. */
  linkReverse: Int32Array;
  /** Links that leave node n: outgoingLinks[outgoingStart[n]] up to outgoingLinks[outgoingStart[n + 1] - 1], ascending. */
  outgoingStart: Int32Array;
  outgoingLinks: Int32Array;
  /** Links that enter node n, likewise. */
  incomingStart: Int32Array;
  incomingLinks: Int32Array;
  /** Node ids of all GPUs in name-building order. */
  gpus: Int32Array;
  /**
   * Nodes that pass traffic between others that do, too: what may lie in the middle of a shortest path. NICs and NVLink switches do not: behind them are
   * ends only.
   */
  backboneNodes: Int32Array;
  /** Place of each node in `backboneNodes`, -1 for those that are not there. */
  backbonePlace: Int32Array;
  /** The only neighbour that passes traffic on, of a node outside the backbone that does, too: the leaf of a NIC; else -1. */
  gateway: Int32Array;
  /** Links from the backbone node of a place to others of them, ascending, at backboneStart[place] up to backboneStart[place + 1] - 1, and the places they lead to. */
  backboneStart: Int32Array;
  backboneLinks: Int32Array;
  backboneTo: Int32Array;
}

/** Place of a node while a topology is being drawn. */
export interface Place {
  zone: number;
  pod: number;
  leafGroup: number;
  server: number;
}

/** Growing columns from which `finishTopology` makes the typed arrays. */
export interface TopologyDraft {
  kind: string;
  nodeNames: string[];
  nodeKinds: number[];
  places: Record<keyof Place, number[]>;
  /** Of cables; the links of cable n are 2n and 2n + 1. */
  cableFrom: number[];
  cableTo: number[];
  cableBytesPerSecond: number[];
  cableLatencyNs: number[];
  cableClasses: number[];
}

export function draftTopology(kind: string): TopologyDraft {
  return {
    kind,
    nodeNames: [],
    nodeKinds: [],
    places: { zone: [], pod: [], leafGroup: [], server: [] },
    cableFrom: [],
    cableTo: [],
    cableBytesPerSecond: [],
    cableLatencyNs: [],
    cableClasses: [],
  };
}

export function drawNode(draft: TopologyDraft, kind: NodeKind, name: string, place: Partial<Place>): number {
  const { places } = draft;
  draft.nodeKinds.push(NODE_KINDS.indexOf(kind));
  places.zone.push(place.zone ?? -1);
  places.pod.push(place.pod ?? -1);
  places.leafGroup.push(place.leafGroup ?? -1);
  places.server.push(place.server ?? -1);
  return draft.nodeNames.push(name) - 1;
}

/** Adds both directions of a full-duplex cable. */
export function drawCable(
  draft: TopologyDraft,
  a: number,
  b: number,
  linkClass: LinkClass,
  bytesPerSecond: number,
  latencyNs: number,
): void {
  draft.cableFrom.push(a);
  draft.cableTo.push(b);
  draft.cableBytesPerSecond.push(bytesPerSecond);
  draft.cableLatencyNs.push(latencyNs);
  draft.cableClasses.push(LINK_CLASSES.indexOf(linkClass));
}

export function finishTopology(draft: TopologyDraft): Topology {
  const { nodeNames, places, cableFrom, cableTo } = draft;
  const nodeCount = nodeNames.length;
  const linkCount = 2 * cableFrom.length;
  const nodeKinds = new Uint8Array(draft.nodeKinds);
  const linkFrom = new Int32Array(linkCount);
  const linkTo = new Int32Array(linkCount);
  const linkBytesPerSecond = new Float64Array(linkCount);
  const linkLatencyNs = new Float64Array(linkCount);
  const linkClasses = new Uint8Array(linkCount);
  for (let link = 0; link < linkCount; link++) {
    const cable = link >> 1;
    linkFrom[link] = link % 2 === 0 ? cableFrom[cable]! : cableTo[cable]!;
    linkTo[link] = link % 2 === 0 ? cableTo[cable]! : cableFrom[cable]!;
    linkBytesPerSecond[link] = draft.cableBytesPerSecond[cable]!;
    linkLatencyNs[link] = draft.cableLatencyNs[cable]!;
    linkClasses[link] = draft.cableClasses[cable]!;
  }
  const outgoing = adjacency(nodeCount, linkFrom);
  const incoming = adjacency(nodeCount, linkTo);
  return {
    kind: draft.kind,
    nodeCount,
    linkCount,
    nodeNames,
    nodeKinds,
    nodeZone: new Int32Array(places.zone),
    nodePod: new Int32Array(places.pod),
    nodeLeafGroup: new Int32Array(places.leafGroup),
    nodeServer: new Int32Array(places.server),
    linkFrom,
    linkTo,
    linkBytesPerSecond,
    linkLatencyNs,
    linkClasses,
    linkReverse: Int32Array.from(linkFrom, (_, link) => link ^ 1),
    outgoingStart: outgoing.start,
    outgoingLinks: outgoing.list,
    incomingStart: incoming.start,
    incomingLinks: incoming.list,
    gpus: nodesWhere(nodeKinds, (node) => nodeKinds[node] === NODE_KINDS.indexOf('gpu')),
    ...backboneOf(nodeKinds, outgoing, linkTo),
  };
}

interface Adjacency {
  readonly start: Int32Array;
  readonly list: Int32Array;
}

function adjacency(nodeCount: number, endOfLink: Int32Array): Adjacency {
  const start = new Int32Array(nodeCount + 1);
  for (const node of endOfLink) start[node + 1]!++;
  for (let node = 0; node < nodeCount; node++) start[node + 1]! += start[node]!;
  const fill = start.slice();
  const list = new Int32Array(endOfLink.length);
  for (let link = 0; link < endOfLink.length; link++) list[fill[endOfLink[link]!]!++] = link;
  return { start, list };
}

function nodesWhere(nodeKinds: Uint8Array, holds: (node: number) => boolean): Int32Array {
  let count = 0;
  const found = new Int32Array(nodeKinds.length);
  for (let node = 0; node < nodeKinds.length; node++) if (holds(node)) found[count++] = node;
  return found.slice(0, count);
}

/** The nodes with two neighbours or more that pass traffic on, and pass it on themselves. */
function backboneOf(
  nodeKinds: Uint8Array,
  outgoing: Adjacency,
  linkTo: Int32Array,
): Pick<Topology, 'backboneNodes' | 'backbonePlace' | 'gateway' | 'backboneStart' | 'backboneLinks' | 'backboneTo'> {
  const gateway = new Int32Array(nodeKinds.length).fill(-1);
  const backboneNodes = nodesWhere(nodeKinds, (node) => {
    if (TRANSIT[nodeKinds[node]!] === 0) return false;
    for (let i = outgoing.start[node]!; i < outgoing.start[node + 1]!; i++) {
      const to = linkTo[outgoing.list[i]!]!;
      if (TRANSIT[nodeKinds[to]!] === 0 || to === gateway[node]) continue;
      if (gateway[node]! >= 0) {
        gateway[node] = -1;
        return true;
      }
      gateway[node] = to;
    }
    return false;
  });
  const backbonePlace = new Int32Array(nodeKinds.length).fill(-1);
  for (const [place, node] of backboneNodes.entries()) backbonePlace[node] = place;
  const backboneStart = new Int32Array(backboneNodes.length + 1);
  const links: number[] = [];
  for (const [place, node] of backboneNodes.entries()) {
    for (let i = outgoing.start[node]!; i < outgoing.start[node + 1]!; i++) {
      const link = outgoing.list[i]!;
      if (backbonePlace[linkTo[link]!]! >= 0) links.push(link);
    }
    backboneStart[place + 1] = links.length;
  }
  const backboneLinks = new Int32Array(links);
  return {
    backboneNodes,
    backbonePlace,
    gateway,
    backboneStart,
    backboneLinks,
    backboneTo: backboneLinks.map((link) => backbonePlace[linkTo[link]!]!),
  };
}

/** Node id of a name such as pod0/rack1/node2/gpu5. Throws with the nearest place known when there is none. */
export function nodeId(topology: Topology, name: string): number {
  const node = idsByName(topology).get(name);
  if (node !== undefined) return node;
  const prefix = longestKnownPrefix(topology, name);
  throw new Error(
    `topology has no node "${name}"; ${prefix === '' ? `names look like "${topology.nodeNames[0]}"` : `known under it: ${prefix}`}`,
  );
}

/** Few ever look for a name, and a table of all takes as much memory as the rest of a topology. */
const idsOfTopology = new WeakMap<Topology, ReadonlyMap<string, number>>();

function idsByName(topology: Topology): ReadonlyMap<string, number> {
  let ids = idsOfTopology.get(topology);
  if (ids === undefined) {
    ids = new Map(topology.nodeNames.map((name, node) => [name, node]));
    idsOfTopology.set(topology, ids);
  }
  return ids;
}

function longestKnownPrefix(topology: Topology, name: string): string {
  const parts = name.split('/');
  for (let length = parts.length - 1; length > 0; length--) {
    const prefix = `${parts.slice(0, length).join('/')}/`;
    const matches = topology.nodeNames.filter((known) => known.startsWith(prefix));
    if (matches.length > 0) return `${matches.slice(0, 4).join(', ')}${matches.length > 4 ? `, ... (${matches.length})` : ''}`;
  }
  return '';
}

export function nodeKind(topology: Topology, node: number): NodeKind {
  return NODE_KINDS[topology.nodeKinds[node]!]!;
}

/** Readable name of a link, `from->to`, with `#k` when k earlier links join the same two nodes. */
export function linkName(topology: Topology, link: number): string {
  const from = topology.linkFrom[link]!;
  const to = topology.linkTo[link]!;
  let twin = 0;
  for (let i = topology.outgoingStart[from]!; i < topology.outgoingStart[from + 1]!; i++) {
    const other = topology.outgoingLinks[i]!;
    if (other < link && topology.linkTo[other] === to) twin++;
  }
  return `${topology.nodeNames[from]}->${topology.nodeNames[to]}${twin === 0 ? '' : `#${twin}`}`;
}

/** All links from one named node to another (parallel links included), ascending. */
export function linksBetween(topology: Topology, fromName: string, toName: string): number[] {
  const from = nodeId(topology, fromName);
  const to = nodeId(topology, toName);
  const found: number[] = [];
  for (let i = topology.outgoingStart[from]!; i < topology.outgoingStart[from + 1]!; i++) {
    const link = topology.outgoingLinks[i]!;
    if (topology.linkTo[link] === to) found.push(link);
  }
  return found;
}

export function linksOfClass(topology: Topology, linkClass: LinkClass): number[] {
  const code = LINK_CLASSES.indexOf(linkClass);
  const found: number[] = [];
  for (let link = 0; link < topology.linkCount; link++) if (topology.linkClasses[link] === code) found.push(link);
  return found;
}

/**
 * Network tier of two end points: 0 same node, 1 under the same leaf switch (the rack of a fat-tree, the rail of a
 * rail-optimised pod), 2 same pod, 3 across pods, 4 across zones. (The first four are the tiers of NetKV, arXiv 2606.03910.)
 */
export function tier(topology: Topology, a: number, b: number): Tier {
  if (topology.nodeZone[a] !== topology.nodeZone[b]) return 4;
  if (topology.nodePod[a] !== topology.nodePod[b]) return 3;
  if (topology.nodeServer[a] === topology.nodeServer[b] && topology.nodeServer[a] !== -1) return 0;
  if (topology.nodeLeafGroup[a] === topology.nodeLeafGroup[b] && topology.nodeLeafGroup[a] !== -1) return 1;
  return 2;
}
