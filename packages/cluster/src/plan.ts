import { dirname, resolve } from 'node:path';
import { builtInPolicyNames, loadPolicy, type PolicyKind, type PolicySpec } from '@braess/control';
import { linksBetween, type Topology, type TopologySpec } from '@braess/fabric';
import { evictionPolicyNames } from '@braess/kvbm';
import {
  type Catalogue,
  createLinear,
  createPolynomial,
  createRoofline,
  type GpuSpec,
  kvCapacity,
  loadCatalogue,
  type ModelSpec,
  profileFor,
  readDynamoProfile,
  type TimingModel,
} from '@braess/serving';
import { checkClientBehaviour } from '@braess/workload';
import { clientBehaviourOf } from './client-plan.js';
import { checkController, checkPlannedEngines, checkPlanner, checkPrefixIndex } from './control-checks.js';
import { placeEngines } from './engine-places.js';
import { cachePolicy } from './own-evictions.js';
import { didYouMean, placeOf } from './scenario/document.js';
import { pathText, ScenarioError } from './scenario/problem.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import type { Scenario, ServingGroup } from './scenario/schema.js';
import { tierSizeFault } from './server-tiers.js';
import { topologyOf, topologySpecOf } from './topology-plan.js';

/** One engine: a tensor-parallel group of GPUs with one scheduler. */
export interface EnginePlan {
  /** Place of the actor, e.g. pod0/rack1/node2/engine0: its server and its first GPU. */
  readonly name: string;
  readonly group: number;
  /** Cell (server) the scheduler lives in. */
  readonly server: string;
  /** Nodes of the topology, in rank order, and their names. */
  readonly gpus: readonly number[];
  readonly gpuNames: readonly string[];
}

/** What all engines of a group share. */
export interface GroupPlan {
  readonly name: string;
  readonly role: ServingGroup['role'];
  readonly tensorParallel: number;
  readonly blockTokens: number;
  readonly maxSequences: number;
  readonly maxBatchedTokens: number;
  readonly holdsSlots: boolean;
  readonly newBatchStallNs: number;
  readonly maxModelTokens: number;
  readonly maxWaiting: number;
  readonly prefixCaching: boolean;
  /** Most blocks that stay while nobody holds them. */
  readonly cacheBlocks: number;
  readonly eviction: PolicySpec;
  readonly byPriority: boolean;
  readonly stepwise: boolean;
  /** Prompts do not share passes: each takes the time it would take alone. */
  readonly independentPrompts: boolean;
  readonly capacityBlocks: number;
  readonly hbmBytes: number;
  readonly weightBytesPerGpu: number;
  readonly kvBytesPerGpu: number;
  /** KV bytes of one token on each GPU; over the whole group: `kvBytesPerToken`. */
  readonly kvBytesPerTokenPerGpu: number;
  /** Of the model. */
  readonly layers: number;
  readonly timing: TimingModel;
  readonly timingSource: string;
}

/** KV bytes of one token, over all GPUs of an engine. */
export function kvBytesPerToken({ kvBytesPerTokenPerGpu, tensorParallel }: GroupPlan): number {
  return kvBytesPerTokenPerGpu * tensorParallel;
}

/** A scenario with everything derived: what the program builds its actors from. Plain data. */
export interface ClusterPlan {
  readonly scenario: Scenario;
  readonly topologySpec: TopologySpec;
  readonly groups: readonly GroupPlan[];
  readonly engines: readonly EnginePlan[];
  readonly disaggregated: boolean;
  readonly blockTokens: number;
  readonly policies: PolicyPlan;
}

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

