export * from './actors/engine-actor.js';
export {
  type EngineActorState,
  type EngineTotals,
  engineRefusal,
  type RequestColumns,
  requestKind,
} from './actors/engine-actor-state.js';
export * from './actors/engine-blocks.js';
export type { ClosedFormTransfer, EngineFabric, EngineKindOptions, EngineSetup, EngineTiers } from './actors/engine-options.js';
export * from './actors/engine-records.js';
export * from './actors/gpu-actor.js';
export { leastTimePlan, type OnboardChoice, type OnboardPlanner } from './actors/onboarding.js';
