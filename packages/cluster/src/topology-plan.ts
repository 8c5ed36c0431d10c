import { buildTopology, type LinkSpec, type ServerSpec, type Topology, type TopologySpec, type TreeSpec } from '@braess/fabric';
import type { GpuSpec } from '@braess/serving';
import type { GroupPlan } from './group-plan.js';
import type { Scenario } from './scenario/schema.js';

/**
 * One-way latencies, ns. NVLink: about 0.5 us from GPU to GPU memory over NVSwitch (Luo et al., microbenchmarks of Hopper, 2024; half a hop
 * each side). PCIe: about 0.5 us for a posted write (Neugebauer et al., Understanding PCIe performance, SIGCOMM 2018). NIC and switches:
 * 600 ns for an adapter with its port, 700 and 800 ns for a switch with its cable, assumed; with them two servers of a rack are 3.4 us apart,
 * near the 2-4 us that RDMA reads over one switch show. Zones: 1 ms, as between availability zones of one region.
 */
export const defaultLatencyNs = {
  nvlink: 250,
  pcie: 500,
  nic: 600,
  leafUplink: 700,
  coreUplink: 800,
  gateway: 1000,
  interZone: 1_000_000,
  storage: 50_000,
} as const;

/** A storage node's link: 100 GB/s, two 400 Gb/s ports; assumed. */
const storageBytesPerSecond = 100e9;
/** Between zones: 400 Gb/s a gateway; assumed. */
const interZoneBytesPerSecond = 50e9;

/**
 * The network of a scenario: what it does not say follows from the GPU (NVLink, NIC and PCIe rates of the catalogue).
 *
 * The GPUs of a tensor-parallel group move their parts of the KV side by side, each over its own NIC. One flow stands for all of them, so the links
 * of `bond` neighbouring GPUs (the largest number that divides every group) are drawn as one of their summed rate: sums over a port, a leaf or a
 * core come out the same. Where the scenario gives nicsPerServer, or parts move one by one, NICs and links are drawn as they are.
 */
export function topologySpecOf(scenario: Scenario, gpu: GpuSpec): TopologySpec {
  const { cluster, kvTiers } = scenario;
  const { topology } = cluster;
  const given = topology.bytesPerSecond;
  const link = (bytesPerSecond: number, name: keyof typeof defaultLatencyNs): LinkSpec => ({
    bytesPerSecond,
    latencyNs: topology.latencyNs[name] ?? defaultLatencyNs[name],
  });
  const bond = topology.nicsPerServer === undefined && !movesApart(scenario) ? bondOf(scenario) : 1;
  const nics = topology.nicsPerServer ?? cluster.gpusPerServer / bond;
  const nicRate = (given.nic ?? gpu.nicBytesPerSecond) * bond;
  const server: ServerSpec = {
    gpus: cluster.gpusPerServer,
    nics,
    // Without NVLink the GPUs of a server talk over their PCIe switch.
    nvlink: link(bond * (given.nvlink ?? (gpu.nvlinkBytesPerSecond > 0 ? gpu.nvlinkBytesPerSecond : gpu.pcieBytesPerSecond)), 'nvlink'),
    pcie: link(bond * (given.pcie ?? gpu.pcieBytesPerSecond), 'pcie'),
    nic: link(nicRate, 'nic'),
  };
  const nicsPerLeaf = topology.kind === 'rail-optimised' ? cluster.racksPerPod * cluster.serversPerRack : cluster.serversPerRack * nics;
  const nicsPerPod = cluster.racksPerPod * cluster.serversPerRack * nics;
  const tree: TreeSpec = {
    kind: topology.kind === 'rail-optimised' ? 'rail-optimised' : 'fat-tree',
    pods: cluster.pods,
    racksPerPod: cluster.racksPerPod,
    nodesPerRack: cluster.serversPerRack,
    server,
    spinesPerPod: topology.spinesPerPod,
    uplinksPerLeaf: topology.uplinksPerLeaf ?? nicsPerLeaf,
    leafUplink: link(
      given.leafUplink === undefined ? nicRate : given.leafUplink * (topology.uplinksPerLeaf === undefined ? bond : 1),
      'leafUplink',
    ),
    oversubscription: topology.oversubscription,
    ...(cluster.pods > 1
      ? {
          cores: topology.cores,
          uplinksPerPod: topology.uplinksPerPod ?? nicsPerPod,
          coreUplink: link(
            given.coreUplink === undefined ? nicRate : given.coreUplink * (topology.uplinksPerPod === undefined ? bond : 1),
            'coreUplink',
          ),
        }
      : {}),
    ...(kvTiers.g4 === undefined ? {} : { storage: { nodesPerPod: 1, link: link(given.storage ?? storageBytesPerSecond, 'storage') } }),
  };
  if (topology.kind !== 'multi-zone') return tree;
  return {
    kind: 'multi-zone',
    zones: topology.zones,
    zone: tree,
    gatewaysPerZone: topology.gatewaysPerZone,
    gatewayUplink: link(given.gateway ?? interZoneBytesPerSecond, 'gateway'),
    interZone: link(given.interZone ?? interZoneBytesPerSecond, 'interZone'),
  };
}

/** What a GPU can send to other servers: its share of the NICs of its server, no more than its PCIe link. */
export function networkBytesPerSecond({ topology, gpusPerServer }: Scenario['cluster'], gpu: GpuSpec): number {
  const { nic = gpu.nicBytesPerSecond, pcie = gpu.pcieBytesPerSecond } = topology.bytesPerSecond;
  return Math.min(pcie, (nic * (topology.nicsPerServer ?? gpusPerServer)) / gpusPerServer);
}

const builtTopologies = new WeakMap<TopologySpec, Topology>();

/** The graph of a description, built once for all of a thread that ask for it. @throws Error as `buildTopology`. */
export function topologyOf(spec: TopologySpec): Topology {
  let topology = builtTopologies.get(spec);
  if (topology === undefined) {
    topology = buildTopology(spec);
    builtTopologies.set(spec, topology);
  }
  return topology;
}

/** Whether every GPU sends and receives KV by itself: as asked, or because some keep requests of their own. */
function movesApart({ cluster, serving }: Scenario): boolean {
  return cluster.fabric.shards === 'per-gpu' || serving.some(({ attention }) => attention === 'data-parallel');
}

/** Flows in which the KV of a request leaves an engine, or arrives there: one from each server, or from each GPU. */
export function kvFlows(
  scenario: Scenario,
  { attention, tensorParallel, servers }: Pick<GroupPlan, 'attention' | 'tensorParallel' | 'servers'>,
): number {
  if (attention === 'data-parallel') return 1;
  return movesApart(scenario) ? tensorParallel : servers;
}

/** Greatest number of GPUs that divides every tensor-parallel group, within a server. */
function bondOf(scenario: Scenario): number {
  let bond = scenario.cluster.gpusPerServer;
  for (const { tensorParallel } of scenario.serving) bond = greatestDivisor(bond, tensorParallel);
  return bond;
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}