/** Derives a plan. @throws ScenarioError for names that are unknown and for what does not fit. */
export function planCluster(read: ReadScenario): ClusterPlan {
  const { scenario } = read;
  const catalogue = catalogueOf(read);
  const gpu = named(read, catalogue.gpus, ['cluster', 'gpu'], scenario.cluster.gpu, 'GPU');
  const model = named(read, catalogue.models, ['model', 'name'], scenario.model.name, 'model');
  checkRoles(read);
  checkMoves(read);
  checkClient(read);
  const policies = planPolicies(read);
  checkPrefixIndex(read, policies);
  const groups = scenario.serving.map((_, index) => planGroup(read, catalogue, gpu, model, index));
  const blockTokens = (groups[0] as GroupPlan).blockTokens;
  for (const [name, tier] of Object.entries(scenario.kvTiers)) {
    const fault = tier === undefined ? undefined : tierSizeFault(tier.gigabytes, groups[0] as GroupPlan);
    if (fault !== undefined) refuse(read, ['kvTiers', name, 'gigabytes'], fault);
  }
  const topologySpec = topologySpecOf(scenario, gpu);
  let topology: Topology;
  try {
    topology = topologyOf(topologySpec);
  } catch (error) {
    refuse(read, ['cluster', 'topology'], `cannot be built: ${(error as Error).message}`);
  }
  const engines = placeEngines(read, topology, groups);
  checkFaults(read, topology, engines);
  const { baseDirectory, planner } = policies;
  const engineNames = engines.map(({ name }) => name);
  checkPlannedEngines(read, loadPolicy('planner', planner, { baseDirectory }), engineNames);
  checkOnOff(read, topology);
  const disaggregated = groups.some((group) => group.role !== 'aggregated');
  checkFabric(read);
  return { scenario, topologySpec, groups, engines, disaggregated, blockTokens, policies };
}

/** The built-in catalogue with the scenario's own files over it. */
export function catalogueOf(read: ReadScenario): Catalogue {
  const { scenario } = read;
  const files = scenario.catalogue.map((file, index) => besideScenario(read, ['catalogue', index], file));
  try {
    return loadCatalogue(files);
  } catch (error) {
    refuse(read, ['catalogue'], `cannot be read: ${(error as Error).message}`);
  }
}

/** A file named in a scenario, looked for beside the file that names it (a setting: where the command runs). */
export function besideScenario(read: ReadScenario, path: readonly PropertyKey[], file: string): string {
  const place = placeOf(read.document, path);
  return place.line === 0 ? resolve(file) : resolve(dirname(place.file), file);
}

export function refuse(read: ReadScenario, path: readonly PropertyKey[], message: string): never {
  throw new ScenarioError([{ place: placeOf(read.document, path), path: pathText(path), message }]);
}

