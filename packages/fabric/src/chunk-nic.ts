import { createRateControl, cutRate, noteSent, passTime, type RateControl, type RateControlSettings } from './rate-control.js';

/** Sending side of a NIC: flows cut into chunks, each paced at its own rate. Plain data; the wire itself is an OutputPort. */
export interface ChunkSender {
  chunkBytes: number;
  /** Most flows at once. */
  flowLimit: number;
  settings: RateControlSettings;
  flows: SenderFlow[];
}

/** A transfer, or a background flow, as its NIC sends it. */
export interface SenderFlow {
  flowId: number;
  leftBytes: number;
  /** Most it sends, whatever congestion control allows; Infinity for transfers. */
  capBytesPerSecond: number;
  /** Not before this moment may the next chunk start. */
  nextSendNs: number;
  control: RateControl;
}

export function createChunkSender(chunkBytes: number, settings: RateControlSettings, flowLimit = 4096): ChunkSender {
  if (!(Number.isInteger(chunkBytes) && chunkBytes > 0)) throw new Error(`chunkBytes is ${chunkBytes}; it must be a whole number above 0`);
  return { chunkBytes, flowLimit, settings: { ...settings }, flows: [] };
}

export function startSenderFlow(
  sender: ChunkSender,
  flowId: number,
  sizeBytes: number,
  nowNs: number,
  capBytesPerSecond = Number.POSITIVE_INFINITY,
): void {
  if (sender.flows.length >= sender.flowLimit) throw new Error(`the NIC has ${sender.flowLimit} flows, its limit; raise flowLimit`);
  if (!(Number.isSafeInteger(sizeBytes) && sizeBytes > 0))
    throw new Error(`size of flow ${flowId} is ${sizeBytes}; it must be whole, above 0`);
  const control = createRateControl(sender.settings, nowNs);
  sender.flows.push({ flowId, leftBytes: sizeBytes, capBytesPerSecond, nextSendNs: nowNs, control });
}

/** Index of the flow whose chunk may go first (earliest, then longest waiting), or -1 when there is none. See its `nextSendNs`. */
export function nextSenderFlow(sender: ChunkSender): number {
  let best = -1;
  for (let i = 0; i < sender.flows.length; i++) {
    if (best === -1 || sender.flows[i]!.nextSendNs < sender.flows[best]!.nextSendNs) best = i;
  }
  return best;
}

/**
 * Cuts the next chunk off flow `index` at `nowNs` and paces the flow. Returns the bytes of the chunk. A flow that is done is
 * taken off; one that is not goes to the end, so that equals take turns.
 */
export function cutChunk(sender: ChunkSender, index: number, nowNs: number): number {
  const flow = sender.flows[index]!;
  const { settings } = sender;
  const bytes = Math.min(sender.chunkBytes, flow.leftBytes);
  passTime(flow.control, settings, nowNs);
  // Paced from when it was due, not from when its turn came, but a flow kept waiting does not save up a burst.
  const periodNs = (bytes * 1e9) / Math.min(flow.control.currentBytesPerSecond, flow.capBytesPerSecond);
  flow.nextSendNs = Math.max(nowNs, Math.ceil(flow.nextSendNs + periodNs));
  flow.leftBytes -= bytes;
  noteSent(flow.control, settings, bytes);
  sender.flows.splice(index, 1);
  if (flow.leftBytes > 0) sender.flows.push(flow);
  return bytes;
}

/** A congestion notification for a flow; one that has sent everything already needs none. */
export function notifySender(sender: ChunkSender, flowId: number, nowNs: number): void {
  const flow = sender.flows.find((candidate) => candidate.flowId === flowId);
  if (flow !== undefined) cutRate(flow.control, sender.settings, nowNs);
}

/** A chunk of the flow was dropped on its way: its bytes are to be sent again. */
export function resendDropped(sender: ChunkSender, flowId: number, bytes: number, nowNs: number): void {
  const flow = sender.flows.find((candidate) => candidate.flowId === flowId);
  if (flow !== undefined) flow.leftBytes += bytes;
  else startSenderFlow(sender, flowId, bytes, nowNs);
}

/** Receiving side: bytes per flow, and when its sender was last told of congestion. */
export interface ChunkReceiver {
  notificationPeriodNs: number;
  receivedBytes: Map<number, number>;
  lastNotificationNs: Map<number, number>;
}

export function createChunkReceiver(notificationPeriodNs: number): ChunkReceiver {
  return { notificationPeriodNs, receivedBytes: new Map(), lastNotificationNs: new Map() };
}

/** Takes a chunk in. Returns true when a congestion notification must go to its sender now. */
export function receiveChunk(receiver: ChunkReceiver, flowId: number, bytes: number, marked: boolean, nowNs: number): boolean {
  receiver.receivedBytes.set(flowId, (receiver.receivedBytes.get(flowId) ?? 0) + bytes);
  if (!marked) return false;
  const last = receiver.lastNotificationNs.get(flowId);
  if (last !== undefined && nowNs - last < receiver.notificationPeriodNs) return false;
  receiver.lastNotificationNs.set(flowId, nowNs);
  return true;
}

/** Forgets a flow that has ended; returns the bytes received. */
export function closeReceiverFlow(receiver: ChunkReceiver, flowId: number): number {
  const bytes = receiver.receivedBytes.get(flowId) ?? 0;
  receiver.receivedBytes.delete(flowId);
  receiver.lastNotificationNs.delete(flowId);
  return bytes;
}
