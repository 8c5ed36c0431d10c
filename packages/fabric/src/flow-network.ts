import { HOP_LIMIT } from './distances.js';
import { addFlow, advance, removeFlow, rerouteFlow, setLinkCapacity } from './flow-allocator.js';
import { createFlowAllocator, type FlowAllocator, type FlowAllocatorLimits } from './flow-state.js';
import { choosePath, createRoutes, pathLatencyNs, type Routes, setLinkShare } from './routing.js';
import { LINK_CLASSES, type LinkClass, nodeKind, type Topology } from './topology.js';

/**
 * What one fabric actor owns at flow fidelity: routes and rates over one topology, kept in step through faults. A failed link
 * moves just the flows it carried (the others keep their paths, as with resilient hashing); where no way is left a flow stands
 * still until a link comes back or it is cancelled.
 */
export interface FlowNetwork {
  routes: Routes;
  allocator: FlowAllocator;
  /** Ends of each living flow, by its slot in the allocator. */
  sourceOfSlot: Int32Array;
  destinationOfSlot: Int32Array;
  /** Flows without any way to their destination, standing still. */
  stranded: Set<number>;
}

export function createFlowNetwork(topology: Topology, avoidBelowShare = 0, limits: FlowAllocatorLimits = {}): FlowNetwork {
  const allocator = createFlowAllocator(topology.linkBytesPerSecond, { hopLimit: HOP_LIMIT, ...limits });
  findDominators(topology, allocator.dominators);
  return {
    routes: createRoutes(topology, avoidBelowShare),
    allocator,
    sourceOfSlot: new Int32Array(0),
    destinationOfSlot: new Int32Array(0),
    stranded: new Set(),
  };
}

/** At a NIC of one GPU and one leaf all that crosses the PCIe link crosses the network link too. */
function findDominators(topology: Topology, dominators: Int32Array): void {
  for (let node = 0; node < topology.nodeCount; node++) {
    const first = topology.outgoingStart[node]!;
    if (nodeKind(topology, node) !== 'nic' || topology.outgoingStart[node + 1]! - first !== 2) continue;
    const [a, b] = [topology.outgoingLinks[first]!, topology.outgoingLinks[first + 1]!];
    const toGpu = topology.linkClasses[a] === LINK_CLASSES.indexOf('pcie') ? a : b;
    const toLeaf = toGpu === a ? b : a;
    dominators[toGpu] = topology.linkReverse[toLeaf]!;
    dominators[topology.linkReverse[toGpu]!] = toLeaf;
  }
}

// Filled and read within one call; never state.
const pathBuffer = new Int32Array(HOP_LIMIT);

/** Starts a transfer between two nodes. Returns the latency of its path in ns, or -1, with nothing started, when there is no way. */
export function startTransfer(
  topology: Topology,
  network: FlowNetwork,
  nowNs: number,
  flowId: number,
  source: number,
  destination: number,
  sizeBytes: number,
  weight = 1,
  capBytesPerSecond: number = Number.POSITIVE_INFINITY,
): number {
  for (const node of [source, destination]) requireNode(topology, node);
  const hopCount = choosePath(topology, network.routes, source, destination, flowId, pathBuffer);
  if (hopCount < 0) return -1;
  const slot = addFlow(network.allocator, nowNs, flowId, pathBuffer, hopCount, sizeBytes, weight, capBytesPerSecond);
  if (slot >= network.sourceOfSlot.length) growEnds(network);
  network.sourceOfSlot[slot] = source;
  network.destinationOfSlot[slot] = destination;
  return pathLatencyNs(topology, pathBuffer, hopCount);
}

/** NaN and the like would find a path of no links, over which bytes take no time. */
export function requireNode(topology: Topology, node: number): void {
  if (!(Number.isInteger(node) && node >= 0 && node < topology.nodeCount))
    throw new Error(`a transfer names node ${node}; ids are 0..${topology.nodeCount - 1}`);
}

function growEnds(network: FlowNetwork): void {
  const slots = network.allocator.flowIds.length;
  const { sourceOfSlot, destinationOfSlot } = network;
  network.sourceOfSlot = new Int32Array(slots);
  network.sourceOfSlot.set(sourceOfSlot);
  network.destinationOfSlot = new Int32Array(slots);
  network.destinationOfSlot.set(destinationOfSlot);
}

