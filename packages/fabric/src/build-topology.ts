import type { Topology, TopologyDraft } from './topology.js';
import { draftTopology, drawCable, drawNode, finishTopology } from './topology.js';
import type { LinkSpec, MultiZoneSpec, ServerSpec, TopologySpec, TreeSpec } from './topology-spec.js';
import { checkMultiZone, checkTree, oversubscribe } from './topology-spec.js';

/**
 * Builds the network graph of a declarative description. Names: pod0/rack1/node2/gpu5, .../nic0, .../nvswitch, .../host,
 * pod0/rack1/leaf0 (fat-tree) or pod0/rail3 (rail-optimised), pod0/spine1, pod0/storage0, core3; in several zones all
 * behind zone0/, with zone0/gateway0. Throws when a field is out of its limits, naming field, value and limit.
 */
export function buildTopology(spec: TopologySpec): Topology {
  const draft = draftTopology(spec.kind);
  if (spec.kind === 'multi-zone') {
    checkMultiZone(spec);
    drawZones(draft, spec);
  } else if (spec.kind === 'fat-tree' || spec.kind === 'rail-optimised') {
    checkTree(spec);
    drawTree(draft, spec, '', 0);
  } else {
    throw new Error(`kind is "${(spec as { kind: string }).kind}"; allowed: fat-tree, rail-optimised, multi-zone`);
  }
  return finishTopology(draft);
}

/** Draws one zone's tree and returns its topmost switches. */
function drawTree(draft: TopologyDraft, spec: TreeSpec, prefix: string, zone: number): number[] {
  const ratio = spec.oversubscription;
  const by = ratio?.by ?? 'slower-links';
  const up = oversubscribe('uplinksPerLeaf', spec.leafUplink, spec.uplinksPerLeaf, ratio?.leaf ?? 1, by);
  const spinesByPod: number[][] = [];
  for (let pod = 0; pod < spec.pods; pod++) {
    const podId = zone * spec.pods + pod;
    const podName = `${prefix}pod${pod}`;
    const spines = times(spec.spinesPerPod, (spine) => drawNode(draft, 'spine', `${podName}/spine${spine}`, { zone, pod: podId }));
    const leaves = spec.kind === 'fat-tree' ? drawRacks(draft, spec, podName, zone, podId) : drawRails(draft, spec, podName, zone, podId);
    for (const leaf of leaves) {
      for (let link = 0; link < up.count; link++) {
        drawCable(draft, leaf, spines[link % spines.length]!, 'leaf-uplink', up.bytesPerSecond, spec.leafUplink.latencyNs);
      }
    }
    drawStorage(draft, spec, podName, zone, podId, spines);
    spinesByPod.push(spines);
  }
  return spec.coreUplink === undefined || spec.pods === 1 ? spinesByPod.flat() : drawCores(draft, spec, prefix, zone, spinesByPod);
}

function drawRacks(draft: TopologyDraft, spec: TreeSpec, podName: string, zone: number, pod: number): number[] {
  return times(spec.racksPerPod, (rack) => {
    const leafGroup = pod * spec.racksPerPod + rack;
    const leaf = drawNode(draft, 'leaf', `${podName}/rack${rack}/leaf0`, { zone, pod, leafGroup });
    for (let node = 0; node < spec.nodesPerRack; node++) {
      const server = leafGroup * spec.nodesPerRack + node;
      const place = { zone, pod, server };
      drawServer(draft, spec.server, `${podName}/rack${rack}/node${node}`, place, (_nic) => ({ leaf, leafGroup }));
    }
    return leaf;
  });
}

function drawRails(draft: TopologyDraft, spec: TreeSpec, podName: string, zone: number, pod: number): number[] {
  const rails = spec.server.nics;
  const leaves = times(rails, (rail) => drawNode(draft, 'leaf', `${podName}/rail${rail}`, { zone, pod, leafGroup: pod * rails + rail }));
  for (let rack = 0; rack < spec.racksPerPod; rack++) {
    for (let node = 0; node < spec.nodesPerRack; node++) {
      const server = (pod * spec.racksPerPod + rack) * spec.nodesPerRack + node;
      drawServer(draft, spec.server, `${podName}/rack${rack}/node${node}`, { zone, pod, server }, (nic) => ({
        leaf: leaves[nic]!,
        leafGroup: pod * rails + nic,
      }));
    }
  }
  return leaves;
}

