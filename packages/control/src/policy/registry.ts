import { z } from 'zod';
import { adaptiveController, gradientController, hysteresisController, poaController } from '../controller/policies.js';
import { admitAll, admitBelowLimit } from '../frontend/admission.js';
import { exactOracle, periodicOracle, staticTierOracle } from '../oracle/tier-oracles.js';
import { gnepPlanner, slaPlanner, socialPlanner } from '../planner/forecast-planners.js';
import { loadPlanner } from '../planner/load-planner.js';
import { schedulePlanner, staticPlanner } from '../planner/policies.js';
import { leastLoadedRouter, powerOfTwoRouter, randomRouter, roundRobinRouter } from '../router/balance.js';
import { cacheAwareRouter, claRouter, loadAwareRouter } from '../router/decode/cache-and-load.js';
import { netkvRouter, netkvSelfRouter, netkvStaticRouter } from '../router/decode/netkv.js';
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
  staticTierOracle,
  exactOracle,
  periodicOracle,
  admitAll,
  admitBelowLimit,
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
