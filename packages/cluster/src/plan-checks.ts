import { loadPolicy, oracleListens } from '@braess/control';
import { linksBetween, type Topology } from '@braess/fabric';
import { checkClientBehaviour } from '@braess/workload';
import { clientBehaviourOf } from './client-plan.js';
import type { GroupPlan } from './group-plan.js';
import type { EnginePlan } from './plan.js';
import type { PolicyPlan } from './policy-plan.js';
import { didYouMean, thereAre } from './scenario/document.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import { refuse } from './scenario/refuse.js';
import type { Scenario, ServingGroup } from './scenario/schema.js';
import { tierSizeFault } from './server-tiers.js';

/** Whether the groups can serve together. @throws ScenarioError. */
export function checkRoles(read: ReadScenario): void {
  const roles = new Set(read.scenario.serving.map((group) => group.role));
  if (roles.has('prefill') !== roles.has('decode')) {
    const [has, lacks] = roles.has('prefill') ? ['prefill', 'decode'] : ['decode', 'prefill'];
    refuse(read, ['serving'], `has ${has} engines but no ${lacks} engines; add a group with role: ${lacks}, or use aggregated ones`);
  }
  if (roles.has('aggregated') && roles.size > 1) {
    refuse(read, ['serving'], 'mixes aggregated with prefill and decode groups; use either one kind or the other');
  }
  const sizes = new Set(read.scenario.serving.map((group) => group.blockTokens));
  if (sizes.size > 1) {
    refuse(
      read,
      ['serving'],
      `has block sizes ${[...sizes].join(' and ')}; KV moves between engines only in equal blocks: use one blockTokens`,
    );
  }
}

/** Whether clients move to frontends that there are. @throws ScenarioError. */
export function checkMoves(read: ReadScenario): void {
  const { workload, router } = read.scenario;
  if (workload.client.kind !== 'closed-loop') return;
  for (const [index, { frontend }] of workload.client.moves.entries()) {
    if (frontend >= router.frontends) {
      const path = ['workload', 'client', 'moves', index, 'frontend'];
      refuse(read, path, `is ${frontend}; there are ${router.frontends}, numbered from 0: set router.frontends to ${frontend + 1}`);
    }
  }
}

/** Whether the client's options go together. @throws ScenarioError. */
export function checkClient(read: ReadScenario): void {
  try {
    checkClientBehaviour(clientBehaviourOf(read.scenario));
  } catch (error) {
    refuse(read, ['workload', 'client'], `cannot be used: ${(error as Error).message}`);
  }
}

/** Whether each tier holds a block, and no more than can be counted, and has engines of one server above it. @throws ScenarioError. */
export function checkTiers(read: ReadScenario, groups: readonly GroupPlan[]): void {
  for (const [name, tier] of Object.entries(read.scenario.kvTiers)) {
    if (tier === undefined) continue;
    const fault = tierSizeFault(tier.gigabytes, groups[0] as GroupPlan);
    if (fault !== undefined) refuse(read, ['kvTiers', name, 'gigabytes'], fault);
    const wide = groups.find((group) => group.servers > 1 && hasTiers(read.scenario, group));
    if (wide !== undefined)
      refuse(
        read,
        ['kvTiers', name],
        `would be below engines of ${wide.servers} servers (${wide.name}), and tiers keep the KV of engines within one server; leave the tier out, or set tensorParallel to ${read.scenario.cluster.gpusPerServer} or less there`,
      );
  }
}

/** Whether what faults hit is there. @throws ScenarioError. */
export function checkFaults(read: ReadScenario, topology: Topology, engines: readonly EnginePlan[], policies: PolicyPlan): void {
  if (read.scenario.faults.length === 0) return;
  const gpus = new Set(engines.flatMap(({ gpuNames }) => gpuNames));
  const tiers = new Set(tierNames(read.scenario, engines));
  const nodes = new Set(topology.nodeNames);
  const actors = new Set([
    ...engines.map(({ name }) => name),
    ...Array.from({ length: read.scenario.router.frontends }, (_, index) => `control/frontend${index}`),
    ...(hasOracleActor(policies) ? ['control/oracle'] : []),
  ]);
  for (const [index, fault] of read.scenario.faults.entries()) {
    const expect = (key: string, value: string, among: ReadonlySet<string>, what: string): void => {
      if (among.has(value)) return;
      const known = [...among];
      refuse(read, ['faults', index, key], `is "${value}", no ${what} of this cluster; ${thereAre(known)}${didYouMean(value, known)}`);
    };
    if (fault.kind === 'gpu-speed') expect('gpu', fault.gpu, gpus, 'GPU in use');
    else if (fault.kind === 'tier-speed') {
      expect('tier', fault.tier, tiers, 'KV tier');
      if (fault.tier === storageTier && fault.factor > 0 && fault.factor < 1)
        refuse(
          read,
          ['faults', index, 'factor'],
          `is ${fault.factor}; network storage is there (1) or out (0): slow its link by kind: link-share`,
        );
    } else if (fault.kind === 'telemetry-loss') expect('actor', fault.actor, actors, 'engine, frontend or oracle that listens');
    else {
      expect('from', fault.from, nodes, 'node');
      expect('to', fault.to, nodes, 'node');
      if (linksBetween(topology, fault.from, fault.to).length === 0)
        refuse(read, ['faults', index, 'to'], `is "${fault.to}"; no cable joins it to "${fault.from}"`);
    }
  }
}

