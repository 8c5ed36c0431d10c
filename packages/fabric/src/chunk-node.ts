import { type ActorId, type ActorKind, actorKind, type Context } from '@braess/kernel';
import { cancelTransfer, startTransfer, transferEnded } from '@braess/protocol';
import { beginSources, toggleSource } from './chunk-background.js';
import {
  type ChunkSender,
  closeReceiverFlow,
  cutChunk,
  nextSenderFlow,
  notifySender,
  receiveChunk,
  resendDropped,
  startSenderFlow,
} from './chunk-nic.js';
import type { ChunkPlan } from './chunk-options.js';
import { recordPorts, startTicking, tellPorts } from './chunk-report.js';
import {
  type ChunkNodeSetup,
  type ChunkNodeState,
  chunk,
  chunkInject,
  chunkLeft,
  chunkLinkShare,
  chunkPause,
  chunkSignal,
  chunkTell,
  chunkTick,
  chunkToggle,
  chunkUnreachable,
  code,
  createNodeState,
  type Incoming,
  type Outgoing,
} from './chunk-state.js';
import { acceptChunk, releaseChunk, shouldPause } from './chunk-switch.js';
import { flowIdOf, requesterOf, transferOf, transferStatus, transfersAtEnd } from './flow-id.js';
import { requireNode } from './flow-network.js';
import { CHUNK_DROPPED, setPaused, startSending } from './output-port.js';
import { nextLink } from './routing.js';
import { tier } from './topology.js';

/** The kind of all nodes of a fabric at chunk fidelity. */
export function chunkNodeKind(plan: ChunkPlan): ActorKind<'chunkNode', string, ChunkNodeSetup> {
  const steps = new ChunkSteps(plan);
  return actorKind({
    name: 'chunkNode',
    messages: {
      startTransfer,
      cancelTransfer,
      chunk,
      chunkLeft,
      chunkInject,
      chunkPause,
      chunkSignal,
      chunkUnreachable,
      chunkTick,
      chunkTell,
      chunkToggle,
      chunkLinkShare,
    },
    streams: ['marks', 'background'],
    state: (setup: ChunkNodeSetup) => createNodeState(plan, setup),
    atEnd: ({ outgoing, incoming }) => [...transfersAtEnd(outgoing), ...transfersAtEnd(incoming)],
    start: (state, context) => steps.begin(state, context),
    on: {
      startTransfer(state, { sender, transfer, source, destination, transferBytes, weight }, context) {
        if (weight !== 1) throw new Error(`transfer ${transfer} has weight ${weight}; chunk fidelity knows none but 1, flow fidelity does`);
        steps.open(state, context, flowIdOf(sender, transfer), source, destination, transferBytes);
      },
      cancelTransfer: (state, { sender, transfer }, context) =>
        steps.giveUp(state, context, flowIdOf(sender, transfer), transferStatus.cancelled),
      chunk: (state, view, context) => steps.arrive(state, context, view),
      chunkLeft: (state, { place }, context) => steps.left(state, context, place),
      chunkInject(state, { place }, context) {
        state.injectNs[place] = -1;
        steps.inject(state, context, place);
      },
      chunkPause(state, { link, paused }, context) {
        const place = plan.outPlace[link]!;
        setPaused(state.chunkSwitch.ports[place]!, paused === 1, context.now);
        steps.send(state, context, place);
        steps.inject(state, context, place);
      },
      chunkSignal: (state, view, context) =>
        steps.signalled(state, context, view.code, view.flow, view.value, view.timeNs, view.origin, view.target),
      chunkUnreachable: (state, { flow }, context) => steps.giveUp(state, context, flow, transferStatus.unreachable),
      chunkTick: (state, _message, context) => recordPorts(plan, state, context),
      chunkTell: (state, _message, context) => tellPorts(plan, state, context),
      chunkToggle: (state, { place }, context) => toggleSource(steps, state, context, place),
      chunkLinkShare: (state, { first, count, share }, context) => steps.setShare(state, context, first, count, share),
    },
  });
}

type ChunkContext = Context<'marks' | 'background'>;

/** A chunk that has come over a link: the message itself, valid while it is handled. */
interface ArrivedChunk {
  readonly flow: number;
  readonly bytes: number;
  readonly source: number;
  readonly destination: number;
  readonly link: number;
  readonly marked: number;
}

/** Constants and the steps of a chunk's life; holds no state of its own. */
class ChunkSteps {
  readonly plan: ChunkPlan;

