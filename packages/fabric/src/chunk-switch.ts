import { CHUNK_DROPPED, enqueueChunk, finishSending, type OutputPort } from './output-port.js';

/**
 * A switch at chunk fidelity: output ports plus, per ingress link, the bytes that came in over it and have not left yet. When
 * these pass `pauseAboveBytes` the far end of the ingress is told to pause, when they fall to `resumeAtBytes` to go on
 * (priority flow control, IEEE 802.1Qbb, with one priority).
 */
export interface ChunkSwitch {
  ports: OutputPort[];
  ingressBytes: Float64Array;
  ingressPaused: Uint8Array;
  /** Infinity switches flow control off. */
  pauseAboveBytes: number;
  resumeAtBytes: number;
  pausesSent: number;
}

export function createChunkSwitch(ports: OutputPort[], ingressCount: number, pauseAboveBytes: number, resumeAtBytes: number): ChunkSwitch {
  if (!(resumeAtBytes >= 0 && resumeAtBytes < pauseAboveBytes)) {
    throw new Error(`resumeAtBytes is ${resumeAtBytes}; it must lie in 0..pauseAboveBytes (${pauseAboveBytes}), below it`);
  }
  return {
    ports,
    ingressBytes: new Float64Array(ingressCount),
    ingressPaused: new Uint8Array(ingressCount),
    pauseAboveBytes,
    resumeAtBytes,
    pausesSent: 0,
  };
}

/**
 * Bytes that may still come in after a pause is decided: what travels on the cable while the pause goes up it and the last
 * chunk comes down, one chunk begun just before at the far end, and the one that crossed the threshold. A queue limit needs this much above
 * the sum of its ingresses' thresholds to be lossless.
 */
export function pauseHeadroomBytes(bytesPerSecond: number, latencyNs: number, chunkBytes: number): number {
  return Math.ceil((2 * latencyNs * bytesPerSecond) / 1e9) + 2 * chunkBytes;
}

/**
 * Takes a chunk in over `ingress` for output `port`. Returns the outcome of `enqueueChunk`; when `shouldPause` says so
 * afterwards the caller sends a pause up the ingress.
 */
export function acceptChunk(
  chunkSwitch: ChunkSwitch,
  ingress: number,
  port: number,
  flowId: number,
  bytes: number,
  marked: boolean,
  uniform: () => number,
  source = -1,
  destination = -1,
): number {
  const outcome = enqueueChunk(chunkSwitch.ports[port]!, flowId, bytes, ingress, marked, uniform, source, destination);
  if (outcome !== CHUNK_DROPPED) chunkSwitch.ingressBytes[ingress]! += bytes;
  return outcome;
}

/** True, once per crossing, when the ingress must be paused now. */
export function shouldPause(chunkSwitch: ChunkSwitch, ingress: number): boolean {
  if (chunkSwitch.ingressPaused[ingress] === 1 || chunkSwitch.ingressBytes[ingress]! <= chunkSwitch.pauseAboveBytes) return false;
  chunkSwitch.ingressPaused[ingress] = 1;
  chunkSwitch.pausesSent++;
  return true;
}

/** The chunk at the head of a port has left. Returns true when its ingress (the port's `leftIngress`) is to be told to go on. */
export function releaseChunk(chunkSwitch: ChunkSwitch, port: number): boolean {
  const output = chunkSwitch.ports[port]!;
  finishSending(output);
  const ingress = output.leftIngress;
  chunkSwitch.ingressBytes[ingress]! -= output.leftBytes;
  if (chunkSwitch.ingressPaused[ingress] === 0 || chunkSwitch.ingressBytes[ingress]! > chunkSwitch.resumeAtBytes) return false;
  chunkSwitch.ingressPaused[ingress] = 0;
  return true;
}
