import type { Topology } from './topology.js';
import { LINK_CLASSES, TRANSIT } from './topology.js';

/**
 * Distances toward destinations, measured over the backbone alone: tables of all nodes toward all destinations would grow with the square of the
 * cluster. Destinations that hang on the same backbone nodes share a table. Plain data.
 */
export interface DistanceTables {
  /** Computed when first asked for. */
  tables: DistanceTable[];
  /** Number of its table, by destination, and by the ways from the backbone to it. */
  tableOf: Map<number, number>;
  tableOfEntrances: Map<string, number>;
  /** Number of tables kept before all are started afresh; bounds memory, never changes a result. */
  tableLimit: number;
  deadLinks: number;
}

/** Distances toward all destinations that are reached by the same ways. */
export interface DistanceTable {
  /** Of each node of the backbone, by place; 255 where there is no way. */
  lengths: Uint8Array;
  /** Backbone nodes next to the destinations, or with one other node between, and their distances so: node, distance, ... */
  entrances: number[];
}

export const UNREACHABLE = 255;

/** Most links a path may have; the longest in a healthy multi-zone tree has 11. */
export const HOP_LIMIT = 24;

/** About 64 MB of distance tables at most. */
const TABLE_BYTES = 64 * 1024 * 1024;

/**
 * Length of a link by class. PCIe counts 2, so that two GPUs on one NIC speak over NVLink and bounce off the NIC only when
 * NVLink is down; every path between servers has two PCIe links, so nothing else changes.
 */
export const LENGTH = Uint8Array.from(LINK_CLASSES, (linkClass) => (linkClass === 'pcie' ? 2 : 1));

export function createDistanceTables(topology: Topology): DistanceTables {
  const tableLimit = Math.max(16, Math.floor(TABLE_BYTES / Math.max(1, topology.backboneNodes.length)));
  return { tables: [], tableOf: new Map(), tableOfEntrances: new Map(), tableLimit, deadLinks: 0 };
}

/** After a link died (`died` 1) or came back (-1). */
export function noteDeadLink(distances: DistanceTables, died: number): void {
  distances.deadLinks += died;
  forgetDistances(distances);
}

function forgetDistances(distances: DistanceTables): void {
  distances.tables = [];
  distances.tableOf.clear();
  distances.tableOfEntrances.clear();
}

/**
 * Measures what a path from `from` to `destination` may cross, over living links: `distanceToward` then holds, for the returned table, of `from`, of the
 * backbone and of all that such a path crosses, until the next call.
 */
export function lookToward(
  topology: Topology,
  linkShare: Float64Array,
  distances: DistanceTables,
  from: number,
  destination: number,
): DistanceTable {
  const table = tableToward(topology, linkShare, distances, destination);
  const place = topology.backbonePlace[from]!;
  noteNearDestination(topology, linkShare, destination);
  if (place < 0 && from !== destination) noteNearSource(topology, linkShare, distances.deadLinks > 0, table, from, destination);
  return table;
}

// Distances of nodes outside the backbone that the last call noted, above `nearBase`; never state.
let near = new Float64Array(0);
let nearBase = 0;

/** Whether a path may leave the backbone at this node. */
export function isEntrance({ entrances }: DistanceTable, node: number): boolean {
  for (let at = 0; at < entrances.length; at += 2) if (entrances[at] === node) return true;
  return false;
}

/** Distance to the destination that was looked toward last, 255 where there is no way or none that matters. */
export function distanceToward(topology: Topology, table: DistanceTable, node: number): number {
  const place = topology.backbonePlace[node]!;
  if (place >= 0) return table.lengths[place]!;
  const noted = near[node]! - nearBase;
  return noted >= 0 ? noted : UNREACHABLE;
}

function noteNearDestination(topology: Topology, linkShare: Float64Array, destination: number): void {
  if (near.length < topology.nodeCount) near = new Float64Array(topology.nodeCount);
  // What was noted before is below it from now on.
  nearBase += UNREACHABLE + 1;
  near[destination] = nearBase;
  for (let i = topology.incomingStart[destination]!; i < topology.incomingStart[destination + 1]!; i++) {
    const link = topology.incomingLinks[i]!;
    const node = topology.linkFrom[link]!;
    if (linkShare[link] === 0 || !isDeadEnd(topology, node)) continue;
    near[node] = nearBase + Math.min(LENGTH[topology.linkClasses[link]!]!, near[node]! < nearBase ? UNREACHABLE : near[node]! - nearBase);
  }
}

function noteNearSource(
  topology: Topology,
  linkShare: Float64Array,
  hasDeadLinks: boolean,
  table: DistanceTable,
  source: number,
  destination: number,
): void {
  const note = hasDeadLinks ? noteByLinks : noteByGateway;
  for (let i = topology.outgoingStart[source]!; i < topology.outgoingStart[source + 1]!; i++) {
    const node = topology.linkTo[topology.outgoingLinks[i]!]!;
    if (node !== destination && isDeadEnd(topology, node)) note(topology, linkShare, table, node, destination);
  }
  if (isDeadEnd(topology, source)) note(topology, linkShare, table, source, destination);
  else noteByLinks(topology, linkShare, table, source, destination);
}

