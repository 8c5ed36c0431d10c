import { dirname, resolve } from 'node:path';
import { builtInPolicyNames, loadPolicy, type PolicyKind, type PolicySpec } from '@braess/control';
import { evictionPolicyNames } from '@braess/kvbm';
import { z } from 'zod';
import { checkController, checkPlanner } from './control-checks.js';
import { cachePolicy } from './own-evictions.js';
import { didYouMean } from './scenario/document.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import { besideScenario, refuse } from './scenario/refuse.js';
import type { ServingGroup } from './scenario/schema.js';

/** The policies of a run: names of built-in ones, absolute files, or packages looked up from `baseDirectory`. */
export interface PolicyPlan {
  readonly baseDirectory: string;
  readonly prefillRouter: PolicySpec;
  readonly decodeRouter: PolicySpec;
  readonly admission: PolicySpec | null;
  readonly oracle: PolicySpec | null;
  readonly planner: PolicySpec;
  readonly controller: PolicySpec | null;
  readonly client: PolicySpec | null;
  /** Of the tiers, by name, e.g. g2. */
  readonly tierEvictions: Readonly<Record<string, PolicySpec>>;
  readonly ownActors: readonly PolicySpec[];
}

/** Finds, loads and binds every policy once here, so that a mistake is reported with its place before any thread starts. */
export function planPolicies(read: ReadScenario): PolicyPlan {
  const { router, planner, controller, kvTiers, actors, workload } = read.scenario;
  const { client } = workload;
  const baseDirectory = baseDirectoryOf(read);
  const policyAt = (kind: PolicyKind, path: readonly PropertyKey[], given: PolicySpec): PolicySpec => {
    const spec = placedSpec(read, [...path, 'policy'], given);
    try {
      loadPolicy(kind, spec, { baseDirectory });
    } catch (error) {
      refuseParameters(read, [...path, 'parameters'], error);
      const known = builtInPolicyNames(kind);
      refuse(read, [...path, 'policy'], `is "${given.policy}": ${(error as Error).message}${didYouMean(given.policy, known)}`);
    }
    return spec;
  };
  const prefillRouter = policyAt('router', ['router'], router);
  checkFrontends(read, prefillRouter, baseDirectory);
  const plannerSpec = policyAt('planner', ['planner'], planner);
  checkPlanner(read, loadPolicy('planner', plannerSpec, { baseDirectory }));
  const controllerSpec = controller === undefined ? null : policyAt('controller', ['controller'], controller);
  if (controllerSpec !== null)
    checkController(read, loadPolicy('controller', controllerSpec, { baseDirectory }), prefillRouter, baseDirectory);
  return {
    baseDirectory,
    prefillRouter,
    decodeRouter: router.decode === undefined ? prefillRouter : policyAt('router', ['router', 'decode'], router.decode),
    admission: router.admission === undefined ? null : policyAt('admission', ['router', 'admission'], router.admission),
    oracle: router.oracle === undefined ? null : policyAt('oracle', ['router', 'oracle'], router.oracle),
    planner: plannerSpec,
    controller: controllerSpec,
    client: client.kind === 'policy' ? policyAt('client', ['workload', 'client'], client) : null,
    tierEvictions: Object.fromEntries(
      Object.entries(kvTiers).flatMap(([name, tier]) => (tier === undefined ? [] : [[name, evictionAt(read, ['kvTiers', name], tier)]])),
    ),
    ownActors: actors.map((actor, index) => policyAt('actor', ['actors', index], actor)),
  };
}

/** The eviction policy of a group of engines, or of a tier. @throws ScenarioError. */
export function evictionAt(
  read: ReadScenario,
  path: readonly PropertyKey[],
  { eviction, evictionParameters }: Pick<ServingGroup, 'eviction' | 'evictionParameters'>,
): PolicySpec {
  const spec = placedSpec(read, [...path, 'eviction'], { policy: eviction, parameters: evictionParameters });
  try {
    cachePolicy(spec, baseDirectoryOf(read));
  } catch (error) {
    refuseParameters(read, [...path, 'evictionParameters'], error);
    const names = evictionPolicyNames().filter((name) => !name.includes(' '));
    if (names.includes(eviction)) refuse(read, [...path, 'evictionParameters'], `do not fit: ${(error as Error).message}`);
    refuse(
      read,
      [...path, 'eviction'],
      `is "${eviction}": ${(error as Error).message}; built in are ${names.join(', ')}${didYouMean(eviction, names)}`,
    );
  }
  return spec;
}

/** Refuses the parameter that a policy does not take; returns where something else is wrong. @throws ScenarioError with its place. */
function refuseParameters(read: ReadScenario, path: readonly PropertyKey[], error: unknown): void {
  const { cause, message } = error as Error;
  if (!(cause instanceof z.core.$ZodError)) return;
  const [issue] = cause.issues as [z.core.$ZodIssue];
  const key = issue.code === 'unrecognized_keys' ? issue.keys[0] : undefined;
  refuse(read, [...path, ...issue.path, ...(key === undefined ? [] : [key])], `does not fit: ${message}`);
}

/** Parameters of single frontends, and whether a controller can move clients to them. */
function checkFrontends(read: ReadScenario, spec: PolicySpec, baseDirectory: string): void {
  const { frontends, frontendParameters } = read.scenario.router;
  const path = ['router', 'frontendParameters'];
  if (frontendParameters.length > frontends)
    refuse(
      read,
      path,
      `has ${frontendParameters.length} entries for ${frontends} frontends; set router.frontends: ${frontendParameters.length}`,
    );
  for (const [index, own] of frontendParameters.entries()) {
    try {
      loadPolicy('router', { policy: spec.policy, parameters: { ...spec.parameters, ...own } }, { baseDirectory });
    } catch (error) {
      refuse(read, [...path, index], `does not fit: ${(error as Error).message}`);
    }
  }
}

/** Directory that packages are looked up from. */
function baseDirectoryOf(read: ReadScenario): string {
  return dirname(resolve(read.document.files.at(-1) ?? '.'));
}

/** A policy with the file it names made absolute: what a thread needs to find it. */
function placedSpec(read: ReadScenario, path: readonly PropertyKey[], given: PolicySpec): PolicySpec {
  const isFile = !given.policy.startsWith('package:') && /[\\/]|\.[mc]?[jt]s(#|$)/.test(given.policy);
  return { policy: isFile ? besideScenario(read, path, given.policy) : given.policy, parameters: given.parameters ?? {} };
}
