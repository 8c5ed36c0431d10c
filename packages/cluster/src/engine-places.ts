import type { Topology } from '@braess/fabric';
import type { GroupPlan } from './group-plan.js';
import type { EnginePlan } from './plan.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import { refuse } from './scenario/refuse.js';
import type { Scenario, ServingGroup } from './scenario/schema.js';

/**
 * Places the engines of the groups, in order; an engine takes neighbouring GPUs of one server, or neighbouring servers of one pod. A group that is packed
 * goes on where the packed one before it ended; one that is spread gives each rack an engine in turn, and within the rack takes the first GPUs that are free.
 */
export function placeEngines(read: ReadScenario, topology: Topology, groups: readonly GroupPlan[]): EnginePlan[] {
  const { cluster, serving, servingRounds } = read.scenario;
  const free = new FreeGpus(cluster, topology.gpus.length);
  const turns = groups.map(() => new RackTurns(cluster));
  const engines: EnginePlan[] = [];
  const rounds = Array.from({ length: servingRounds }, () => [...groups.entries()]).flat();
  for (const [index, { tensorParallel }] of rounds) {
    const { count, placement } = serving[index] as ServingGroup;
    checkPlace(read, index);
    for (let engine = 0; engine < count; engine++) {
      const first = placement === 'packed' ? free.takePacked(tensorParallel) : free.takeSpread(tensorParallel, turns[index]!);
      if (first < 0) refuseTooMany(read, groups, topology.gpus.length, index);
      engines.push(engineOf(topology, first, tensorParallel, index));
    }
  }
  return engines;
}

/** Whether there is a place of the size of an engine at all. */
function checkPlace(read: ReadScenario, index: number): void {
  const { cluster, serving } = read.scenario;
  const { tensorParallel, placement } = serving[index] as ServingGroup;
  const [place, gpus] = placement === 'packed' ? ['pod', podGpus(cluster)] : ['rack', rackGpus(cluster)];
  if (tensorParallel > gpus) {
    const otherwise = placement === 'packed' ? 'raise racksPerPod or serversPerRack' : 'use placement: packed, or raise serversPerRack';
    refuse(read, ['serving', index, 'tensorParallel'], `is ${tensorParallel}; a ${place} has ${gpus} GPUs: ${otherwise}`);
  }
}

function rackGpus({ serversPerRack, gpusPerServer }: Scenario['cluster']): number {
  return serversPerRack * gpusPerServer;
}

function podGpus(cluster: Scenario['cluster']): number {
  return cluster.racksPerPod * rackGpus(cluster);
}

/** GPUs that no engine has yet. Both ways to take some give the first of them, -1 where there are not enough side by side. */
class FreeGpus {
  readonly #taken: Uint8Array;
  #packedTo = 0;

  constructor(
    readonly cluster: Scenario['cluster'],
    gpus: number,
  ) {
    this.#taken = new Uint8Array(gpus);
  }

  takePacked(count: number): number {
    const first = this.#take(this.#packedTo, this.#taken.length, count);
    if (first >= 0) this.#packedTo = first + count;
    return first;
  }

  /** From the next rack in turn that has room. */
  takeSpread(count: number, turns: RackTurns): number {
    const { racks, searchedTo } = turns;
    for (let tries = 0; tries < racks.length; tries++) {
      const rack = turns.next();
      const end = (rack + 1) * rackGpus(this.cluster);
      const first = this.#take(searchedTo[rack]!, end, count);
      searchedTo[rack] = first < 0 ? end : first + count;
      if (first >= 0) return first;
    }
    return -1;
  }

  #take(from: number, to: number, count: number): number {
    // Aligned, so that no engine straddles servers it does not fill.
    const step = Math.min(count, this.cluster.gpusPerServer);
    const pod = podGpus(this.cluster);
    for (let gpu = Math.ceil(from / step) * step; gpu + count <= to; gpu += step) {
      const crossesPods = Math.floor(gpu / pod) !== Math.floor((gpu + count - 1) / pod);
      if (crossesPods || this.#taken.subarray(gpu, gpu + count).includes(1)) continue;
      this.#taken.fill(1, gpu, gpu + count);
      return gpu;
    }
    return -1;
  }
}

/** How far a spread group has come. */
class RackTurns {
  /** In the order of turns. */
  readonly racks: readonly number[];
  /** Of each rack: GPUs before this one are taken, or too few. */
  readonly searchedTo: number[];
  #turn = 0;

  constructor(cluster: Scenario['cluster']) {
    this.racks = racksInTurn(cluster);
    this.searchedTo = Array.from(this.racks, (_, rack) => rack * rackGpus(cluster));
  }

  next(): number {
    return this.racks[this.#turn++ % this.racks.length]!;
  }
}

/** Numbers of all racks in the order in which a spread group takes them: zone by zone, then pod by pod, so that few engines reach all of them. */
function racksInTurn({ pods, racksPerPod, topology }: Scenario['cluster']): number[] {
  const zones = topology.kind === 'multi-zone' ? topology.zones : 1;
  return Array.from({ length: zones * pods * racksPerPod }, (_, turn) => {
    const zone = turn % zones;
    const pod = Math.floor(turn / zones) % pods;
    return (zone * pods + pod) * racksPerPod + Math.floor(turn / (zones * pods));
  });
}

function engineOf(topology: Topology, first: number, tensorParallel: number, group: number): EnginePlan {
  const gpus = Array.from(topology.gpus.subarray(first, first + tensorParallel));
  const gpuNames = gpus.map((gpu) => topology.nodeNames[gpu] as string);
  const firstName = gpuNames[0] as string;
  const server = serverOfGpu(firstName);
  return { name: `${server}/engine${Number(firstName.slice(firstName.lastIndexOf('/gpu') + 4))}`, group, server, gpus, gpuNames };
}

/** Name of the server that a GPU, by its name, is in. */
export function serverOfGpu(name: string): string {
  return name.slice(0, name.lastIndexOf('/'));
}

function refuseTooMany(read: ReadScenario, groups: readonly GroupPlan[], total: number, index: number): never {
  const { serving, servingRounds } = read.scenario;
  const { tensorParallel, servers } = groups[index]!;
  const isSpread = serving[index]!.placement === 'spread';
  const needed = servingRounds * groups.reduce((sum, group, at) => sum + group.tensorParallel * (serving[at] as ServingGroup).count, 0);
  const [place, reason] =
    servers === 1
      ? ['a server', 'as engines of other sizes lie between']
      : [isSpread ? 'a rack' : 'a pod', `as others lie between, or the servers of a ${isSpread ? 'rack' : 'pod'} do not come out even`];
  const order = `${isSpread && servers > 1 ? 'use placement: packed, or ' : ''}put groups of larger tensorParallel first`;
  const lack =
    needed > total
      ? `all groups need ${needed} GPUs, the cluster has ${total}`
      : `no ${tensorParallel} GPUs side by side in ${place} are left, ${reason}; ${order}`;
  refuse(read, ['serving', index, 'count'], `does not fit: ${lack}; add racksPerPod or serversPerRack, or use fewer engines`);
}
