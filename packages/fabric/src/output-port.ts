/** Chunk fidelity: the output queue of one link, first in first out, store and forward. Plain data; owned by the link's sending end. */
export interface OutputPort {
  bytesPerSecond: number;
  queueLimitBytes: number;
  ecnMinBytes: number;
  ecnMaxBytes: number;
  ecnMaxProbability: number;
  // Ring of queued chunks; the one being sent stays at the head, and in the byte count, until it has left.
  chunkFlow: Float64Array;
  chunkBytes: Float64Array;
  chunkIngress: Int32Array;
  chunkMarked: Uint8Array;
  /** Nodes the chunk comes from and goes to; -1 where the caller knows by the flow. */
  chunkSource: Int32Array;
  chunkDestination: Int32Array;
  head: number;
  length: number;
  queuedBytes: number;
  sending: boolean;
  paused: boolean;
  pausedSinceNs: number;
  // The chunk that `finishSending` has just taken off.
  leftFlow: number;
  leftBytes: number;
  leftIngress: number;
  leftMarked: boolean;
  leftSource: number;
  leftDestination: number;
  // Counters.
  sentBytes: number;
  sentChunks: number;
  markedChunks: number;
  droppedChunks: number;
  droppedBytes: number;
  pauses: number;
  pausedNs: number;
  busyNs: number;
  highestQueuedBytes: number;
}

/** Limits and marking thresholds of a port queue. */
export interface OutputPortSettings {
  /** A chunk that would take the queue above this is dropped. */
  queueLimitBytes: number;
  /** RED marking: never below min, with probability rising to `ecnMaxProbability` at max, always above max. */
  ecnMinBytes: number;
  ecnMaxBytes: number;
  ecnMaxProbability: number;
}

/**
 * ECN thresholds in proportion to link speed: 100 KB and 400 KB at 25 Gb/s, probability 0.2 at most, the setting of the HPCC
 * paper's DCQCN runs (Li et al., SIGCOMM 2019, and its public ns-3 code). At least 2 and 8 chunks, since a chunk is far larger than a packet.
 */
export function ecnSettings(bytesPerSecond: number, chunkBytes: number, queueLimitBytes: number): OutputPortSettings {
  const speed = bytesPerSecond / 3.125e9;
  return {
    queueLimitBytes,
    ecnMinBytes: Math.max(2 * chunkBytes, Math.round(100e3 * speed)),
    ecnMaxBytes: Math.max(8 * chunkBytes, Math.round(400e3 * speed)),
    ecnMaxProbability: 0.2,
  };
}

/** RoCE's largest packet (path MTU 4096, InfiniBand Architecture Specification). */
const PACKET_BYTES = 4096;

export const CHUNK_DROPPED = 0;
export const CHUNK_QUEUED = 1;
export const CHUNK_MARKED = 2;

export function createOutputPort(bytesPerSecond: number, settings: OutputPortSettings): OutputPort {
  if (!(bytesPerSecond > 0)) throw new Error(`speed of an output port is ${bytesPerSecond} bytes/s; it must be above 0`);
  if (!(settings.ecnMinBytes <= settings.ecnMaxBytes)) {
    throw new Error(`ecnMinBytes is ${settings.ecnMinBytes}, above ecnMaxBytes (${settings.ecnMaxBytes})`);
  }
  const slots = 16;
  return {
    bytesPerSecond,
    queueLimitBytes: settings.queueLimitBytes,
    ecnMinBytes: settings.ecnMinBytes,
    ecnMaxBytes: settings.ecnMaxBytes,
    ecnMaxProbability: settings.ecnMaxProbability,
    chunkFlow: new Float64Array(slots),
    chunkBytes: new Float64Array(slots),
    chunkIngress: new Int32Array(slots),
    chunkMarked: new Uint8Array(slots),
    chunkSource: new Int32Array(slots),
    chunkDestination: new Int32Array(slots),
    head: 0,
    length: 0,
    queuedBytes: 0,
    sending: false,
    paused: false,
    pausedSinceNs: 0,
    leftFlow: -1,
    leftBytes: 0,
    leftIngress: -1,
    leftMarked: false,
    leftSource: -1,
    leftDestination: -1,
    sentBytes: 0,
    sentChunks: 0,
    markedChunks: 0,
    droppedChunks: 0,
    droppedBytes: 0,
    pauses: 0,
    pausedNs: 0,
    busyNs: 0,
    highestQueuedBytes: 0,
  };
}