  constructor(plan: ChunkPlan) {
    this.plan = plan;
  }

  begin(state: ChunkNodeState, context: ChunkContext): void {
    const { backgroundShare = {} } = this.plan.options;
    if (state.telling !== null || Object.values(backgroundShare).some((share) => share > 0)) startTicking(this.plan, state, context);
    beginSources(this, state, context);
  }

  open(state: ChunkNodeState, context: ChunkContext, flow: number, source: number, destination: number, transferBytes: number): void {
    const { node } = state;
    if (source !== node || !this.plan.isEndpoint(node)) {
      const { nodeNames } = this.plan.topology;
      throw new Error(`a transfer from ${nodeNames[source]} came to ${nodeNames[node]}; send it to the actor of its source (endpointOf)`);
    }
    requireNode(this.plan.topology, destination);
    // An earlier one of this number has arrived, else its requester would not use the number again; the news is on its way here.
    this.forget(state, context, flow);
    if (transferBytes === 0 || source === destination) {
      this.answer(state, context, flow, source, destination, transferStatus.arrived, context.now, transferBytes);
      return;
    }
    state.acceptedBytes += transferBytes;
    const outgoing: Outgoing = {
      destination,
      startNs: context.now,
      link: -1,
      heldBytes: transferBytes,
      capBytesPerSecond: Number.POSITIVE_INFINITY,
      timer: -1,
    };
    state.outgoing.set(flow, outgoing);
    this.signal(state, context, code.announce, flow, transferBytes, context.now, node, destination);
    this.findWay(state, context, flow, outgoing);
  }

  giveUp(state: ChunkNodeState, context: ChunkContext, flow: number, status: number): void {
    const outgoing = this.forget(state, context, flow);
    if (outgoing === undefined) return;
    // The destination answers: it alone knows what has arrived, and whether all of it has.
    this.signal(state, context, code.close, flow, status, outgoing.startNs, state.node, outgoing.destination);
  }

  arrive(state: ChunkNodeState, context: ChunkContext, arrived: ArrivedChunk): void {
    if (arrived.destination === state.node) this.take(state, context, arrived);
    else this.forward(state, context, arrived);
  }

  private forward(state: ChunkNodeState, context: ChunkContext, arrived: ArrivedChunk): void {
    const { plan } = this;
    const { flow, bytes, source, destination, link, marked } = arrived;
    const next = nextLink(plan.topology, plan.routesFor(state.shares), state.node, source, destination, flow);
    if (next < 0) {
      this.signal(state, context, code.lost, flow, bytes, context.now, state.node, source);
      return;
    }
    const ingress = plan.inPlace[link]!;
    const place = plan.outPlace[next]!;
    const uniform = (): number => context.random('marks');
    const outcome = acceptChunk(state.chunkSwitch, ingress, place, flow, bytes, marked === 1, uniform, source, destination);
    if (outcome === CHUNK_DROPPED) this.signal(state, context, code.lost, flow, bytes, context.now, state.node, source);
    if (shouldPause(state.chunkSwitch, ingress)) this.pause(state, context, link, true);
    this.send(state, context, place);
  }

  private take(state: ChunkNodeState, context: ChunkContext, { flow, bytes, source, marked }: ArrivedChunk): void {
    const incoming = state.incoming.get(flow);
    if (flow < 0) state.backgroundBytes += bytes;
    else if (incoming === undefined) {
      // Of a transfer given up, whose source does not mind; were it one not announced yet, its source would send the chunk again.
      state.strayBytes += bytes;
      this.signal(state, context, code.lost, flow, bytes, context.now, state.node, source);
      return;
    } else state.deliveredBytes += bytes;
    if (receiveChunk(state.receiver, flow, bytes, marked === 1, context.now)) {
      this.signal(state, context, code.congestion, flow, 0, context.now, state.node, source);
    }
    if (state.receiver.receivedBytes.get(flow) === incoming?.transferBytes) this.finish(state, context, flow, transferStatus.arrived);
  }

  /** At the destination: the transfer is over. */
  private finish(state: ChunkNodeState, context: ChunkContext, flow: number, status: number): void {
    const { source, startNs } = state.incoming.get(flow) as Incoming;
    state.incoming.delete(flow);
    const movedBytes = closeReceiverFlow(state.receiver, flow);
    this.answer(state, context, flow, source, state.node, status, startNs, movedBytes);
    if (status === transferStatus.arrived) this.signal(state, context, code.close, flow, status, startNs, state.node, source);
  }

