export { type TierKind, tierKind } from './actors/tier-actor.js';
export type { TierDevice, TierFabric, TierKindOptions, TierSetup } from './actors/tier-options.js';
export * from './actors/tier-records.js';
export { checkTierState, type TierState, type TierTotals, type TierTransfer } from './actors/tier-state.js';
