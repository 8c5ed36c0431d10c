import { type EngineProfile, type NetworkSite, networkTiers } from '@braess/control';
import { createRoutes, LINK_CLASSES, type LinkClass, pathStages, type Topology, tier, tierNominals } from '@braess/fabric';
import { createCurve, decodeCurve } from '@braess/serving';
import type { GroupPlan } from './group-plan.js';
import type { ClusterPlan } from './plan.js';
import { kvFlows, topologyOf } from './topology-plan.js';

/** Links that count in the load of a tier: those that its transfers cross and nearer ones do not. */
const tierOfClass: Readonly<Partial<Record<LinkClass, number>>> = {
  nic: 1,
  'leaf-uplink': 2,
  'core-uplink': 3,
  gateway: 4,
  'inter-zone': 4,
};

/** Rows of distances, in bytes, and pairs of engines with their paths, that are kept at a time: all of them would grow with the square of the cluster. */
const rowBytesLimit = 16e6;
const pairLimit = 100_000;

/** What the operator of the cluster knows of its network beforehand. */
export function networkSite(topology: Topology, plan: ClusterPlan): NetworkSite {
  const { background } = plan.scenario.cluster.fabric;
  const routes = createRoutes(topology);
  const nominals = tierNominals(topology, routes);
  const stages = new Map<number, readonly Int32Array[]>();
  const linkTier = Int8Array.from(topology.linkClasses, (code) => tierOfClass[LINK_CLASSES[code]!] ?? -1);
  const tierLinks = new Float64Array(networkTiers);
  const tierBackground = new Float64Array(networkTiers);
  for (const level of linkTier) if (level >= 0) tierLinks[level]!++;
  for (const { link, share } of background) {
    const level = tierOfClass[link] ?? -1;
    if (level >= 0) tierBackground[level] = Math.max(tierBackground[level]!, share);
  }
  // A transfer is as many flows as the larger of two engines has, and as fast as the smaller lets it be.
  const flowsPerTransfer = Math.min(...plan.groups.map((group) => kvFlows(plan.scenario, group)));
  const nodes = Int32Array.from(plan.engines, ({ gpus }) => gpus[0] as number);
  return Object.freeze({
    tiersFrom: tierRows(topology, nodes),
    tierBetween: (from: number, to: number) => tier(topology, nodes[from]!, nodes[to]!),
    tierBytesPerSecond: Float64Array.from(nominals, (nominal) => (nominal?.bytesPerSecond ?? Number.NaN) * flowsPerTransfer),
    tierLatencyNs: Float64Array.from(nominals, (nominal) => nominal?.latencyNs ?? Number.NaN),
    flowsPerTransfer,
    tierBackground,
    tierLinks,
    linkTier,
    isSource: (engine: number) => roleOf(plan, engine) === 'prefill',
    isTarget: (engine: number) => roleOf(plan, engine) === 'decode',
    pathStages(from: number, to: number) {
      const [source, destination] = [nodes[from]!, nodes[to]!];
      const key = source * topology.nodeCount + destination;
      let known = stages.get(key);
      if (known === undefined) {
        if (stages.size >= pairLimit) stages.clear();
        known = pathStages(topology, routes, source, destination);
        stages.set(key, known);
      }
      return known;
    },
  });
}

/** Network distances of all engines, which are at these nodes, from one. */
function tierRows(topology: Topology, nodes: Int32Array): (engine: number) => Int8Array {
  const severalZones = nodes.some((node) => topology.nodeZone[node] !== topology.nodeZone[nodes[0]!]);
  // Where most engines are as far as can be, a row is made of the few that are not.
  const farthest = severalZones ? 4 : 3;
  const part = severalZones ? topology.nodeZone : topology.nodePod;
  const enginesOfPart = new Map<number, number[]>();
  for (const [engine, node] of nodes.entries()) {
    const engines = enginesOfPart.get(part[node]!);
    if (engines === undefined) enginesOfPart.set(part[node]!, [engine]);
    else engines.push(engine);
  }
  const rows = new Map<number, Int8Array>();
  return (engine) => {
    const known = rows.get(engine);
    if (known !== undefined) return known;
    if (rows.size * nodes.length >= rowBytesLimit) rows.clear();
    const from = nodes[engine]!;
    const row = new Int8Array(nodes.length).fill(farthest);
    for (const other of enginesOfPart.get(part[from]!)!) row[other] = tier(topology, from, nodes[other]!);
    rows.set(engine, row);
    return row;
  };
}

function roleOf(plan: ClusterPlan, engine: number): GroupPlan['role'] {
  return (plan.groups[plan.engines[engine]!.group] as GroupPlan).role;
}

/** What the inventory says of each network distance (same node, rack, pod, across pods, across zones), without building a run. */
export function tierInventory(plan: ClusterPlan): Pick<NetworkSite, 'tierBytesPerSecond' | 'tierLatencyNs' | 'tierBackground'> {
  return networkSite(topologyOf(plan.topologySpec), plan);
}

/** What a scheduler may know of the engines of a group beforehand: limits, and the times of decode passes by its timing model. */
export function engineProfile(group: GroupPlan): EngineProfile {
  const { timing, maxSequences, capacityBlocks, blockTokens } = group;
  const curve = createCurve();
  const passNs = (sequences: number, contextTokens: number): number => {
    decodeCurve(timing, sequences, contextTokens, 1, curve);
    return curve.c0Ns;
  };
  // The times are near linear in the tokens attended to; a chord up to half the memory stands for them.
  const halfTokens = Math.max(1, (capacityBlocks * blockTokens) / 2);
  return {
    maxSequences,
    capacityBlocks,
    passNs: Array.from({ length: maxSequences + 1 }, (_, sequences) => passNs(Math.max(1, sequences), 0)),
    contextTokenNs: (passNs(1, halfTokens) - passNs(1, 0)) / halfTokens,
  };
}
