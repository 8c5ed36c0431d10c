import {
  type BoundPolicy,
  createFrontendKind,
  type EngineEntry,
  type EngineProfile,
  type FrontendOptions,
  loadPolicy,
  type NetworkSite,
  type OraclePolicy,
  oracleListens,
  type PolicyKind,
  type PolicyOf,
  type PolicySpec,
  type ProbePlace,
} from '@braess/control';
import { declareChunkFabric, fabricKind, type Topology } from '@braess/fabric';
import { type ActorReference, type Cell, defineProgram, type World } from '@braess/kernel';
import type { MeasureListener } from '@braess/protocol';
import { engineRole } from '@braess/protocol';
import { type EngineKind, engineKind, engineRefusal, type GpuKind, gpuKind } from '@braess/serving';
import { type ClientOptions, clientKind, type RequestTable } from '@braess/workload';
import { backgroundOf } from './background.js';
import { type Delays, declareLookahead, delaysOf } from './cell-delays.js';
import { clientAnswers, clientOptionsOf } from './client-plan.js';
import { controllerKindOf, plannerKindOf } from './control-kinds.js';
import { type EngineSurroundings, engineKindOptions } from './engine-kind-options.js';
import { serverOfGpu } from './engine-places.js';
import { faultKind } from './fault-actor.js';
import { faultEntry } from './fault-entries.js';
import { type GroupPlan, kvBytesPerToken } from './group-plan.js';
import { addOracle, linkReportNs, Probers } from './network-oracle.js';
import { engineProfile, networkSite } from './network-site.js';
import { prefixOverlap } from './overlap-index.js';
import { addOwnActors } from './own-actors.js';
import { clientDriver } from './own-client.js';
import { cachePolicy } from './own-evictions.js';
import type { ClusterPlan, EnginePlan } from './plan.js';
import { hasTiers, usesNetwork } from './plan-checks.js';
import { poaActorKind } from './poa-actor.js';
import { poaActorOptions } from './poa-plan.js';
import { decodeStageOptions, oracleHealth, queueOptions } from './router-options.js';
import { ServerTiers, storageNodeOf } from './server-tiers.js';
import { kvFlows, topologyOf } from './topology-plan.js';

/** What every thread builds the cluster from: plain data. */
export interface ClusterParameters {
  readonly plan: ClusterPlan;
  readonly table: RequestTable;
  /** Period of the time series, ns; 0 for none. */
  readonly seriesNs: number;
  /** One shard alone runs it: nobody's windows gain by promises of silence. */
  readonly alone?: boolean;
}

/**
 * Work for placement, which only the speed of runs on several shards depends on: time in handlers on one thread, in j64, j64-disaggregated (12,000 requests)
 * and 1024-gpu. Frontends took 0.32, 0.33 and 0.42 of what engines took together, with streamed tokens 0.41, 0.43 and 0.48.
 */
const frontendWork = { ofWhole: 0.35, ofStreamed: 0.45 };

/** That of an engine that prefills, of one that decodes and sends every token: 0.34 and 0.46; where tokens are not sent, 0.8 and 1.4. */
const prefillWork = 0.4;

/** Name of the fabric's actor and cell. */
const fabricName = 'fabric';

/** The whole cluster as actors: docs/kernel.md tells of cells and lookahead, `declareLookahead` which class may send to which, and how late. */
export default defineProgram<ClusterParameters>(import.meta.url, 'cluster', (world, parameters) => {
  new ClusterBuilder(world, parameters).build();
});

class ClusterBuilder {
  readonly #world: World;
  readonly #plan: ClusterPlan;
  readonly #parameters: ClusterParameters;
  readonly #delays: Delays;
  readonly #topology: Topology;
  readonly #cells = new Map<string, Cell>();
  /** For placement: about how much the engines of each server have to do. */
  readonly #weightOfServer = new Map<string, number>();
  readonly #engines: EngineEntry[] = [];
  readonly #frontends: ActorReference[] = [];
  readonly #clients: ActorReference[] = [];
  readonly #gpus = new Map<string, ActorReference>();
  readonly #tiers = new Map<string, ActorReference>();
  #planner: ActorReference[] = [];
  readonly #controller: ActorReference[] = [];
  #fabric: ActorReference | undefined;
  #poa: ActorReference | undefined;
  readonly #oracle: ActorReference[] = [];
  readonly #places: ProbePlace[] = [];
  #probers: Probers | undefined;
  #endpointOf: ((node: number) => number) | undefined;

