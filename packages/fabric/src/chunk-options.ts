import { pauseHeadroomBytes } from './chunk-switch.js';
import { createOutputPort, ecnSettings, type OutputPort } from './output-port.js';
import { createRoutes, nextLink, type Routes, setLinkShare } from './routing.js';
import { LINK_CLASSES, NODE_KINDS, type Topology } from './topology.js';

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
  /** Period of records and reports of ports with traffic; 0 or absent: none. */
  readonly reportPeriodNs?: number;
}

const PAUSE_CHUNKS = 8;
const INSIDE_SERVER = ['nvlink', 'pcie', 'host'];

/** What all nodes share: places of links at their nodes, routes by what is cut. Pure functions of the options, kept once a thread. */
export class ChunkPlan {
  readonly options: ChunkOptions;
  readonly topology: Topology;
  readonly chunkBytes: number;
  readonly pauseAboveBytes: number;
  readonly healthy: Routes;
  /** Place of each link among those that leave, or enter, its node. */
  readonly outPlace: Int32Array;
  readonly inPlace: Int32Array;
  readonly #routes = new Map<string, Routes>();

  constructor(options: ChunkOptions) {
    const { topology, chunkBytes = 65_536, leastDelayNs, convergenceNs = 1e6, unreachableAfterNs = 1e9, reportPeriodNs = 0 } = options;
    for (const [name, value] of Object.entries({ chunkBytes, leastDelayNs, convergenceNs, unreachableAfterNs, reportPeriodNs })) {
      const least = name === 'chunkBytes' || name === 'convergenceNs' ? 1 : 0;
      if (!(Number.isSafeInteger(value) && value >= least)) {
        throw new Error(`chunk fabric: ${name} is ${value}; it must be a whole number, ${least} or more`);
      }
    }
    this.options = options;
    this.topology = topology;
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

  createPort(link: number): OutputPort {
    const { topology, chunkBytes, options } = this;
    const speed = topology.linkBytesPerSecond[link]!;
    const limit = options.queueLimitBytes ?? this.losslessBytes(topology.linkFrom[link]!);
    const settings = ecnSettings(speed, chunkBytes, limit);
    const marks = options.congestionControl !== false && !INSIDE_SERVER.includes(LINK_CLASSES[topology.linkClasses[link]!]!);
    return createOutputPort(
      speed,
      marks ? settings : { ...settings, ecnMinBytes: Number.POSITIVE_INFINITY, ecnMaxBytes: Number.POSITIVE_INFINITY },
    );
  }

  /** Speed at which a sender starts on a link: behind PCIe it is the NIC that paces. */
  lineBytesPerSecond(link: number): number {
    const { topology } = this;
    const own = topology.linkBytesPerSecond[link]!;
    const to = topology.linkTo[link]!;
    if (NODE_KINDS[topology.nodeKinds[to]!] !== 'nic') return own;
    const network = Array.from(this.linksFrom(to)).filter((each) => LINK_CLASSES[topology.linkClasses[each]!] === 'nic');
    return Math.min(own, network.reduce((sum, each) => sum + topology.linkBytesPerSecond[each]!, 0) || own);
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
