import { pauseHeadroomBytes } from './chunk-switch.js';
import { INSIDE_SERVER, type OnOffSpec } from './fabric-options.js';
import { createOutputPort, ecnSettings, type OutputPort } from './output-port.js';
import { createRoutes, nextLink, type Routes, setLinkShare } from './routing.js';
import { LINK_CLASSES, type LinkClass, NODE_KINDS, type Topology } from './topology.js';

/** What a run's fabric is made of at chunk fidelity: constants, known to every thread, no part of any state. */
export interface ChunkOptions {
  readonly topology: Topology;
  /** Bytes that move as one (default 65,536). */
  readonly chunkBytes?: number;
  /** Least delay of the answers to requesters (the lookahead rule between servers). */
  readonly leastDelayNs: number;
  /** Mark at queues between servers and slow senders down (default true). */
  readonly congestionControl?: boolean;
  /** Bytes of one ingress above which its far end is paused (default 8 chunks); Infinity: no flow control, queues drop. */
  readonly pauseAboveBytes?: number;
  /** Bytes a port may queue; default: enough that nothing is lost under flow control. */
  readonly queueLimitBytes?: number;
  readonly avoidBelowShare?: number;
  /** From a change of links until every node routes by it; also the lookahead from the fabric actor to all nodes (default 1 ms). */
  readonly convergenceNs?: number;
  /** How long a transfer without any way waits before it is reported as unreachable (default 1 s). */
  readonly unreachableAfterNs?: number;
  /** Constant share of capacity taken by background traffic, by link class, below 1: its ports are as much slower. */
  readonly backgroundShare?: Partial<Record<LinkClass, number>>;
  /** Background flows between endpoints; they go on until `onOffUntilNs`, which must be given with them, since no node knows when the others rest. */
  readonly onOff?: readonly OnOffSpec[];
  readonly onOffUntilNs?: number;
  /** Period of the records of ports with traffic; 0 or absent: none. */
  readonly reportPeriodNs?: number;
  /** Period of the reports to listeners (default `reportPeriodNs`). Chunks have no rate of the moment: for 0 it is 1 ms. */
  readonly tellPeriodNs?: number;
  /** Delay of these reports (default `leastDelayNs`). */
  readonly reportDelayNs?: number;
}

const PAUSE_CHUNKS = 8;

/** What all nodes share: places of links at their nodes, routes by what is cut. Pure functions of the options, kept once a thread. */
export class ChunkPlan {
  readonly options: ChunkOptions;
  readonly topology: Topology;
  readonly chunkBytes: number;
  readonly pauseAboveBytes: number;
  readonly tellPeriodNs: number;
  readonly healthy: Routes;
  /** Place of each link among those that leave, or enter, its node. */
  readonly outPlace: Int32Array;
  readonly inPlace: Int32Array;
  readonly #routes = new Map<string, Routes>();

  constructor(options: ChunkOptions) {
    const { topology, chunkBytes = 65_536, leastDelayNs, convergenceNs = 1e6, unreachableAfterNs = 1e9, reportPeriodNs = 0 } = options;
    const { tellPeriodNs = reportPeriodNs, reportDelayNs = leastDelayNs } = options;
    const times = { leastDelayNs, convergenceNs, unreachableAfterNs, reportPeriodNs, tellPeriodNs, reportDelayNs };
    for (const [name, value] of Object.entries({ chunkBytes, ...times })) {
      const least = name === 'chunkBytes' || name === 'convergenceNs' ? 1 : 0;
      if (!(Number.isSafeInteger(value) && value >= least)) {
        throw new Error(`chunk fabric: ${name} is ${value}; it must be a whole number, ${least} or more`);
      }
    }
    this.options = options;
    this.topology = topology;
    this.tellPeriodNs = options.tellPeriodNs === 0 ? 1e6 : tellPeriodNs;
    this.checkBackground();
    this.chunkBytes = chunkBytes;
    this.pauseAboveBytes = options.pauseAboveBytes ?? PAUSE_CHUNKS * chunkBytes;
    this.healthy = createRoutes(topology, options.avoidBelowShare ?? 0);
    this.outPlace = placesOf(topology.outgoingStart, topology.outgoingLinks);
    this.inPlace = placesOf(topology.incomingStart, topology.incomingLinks);
  }

  linksFrom(node: number): Int32Array {
    return this.topology.outgoingLinks.subarray(this.topology.outgoingStart[node]!, this.topology.outgoingStart[node + 1]!);
  }

  linksTo(node: number): Int32Array {
    return this.topology.incomingLinks.subarray(this.topology.incomingStart[node]!, this.topology.incomingStart[node + 1]!);
  }

  isEndpoint(node: number): boolean {
    return ['gpu', 'host', 'storage'].includes(NODE_KINDS[this.topology.nodeKinds[node]!]!);
  }

