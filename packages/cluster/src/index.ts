export { editDistance, nearestName } from './scenario/nearest.js';
export * from './scenario/problem.js';
export * from './scenario/read-scenario.js';
export { type Scenario, type ServingGroup, scenarioSchema } from './scenario/schema.js';
export * from './plan.js';
export { defaultLatencyNs } from './topology-plan.js';
export * from './load-workload.js';
export * from './saturation.js';
export * from './validate.js';
