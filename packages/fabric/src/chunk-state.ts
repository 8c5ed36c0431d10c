import { type ActorReference, message, type TimerId } from '@braess/kernel';
import { type ChunkReceiver, type ChunkSender, createChunkReceiver, createChunkSender } from './chunk-nic.js';
import type { ChunkPlan } from './chunk-options.js';
import { type ChunkSwitch, createChunkSwitch } from './chunk-switch.js';
import type { OnOffSource } from './on-off.js';
import { dcqcnSettings } from './rate-control.js';

/** What the program passes for the actor of each node of the topology. */
export interface ChunkNodeSetup {
  readonly node: number;
  /** Actor of each node, by node id. */
  readonly actors: readonly ActorReference[];
  /** Who hears the reports of this node's ports. */
  readonly listeners: readonly ActorReference[];
}

/** A transfer at its source. */
export interface Outgoing {
  readonly destination: number;
  readonly startNs: number;
  /** Link it leaves on; -1 while there is no way. */
  link: number;
  /** Bytes to send once there is a way again. */
  heldBytes: number;
  /** Most it sends; Infinity for transfers. */
  readonly capBytesPerSecond: number;
  timer: TimerId;
}

/** A transfer at its destination; -1 until it has been announced. */
export interface Incoming {
  transferBytes: number;
  startNs: number;
  source: number;
}

/** One rhythm of reading a node's ports, and what was read last, by place. */
export interface PortBeat {
  ticking: boolean;
  readonly sentBytes: Float64Array;
  readonly marks: Float64Array;
  readonly pausedNs: Float64Array;
  readonly utilisation: Float64Array;
  /** Flows that sent in this period, and their number in the last. */
  readonly flows: Set<number>[];
  readonly lastFlows: Int32Array;
}

function createPortBeat(ports: number, utilisation: number): PortBeat {
  return {
    ticking: false,
    sentBytes: new Float64Array(ports),
    marks: new Float64Array(ports),
    pausedNs: new Float64Array(ports),
    utilisation: new Float64Array(ports).fill(utilisation),
    flows: Array.from({ length: ports }, () => new Set<number>()),
    lastFlows: new Int32Array(ports),
  };
}

/** State of one node: a GPU, NIC, NVLink switch, switch, host or storage node. */
export interface ChunkNodeState {
  readonly node: number;
  /** Actor id of the far end of each outgoing and each incoming link, by place. */
  readonly outActors: Int32Array;
  readonly inActors: Int32Array;
  readonly listeners: number[];
  readonly chunkSwitch: ChunkSwitch;
  /** One sender an outgoing link; none at nodes that only pass on. */
  readonly senders: ChunkSender[];
  /** Pending wake-up of each sender: moment (-1: none) and timer. */
  readonly injectNs: Float64Array;
  readonly injectTimers: Float64Array;
  readonly receiver: ChunkReceiver;
  readonly outgoing: Map<number, Outgoing>;
  readonly incoming: Map<number, Incoming>;
  /** Shares of links that are not whole: link, share, ... ascending by link. */
  shares: number[];
  /** Records of the time series, and reports to listeners (null: there are none). */
  readonly series: PortBeat;
  readonly telling: PortBeat | null;
  /** On-off background that starts here, and the number of each in the fabric's list. */
  readonly sources: OnOffSource[];
  readonly sourceNumbers: number[];
  /** Bytes of background that ended here. */
  backgroundBytes: number;
  acceptedBytes: number;
  deliveredBytes: number;
  /** Bytes that arrived for a transfer already given up. */
  strayBytes: number;
}

export const chunk = message('chunk', ['flow', 'bytes', 'source', 'destination', 'link', 'marked']);
export const chunkLeft = message('chunkLeft', ['place']);
export const chunkInject = message('chunkInject', ['place']);
export const chunkPause = message('chunkPause', ['link', 'paused']);
export const chunkSignal = message('chunkSignal', ['code', 'flow', 'value', 'timeNs', 'origin', 'target']);
export const chunkUnreachable = message('chunkUnreachable', ['flow']);
export const chunkTick = message('chunkTick');
export const chunkTell = message('chunkTell');
export const chunkToggle = message('chunkToggle', ['place']);
/** Fabric actor -> every node: from now on route by this share of a link. */
export const chunkLinkShare = message('chunkLinkShare', ['first', 'count', 'share']);

export const code = { announce: 0, congestion: 1, lost: 2, close: 3 } as const;

/** The state of a node at rest. */
export function createNodeState(plan: ChunkPlan, { node, actors, listeners }: ChunkNodeSetup): ChunkNodeState {
  const { topology, chunkBytes, pauseAboveBytes } = plan;
  const [out, into] = [Array.from(plan.linksFrom(node)), Array.from(plan.linksTo(node))];
  const resumeAtBytes = pauseAboveBytes === Number.POSITIVE_INFINITY ? 0 : Math.floor(pauseAboveBytes / 2);
  // The last ingress is the node's own sending.
  const chunkSwitch = createChunkSwitch(
    out.map((link) => plan.createPort(link)),
    into.length + 1,
    pauseAboveBytes,
    resumeAtBytes,
  );
  return {
    node,
    outActors: Int32Array.from(out, (link) => (actors[topology.linkTo[link]!] as ActorReference).id),
    inActors: Int32Array.from(into, (link) => (actors[topology.linkFrom[link]!] as ActorReference).id),
    listeners: listeners.map((listener) => listener.id),
    chunkSwitch,
    senders: plan.isEndpoint(node) ? out.map((link) => createChunkSender(chunkBytes, dcqcnSettings(plan.lineBytesPerSecond(link)))) : [],
    injectNs: new Float64Array(out.length).fill(-1),
    injectTimers: new Float64Array(out.length).fill(-1),
    receiver: createChunkReceiver(dcqcnSettings(1).notificationPeriodNs),
    outgoing: new Map(),
    incoming: new Map(),
    shares: [],
    series: createPortBeat(out.length, 0),
    telling: listeners.length === 0 ? null : createPortBeat(out.length, -1),
    sources: [],
    sourceNumbers: [],
    backgroundBytes: 0,
    acceptedBytes: 0,
    deliveredBytes: 0,
    strayBytes: 0,
  };
}
