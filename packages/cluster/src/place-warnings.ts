import { serverOfGpu } from './engine-places.js';
import type { ClusterPlan } from './plan.js';
import { usesNetwork } from './plan-checks.js';
import { kvFlows } from './topology-plan.js';

/** Parts of the cluster that do nothing, distances that all KV has to go, and NICs that nothing can fill or no flow takes, one sentence each. */
export function placeWarnings(plan: ClusterPlan): string[] {
  return [...emptyPlaces(plan), ...farTransfers(plan), ...slowBuses(plan), ...thinFlows(plan)];
}

/** Names of places as they lie within one another, and the keys that say how many there are. */
const levels = [
  ['zone', 'topology.zones'],
  ['pod', 'pods'],
  ['rack', 'racksPerPod'],
  ['node', 'serversPerRack'],
] as const;

/** Zones, pods, racks and servers without an engine; of those within one another the outermost. */
function emptyPlaces(plan: ClusterPlan): string[] {
  const { cluster } = plan.scenario;
  const { engines } = plan;
  const { pods, racksPerPod, serversPerRack, gpusPerServer, topology, fabric } = cluster;
  const zones = topology.kind === 'multi-zone' ? [topology.zones] : [];
  // Flows of the background may begin and end where there is no engine.
  const ends = [...engines.flatMap(({ gpuNames }) => gpuNames.map(serverOfGpu)), ...fabric.onOff.flatMap(({ from, to }) => [from, to])];
  const used = new Set(ends.flatMap((name) => name.split('/').map((_, last, parts) => parts.slice(0, last + 1).join('/'))));
  const counts = [...zones, pods, racksPerPod, serversPerRack];
  const empty: string[] = [];
  const tooMany: string[] = [];
  let within = [''];
  for (const [level, count] of counts.entries()) {
    const [part, key] = levels.at(level - counts.length)!;
    const places = within.flatMap((outer) => Array.from({ length: count }, (_, index) => `${outer}${part}${index}`));
    empty.push(...places.filter((place) => !used.has(place)));
    if (places.some((place) => !used.has(place))) tooMany.push(key);
    within = places.filter((place) => used.has(place)).map((place) => `${place}/`);
  }
  if (empty.length === 0) return [];
  const taken = engines.reduce((sum, { gpus }) => sum + gpus.length, 0);
  const total = counts.reduce((product, count) => product * count, gpusPerServer);
  const zone = empty.find((place) => /^zone\d+$/.test(place));
  const effect = zone === undefined ? '' : `, and no KV goes to ${zone}`;
  const spread = tooMany[0] === 'serversPerRack' || !fitRacks(plan) ? '' : ' set serving placement: spread,';
  return [
    `cluster: no engine is in ${few(empty)} (${taken} of ${total} GPUs are in use)${effect}; raise serving count,${spread} or lower ${tooMany.join(', ')}`,
  ];
}

/** Whether engines of all groups may be spread over racks: none is larger than one. */
function fitRacks({ scenario: { cluster }, groups }: ClusterPlan): boolean {
  return groups.every(({ tensorParallel }) => tensorParallel <= cluster.serversPerRack * cluster.gpusPerServer);
}

/** Prefill engines most of which have no decode engine in their zone, or in their pod. */
function farTransfers(plan: ClusterPlan): string[] {
  const { engines, groups, disaggregated } = plan;
  const { cluster, planner } = plan.scenario;
  if (!disaggregated || planner.policy !== 'static') return [];
  const shared = cluster.topology.kind === 'multi-zone' ? ['zone', 'pod'] : ['pod'];
  for (const [depth, level] of shared.entries()) {
    const [prefill, decode] = ['prefill', 'decode'].map((role) => {
      const servers = engines.filter(({ group }) => groups[group]!.role === role).map(({ server }) => server);
      return servers.map((server) => server.split('/', depth + 1).join('/'));
    }) as [string[], string[]];
    const near = new Set(decode);
    const far = prefill.filter((place) => !near.has(place)).length;
    if (2 * far <= prefill.length) continue;
    const mend = fitRacks(plan) ? 'set placement: spread in both groups' : 'place groups of fewer engines in several servingRounds';
    return [
      `serving: ${far} of ${prefill.length} prefill engines have no decode engine in their ${level}, so their KV crosses ${level}s; ${mend} to have both in each`,
    ];
  }
  return [];
}

/** NICs behind PCIe links that are slower than they, those of all GPUs of a NIC taken together: KV between servers is as fast as PCIe. */
function slowBuses({ topologySpec, scenario }: ClusterPlan): string[] {
  if (!usesNetwork(scenario)) return [];
  const { cluster } = scenario;
  const { server } = topologySpec.kind === 'multi-zone' ? topologySpec.zone : topologySpec;
  const drawn = cluster.topology.nicsPerServer ?? cluster.gpusPerServer;
  // Where NICs are drawn as one of their summed rate, the link of each GPU is, too.
  const bond = drawn / server.nics;
  const nicRate = server.nic.bytesPerSecond / bond;
  const busRate = ((server.pcie.bytesPerSecond / bond) * cluster.gpusPerServer) / drawn;
  if (nicRate <= busRate) return [];
  const [nic, bus] = [nicRate, busRate].map((rate) => `${Math.round(rate / 1e7) / 100} GB/s`);
  return [
    `cluster: a NIC carries ${nic} and the PCIe links to it ${bus}, so KV between servers gets no more than that; raise topology.bytesPerSecond.pcie, or lower nic`,
  ];
}

/** Prefill and decode engines whose GPUs have more NICs than the flows that stand for them take. */
function thinFlows({ topologySpec, scenario, groups }: ClusterPlan): string[] {
  const { server } = topologySpec.kind === 'multi-zone' ? topologySpec.zone : topologySpec;
  const nicsOfGpu = Math.min(1, server.nics / server.gpus);
  // Where GPUs keep requests of their own, one NIC is all that a transfer has.
  const whole = groups.filter(({ attention }) => attention !== 'data-parallel');
  for (const prefill of whole.filter(({ role }) => role === 'prefill')) {
    for (const decode of whole.filter(({ role }) => role === 'decode')) {
      const nics = Math.min(prefill.tensorParallel, decode.tensorParallel) * nicsOfGpu;
      const taken = Math.min(kvFlows(scenario, prefill), kvFlows(scenario, decode));
      if (taken >= nics) continue;
      return [
        `cluster.fabric: KV from ${prefill.name} to ${decode.name} gets ${Math.round((100 * taken) / nics)} % of what the NICs of their GPUs carry, as one flow stands for the GPUs of a server and takes one NIC; set shards: per-gpu`,
      ];
    }
  }
  return [];
}

/** The first of some names, and how many more there are. */
function few(names: readonly string[]): string {
  return names.length > 4 ? `${names.slice(0, 3).join(', ')} and ${names.length - 3} more` : names.join(', ');
}
