import { loadPolicy } from '@braess/control';
import type { Topology, TopologySpec } from '@braess/fabric';
import { type Catalogue, loadCatalogue, type ModelSpec } from '@braess/serving';
import { checkPlannedEngines, checkPrefixIndex } from './control-checks.js';
import { placeEngines } from './engine-places.js';
import { type GroupPlan, planGroup } from './group-plan.js';
import { checkClient, checkFabric, checkFaults, checkMoves, checkOnOff, checkRoles, checkTiers } from './plan-checks.js';
import { type PolicyPlan, planPolicies } from './policy-plan.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import { besideScenario, named, refuse } from './scenario/refuse.js';
import type { Scenario } from './scenario/schema.js';
import { topologyOf, topologySpecOf } from './topology-plan.js';

/** One engine: a tensor-parallel group of GPUs with one scheduler. */
export interface EnginePlan {
  /** Place of the actor, e.g. pod0/rack1/node2/engine0: its server and its first GPU. */
  readonly name: string;
  readonly group: number;
  /** Cell (server) the scheduler lives in: that of the first GPU. */
  readonly server: string;
  /** Nodes of the topology, in rank order, and their names: of one server, or of several whole ones. */
  readonly gpus: readonly number[];
  readonly gpuNames: readonly string[];
}

/** A scenario with everything derived: what the program builds its actors from. Plain data. */
export interface ClusterPlan {
  readonly scenario: Scenario;
  readonly topologySpec: TopologySpec;
  /** What the emulation takes otherwise than the model is, one sentence each. */
  readonly modelNotes: readonly string[];
  readonly groups: readonly GroupPlan[];
  readonly engines: readonly EnginePlan[];
  readonly disaggregated: boolean;
  readonly blockTokens: number;
  readonly policies: PolicyPlan;
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
  const groups = scenario.serving.map((_, index) => planGroup(read, { catalogue, gpu, model }, index));
  const blockTokens = (groups[0] as GroupPlan).blockTokens;
  checkTiers(read, groups);
  const topologySpec = topologySpecOf(scenario, gpu);
  let topology: Topology;
  try {
    topology = topologyOf(topologySpec);
  } catch (error) {
    refuse(read, ['cluster', 'topology'], `cannot be built: ${(error as Error).message}`);
  }
  const engines = placeEngines(read, topology, groups);
  checkFaults(read, topology, engines, policies);
  const { baseDirectory, planner } = policies;
  const engineNames = engines.map(({ name }) => name);
  checkPlannedEngines(read, loadPolicy('planner', planner, { baseDirectory }), engineNames);
  checkOnOff(read, topology);
  const disaggregated = groups.some((group) => group.role !== 'aggregated');
  checkFabric(read);
  const modelNotes = [...model.notes, ...precisionNotes(model, scenario)].map((note) => `${model.name}: ${note}`);
  return { scenario, topologySpec, modelNotes, groups, engines, disaggregated, blockTokens, policies };
}

/** Weights that a checkpoint has in fewer bits than the scenario says, or leaves at the default. */
function precisionNotes({ quantised }: ModelSpec, { model: { weightPrecision } }: Scenario): string[] {
  if (quantised === undefined || weightPrecision !== 'bf16') return [];
  return [
    `its checkpoint is quantised (${quantised}), and model.weightPrecision is bf16, with more memory and reading; set it to fp8, int8 or fp4`,
  ];
}

/** The built-in catalogue with the scenario's own files over it. */
function catalogueOf(read: ReadScenario): Catalogue {
  const { scenario } = read;
  const files = scenario.catalogue.map((file, index) => besideScenario(read, ['catalogue', index], file));
  try {
    return loadCatalogue(files);
  } catch (error) {
    refuse(read, ['catalogue'], `cannot be read: ${(error as Error).message}`);
  }
}
