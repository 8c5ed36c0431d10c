import { type EngineProfile, type NetworkSite, networkTiers } from '@braess/control';
import { buildTopology, createRoutes, LINK_CLASSES, type LinkClass, pathStages, type Topology, tier, tierNominals } from '@braess/fabric';
import { createCurve, decodeCurve } from '@braess/serving';
import type { ClusterPlan, GroupPlan } from './plan.js';

/** Links that count in the load of a tier: those that its transfers cross and nearer ones do not. */
const tierOfClass: Readonly<Partial<Record<LinkClass, number>>> = {
  nic: 1,
  'leaf-uplink': 2,
  'core-uplink': 3,
  gateway: 4,
  'inter-zone': 4,
};

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
  const rows = new Map<number, Int8Array>();
  return Object.freeze({
    tiersFrom(engine: number) {
      let row = rows.get(engine);
      if (row === undefined) {
        const from = plan.engines[engine]!.gpus[0] as number;
        row = Int8Array.from(plan.engines, ({ gpus }) => tier(topology, from, gpus[0] as number));
        rows.set(engine, row);
      }
      return row;
    },
    tierBytesPerSecond: Float64Array.from(nominals, (nominal) => nominal?.bytesPerSecond ?? Number.NaN),
    tierLatencyNs: Float64Array.from(nominals, (nominal) => nominal?.latencyNs ?? Number.NaN),
    tierBackground,
    tierLinks,
    linkTier,
    isSource: (engine: number) => roleOf(plan, engine) === 'prefill',
    isTarget: (engine: number) => roleOf(plan, engine) === 'decode',
    pathStages(from: number, to: number) {
      const [source, destination] = [plan.engines[from]!.gpus[0] as number, plan.engines[to]!.gpus[0] as number];
      const key = source * topology.nodeCount + destination;
      let known = stages.get(key);
      if (known === undefined) {
        known = pathStages(topology, routes, source, destination);
        stages.set(key, known);
      }
      return known;
    },
  });
}

function roleOf(plan: ClusterPlan, engine: number): GroupPlan['role'] {
  return (plan.groups[plan.engines[engine]!.group] as GroupPlan).role;
}

/** What the inventory says of each network distance (same node, rack, pod, across pods, across zones), without building a run. */
export function tierInventory(plan: ClusterPlan): Pick<NetworkSite, 'tierBytesPerSecond' | 'tierLatencyNs' | 'tierBackground'> {
  return networkSite(buildTopology(plan.topologySpec), plan);
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