/** The same as `noteByLinks` for a node that passes traffic on, where all links are alive: what lies on its other side is noted already. */
function noteByGateway(topology: Topology, _linkShare: Float64Array, table: DistanceTable, node: number): void {
  const gateway = topology.gateway[node]!;
  if (gateway < 0) return;
  const distance = distanceToward(topology, table, gateway);
  if (distance < HOP_LIMIT) near[node] = nearBase + Math.min(distance + 1, distanceToward(topology, table, node));
}

/** Notes the distance of a node by those of its neighbours. */
function noteByLinks(topology: Topology, linkShare: Float64Array, table: DistanceTable, node: number, destination: number): void {
  let least = distanceToward(topology, table, node);
  for (let i = topology.outgoingStart[node]!; i < topology.outgoingStart[node + 1]!; i++) {
    const link = topology.outgoingLinks[i]!;
    const to = topology.linkTo[link]!;
    if (linkShare[link] === 0 || (to !== destination && TRANSIT[topology.nodeKinds[to]!] === 0)) continue;
    const distance = distanceToward(topology, table, to);
    if (distance < HOP_LIMIT) least = Math.min(least, distance + LENGTH[topology.linkClasses[link]!]!);
  }
  near[node] = nearBase + least;
}

/** Passes traffic on, but only to ends: nothing but the first or the last such node of a path. */
function isDeadEnd(topology: Topology, node: number): boolean {
  return topology.backbonePlace[node]! < 0 && TRANSIT[topology.nodeKinds[node]!] === 1;
}

function tableToward(topology: Topology, linkShare: Float64Array, distances: DistanceTables, destination: number): DistanceTable {
  const known = distances.tableOf.get(destination);
  if (known !== undefined) return distances.tables[known]!;
  const entrances = entrancesOf(topology, linkShare, destination);
  const key = entrances.join();
  let number = distances.tableOfEntrances.get(key);
  if (number === undefined) {
    if (distances.tables.length >= distances.tableLimit) forgetDistances(distances);
    number = distances.tables.push({ lengths: measureFrom(topology, linkShare, distances.deadLinks, entrances), entrances }) - 1;
    distances.tableOfEntrances.set(key, number);
  }
  distances.tableOf.set(destination, number);
  return distances.tables[number]!;
}

/** Backbone nodes next to a destination, or with one other node between, and their distances so: node, distance, ... without repetitions. */
function entrancesOf(topology: Topology, linkShare: Float64Array, destination: number): number[] {
  if (topology.backbonePlace[destination]! >= 0) return [destination, 0];
  const entrances: number[] = [];
  const enter = (node: number, lengthToHere: number, depth: number): void => {
    for (let i = topology.incomingStart[node]!; i < topology.incomingStart[node + 1]!; i++) {
      const link = topology.incomingLinks[i]!;
      const from = topology.linkFrom[link]!;
      const length = lengthToHere + LENGTH[topology.linkClasses[link]!]!;
      if (linkShare[link] === 0) continue;
      if (topology.backbonePlace[from]! >= 0) noteEntrance(entrances, from, length);
      else if (depth === 0 && isDeadEnd(topology, from)) enter(from, length, 1);
    }
  };
  enter(destination, 0, 0);
  return entrances;
}

function noteEntrance(entrances: number[], node: number, length: number): void {
  for (let at = 0; at < entrances.length; at += 2) {
    if (entrances[at] !== node) continue;
    entrances[at + 1] = Math.min(entrances[at + 1]!, length);
    return;
  }
  entrances.push(node, length);
}

/** Breadth first, one link counting 1: PCIe, which alone counts more, ends at a GPU. */
function measureFrom(topology: Topology, linkShare: Float64Array, deadLinks: number, entrances: readonly number[]): Uint8Array {
  const { backbonePlace, backboneStart, backboneLinks, backboneTo, linkReverse } = topology;
  const table = new Uint8Array(topology.backboneNodes.length).fill(UNREACHABLE);
  let last = 0;
  for (let at = 0; at < entrances.length; at += 2) {
    table[backbonePlace[entrances[at]!]!] = entrances[at + 1]!;
    last = Math.max(last, entrances[at + 1]!);
  }
  let ring: number[] = [];
  for (let distance = 0; distance < HOP_LIMIT && (ring.length > 0 || distance <= last); distance++) {
    for (let at = 0; at < entrances.length; at += 2) {
      const place = backbonePlace[entrances[at]!]!;
      if (entrances[at + 1] === distance && table[place] === distance) ring.push(place);
    }
    const next: number[] = [];
    for (const place of ring) {
      for (let i = backboneStart[place]!; i < backboneStart[place + 1]!; i++) {
        const from = backboneTo[i]!;
        if (table[from]! <= distance + 1 || (deadLinks > 0 && linkShare[linkReverse[backboneLinks[i]!]!] === 0)) continue;
        table[from] = distance + 1;
        next.push(from);
      }
    }
    ring = next;
  }
  return table;
}