/** Whether an actor runs the oracle, which a pure function of the inventory does without. */
function hasOracleActor({ oracle, baseDirectory }: PolicyPlan): boolean {
  return oracle !== null && oracleListens(loadPolicy('oracle', oracle, { baseDirectory }).policy);
}

/** Whether background flows begin and end where transfers do. @throws ScenarioError. */
export function checkOnOff(read: ReadScenario, topology: Topology): void {
  if (read.scenario.cluster.fabric.onOff.length === 0) return;
  const ends = topology.nodeNames.filter((name) => /\/(gpu|host|storage)\d*$/.test(name));
  for (const [index, source] of read.scenario.cluster.fabric.onOff.entries()) {
    for (const key of ['from', 'to'] as const) {
      if (ends.includes(source[key])) continue;
      const path = ['cluster', 'fabric', 'onOff', index, key];
      refuse(read, path, `is "${source[key]}", no end of transfers; ${thereAre(ends)}${didYouMean(source[key], ends)}`);
    }
  }
}

/** What only one fidelity can do. */
export function checkFabric(read: ReadScenario): void {
  const { cluster, faults, untilSeconds } = read.scenario;
  if (cluster.fabric.fidelity === 'chunk') {
    for (const [index, { share }] of cluster.fabric.background.entries())
      if (share === 1)
        refuse(read, ['cluster', 'fabric', 'background', index, 'share'], 'is 1: nothing is left; at chunk fidelity it must be below 1');
    if (cluster.fabric.onOff.length > 0 && untilSeconds === undefined)
      refuse(
        read,
        ['cluster', 'fabric', 'onOff'],
        'needs untilSeconds (or --until) at chunk fidelity: no node knows when the others are done',
      );
  }
  const hasFabric = usesNetwork(read.scenario);
  for (const key of ['background', 'onOff'] as const) {
    if (cluster.fabric[key].length > 0 && !hasFabric)
      refuse(read, ['cluster', 'fabric', key], 'shares links with nobody: nothing of this cluster uses the network, no KV moves');
  }
  const cut = faults.findIndex((fault) => fault.kind === 'link-share');
  if (cut >= 0 && !hasFabric) refuse(read, ['faults', cut], 'changes a link, but nothing of this cluster uses the network: no KV moves');
}

/** Whether anything of a cluster moves KV over the network: prefill engines, or network storage. */
export function usesNetwork({ serving, kvTiers }: Scenario): boolean {
  return serving.some(({ role }) => role !== 'aggregated') || kvTiers.g4 !== undefined;
}

/** Name of the actor of network storage. */
const storageTier = 'storage/g4';

/**
 * Whether engines of a group have the tiers of their server below them: those that prefill, and those that a planner may tell to. Decode engines get their
 * KV from prefill engines; what is worth keeping is kept there.
 */
export function hasTiers({ planner }: Pick<Scenario, 'planner'>, { role }: Pick<ServingGroup, 'role'>): boolean {
  return role !== 'decode' || planner.policy !== 'static';
}

/** Names of the tier actors: DRAM and NVMe of servers with engines that may prefill, and network storage. */
function tierNames({ kvTiers, serving, planner }: Scenario, engines: readonly EnginePlan[]): string[] {
  const below = engines.filter(({ group }) => hasTiers({ planner }, serving[group] as ServingGroup));
  const servers = new Set(below.map(({ server }) => server));
  const local = (['g2', 'g3'] as const).filter((tier) => kvTiers[tier] !== undefined);
  return [
    ...[...servers].flatMap((server) => local.map((tier) => `${server}/${tier}`)),
    ...(kvTiers.g4 === undefined ? [] : [storageTier]),
  ];
}