/** Queues a chunk. Returns CHUNK_DROPPED, CHUNK_QUEUED or CHUNK_MARKED (by this port). Draws once, between the ECN thresholds only. */
export function enqueueChunk(
  port: OutputPort,
  flowId: number,
  bytes: number,
  ingress: number,
  marked: boolean,
  uniform: () => number,
  source = -1,
  destination = -1,
): number {
  if (port.queuedBytes + bytes > port.queueLimitBytes) {
    port.droppedChunks++;
    port.droppedBytes += bytes;
    return CHUNK_DROPPED;
  }
  const marksNow = shouldMark(port, bytes, uniform);
  if (marksNow) port.markedChunks++;
  if (port.length === port.chunkFlow.length) growRing(port);
  const at = (port.head + port.length++) % port.chunkFlow.length;
  port.chunkFlow[at] = flowId;
  port.chunkBytes[at] = bytes;
  port.chunkIngress[at] = ingress;
  port.chunkMarked[at] = marked || marksNow ? 1 : 0;
  port.chunkSource[at] = source;
  port.chunkDestination[at] = destination;
  port.queuedBytes += bytes;
  if (port.queuedBytes > port.highestQueuedBytes) port.highestQueuedBytes = port.queuedBytes;
  return marksNow ? CHUNK_MARKED : CHUNK_QUEUED;
}

/** A switch marks packet by packet; a chunk counts as marked when one of its packets would be. */
function shouldMark(port: OutputPort, bytes: number, uniform: () => number): boolean {
  if (port.queuedBytes <= port.ecnMinBytes) return false;
  if (port.queuedBytes > port.ecnMaxBytes) return true;
  const rise = (port.queuedBytes - port.ecnMinBytes) / (port.ecnMaxBytes - port.ecnMinBytes);
  return uniform() < -Math.expm1((bytes / PACKET_BYTES) * Math.log1p(-rise * port.ecnMaxProbability));
}

/** Starts on the chunk at the head. Returns when it will have left, or -1 when busy, paused or empty. */
export function startSending(port: OutputPort, nowNs: number): number {
  if (port.sending || port.paused || port.length === 0) return -1;
  port.sending = true;
  const durationNs = Math.ceil((port.chunkBytes[port.head]! * 1e9) / port.bytesPerSecond - 1e-6);
  port.busyNs += durationNs;
  return nowNs + durationNs;
}

/** The chunk at the head has left: takes it off into the `left` fields. Throws when none was being sent. */
export function finishSending(port: OutputPort): void {
  if (!port.sending) throw new Error('finishSending without startSending: the port is not sending a chunk');
  const at = port.head;
  port.sending = false;
  port.leftFlow = port.chunkFlow[at]!;
  port.leftBytes = port.chunkBytes[at]!;
  port.leftIngress = port.chunkIngress[at]!;
  port.leftMarked = port.chunkMarked[at] === 1;
  port.leftSource = port.chunkSource[at]!;
  port.leftDestination = port.chunkDestination[at]!;
  port.head = (at + 1) % port.chunkFlow.length;
  port.length--;
  port.queuedBytes -= port.leftBytes;
  port.sentBytes += port.leftBytes;
  port.sentChunks++;
}

/** The far end says pause (true) or resume (false). A chunk being sent goes on to its end. */
export function setPaused(port: OutputPort, paused: boolean, nowNs: number): void {
  if (port.paused === paused) return;
  port.paused = paused;
  if (paused) {
    port.pauses++;
    port.pausedSinceNs = nowNs;
  } else port.pausedNs += nowNs - port.pausedSinceNs;
}

function growRing(port: OutputPort): void {
  const before = port.chunkFlow.length;
  // Unrolled by one turn: what lies before the head moves behind the end.
  for (const name of ['chunkFlow', 'chunkBytes'] as const) port[name] = unrolled(port[name], new Float64Array(before * 2), port.head);
  for (const name of ['chunkIngress', 'chunkSource', 'chunkDestination'] as const) {
    port[name] = unrolled(port[name], new Int32Array(before * 2), port.head);
  }
  port.chunkMarked = unrolled(port.chunkMarked, new Uint8Array(before * 2), port.head);
  port.head = 0;
}

function unrolled<Column extends Float64Array | Int32Array | Uint8Array>(from: Column, to: Column, head: number): Column {
  to.set(from.subarray(head));
  to.set(from.subarray(0, head), from.length - head);
  return to;
}
