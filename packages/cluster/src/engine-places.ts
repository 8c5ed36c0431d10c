import type { Topology } from '@braess/fabric';
import { type EnginePlan, type GroupPlan, refuse } from './plan.js';
import type { ReadScenario } from './scenario/read-scenario.js';
import type { Scenario, ServingGroup } from './scenario/schema.js';

/**
 * Places the engines of the groups, in order; an engine takes neighbouring GPUs of one server. A group that is packed goes on where the packed one
 * before it ended; one that is spread gives each rack an engine in turn, and within the rack takes the first GPUs that are free.
 */
export function placeEngines(read: ReadScenario, topology: Topology, groups: readonly GroupPlan[]): EnginePlan[] {
  const { cluster, serving, servingRounds } = read.scenario;
  const racks = racksInTurn(cluster);
  const rackGpus = cluster.serversPerRack * cluster.gpusPerServer;
  const taken = new Uint8Array(topology.gpus.length);
  const engines: EnginePlan[] = [];
  // Of each group: turns taken, and by rack where to look on.
  const spread = groups.map(() => ({ turn: 0, from: Array.from(racks, (_, rack) => rack * rackGpus) }));
  let packedTo = 0;
  const rounds = Array.from({ length: servingRounds }, () => [...groups.entries()]).flat();
  for (const [index, group] of rounds) {
    const { tensorParallel } = group;
    const { count, placement } = serving[index] as ServingGroup;
    if (cluster.gpusPerServer % tensorParallel !== 0) {
      const path = ['serving', index, 'tensorParallel'];
      refuse(read, path, `is ${tensorParallel}; a group lives within one server of ${cluster.gpusPerServer} GPUs: use a divisor of that`);
    }
    /** First of the free GPUs in [from, to), -1 when there are not enough side by side. */
    const firstFree = (from: number, to: number): number => {
      // Aligned, so that no engine straddles servers.
      for (let gpu = Math.ceil(from / tensorParallel) * tensorParallel; gpu + tensorParallel <= to; gpu += tensorParallel)
        if (!taken.subarray(gpu, gpu + tensorParallel).includes(1)) return gpu;
      return -1;
    };
    const inNextRack = (): number => {
      const own = spread[index]!;
      for (let tries = 0; tries < racks.length; tries++) {
        const rack = racks[own.turn++ % racks.length]!;
        const end = (rack + 1) * rackGpus;
        const first = firstFree(own.from[rack]!, end);
        own.from[rack] = first < 0 ? end : first + tensorParallel;
        if (first >= 0) return first;
      }
      return -1;
    };
    for (let engine = 0; engine < count; engine++) {
      const first = placement === 'packed' ? firstFree(packedTo, taken.length) : inNextRack();
      if (first < 0) refuseTooMany(read, groups, taken.length, index);
      if (placement === 'packed') packedTo = first + tensorParallel;
      taken.fill(1, first, first + tensorParallel);
      engines.push(engineOf(topology, first, tensorParallel, index));
    }
  }
  return engines;
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
  const server = firstName.slice(0, firstName.lastIndexOf('/'));
  return { name: `${server}/engine${Number(firstName.slice(firstName.lastIndexOf('/gpu') + 4))}`, group, server, gpus, gpuNames };
}

function refuseTooMany(read: ReadScenario, groups: readonly GroupPlan[], total: number, index: number): never {
  const { serving, servingRounds } = read.scenario;
  const needed = servingRounds * groups.reduce((sum, group, at) => sum + group.tensorParallel * (serving[at] as ServingGroup).count, 0);
  const lack =
    needed > total
      ? `all groups need ${needed} GPUs, the cluster has ${total}`
      : `no ${groups[index]!.tensorParallel} GPUs side by side in a server are left, as engines of other sizes lie between; put groups of larger tensorParallel first`;
  refuse(read, ['serving', index, 'count'], `does not fit: ${lack}; add racksPerPod or serversPerRack, or use fewer engines`);
}
