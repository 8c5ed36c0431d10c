/**
 * A cluster's network as a plain-data directed graph in typed arrays. Node and link ids are dense integers
 * that depend on the topology alone, so routing, allocators and counters index arrays by them.
 */

/** Node kinds in code order; `Topology.nodeKinds[node]` is an index into this list. */
export const NODE_KINDS = ['gpu', 'nvswitch', 'host', 'nic', 'leaf', 'spine', 'core', 'gateway', 'storage'] as const;
export type NodeKind = (typeof NODE_KINDS)[number];

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
  nodeIds: Map<string, number>;
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
}

/** Place of a node while a topology is being drawn. */
export interface Place {
  zone: number;
  pod: number;
  leafGroup: number;
  server: number;
}

/** Growing lists from which `finishTopology` makes the typed arrays. */
export interface TopologyDraft {
  kind: string;
  nodeNames: string[];
  nodeKinds: number[];
  places: Place[];
  links: { from: number; to: number; bytesPerSecond: number; latencyNs: number; linkClass: number; reverse: number }[];
}

export function draftTopology(kind: string): TopologyDraft {
  return { kind, nodeNames: [], nodeKinds: [], places: [], links: [] };
}

export function drawNode(draft: TopologyDraft, kind: NodeKind, name: string, place: Partial<Place>): number {
  draft.nodeNames.push(name);
  draft.nodeKinds.push(NODE_KINDS.indexOf(kind));
  draft.places.push({ zone: place.zone ?? -1, pod: place.pod ?? -1, leafGroup: place.leafGroup ?? -1, server: place.server ?? -1 });
  return draft.nodeNames.length - 1;
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
  const first = draft.links.length;
  const code = LINK_CLASSES.indexOf(linkClass);
  draft.links.push({ from: a, to: b, bytesPerSecond, latencyNs, linkClass: code, reverse: first + 1 });
  draft.links.push({ from: b, to: a, bytesPerSecond, latencyNs, linkClass: code, reverse: first });
}

export function finishTopology(draft: TopologyDraft): Topology {
  const nodeCount = draft.nodeNames.length;
  const { links, places } = draft;
  const gpuCode = NODE_KINDS.indexOf('gpu');
  const outgoing = adjacency(
    nodeCount,
    links.map((link) => link.from),
  );
  const incoming = adjacency(
    nodeCount,
    links.map((link) => link.to),
  );
  return {
    kind: draft.kind,
    nodeCount,
    linkCount: links.length,
    nodeNames: draft.nodeNames,
    nodeIds: new Map(draft.nodeNames.map((name, node) => [name, node])),
    nodeKinds: Uint8Array.from(draft.nodeKinds),
    nodeZone: Int32Array.from(places, (place) => place.zone),
    nodePod: Int32Array.from(places, (place) => place.pod),
    nodeLeafGroup: Int32Array.from(places, (place) => place.leafGroup),
    nodeServer: Int32Array.from(places, (place) => place.server),
    linkFrom: Int32Array.from(links, (link) => link.from),
    linkTo: Int32Array.from(links, (link) => link.to),
    linkBytesPerSecond: Float64Array.from(links, (link) => link.bytesPerSecond),
    linkLatencyNs: Float64Array.from(links, (link) => link.latencyNs),
    linkClasses: Uint8Array.from(links, (link) => link.linkClass),
    linkReverse: Int32Array.from(links, (link) => link.reverse),
    outgoingStart: outgoing.start,
    outgoingLinks: outgoing.list,
    incomingStart: incoming.start,
    incomingLinks: incoming.list,
    gpus: Int32Array.from(draft.nodeKinds.flatMap((kind, node) => (kind === gpuCode ? [node] : []))),
  };
}

function adjacency(nodeCount: number, endOfLink: number[]): { start: Int32Array; list: Int32Array } {
  const start = new Int32Array(nodeCount + 1);
  for (const node of endOfLink) start[node + 1]!++;
  for (let node = 0; node < nodeCount; node++) start[node + 1]! += start[node]!;
  const fill = start.slice();
  const list = new Int32Array(endOfLink.length);
  endOfLink.forEach((node, link) => {
    list[fill[node]!++] = link;
  });
  return { start, list };
}

/** Node id of a name such as pod0/rack1/node2/gpu5. Throws with the nearest place known when there is none. */
export function nodeId(topology: Topology, name: string): number {
  const node = topology.nodeIds.get(name);
  if (node !== undefined) return node;
  const prefix = longestKnownPrefix(topology, name);
  throw new Error(
    `topology has no node "${name}"; ${prefix === '' ? `names look like "${topology.nodeNames[0]}"` : `known under it: ${prefix}`}`,
  );
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
