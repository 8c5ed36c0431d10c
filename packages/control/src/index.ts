export { engineRole, engineStatus, isMoving } from '@braess/protocol';
export {
  type ControllerChangeBody,
  type ControllerKind,
  type ControllerOptions,
  type ControllerState,
  controllerChange,
  controllerSample,
  createControllerKind,
  hasParameters,
} from './controller/controller.js';
export { placementPoa } from './controller/placement-poa.js';
export * from './controller/regime-detector.js';
export * from './frontend/engines.js';
export { createFrontendKind, type FrontendKind } from './frontend/frontend.js';
export {
  type FrontendOptions,
  frontendSettings,
  type OverlapIndex,
  type QueueOptions,
  readsDecodeOverlap,
  readsPrefillOverlap,
} from './frontend/options.js';
export { oracleFallback, oracleListens } from './frontend/oracle-watch.js';
export * from './frontend/request-records.js';
export { slotStage, slotsInFlight } from './frontend/slots.js';
export type { FrontendCounters, FrontendState } from './frontend/state.js';
export { type Steering, steerFrontend } from './frontend/steering.js';
export { NetworkAnswer } from './oracle/network-answer.js';
export { createOracleKind, type OracleKind, type OracleOptions, type OracleState, oracleBeatNs, type ProbePlace } from './oracle/oracle.js';
export { type NetworkSite, networkTiers } from './oracle/site.js';
export {
  createPlannerKind,
  engineRoleSeen,
  type PlannerKind,
  type PlannerOptions,
  type PlannerState,
  plannerOrder,
} from './planner/planner.js';
export { callPolicy } from './policy/call-policy.js';
export * from './policy/control-policies.js';
export { type LoadOptions, loadPolicy, type PolicyOf, type PolicySpec } from './policy/load.js';
export * from './policy/plug-policies.js';
export * from './policy/policy.js';
export { builtInPolicy, builtInPolicyNames, listPolicies, type PolicyListing } from './policy/registry.js';
export * from './policy/router-policy.js';
export { RowWatch, ViewWatch, type Watch } from './policy/untouched.js';
export { chooseEngine } from './router/ask.js';
export { lowestScore, softmaxScore } from './router/choice.js';
export { assignLeastCost } from './router/decode/assignment.js';
export { createEngineView, createRouterView, type EngineSample, type RouterViewSample } from './router/view.js';
export { policyTemplate, type TemplateFile } from './template/policy-template.js';
