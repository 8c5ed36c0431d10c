import { type ActorId, type Context, record } from '@braess/kernel';
import { linkReport } from '@braess/protocol';
import type { ChunkPlan } from './chunk-options.js';
import { type ChunkNodeState, chunkTell, chunkTick, type PortBeat } from './chunk-state.js';
import type { OutputPort } from './output-port.js';

/** Port -> telemetry, each period with traffic and the first one without. */
export const portUse = record('portUse', ['link', 'utilisation', 'transferBytes', 'highestQueuedBytes', 'marks', 'pausedNs']);

/** Begins to report a node with traffic, on the same beat as all others. */
export function startTicking(plan: ChunkPlan, state: ChunkNodeState, context: Context): void {
  const { reportPeriodNs = 0 } = plan.options;
  if (!state.series.ticking && reportPeriodNs > 0) {
    state.series.ticking = true;
    context.send(context.self, chunkTick, reportPeriodNs - (context.now % reportPeriodNs));
  }
  if (state.telling !== null && !state.telling.ticking && plan.tellPeriodNs > 0) {
    state.telling.ticking = true;
    context.send(context.self, chunkTell, plan.tellPeriodNs - (context.now % plan.tellPeriodNs));
  }
}

/** Records what each port did in the last period; ends with the first period without traffic. */
export function recordPorts(plan: ChunkPlan, state: ChunkNodeState, context: Context): void {
  const periodNs = plan.options.reportPeriodNs as number;
  const busy = readPorts(plan, state, context, state.series, periodNs, (link, port, reading) => {
    context.emit(
      portUse,
      link,
      reading.cut ? 0 : reading.utilisation,
      reading.sentBytes,
      port.highestQueuedBytes,
      reading.marks,
      reading.pausedNs,
    );
  });
  if (busy) context.send(context.self, chunkTick, periodNs);
}

/** Tells the listeners what each port between servers did in the last period. */
export function tellPorts(plan: ChunkPlan, state: ChunkNodeState, context: Context): void {
  const { reportDelayNs = plan.options.leastDelayNs } = plan.options;
  const busy = readPorts(plan, state, context, state.telling as PortBeat, plan.tellPeriodNs, (link, _port, reading) => {
    if (!plan.isReported(link)) return;
    const { utilisation, sentBytes, flows, marks, pausedNs } = reading;
    for (const listener of state.listeners)
      context.send(listener as ActorId, linkReport, reportDelayNs, link, utilisation, sentBytes, flows, marks, pausedNs);
  });
  if (busy) context.send(context.self, chunkTell, plan.tellPeriodNs);
}

interface PortReading {
  /** 1 for a link that is cut: routers find no room there. */
  utilisation: number;
  cut: boolean;
  sentBytes: number;
  flows: number;
  marks: number;
  pausedNs: number;
}

/** Reads all ports and hands on those that did something or changed. True when there was traffic, so that the beat goes on. */
function readPorts(
  plan: ChunkPlan,
  state: ChunkNodeState,
  context: Context,
  beat: PortBeat,
  periodNs: number,
  changed: (link: number, port: OutputPort, reading: PortReading) => void,
): boolean {
  const links = plan.linksFrom(state.node);
  const { linkShare } = plan.routesFor(state.shares);
  beat.ticking = false;
  for (const [place, port] of state.chunkSwitch.ports.entries()) {
    const link = links[place]!;
    const pausedNs = port.pausedNs + (port.paused ? context.now - port.pausedSinceNs : 0);
    const sentBytes = port.sentBytes - beat.sentBytes[place]!;
    const newPausedNs = pausedNs - beat.pausedNs[place]!;
    const offeredBytes = (plan.topology.linkBytesPerSecond[link]! * linkShare[link]! * periodNs) / 1e9;
    const utilisation = offeredBytes === 0 ? 1 : Math.min(1, sentBytes / offeredBytes + plan.backgroundShare(link));
    const flows = beat.flows[place]!.size;
    const busy = sentBytes > 0 || newPausedNs > 0;
    if (busy || utilisation !== beat.utilisation[place] || flows !== beat.lastFlows[place])
      changed(link, port, {
        utilisation,
        cut: offeredBytes === 0,
        sentBytes,
        flows,
        marks: port.markedChunks - beat.marks[place]!,
        pausedNs: newPausedNs,
      });
    beat.sentBytes[place] = port.sentBytes;
    beat.marks[place] = port.markedChunks;
    beat.pausedNs[place] = pausedNs;
    beat.utilisation[place] = utilisation;
    beat.lastFlows[place] = flows;
    beat.flows[place]!.clear();
    if (busy || port.length > 0) beat.ticking = true;
  }
  return beat.ticking;
}
