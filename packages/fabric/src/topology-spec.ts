/** Declarative description of a cluster network, as it stands in a scenario file, and its checks. */

/** One direction of a cable; the other direction is equal. */
export interface LinkSpec {
  bytesPerSecond: number;
  latencyNs: number;
}

/** A server: GPUs behind one NVLink switch, each GPU reaching its NICs over PCIe. */
export interface ServerSpec {
  gpus: number;
  /** NICs of the server: a divisor of `gpus` (neighbouring GPUs share one) or a multiple (each GPU has several). */
  nics: number;
  /** Per GPU, each way, to the NVLink switch. */
  nvlink: LinkSpec;
  /** Per GPU to its NIC; split evenly when a GPU has several NICs. */
  pcie: LinkSpec;
  /** Per NIC to its leaf switch. */
  nic: LinkSpec;
  /** When given, the server has a host-memory node, joined to every GPU and NIC by links of this size. */
  host?: LinkSpec;
}

/**
 * How far the uplinks fall short of the declared ones. `leaf` and `core` are ratios >= 1 (4 means 4:1);
 * `slower-links` divides each link's speed, `fewer-links` divides their number, which must come out whole.
 */
export interface OversubscriptionSpec {
  leaf?: number;
  core?: number;
  by: 'slower-links' | 'fewer-links';
}

/** A fat-tree (one leaf a rack) or a rail-optimised tree (in each pod one leaf a rail: NIC i of every server goes to rail i). */
export interface TreeSpec {
  kind: 'fat-tree' | 'rail-optimised';
  pods: number;
  racksPerPod: number;
  nodesPerRack: number;
  server: ServerSpec;
  spinesPerPod: number;
  /** Uplinks of one leaf, dealt over the pod's spines in turn; parallel links when there are more than spines. */
  uplinksPerLeaf: number;
  leafUplink: LinkSpec;
  /** Core switches; needed when there is more than one pod. */
  cores?: number;
  /** Uplinks of one pod to the core, dealt over spines in blocks and over cores in turn, alike in every pod. */
  uplinksPerPod?: number;
  coreUplink?: LinkSpec;
  oversubscription?: OversubscriptionSpec;
  /** Network storage nodes of each pod, each joined to every spine of the pod. */
  storage?: { nodesPerPod: number; link: LinkSpec };
}

/** Several equal trees, joined by gateways in a full mesh. Inter-zone latency: typically 1-5 ms, one way. */
export interface MultiZoneSpec {
  kind: 'multi-zone';
  zones: number;
  zone: TreeSpec;
  gatewaysPerZone: number;
  /** Each gateway to every core of its zone (to every spine when the zone has one pod). */
  gatewayUplink: LinkSpec;
  /** Gateway g of a zone to gateway g of every other zone. */
  interZone: LinkSpec;
  /** One-way latency by zone pair, overriding `interZone.latencyNs`; square and symmetric. */
  interZoneLatencyNs?: number[][];
}

/** What networks can be drawn. */
export type TopologySpec = TreeSpec | MultiZoneSpec;

/** Largest number of nodes, and of cables between switches, that a description may ask for: ids are used as array indexes throughout. */
export const NODE_LIMIT = 1_000_000;

function requireCount(path: string, value: number | undefined, least = 1): void {
  if (value === undefined || !Number.isInteger(value) || value < least) {
    throw new Error(`${path} is ${value}; it must be a whole number, at least ${least}`);
  }
}

function requireLink(path: string, link: LinkSpec | undefined): void {
  if (link === undefined) throw new Error(`${path} is missing; give bytesPerSecond and latencyNs`);
  if (!(link.bytesPerSecond > 0) || link.bytesPerSecond === Number.POSITIVE_INFINITY) {
    throw new Error(`${path}.bytesPerSecond is ${link.bytesPerSecond}; it must be a finite number above 0`);
  }
  requireCount(`${path}.latencyNs`, link.latencyNs, 0);
}

function requireServer(server: ServerSpec): void {
  requireCount('server.gpus', server.gpus);
  requireCount('server.nics', server.nics);
  if (server.gpus % server.nics !== 0 && server.nics % server.gpus !== 0) {
    throw new Error(`server.nics is ${server.nics}; with ${server.gpus} GPUs it must divide them or be a multiple of them`);
  }
  requireLink('server.nvlink', server.nvlink);
  requireLink('server.pcie', server.pcie);
  requireLink('server.nic', server.nic);
  if (server.host !== undefined) requireLink('server.host', server.host);
}

function requireRatio(path: string, ratio: number | undefined): void {
  if (ratio !== undefined && !(ratio >= 1 && Number.isFinite(ratio))) {
    throw new Error(`${path} is ${ratio}; it must be a finite number, at least 1 (4 means 4:1)`);
  }
}

