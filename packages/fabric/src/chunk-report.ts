import { type ActorId, type Context, record } from '@braess/kernel';
import { linkReport } from '@braess/protocol';
import type { ChunkPlan } from './chunk-options.js';
import { type ChunkNodeState, chunkTick } from './chunk-state.js';
import type { OutputPort } from './output-port.js';

/** Port -> telemetry, each period with traffic. */
export const portUse = record('portUse', ['link', 'utilisation', 'transferBytes', 'highestQueuedBytes', 'marks', 'pausedNs']);

/** Begins to report a node with traffic, on the same beat as all others. */
export function startTicking(plan: ChunkPlan, state: ChunkNodeState, context: Context): void {
  const { reportPeriodNs = 0 } = plan.options;
  if (reportPeriodNs === 0 || state.ticking) return;
  state.ticking = true;
  context.send(context.self, chunkTick, reportPeriodNs - (context.now % reportPeriodNs));
}

/** Reports what each port did in the last period; ends with the traffic. */
export function reportPorts(plan: ChunkPlan, state: ChunkNodeState, context: Context): void {
  let busy = false;
  state.chunkSwitch.ports.forEach((port, place) => {
    busy = reportPort(plan, state, context, port, place) || busy || port.length > 0;
  });
  state.ticking = busy;
  if (busy) context.send(context.self, chunkTick, plan.options.reportPeriodNs as number);
}

function reportPort(plan: ChunkPlan, state: ChunkNodeState, context: Context, port: OutputPort, place: number): boolean {
  const sentBytes = port.sentBytes - state.lastSentBytes[place]!;
  const marks = port.markedChunks - state.lastMarks[place]!;
  const pausedNs = port.pausedNs + (port.paused ? context.now - port.pausedSinceNs : 0);
  const newPausedNs = pausedNs - state.lastPausedNs[place]!;
  if (sentBytes === 0 && newPausedNs === 0) return false;
  state.lastSentBytes[place] = port.sentBytes;
  state.lastMarks[place] = port.markedChunks;
  state.lastPausedNs[place] = pausedNs;
  const link = plan.linksFrom(state.node)[place]!;
  const utilisation = (sentBytes * 1e9) / (plan.topology.linkBytesPerSecond[link]! * (plan.options.reportPeriodNs as number));
  context.emit(portUse, link, utilisation, sentBytes, port.highestQueuedBytes, marks, newPausedNs);
  for (const listener of state.listeners) {
    context.send(listener as ActorId, linkReport, plan.options.leastDelayNs, link, utilisation, sentBytes, port.length, marks, newPausedNs);
  }
  return true;
}