function drawServer(
  draft: TopologyDraft,
  server: ServerSpec,
  name: string,
  place: { zone: number; pod: number; server: number },
  attachment: (nic: number) => { leaf: number; leafGroup: number },
): void {
  const nvswitch = drawNode(draft, 'nvswitch', `${name}/nvswitch`, place);
  const nicsPerGpu = Math.max(1, server.nics / server.gpus);
  const gpusPerNic = Math.max(1, server.gpus / server.nics);
  // A GPU belongs to the leaf of its first NIC: that is what tier 1 means for it.
  const gpus = times(server.gpus, (gpu) => {
    const { leafGroup } = attachment(Math.floor((gpu / gpusPerNic) * nicsPerGpu));
    const id = drawNode(draft, 'gpu', `${name}/gpu${gpu}`, { ...place, leafGroup });
    drawCable(draft, id, nvswitch, 'nvlink', server.nvlink.bytesPerSecond, server.nvlink.latencyNs);
    return id;
  });
  const host = server.host === undefined ? -1 : drawNode(draft, 'host', `${name}/host`, { ...place, leafGroup: attachment(0).leafGroup });
  for (let nic = 0; nic < server.nics; nic++) {
    const { leaf, leafGroup } = attachment(nic);
    const id = drawNode(draft, 'nic', `${name}/nic${nic}`, { ...place, leafGroup });
    drawCable(draft, id, leaf, 'nic', server.nic.bytesPerSecond, server.nic.latencyNs);
    for (let share = 0; share < gpusPerNic; share++) {
      const gpu = gpus[Math.floor(nic / nicsPerGpu) * gpusPerNic + share]!;
      drawCable(draft, gpu, id, 'pcie', server.pcie.bytesPerSecond / nicsPerGpu, server.pcie.latencyNs);
    }
    if (server.host !== undefined) drawCable(draft, host, id, 'host', server.host.bytesPerSecond, server.host.latencyNs);
  }
  if (server.host !== undefined) {
    for (const gpu of gpus) drawCable(draft, gpu, host, 'host', server.host.bytesPerSecond, server.host.latencyNs);
  }
}

function drawStorage(draft: TopologyDraft, spec: TreeSpec, podName: string, zone: number, pod: number, spines: number[]): void {
  if (spec.storage === undefined) return;
  for (let node = 0; node < spec.storage.nodesPerPod; node++) {
    const id = drawNode(draft, 'storage', `${podName}/storage${node}`, { zone, pod });
    joinAll(draft, id, spines, 'storage', spec.storage.link);
  }
}

function drawCores(draft: TopologyDraft, spec: TreeSpec, prefix: string, zone: number, spinesByPod: number[][]): number[] {
  const coreUplink = spec.coreUplink!;
  const ratio = spec.oversubscription;
  const up = oversubscribe('uplinksPerPod', coreUplink, spec.uplinksPerPod!, ratio?.core ?? 1, ratio?.by ?? 'slower-links');
  // Fewer links than cores would leave cores unreached: draw only those that are.
  const cores = times(Math.min(spec.cores!, up.count), (core) => drawNode(draft, 'core', `${prefix}core${core}`, { zone }));
  for (const spines of spinesByPod) {
    for (let link = 0; link < up.count; link++) {
      const spine = spines[Math.floor((link * spines.length) / up.count)]!;
      drawCable(draft, spine, cores[link % cores.length]!, 'core-uplink', up.bytesPerSecond, coreUplink.latencyNs);
    }
  }
  return cores;
}

function drawZones(draft: TopologyDraft, spec: MultiZoneSpec): void {
  const gatewaysByZone = times(spec.zones, (zone) => {
    const tops = drawTree(draft, spec.zone, `zone${zone}/`, zone);
    return times(spec.gatewaysPerZone, (gateway) => {
      const id = drawNode(draft, 'gateway', `zone${zone}/gateway${gateway}`, { zone });
      joinAll(draft, id, tops, 'gateway', spec.gatewayUplink);
      return id;
    });
  });
  for (let a = 0; a < spec.zones; a++) {
    for (let b = a + 1; b < spec.zones; b++) {
      const latencyNs = spec.interZoneLatencyNs?.[a]?.[b] ?? spec.interZone.latencyNs;
      gatewaysByZone[a]!.forEach((gateway, index) => {
        drawCable(draft, gateway, gatewaysByZone[b]![index]!, 'inter-zone', spec.interZone.bytesPerSecond, latencyNs);
      });
    }
  }
}

function joinAll(draft: TopologyDraft, node: number, others: number[], linkClass: 'storage' | 'gateway', link: LinkSpec): void {
  for (const other of others) drawCable(draft, node, other, linkClass, link.bytesPerSecond, link.latencyNs);
}

function times<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_unused, index) => make(index));
}