function named<T>(read: ReadScenario, entries: ReadonlyMap<string, T>, path: readonly PropertyKey[], name: string, what: string): T {
  const entry = entries.get(name);
  if (entry !== undefined) return entry;
  const names = [...entries.keys()];
  refuse(read, path, `is "${name}", no known ${what}; known are ${names.join(', ')}${didYouMean(name, names)}`);
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

function evictionAt(
  read: ReadScenario,
  path: readonly PropertyKey[],
  { eviction, evictionParameters }: Pick<ServingGroup, 'eviction' | 'evictionParameters'>,
): PolicySpec {
  const spec = placedSpec(read, [...path, 'eviction'], { policy: eviction, parameters: evictionParameters });
  try {
    cachePolicy(spec, baseDirectoryOf(read));
  } catch (error) {
    const names = evictionPolicyNames().filter((name) => !name.includes(' '));
    refuse(
      read,
      [...path, 'eviction'],
      `is "${eviction}": ${(error as Error).message}; built in are ${names.join(', ')}${didYouMean(eviction, names)}`,
    );
  }
  return spec;
}

/** Finds, loads and binds every policy once here, so that a mistake is reported with its place before any thread starts. */
function planPolicies(read: ReadScenario): PolicyPlan {
  const { router, planner, controller, kvTiers, actors, workload } = read.scenario;
  const { client } = workload;
  const baseDirectory = baseDirectoryOf(read);
  const policyAt = (kind: PolicyKind, path: readonly PropertyKey[], given: PolicySpec): PolicySpec => {
    const spec = placedSpec(read, [...path, 'policy'], given);
    try {
      loadPolicy(kind, spec, { baseDirectory });
    } catch (error) {
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

function checkRoles(read: ReadScenario): void {
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

function checkMoves(read: ReadScenario): void {
  const { workload, router } = read.scenario;
  if (workload.client.kind !== 'closed-loop') return;
  for (const [index, { frontend }] of workload.client.moves.entries()) {
    if (frontend >= router.frontends) {
      const path = ['workload', 'client', 'moves', index, 'frontend'];
      refuse(read, path, `is ${frontend}; there are ${router.frontends}, numbered from 0: set router.frontends to ${frontend + 1}`);
    }
  }
}

function checkFaults(read: ReadScenario, topology: Topology, engines: readonly EnginePlan[]): void {
  const gpus = engines.flatMap(({ gpuNames }) => gpuNames);
  const actors = [
    ...engines.map(({ name }) => name),
    ...Array.from({ length: read.scenario.router.frontends }, (_, index) => `control/frontend${index}`),
    ...(read.scenario.router.oracle === undefined ? [] : ['control/oracle']),
  ];
  for (const [index, fault] of read.scenario.faults.entries()) {
    const expect = (key: string, value: string, known: readonly string[], what: string): void => {
      if (known.includes(value)) return;
      const some = `${known.slice(0, 4).join(', ')}${known.length > 4 ? ', ...' : ''}`;
      refuse(
        read,
        ['faults', index, key],
        `is "${value}", no ${what} of this cluster; ${known.length === 0 ? 'it has none' : `there are ${known.length}: ${some}`}${didYouMean(value, known)}`,
      );
    };
    if (fault.kind === 'gpu-speed') expect('gpu', fault.gpu, gpus, 'GPU in use');
    else if (fault.kind === 'tier-speed') {
      expect('tier', fault.tier, tierNames(read.scenario, engines), 'KV tier');
      if (fault.tier === storageTier && fault.factor > 0 && fault.factor < 1)
        refuse(
          read,
          ['faults', index, 'factor'],
          `is ${fault.factor}; network storage is there (1) or out (0): slow its link by kind: link-share`,
        );
    } else if (fault.kind === 'telemetry-loss') expect('actor', fault.actor, actors, 'engine or frontend');
    else {
      expect('from', fault.from, topology.nodeNames, 'node');
      expect('to', fault.to, topology.nodeNames, 'node');
      if (linksBetween(topology, fault.from, fault.to).length === 0)
        refuse(read, ['faults', index, 'to'], `is "${fault.to}"; no cable joins it to "${fault.from}"`);
    }
  }
}

function checkClient(read: ReadScenario): void {
  try {
    checkClientBehaviour(clientBehaviourOf(read.scenario));
  } catch (error) {
    refuse(read, ['workload', 'client'], `cannot be used: ${(error as Error).message}`);
  }
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

function checkOnOff(read: ReadScenario, topology: Topology): void {
  const ends = topology.nodeNames.filter((name) => /\/(gpu|host|storage)\d*$/.test(name));
  for (const [index, source] of read.scenario.cluster.fabric.onOff.entries()) {
    for (const key of ['from', 'to'] as const) {
      if (ends.includes(source[key])) continue;
      const path = ['cluster', 'fabric', 'onOff', index, key];
      refuse(
        read,
        path,
        `is "${source[key]}", no end of transfers; there are ${ends.slice(0, 3).join(', ')}, ...${didYouMean(source[key], ends)}`,
      );
    }
  }
}

/** What only one fidelity can do. */
function checkFabric(read: ReadScenario): void {
  const { cluster, kvTiers, faults, untilSeconds } = read.scenario;
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
  const hasFabric = read.scenario.serving.some((group) => group.role !== 'aggregated') || kvTiers.g4 !== undefined;
  for (const key of ['background', 'onOff'] as const) {
    if (cluster.fabric[key].length > 0 && !hasFabric)
      refuse(read, ['cluster', 'fabric', key], 'shares links with nobody: nothing of this cluster uses the network, no KV moves');
  }
  const cut = faults.findIndex((fault) => fault.kind === 'link-share');
  if (cut >= 0 && !hasFabric) refuse(read, ['faults', cut], 'changes a link, but nothing of this cluster uses the network: no KV moves');
}

function planGroup(read: ReadScenario, catalogue: Catalogue, gpu: GpuSpec, model: ModelSpec, index: number): GroupPlan {
  const { scenario } = read;
  const group = scenario.serving[index] as ServingGroup;
  const { weightPrecision, kvPrecision } = scenario.model;
  const { tensorParallel, blockTokens } = group;
  const path = ['serving', index];
  try {
    const capacity = kvCapacity({
      gpu,
      model,
      tensorParallel,
      weightPrecision,
      kvPrecision,
      blockTokens,
      memoryUtilisation: group.memoryUtilisation,
      ...(group.kvBlocks === undefined ? {} : { blocks: group.kvBlocks }),
    });
    const timing = timingOf(read, catalogue, gpu, model, index, capacity.tokens);
    if (group.maxBatchedTokens < group.maxSequences) {
      refuse(
        read,
        [...path, 'maxBatchedTokens'],
        `is ${group.maxBatchedTokens}, below maxSequences ${group.maxSequences}; a pass must have room for one token of each`,
      );
    }
    if (group.prompts === 'independent' && group.role !== 'prefill') {
      refuse(
        read,
        [...path, 'prompts'],
        `is independent in a group of role ${group.role}; only prefill engines compute prompts by themselves`,
      );
    }
    if (group.cacheBlocks !== undefined && !group.prefixCaching)
      refuse(read, [...path, 'cacheBlocks'], `is ${group.cacheBlocks} without prefixCaching, which keeps none; leave one of the two out`);
    const maxModelTokens = group.maxModelTokens ?? model.contextTokens;
    if (maxModelTokens > model.contextTokens) {
      refuse(read, [...path, 'maxModelTokens'], `is ${maxModelTokens}; ${model.name} takes at most ${model.contextTokens} tokens`);
    }
    return {
      name: group.name ?? `${group.role}${index}`,
      role: group.role,
      tensorParallel,
      blockTokens,
      maxSequences: group.maxSequences,
      maxBatchedTokens: group.maxBatchedTokens,
      holdsSlots: group.holdsSlots,
      newBatchStallNs: Math.round(group.newBatchStallMs * 1e6),
      maxModelTokens,
      maxWaiting: group.maxWaiting,
      prefixCaching: group.prefixCaching,
      cacheBlocks: group.prefixCaching ? Math.min(group.cacheBlocks ?? capacity.blocks, capacity.blocks) : 0,
      eviction: evictionAt(read, path, group),
      byPriority: group.schedulingPolicy === 'priority',
      stepwise: group.passes === 'stepwise',
      independentPrompts: group.prompts === 'independent',
      capacityBlocks: capacity.blocks,
      hbmBytes: gpu.hbmBytes,
      weightBytesPerGpu: capacity.weightBytesPerGpu,
      kvBytesPerGpu: capacity.kvBytesPerGpu,
      kvBytesPerTokenPerGpu: capacity.kvBytesPerTokenPerGpu,
      layers: model.layers,
      ...timing,
    };
  } catch (error) {
    if (error instanceof ScenarioError) throw error;
    refuse(read, path, `does not fit: ${(error as Error).message}`);
  }
}

function timingOf(
  read: ReadScenario,
  catalogue: Catalogue,
  gpu: GpuSpec,
  model: ModelSpec,
  index: number,
  capacityTokens: number,
): { timing: TimingModel; timingSource: string } {
  const { scenario } = read;
  const group = scenario.serving[index] as ServingGroup;
  const path = ['serving', index, 'timing'];
  const { timing } = group;
  if (timing.kind === 'roofline') {
    const profile =
      timing.profile === undefined
        ? profileFor(catalogue, gpu.name, model.name)
        : named(read, catalogue.profiles, [...path, 'profile'], timing.profile, 'engine profile');
    const { weightPrecision, kvPrecision } = scenario.model;
    const { tensorParallel } = group;
    return {
      timing: createRoofline({ gpu, model, profile, tensorParallel, weightPrecision, kvPrecision }),
      timingSource: `roofline, engine profile ${profile.name}`,
    };
  }
  try {
    if (timing.kind === 'dynamo-profile') {
      const folder = besideScenario(read, [...path, 'folder'], timing.folder);
      return { timing: readDynamoProfile(folder), timingSource: `Dynamo profile ${timing.folder}` };
    }
    if (timing.kind === 'linear') {
      const { kind: _, ...values } = timing;
      return { timing: createLinear(values), timingSource: 'straight lines of the scenario' };
    }
    return { timing: createPolynomial(capacityTokens), timingSource: "polynomial of Dynamo's mocker" };
  } catch (error) {
    refuse(read, path, `cannot be used: ${(error as Error).message}`);
  }
}
