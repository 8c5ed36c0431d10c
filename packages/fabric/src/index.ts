export * from './build-topology.js';
export * from './chunk-fabric.js';
export * from './chunk-nic.js';

export * from './chunk-options.js';
export { portUse } from './chunk-report.js';
export type { ChunkNodeState } from './chunk-state.js';
export * from './chunk-switch.js';
export { HOP_LIMIT } from './distances.js';
export * from './fabric-actor.js';
export * from './fabric-options.js';
export {
  addFlow,
  advance,
  earliestCompletionNs,
  flowMovedBytes,
  flowRate,
  nextCompletionNs,
  removeFlow,
  rerouteFlow,
  setLinkCapacity,
  settle,
} from './flow-allocator.js';
export * from './flow-id.js';
export * from './flow-network.js';
export { createFlowAllocator, type FlowAllocator, type FlowAllocatorLimits } from './flow-state.js';
export * from './link-counters.js';
export * from './max-min.js';
export * from './on-off.js';
export * from './output-port.js';
export { type ProberKind, type ProberOptions, type ProberState, proberKind } from './prober.js';
export * from './rate-control.js';
export {
  choosePath,
  createRoutes,
  equalCostPaths,
  hashFlow,
  nextLink,
  pathLatencyNs,
  pathStages,
  type Routes,
  setLinkShare,
  type TierNominal,
  tierNominals,
} from './routing.js';
export * from './switch-actor.js';
export {
  LINK_CLASSES,
  type LinkClass,
  linkName,
  linksBetween,
  linksOfClass,
  NODE_KINDS,
  type NodeKind,
  nodeId,
  nodeKind,
  TIER_COUNT,
  type Tier,
  type Topology,
  tier,
} from './topology.js';
export * from './topology-spec.js';