/** Ends a transfer early; returns the whole bytes moved. */
export function cancelTransfer(network: FlowNetwork, nowNs: number, flowId: number): number {
  const movedBytes = removeFlow(network.allocator, nowNs, flowId);
  network.stranded.delete(flowId);
  return movedBytes;
}

/** Moves time on like `advance`; completed ids and times are in `network.allocator`. */
export function advanceNetwork(network: FlowNetwork, nowNs: number): number {
  const count = advance(network.allocator, nowNs);
  if (network.stranded.size > 0) for (const flowId of network.allocator.completedFlowIds) network.stranded.delete(flowId);
  return count;
}

/** Flows that a fault moved to another path, with the latency of that path, and those it left without one; each in order of start. */
export interface Rerouting {
  rerouted: number[];
  latenciesNs: number[];
  stranded: number[];
}

/**
 * Sets what is left of links, 0 (dead) to 1 (restored), in one step. A cut cable is both of its links (`linkReverse`), a dead
 * switch all links at it (`linksAt`). Flows on links that died, or fell below the share to avoid, are given new paths.
 */
export function setLinkHealth(topology: Topology, network: FlowNetwork, nowNs: number, links: readonly number[], share: number): Rerouting {
  const { allocator, routes } = network;
  const affected = new Set<number>();
  for (const link of links) {
    setLinkShare(topology, routes, link, share);
    setLinkCapacity(allocator, nowNs, link, topology.linkBytesPerSecond[link]! * share);
    if (share === 0 || share < routes.avoidBelowShare) for (const flowId of flowsOn(allocator, link)) affected.add(flowId);
  }
  if (share > 0) for (const flowId of network.stranded) affected.add(flowId);
  return reroute(topology, network, nowNs, inOrderOfStart(allocator, affected));
}

function reroute(topology: Topology, network: FlowNetwork, nowNs: number, flowIds: number[]): Rerouting {
  const result: Rerouting = { rerouted: [], latenciesNs: [], stranded: [] };
  for (const flowId of flowIds) {
    const slot = network.allocator.slotOfFlow.get(flowId)!;
    const source = network.sourceOfSlot[slot]!;
    const destination = network.destinationOfSlot[slot]!;
    const hopCount = choosePath(topology, network.routes, source, destination, flowId, pathBuffer);
    if (hopCount < 0) {
      network.stranded.add(flowId);
      result.stranded.push(flowId);
      continue;
    }
    network.stranded.delete(flowId);
    rerouteFlow(network.allocator, nowNs, flowId, pathBuffer, hopCount);
    result.rerouted.push(flowId);
    result.latenciesNs.push(pathLatencyNs(topology, pathBuffer, hopCount));
  }
  return result;
}

function inOrderOfStart(allocator: FlowAllocator, flowIds: Set<number>): number[] {
  const start = (flowId: number): number => allocator.sequence[allocator.slotOfFlow.get(flowId)!]!;
  return [...flowIds].sort((a, b) => start(a) - start(b));
}

/** Ids of the flows on a link. */
export function flowsOn(allocator: FlowAllocator, link: number): number[] {
  const found: number[] = [];
  for (let entry = allocator.linkHead[link]!; entry !== -1; entry = allocator.nextEntry[entry]!) {
    found.push(allocator.flowIds[entry >> allocator.hopShift]!);
  }
  return found;
}

/** All links into and out of a node. */
export function linksAt(topology: Topology, node: number): number[] {
  return [
    ...topology.outgoingLinks.subarray(topology.outgoingStart[node]!, topology.outgoingStart[node + 1]!),
    ...topology.incomingLinks.subarray(topology.incomingStart[node]!, topology.incomingStart[node + 1]!),
  ];
}

/** Sets the constant background share (0..1) of every link of a class; it takes its part of a link before any flow does. */
export function setBackgroundShare(topology: Topology, network: FlowNetwork, nowNs: number, linkClass: LinkClass, share: number): void {
  const code = LINK_CLASSES.indexOf(linkClass);
  const { allocator } = network;
  for (let link = 0; link < topology.linkCount; link++) {
    if (topology.linkClasses[link] === code) setLinkCapacity(allocator, nowNs, link, allocator.linkBytesPerSecond[link]!, share);
  }
}