  private answer(
    _state: ChunkNodeState,
    context: ChunkContext,
    flow: number,
    source: number,
    destination: number,
    status: number,
    startNs: number,
    movedBytes: number,
  ): void {
    const { leastDelayNs } = this.plan.options;
    const networkTier = tier(this.plan.topology, source, destination);
    const requester = requesterOf(flow) as ActorId;
    context.send(requester, transferEnded, leastDelayNs, transferOf(flow), status, startNs, movedBytes, networkTier, context.now);
  }

  /** Sends a control message on towards its target, or takes it in. */
  private signal(
    state: ChunkNodeState,
    context: ChunkContext,
    kind: number,
    flow: number,
    value: number,
    timeNs: number,
    origin: number,
    target: number,
  ): void {
    const { plan } = this;
    const link = plan.signalLink(state.node, target, flow);
    const to = state.outActors[plan.outPlace[link]!] as ActorId;
    context.send(to, chunkSignal, cableNs(plan, link), kind, flow, value, timeNs, origin, target);
  }

  signalled(
    state: ChunkNodeState,
    context: ChunkContext,
    kind: number,
    flow: number,
    value: number,
    timeNs: number,
    origin: number,
    target: number,
  ): void {
    if (target !== state.node) this.signal(state, context, kind, flow, value, timeNs, origin, target);
    else if (kind === code.announce) state.incoming.set(flow, { transferBytes: value, startNs: timeNs, source: origin });
    else if (kind === code.close) this.closed(state, context, flow, value, timeNs);
    else if (kind === code.lost) this.sendAgain(state, context, flow, value);
    else {
      const outgoing = state.outgoing.get(flow);
      if (outgoing !== undefined && outgoing.link >= 0) notifySender(this.senderOf(state, outgoing), flow, context.now);
    }
  }

  /** The other end has finished. `startNs` tells a transfer from a later one of the same number. */
  private closed(state: ChunkNodeState, context: ChunkContext, flow: number, status: number, startNs: number): void {
    if (state.incoming.get(flow)?.startNs === startNs) this.finish(state, context, flow, status);
    else if (state.outgoing.get(flow)?.startNs === startNs) this.forget(state, context, flow);
  }

  forget(state: ChunkNodeState, context: ChunkContext, flow: number): Outgoing | undefined {
    const outgoing = state.outgoing.get(flow);
    if (outgoing === undefined) return undefined;
    state.outgoing.delete(flow);
    if (outgoing.timer >= 0) context.cancelTimer(outgoing.timer);
    for (const sender of state.senders) {
      const at = sender.flows.findIndex((each) => each.flowId === flow);
      if (at >= 0) sender.flows.splice(at, 1);
    }
    return outgoing;
  }

  private sendAgain(state: ChunkNodeState, context: ChunkContext, flow: number, bytes: number): void {
    const outgoing = state.outgoing.get(flow);
    if (outgoing === undefined) return;
    if (outgoing.link < 0) {
      outgoing.heldBytes += bytes;
      return;
    }
    resendDropped(this.senderOf(state, outgoing), flow, bytes, context.now);
    this.inject(state, context, this.plan.outPlace[outgoing.link]!);
  }

  private senderOf(state: ChunkNodeState, outgoing: Outgoing): ChunkSender {
    return state.senders[this.plan.outPlace[outgoing.link]!]!;
  }

  /** Puts what a transfer has left on the link it now takes; without one it waits. */
  findWay(state: ChunkNodeState, context: ChunkContext, flow: number, outgoing: Outgoing): void {
    const { plan } = this;
    const link = nextLink(plan.topology, plan.routesFor(state.shares), state.node, state.node, outgoing.destination, flow);
    if (link !== outgoing.link && outgoing.link >= 0) {
      const { flows } = this.senderOf(state, outgoing);
      const at = flows.findIndex((each) => each.flowId === flow);
      if (at >= 0) outgoing.heldBytes += flows.splice(at, 1)[0]!.leftBytes;
    }
    const moved = link !== outgoing.link;
    outgoing.link = link;
    if (link < 0) {
      if (outgoing.timer < 0 && flow >= 0) outgoing.timer = context.timer(chunkUnreachable, plan.options.unreachableAfterNs ?? 1e9, flow);
      return;
    }
    if (outgoing.timer >= 0) context.cancelTimer(outgoing.timer);
    outgoing.timer = -1;
    if (!moved || outgoing.heldBytes === 0) return;
    startSenderFlow(this.senderOf(state, outgoing), flow, outgoing.heldBytes, context.now, outgoing.capBytesPerSecond);
    outgoing.heldBytes = 0;
    this.inject(state, context, plan.outPlace[link]!);
  }