  /** Routes over what the shares leave: link, share, link, share, ... in ascending order of links. */
  routesFor(shares: readonly number[]): Routes {
    if (shares.length === 0) return this.healthy;
    const key = shares.join(' ');
    const known = this.#routes.get(key);
    if (known !== undefined) return known;
    const routes = createRoutes(this.topology, this.options.avoidBelowShare ?? 0);
    for (let index = 0; index < shares.length; index += 2) setLinkShare(this.topology, routes, shares[index]!, shares[index + 1]!);
    if (this.#routes.size >= 8) this.#routes.clear();
    this.#routes.set(key, routes);
    return routes;
  }

  /** The link that leads control messages on. They travel beside the queues, on a management network of the same shape that does not fail. */
  signalLink(node: number, target: number, flowId: number): number {
    return nextLink(this.topology, this.healthy, node, node, target, flowId);
  }

  /** Share of a link that background takes. */
  backgroundShare(link: number): number {
    return this.options.backgroundShare?.[LINK_CLASSES[this.topology.linkClasses[link]!]!] ?? 0;
  }

  /** What background leaves of a whole link. */
  ownBytesPerSecond(link: number): number {
    return this.topology.linkBytesPerSecond[link]! * (1 - this.backgroundShare(link));
  }

  /** Whether listeners hear of a link: all but those inside servers. */
  isReported(link: number): boolean {
    return !INSIDE_SERVER.includes(LINK_CLASSES[this.topology.linkClasses[link]!]!);
  }

  createPort(link: number): OutputPort {
    const { chunkBytes, options } = this;
    const speed = this.ownBytesPerSecond(link);
    const limit = options.queueLimitBytes ?? this.losslessBytes(this.topology.linkFrom[link]!);
    const settings = ecnSettings(speed, chunkBytes, limit);
    const marks = options.congestionControl !== false && this.isReported(link);
    return createOutputPort(
      speed,
      marks ? settings : { ...settings, ecnMinBytes: Number.POSITIVE_INFINITY, ecnMaxBytes: Number.POSITIVE_INFINITY },
    );
  }

  /** Speed at which a sender starts on a link: behind PCIe it is the NIC that paces. */
  lineBytesPerSecond(link: number): number {
    const { topology } = this;
    const own = this.ownBytesPerSecond(link);
    const to = topology.linkTo[link]!;
    if (NODE_KINDS[topology.nodeKinds[to]!] !== 'nic') return own;
    const network = Array.from(this.linksFrom(to)).filter((each) => LINK_CLASSES[topology.linkClasses[each]!] === 'nic');
    return Math.min(own, network.reduce((sum, each) => sum + this.ownBytesPerSecond(each), 0) || own);
  }

  private checkBackground(): void {
    const { backgroundShare = {}, onOff = [], onOffUntilNs } = this.options;
    for (const [name, share] of Object.entries(backgroundShare)) {
      if (!LINK_CLASSES.includes(name as LinkClass))
        throw new Error(`chunk fabric: backgroundShare names link class "${name}"; allowed: ${LINK_CLASSES.join(', ')}`);
      if (!(share >= 0 && share < 1)) throw new Error(`chunk fabric: backgroundShare.${name} is ${share}; it must lie in 0..1, below 1`);
    }
    if (onOff.length > 0 && onOffUntilNs === undefined)
      throw new Error('chunk fabric: on-off background needs onOffUntilNs: no node knows when the others are done');
    for (const [index, { source, destination }] of onOff.entries()) {
      for (const node of [source, destination]) {
        if (!(node >= 0 && node < this.topology.nodeCount && this.isEndpoint(node)))
          throw new Error(`chunk fabric: onOff[${index}] names node ${node}; it must be a GPU, host or storage node`);
      }
    }
  }

  /** Room for every ingress at its threshold plus what comes in before the pause works. */
  private losslessBytes(node: number): number {
    if (this.pauseAboveBytes === Number.POSITIVE_INFINITY) {
      throw new Error('chunk fabric: pauseAboveBytes is Infinity, so queueLimitBytes must say where queues drop; give both');
    }
    let bytes = 2 * this.chunkBytes;
    for (const link of this.linksTo(node)) {
      const { linkBytesPerSecond, linkLatencyNs } = this.topology;
      bytes += this.pauseAboveBytes + pauseHeadroomBytes(linkBytesPerSecond[link]!, linkLatencyNs[link]!, this.chunkBytes);
    }
    return bytes;
  }
}

function placesOf(start: Int32Array, links: Int32Array): Int32Array {
  const places = new Int32Array(links.length);
  for (let node = 0; node + 1 < start.length; node++) {
    for (let index = start[node]!; index < start[node + 1]!; index++) places[links[index]!] = index - start[node]!;
  }
  return places;
}
