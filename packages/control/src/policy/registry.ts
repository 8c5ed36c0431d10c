import { z } from 'zod';
import { tenantLoops } from '../client/tenant-loops.js';
import { adaptiveController, gradientController, hysteresisController, poaController } from '../controller/policies.js';
import { admitAll, admitBelowLimit, pricedAdmission } from '../frontend/admission.js';
import { costTripleOracle } from '../oracle/cost-triple.js';
import { activeOracle, rttMedianOracle } from '../oracle/probing-oracles.js';
import { exactOracle, periodicOracle, staticTierOracle } from '../oracle/tier-oracles.js';
import { failingOracle, noisyOracle, trendOracle } from '../oracle/troubled-oracles.js';
import { gnepPlanner, slaPlanner, socialPlanner } from '../planner/forecast-planners.js';
import { loadPlanner } from '../planner/load-planner.js';
import { schedulePlanner, staticPlanner } from '../planner/policies.js';
import { leastLoadedRouter, powerOfTwoRouter, randomRouter, roundRobinRouter } from '../router/balance.js';
import { cacheAwareRouter, claRouter, loadAwareRouter } from '../router/decode/cache-and-load.js';
import { netkvJointRouter, netkvPathRouter, netkvRouter, netkvSelfRouter, netkvStaticRouter } from '../router/decode/netkv.js';
import { tierFirstRouter, zoneFirstRouter } from '../router/decode/tiers.js';
import { weightedRouter } from '../router/decode/weighted.js';
import { kvRouter } from '../router/kv.js';
import type { Policy, PolicyKind } from './policy.js';

const builtIn: readonly Policy[] = [
  roundRobinRouter,
  randomRouter,
  powerOfTwoRouter,
  leastLoadedRouter,
  kvRouter,
  cacheAwareRouter,
  loadAwareRouter,
  claRouter,
  netkvStaticRouter,
  netkvSelfRouter,
  netkvRouter,
  netkvPathRouter,
  netkvJointRouter,
  weightedRouter,
  tierFirstRouter,
  zoneFirstRouter,
  staticTierOracle,
  exactOracle,
  periodicOracle,
  rttMedianOracle,
  activeOracle,
  trendOracle,
  noisyOracle,
  failingOracle,
  costTripleOracle,
  admitAll,
  admitBelowLimit,
  pricedAdmission,
  tenantLoops,
  staticPlanner,
  schedulePlanner,
  loadPlanner,
  slaPlanner,
  gnepPlanner,
  socialPlanner,
  adaptiveController,
  hysteresisController,
  poaController,
  gradientController,
];

/** A built-in policy, or undefined. */
export function builtInPolicy(kind: PolicyKind, name: string): Policy | undefined {
  return builtIn.find((policy) => policy.kind === kind && policy.name === name);
}

export function builtInPolicyNames(kind: PolicyKind): string[] {
  return builtIn.filter((policy) => policy.kind === kind).map((policy) => policy.name);
}

/** A policy as `braess policy list` shows it. */
export interface PolicyListing {
  readonly kind: PolicyKind;
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the parameters as a scenario writes them. */
  readonly parameters: unknown;
}

/** The built-in policies of this package; eviction policies are listed by the KV package. */
export function listPolicies(kind?: PolicyKind): PolicyListing[] {
  return builtIn
    .filter((policy) => kind === undefined || policy.kind === kind)
    .map((policy) => ({
      kind: policy.kind,
      name: policy.name,
      description: policy.description,
      parameters: z.toJSONSchema(policy.parameters, { io: 'input' }),
    }));
}