/** Checks a tree description. Throws an error that names the field, its value and what is allowed. */
export function checkTree(spec: TreeSpec): void {
  requireCount('pods', spec.pods);
  requireCount('racksPerPod', spec.racksPerPod);
  requireCount('nodesPerRack', spec.nodesPerRack);
  requireServer(spec.server);
  requireCount('spinesPerPod', spec.spinesPerPod);
  requireCount('uplinksPerLeaf', spec.uplinksPerLeaf);
  requireLink('leafUplink', spec.leafUplink);
  if (spec.pods > 1) {
    requireCount('cores', spec.cores);
    requireCount('uplinksPerPod', spec.uplinksPerPod);
    requireLink('coreUplink', spec.coreUplink);
  }
  requireRatio('oversubscription.leaf', spec.oversubscription?.leaf);
  requireRatio('oversubscription.core', spec.oversubscription?.core);
  if (spec.storage !== undefined) {
    requireCount('storage.nodesPerPod', spec.storage.nodesPerPod);
    requireLink('storage.link', spec.storage.link);
  }
  requireSize(spec, 1, 0);
}

/** Refuses what would fill the memory before it is drawn. */
function requireSize(spec: TreeSpec, zones: number, gateways: number): void {
  const { pods, racksPerPod, server } = spec;
  const leaves = pods * (spec.kind === 'rail-optimised' ? server.nics : racksPerPod);
  const switches = leaves + pods * (spec.spinesPerPod + (spec.storage?.nodesPerPod ?? 0)) + (pods > 1 ? spec.cores! : 0) + gateways;
  const nodes = zones * (pods * racksPerPod * spec.nodesPerRack * (server.gpus + server.nics + 2) + switches);
  if (nodes > NODE_LIMIT)
    throw new Error(
      `the topology would have about ${nodes} nodes; the limit is ${NODE_LIMIT}: take fewer pods, racks, servers or switches`,
    );
  const cables = zones * (leaves * spec.uplinksPerLeaf + (pods > 1 ? pods * spec.uplinksPerPod! : 0));
  if (cables > NODE_LIMIT)
    throw new Error(
      `the topology would have ${cables} cables between switches; the limit is ${NODE_LIMIT}: lower uplinksPerLeaf or uplinksPerPod`,
    );
}

/** Checks a multi-zone description. Throws like `checkTree`. */
export function checkMultiZone(spec: MultiZoneSpec): void {
  requireCount('zones', spec.zones, 2);
  checkTree(spec.zone);
  requireCount('gatewaysPerZone', spec.gatewaysPerZone);
  requireSize(spec.zone, spec.zones, spec.gatewaysPerZone);
  requireLink('gatewayUplink', spec.gatewayUplink);
  requireLink('interZone', spec.interZone);
  const table = spec.interZoneLatencyNs;
  if (table === undefined) return;
  if (table.length !== spec.zones) throw new Error(`interZoneLatencyNs has ${table.length} rows; there are ${spec.zones} zones`);
  for (let a = 0; a < spec.zones; a++) {
    for (let b = 0; b < a; b++) {
      requireCount(`interZoneLatencyNs[${a}][${b}]`, table[a]?.[b], 0);
      if (table[a]?.[b] !== table[b]?.[a]) {
        throw new Error(`interZoneLatencyNs[${a}][${b}] is ${table[a]?.[b]} but [${b}][${a}] is ${table[b]?.[a]}; it must be symmetric`);
      }
    }
  }
}

/** A stage's links after oversubscription: speed of each and their number per lower switch (or pod). */
export function oversubscribe(
  path: string,
  link: LinkSpec,
  count: number,
  ratio: number,
  by: OversubscriptionSpec['by'],
): { bytesPerSecond: number; count: number } {
  if (by === 'slower-links') return { bytesPerSecond: link.bytesPerSecond / ratio, count };
  if (by !== 'fewer-links') throw new Error(`oversubscription.by is "${by as string}"; allowed: slower-links, fewer-links`);
  const fewer = count / ratio;
  if (!Number.isInteger(fewer) || fewer < 1) {
    throw new Error(`${path} is ${count}; divided by the oversubscription ${ratio} it must be whole, at least 1 (or use slower-links)`);
  }
  return { bytesPerSecond: link.bytesPerSecond, count: fewer };
}

/** The same network with its uplinks as they are drawn: their number and speed after oversubscription, which is then in them. */
export function drawnSpec(spec: TopologySpec): TopologySpec {
  if (spec.kind === 'multi-zone') return { ...spec, zone: drawnTree(spec.zone) };
  return drawnTree(spec);
}

function drawnTree({ oversubscription, ...tree }: TreeSpec): TreeSpec {
  const { leaf = 1, core = 1, by = 'slower-links' } = oversubscription ?? {};
  const { leafUplink, coreUplink, uplinksPerPod } = tree;
  const up = oversubscribe('uplinksPerLeaf', leafUplink, tree.uplinksPerLeaf, leaf, by);
  const drawn = { ...tree, uplinksPerLeaf: up.count, leafUplink: { ...leafUplink, bytesPerSecond: up.bytesPerSecond } };
  if (coreUplink === undefined || uplinksPerPod === undefined) return drawn;
  const top = oversubscribe('uplinksPerPod', coreUplink, uplinksPerPod, core, by);
  return { ...drawn, uplinksPerPod: top.count, coreUplink: { ...coreUplink, bytesPerSecond: top.bytesPerSecond } };
}