  /** Cuts the next chunk when the port is free: chunks wait in the sender, not in its queue. */
  inject(state: ChunkNodeState, context: ChunkContext, place: number): void {
    const sender = state.senders[place];
    const port = state.chunkSwitch.ports[place]!;
    if (sender === undefined || port.length > 0 || port.paused) return;
    const index = nextSenderFlow(sender);
    if (index < 0) return;
    const { flowId, nextSendNs } = sender.flows[index]!;
    if (nextSendNs > context.now) {
      const pendingNs = state.injectNs[place]!;
      if (pendingNs >= 0 && pendingNs <= nextSendNs) return;
      if (pendingNs >= 0) context.cancelTimer(state.injectTimers[place]!);
      state.injectNs[place] = nextSendNs;
      state.injectTimers[place] = context.timer(chunkInject, nextSendNs - context.now, place);
      return;
    }
    const bytes = cutChunk(sender, index, context.now);
    const { destination } = state.outgoing.get(flowId) as Outgoing;
    const ingress = state.inActors.length;
    acceptChunk(state.chunkSwitch, ingress, place, flowId, bytes, false, () => context.random('marks'), state.node, destination);
    this.send(state, context, place);
  }

  /** Starts on the chunk at the head of a port. */
  send(state: ChunkNodeState, context: ChunkContext, place: number): void {
    const port = state.chunkSwitch.ports[place]!;
    const leavesNs = startSending(port, context.now);
    if (leavesNs < 0) return;
    context.send(context.self, chunkLeft, leavesNs - context.now, place);
    startTicking(this.plan, state, context);
  }

  /** A chunk has left a port and is on the cable; on a cut one it is lost. */
  left(state: ChunkNodeState, context: ChunkContext, place: number): void {
    const { plan } = this;
    const port = state.chunkSwitch.ports[place]!;
    const goesOn = releaseChunk(state.chunkSwitch, place);
    const { leftFlow, leftBytes, leftSource, leftDestination, leftIngress, leftMarked } = port;
    const link = plan.linksFrom(state.node)[place]!;
    state.telling?.flows[place]?.add(leftFlow);
    if (plan.routesFor(state.shares).linkShare[link] === 0) {
      if (leftSource === state.node) this.sendAgain(state, context, leftFlow, leftBytes);
      else this.signal(state, context, code.lost, leftFlow, leftBytes, context.now, state.node, leftSource);
    } else {
      const to = state.outActors[place] as ActorId;
      context.send(to, chunk, cableNs(plan, link), leftFlow, leftBytes, leftSource, leftDestination, link, leftMarked ? 1 : 0);
    }
    if (goesOn && leftIngress < state.inActors.length) this.pause(state, context, plan.linksTo(state.node)[leftIngress]!, false);
    this.send(state, context, place);
    this.inject(state, context, place);
  }

  /** Tells the far end of an incoming link to pause or to go on; that takes the cable's time back. */
  private pause(state: ChunkNodeState, context: ChunkContext, link: number, paused: boolean): void {
    const { plan } = this;
    const to = state.inActors[plan.inPlace[link]!] as ActorId;
    context.send(to, chunkPause, cableNs(plan, plan.topology.linkReverse[link]!), link, paused ? 1 : 0);
  }

  setShare(state: ChunkNodeState, context: ChunkContext, first: number, count: number, share: number): void {
    const { topology } = this.plan;
    const shares = new Map<number, number>();
    for (let index = 0; index < state.shares.length; index += 2) shares.set(state.shares[index]!, state.shares[index + 1]!);
    for (let link = first; link < first + count; link++) {
      if (share === 1) shares.delete(link);
      else shares.set(link, share);
      if (topology.linkFrom[link] !== state.node) continue;
      // A cut port goes on at full speed, into nothing: that empties its queue.
      state.chunkSwitch.ports[this.plan.outPlace[link]!]!.bytesPerSecond = this.plan.ownBytesPerSecond(link) * (share === 0 ? 1 : share);
    }
    state.shares = [...shares].sort(([a], [b]) => a - b).flat();
    for (const [flow, outgoing] of state.outgoing) this.findWay(state, context, flow, outgoing);
  }
}

function cableNs(plan: ChunkPlan, link: number): number {
  return Math.max(1, plan.topology.linkLatencyNs[link]!);
}
