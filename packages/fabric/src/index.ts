export * from './build-topology.js';
export * from './flow-allocator.js';
export { createFlowAllocator, type FlowAllocator, type FlowAllocatorLimits } from './flow-state.js';
export * from './max-min.js';
export * from './routing.js';
export * from './topology.js';
export * from './topology-spec.js';