  constructor(world: World, parameters: ClusterParameters) {
    this.#world = world;
    this.#parameters = parameters;
    this.#plan = parameters.plan;
    this.#delays = delaysOf(this.#plan.scenario);
    this.#topology = topologyOf(this.#plan.topologySpec);
  }

  build(): void {
    declareLookahead(this.#world, this.#plan, this.#delays);
    this.#addPoa();
    // Before the fabric, whose links report to the oracle.
    this.#addControl();
    if (usesNetwork(this.#plan.scenario)) this.#addFabric();
    this.#addServers();
    this.#addClients();
    this.#addController();
    this.#addFaults();
    this.#addOwnActors();
  }

  #addFabric(): void {
    const { scenario } = this.#plan;
    const { fabric } = scenario.cluster;
    const policy = this.#oraclePolicy();
    const tellPeriodNs = policy === undefined ? undefined : linkReportNs(scenario, policy);
    const listeners = tellPeriodNs === undefined ? [] : this.#oracle;
    const common = {
      topology: this.#topology,
      leastDelayNs: this.#delays.noticeNs,
      avoidBelowShare: fabric.avoidBelowShare,
      unreachableAfterNs: Math.round(fabric.unreachableAfterSeconds * 1e9),
      reportPeriodNs: this.#parameters.seriesNs,
      ...backgroundOf(this.#topology, scenario),
      ...(tellPeriodNs === undefined ? {} : { tellPeriodNs }),
    };
    if (fabric.fidelity === 'chunk') {
      const { controlNs, serverNs, noticeNs } = this.#delays;
      this.#world.lookahead('switch', 'control', controlNs);
      this.#world.lookahead('switch', 'storage', noticeNs);
      this.#world.lookahead('storage', 'switch', serverNs);
      const chunks = declareChunkFabric(
        this.#world,
        // A port reports from its own place, so as late as an engine.
        { ...common, chunkBytes: fabric.chunkBytes, reportDelayNs: controlNs },
        {
          serverCell: (name) => this.#server(name),
          fabricCell: this.#world.cell(fabricName, { class: 'fabric' }),
          fabricClass: 'fabric',
          serverClass: 'server',
          listenersOf: () => listeners,
        },
      );
      this.#fabric = chunks.fabric;
      this.#endpointOf = (node) => chunks.endpointOf(node).id;
      return;
    }
    this.#fabric = this.#world.actor(
      fabricName,
      fabricKind(common),
      { subscriptions: listeners.map((actor) => ({ actor, links: 'all' as const })) },
      { class: 'fabric' },
    );
  }

  #addControl(): void {
    const { scenario, groups, engines } = this.#plan;
    const { router, planner } = scenario;
    // What moves is what the engine that fetches it keeps: copies for its GPUs, or none.
    const group = groups.find(({ role }) => role === 'decode') ?? (groups[0] as GroupPlan);
    const listener = this.#listener(this.#delays.controlNs);
    const site = networkSite(this.#topology, this.#plan);
    const options: FrontendOptions = {
      engines: this.#engines,
      blockTokens: this.#plan.blockTokens,
      clientDelayNs: this.#delays.clientNs,
      engineDelayNs: this.#delays.controlNs,
      prefillRouter: this.#policy('router', this.#plan.policies.prefillRouter),
      decodeRouter: this.#policy('router', this.#plan.policies.decodeRouter),
      overlap: prefixOverlap,
      site,
      oracleActor: this.#oracle,
      oracleHealth: oracleHealth(router),
      decodeStage: decodeStageOptions(router),
      kvBytesPerToken: kvBytesPerToken(group),
      fixedKv: group.fixedKv,
      queue: queueOptions(router),
      firstTokenAt: scenario.telemetry.firstTokenAt,
      answerClients: clientAnswers(this.#plan, this.#parameters.table),
      maxAttempts: router.maxAttempts,
      ...(listener === undefined ? {} : { assignmentListener: listener }),
      onEngineDeath: router.onEngineDeath,
      maxInFlight: router.maxInFlight,
      permanentRefusals: [engineRefusal.promptTooLong, engineRefusal.exceedsKvMemory, engineRefusal.badLength],
      movedRefusals: [engineRefusal.notActive, engineRefusal.wrongRole],
      ...(scenario.untilSeconds === undefined ? {} : { endNs: Math.round(scenario.untilSeconds * 1e9) }),
      decisions: { every: scenario.telemetry.decisionsEvery, candidates: scenario.telemetry.candidates },
      ...(this.#plan.policies.admission === null ? {} : { admission: this.#policy('admission', this.#plan.policies.admission) }),
      ...(this.#plan.policies.oracle === null ? {} : { oracle: this.#policy('oracle', this.#plan.policies.oracle) }),
      ...(scenario.controller === undefined
        ? {}
        : { controller: { actors: this.#controller, delayNs: this.#delays.controlNs, signal: scenario.controller.signal } }),
      ...(router.replicaSyncMs === 0
        ? {}
        : {
            replicaSync: { frontends: this.#frontends, periodNs: Math.round(router.replicaSyncMs * 1e6), delayNs: this.#delays.controlNs },
          }),
    };
    const kind = createFrontendKind(options);
    const engineWeight = engines.reduce((sum, engine) => sum + this.#weightOfEngine(engine), 0);
    const workShare = scenario.telemetry.streamTokens ? frontendWork.ofStreamed : frontendWork.ofWhole;
    const weight = Math.max(1, (engineWeight * workShare) / router.frontends);
    for (let index = 0; index < router.frontends; index++) {
      const parameters = router.frontendParameters[index];
      const setup = parameters === undefined ? undefined : { parameters };
      this.#frontends.push(this.#world.actor(`control/frontend${index}`, kind, setup, { class: 'control', weight }));
    }
    this.#addOracle(site);
    if (planner.policy === 'static') return;
    const plannerKind = plannerKindOf(this.#plan, this.#delays, this.#policy('planner', this.#plan.policies.planner), this.#engines);
    this.#planner = [this.#world.actor('control/planner', plannerKind, undefined, { class: 'control' })];
  }

  /** The oracle, where it is one that listens. */
  #addOracle(site: NetworkSite): void {
    const policy = this.#oraclePolicy();
    if (policy === undefined || !oracleListens(policy.policy)) return;
    const setting = {
      policy,
      site,
      frontends: this.#frontends,
      controlDelayNs: this.#delays.controlNs,
      readsPaths: this.#policy('router', this.#plan.policies.decodeRouter).policy.reads?.paths === true,
      places: this.#places,
    };
    this.#oracle.push(addOracle(this.#world, setting));
  }

  #oraclePolicy(): BoundPolicy<OraclePolicy> | undefined {
    const { oracle } = this.#plan.policies;
    return oracle === null ? undefined : this.#policy('oracle', oracle);
  }

  /** The price-of-anarchy actor: before those it hears from. */
  #addPoa(): void {
    const options = poaActorOptions(this.#plan.scenario, Math.max(this.#delays.clientNs, this.#delays.controlNs));
    if (options !== undefined)
      this.#poa = this.#world.actor('control/poa', poaActorKind(options), { engines: this.#engines }, { class: 'control' });
  }

  #listener(delayNs: number): MeasureListener | undefined {
    const { poa } = this.#plan.scenario.telemetry;
    return this.#poa === undefined || poa === undefined
      ? undefined
      : { actor: this.#poa, periodNs: Math.round(poa.everySeconds * 1e9), delayNs };
  }

  #policy<Kind extends PolicyKind>(kind: Kind, spec: PolicySpec): BoundPolicy<PolicyOf[Kind]> {
    return loadPolicy(kind, spec, { baseDirectory: this.#plan.policies.baseDirectory });
  }

  #addServers(): void {
    const nodesOf = nodesOfEngines(this.#plan, this.#engines);
    const weights = this.#weightOfServer;
    for (const engine of this.#plan.engines) weights.set(engine.server, (weights.get(engine.server) ?? 0) + this.#weightOfEngine(engine));
    const tiers = new ServerTiers(
      {
        plan: this.#plan,
        serverDelayNs: this.#delays.serverNs,
        seriesNs: this.#parameters.seriesNs,
        fabric: this.#fabric,
        endpointOf: this.#endpointOf,
        nodesOf,
        storageNode: storageNodeOf(this.#topology),
        evictionOf: (tier) => cachePolicy(this.#plan.policies.tierEvictions[tier] as PolicySpec, this.#plan.policies.baseDirectory),
      },
      this.#world,
    );
    const around: EngineSurroundings = {
      plan: this.#plan,
      table: this.#parameters.table,
      delays: this.#delays,
      seriesNs: this.#parameters.seriesNs,
      frontends: this.#frontends,
      planner: this.#planner,
      watchers: this.#poa === undefined ? [] : [this.#poa],
      fabric: this.#fabric,
      endpointOf: this.#endpointOf,
      nodesOf,
      tiers,
      promises: this.#promises,
      policy: (kind, spec) => this.#policy(kind, spec),
    };
    const kinds = this.#plan.groups.map((group, index) => ({
      profile: engineProfile(group),
      engine: engineKind(engineKindOptions(around, group, index)),
      gpu: gpuKind({
        name: `gpu${index}`,
        hbmBytes: group.hbmBytes,
        weightBytes: group.weightBytesPerGpu + group.sequenceBytesPerGpu,
        kvBlockBytes: group.kvBytesPerTokenPerGpu * group.blockTokens,
        // Only to its engine, mostly in its own cell.
        sendsTo: group.servers === 1 ? [] : ['server'],
      }),
    }));
    for (const plan of this.#plan.engines) {
      const { engine, gpu, profile } = kinds[plan.group] as (typeof kinds)[number];
      this.#addEngine(plan, engine, gpu, profile, tiers);
    }
    for (const tier of tiers.all()) this.#tiers.set(tier.name, tier);
  }

  get #promises(): boolean {
    return this.#plan.scenario.execution.promises && this.#parameters.alone !== true;
  }

  #addEngine(plan: EnginePlan, kind: EngineKind, gpu: GpuKind, profile: EngineProfile, tiers: ServerTiers): void {
    const cell = this.#server(plan.server);
    const group = this.#plan.groups[plan.group] as GroupPlan;
    const role = engineRole[group.role];
    const below = tiers.any && hasTiers(this.#plan.scenario, group) ? tiers.of(plan.server, cell) : [];
    const engine = cell.actor(plan.name.slice(plan.server.length + 1), kind, { role, members: plan.gpus.length, tiers: below });
    if (below.length > 0) tiers.addWorker(plan.server, engine);
    this.#engines.push({ name: plan.name, actor: engine, role, profile });
    if (this.#oracle.length > 0) this.#places.push({ node: plan.gpus[0] as number, prober: this.#prober(plan.server, cell) });
    for (const [member, name] of plan.gpuNames.entries()) {
      const server = serverOfGpu(name);
      const engineDelayNs = server === plan.server ? 0 : this.#delays.releaseNs;
      const setup = { engine, engineDelayNs, member, nicNode: plan.gpus[member] as number };
      this.#gpus.set(name, this.#server(server).actor(name.slice(server.length + 1), gpu, setup));
    }
  }

  /** Who probes from a server; the oracle itself where it does not probe. */
  #prober(server: string, cell: Cell): ActorReference {
    if (this.#oraclePolicy()?.policy.beat === undefined) return this.#oracle[0] as ActorReference;
    const { serverNs, controlNs } = this.#delays;
    this.#probers ??= new Probers((node) => this.#endpointOf?.(node) ?? (this.#fabric as ActorReference).id, serverNs, controlNs);
    return this.#probers.of(server, cell);
  }

  #server(name: string): Cell {
    let cell = this.#cells.get(name);
    if (cell === undefined) {
      cell = this.#world.cell(name, { class: 'server', weight: this.#weightOfServer.get(name) ?? 0 });
      this.#cells.set(name, cell);
    }
    return cell;
  }

  /** Where every token is sent, engines that decode have most of the work; else one that prefills has as much. */
  #weightOfEngine({ group }: EnginePlan): number {
    const sendsNoTokens = (this.#plan.groups[group] as GroupPlan).role === 'prefill';
    return this.#plan.scenario.telemetry.streamTokens && sendsNoTokens ? prefillWork : 1;
  }

  #addClients(): void {
    const { client: spec } = this.#plan.policies;
    const options: ClientOptions = clientOptionsOf(this.#plan, this.#parameters.table, this.#delays.clientNs, this.#promises, {
      listener: this.#listener(this.#delays.clientNs),
      ...(spec === null ? {} : { driver: clientDriver(this.#policy('client', spec)) }),
    });
    const client = this.#world
      .cell('clients', { class: 'client' })
      .actor('client0', clientKind(options), { client: 0, frontends: this.#frontends });
    this.#clients.push(client);
  }

  #addController(): void {
    const { controller, prefillRouter } = this.#plan.policies;
    if (controller === null) return;
    const kind = controllerKindOf(this.#plan, this.#delays, this.#policy('controller', controller), {
      frontends: this.#frontends,
      clients: this.#clients,
      sources: this.#poa === undefined ? [] : [this.#poa],
      complete: (parameters) => this.#policy('router', { policy: prefillRouter.policy, parameters }).parameters as typeof parameters,
    });
    if (kind !== undefined) this.#controller.push(this.#world.actor('control/controller', kind, undefined, { class: 'control' }));
  }

  /** Last, so that they can name every other actor. */
  #addOwnActors(): void {
    const { ownActors } = this.#plan.policies;
    if (ownActors.length === 0) return;
    if (this.#fabric !== undefined) this.#world.lookahead('control', 'fabric', this.#delays.controlNs);
    const actors = new Map<string, { readonly id: number }>(this.#gpus);
    for (const { name, actor } of this.#engines) actors.set(name, actor);
    for (const actor of [...this.#frontends, ...this.#planner, ...this.#controller, ...this.#clients]) actors.set(actor.name, actor);
    if (this.#fabric !== undefined) actors.set(this.#fabric.name, this.#fabric);
    for (const [index, spec] of ownActors.entries()) addOwnActors(this.#world, this.#policy('actor', spec), index, actors);
  }

  #addFaults(): void {
    const { faults } = this.#plan.scenario;
    if (faults.length === 0) return;
    const targets = {
      gpus: this.#gpus,
      tiers: this.#tiers,
      engines: this.#engines,
      frontends: this.#frontends,
      oracle: this.#oracle,
      fabric: this.#fabric,
    };
    const entries = faults.map((fault) => faultEntry(fault, targets, this.#topology));
    this.#world.actor('faults', faultKind, { entries, leastDelayNs: this.#delays.serverNs }, { class: 'faults' });
  }
}

/**
 * Nodes of the topology where an engine, by actor id, sends and receives the KV of a request: its first GPU of each server for all there, each with its part, or with
 * data-parallel attention the one that keeps the request. Outside of the builder: actors keep it, and with a function of the builder's own they would keep all that was declared.
 */
function nodesOfEngines(plan: ClusterPlan, entries: readonly EngineEntry[]): (engine: number, dispatch: number) => readonly number[] {
  const choices = new Map<number, readonly (readonly number[])[]>();
  return (engine, dispatch) => {
    // Ids are there only when all is declared.
    if (choices.size === 0)
      for (const [index, { gpus, group }] of plan.engines.entries()) {
        const { attention, tensorParallel } = plan.groups[group]!;
        const gpusPerFlow = tensorParallel / kvFlows(plan.scenario, plan.groups[group]!);
        const ends = gpus.filter((_, rank) => rank % gpusPerFlow === 0);
        choices.set(entries[index]!.actor.id, attention === 'data-parallel' ? gpus.map((gpu) => [gpu]) : [ends]);
      }
    const nodes = choices.get(engine) as readonly (readonly number[])[];
    return nodes[nodes.length === 1 ? 0 : rankOf(dispatch, nodes.length)] as readonly number[];
  };
}

/** By hash (Knuth, multiplicative): requests that routing deals out in turn would meet on few ranks. */
function rankOf(dispatch: number, ranks: number): number {
  return (Math.imul(dispatch, 0x9e3779b1) >>> 8) % ranks;
}
