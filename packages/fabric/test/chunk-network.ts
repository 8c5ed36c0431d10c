import {
  acceptChunk,
  CHUNK_DROPPED,
  type ChunkReceiver,
  type ChunkSender,
  type ChunkSwitch,
  createChunkReceiver,
  createChunkSender,
  createChunkSwitch,
  createOutputPort,
  cutChunk,
  dcqcnSettings,
  ecnSettings,
  nextSenderFlow,
  notifySender,
  pathLatencyNs,
  receiveChunk,
  releaseChunk,
  resendDropped,
  setPaused,
  shouldPause,
  startSenderFlow,
  startSending,
  type Topology,
} from '@braess/fabric';
import { seededUniform } from './random.js';

export interface ChunkSetting {
  chunkBytes: number;
  lineBytesPerSecond: number;
  queueLimitBytes: number;
  pauseAboveBytes: number;
  resumeAtBytes: number;
  /** Off: thresholds out of reach, so senders keep line rate. */
  ecn: boolean;
}

interface Event {
  timeNs: number;
  order: number;
  run: () => void;
}

/** A whole chunk network in one thread, for tests: every node is a switch, sources inject over an ingress of their own. */
export class ChunkNetwork {
  nowNs = 0;
  readonly switches: ChunkSwitch[] = [];
  readonly senders = new Map<number, ChunkSender>();
  readonly receiver: ChunkReceiver;
  readonly endedAtNs = new Map<number, number>();
  events = 0;
  private order = 0;
  private heap: Event[] = [];
  private readonly paths = new Map<number, number[]>();
  private readonly sizes = new Map<number, number>();
  private readonly outIndex: Int32Array;
  private readonly inIndex: Int32Array;
  private readonly uniform = seededUniform(7);

  constructor(
    readonly topology: Topology,
    readonly setting: ChunkSetting,
  ) {
    this.receiver = createChunkReceiver(dcqcnSettings(setting.lineBytesPerSecond).notificationPeriodNs);
    this.outIndex = new Int32Array(topology.linkCount);
    this.inIndex = new Int32Array(topology.linkCount);
    for (let node = 0; node < topology.nodeCount; node++) {
      const outgoing = topology.outgoingLinks.subarray(topology.outgoingStart[node]!, topology.outgoingStart[node + 1]!);
      const incoming = topology.incomingLinks.subarray(topology.incomingStart[node]!, topology.incomingStart[node + 1]!);
      const ports = Array.from(outgoing, (link, index) => {
        this.outIndex[link] = index;
        const speed = topology.linkBytesPerSecond[link]!;
        const settings = ecnSettings(speed, setting.chunkBytes, setting.queueLimitBytes);
        const never = { ...settings, ecnMinBytes: setting.queueLimitBytes, ecnMaxBytes: setting.queueLimitBytes };
        return createOutputPort(speed, setting.ecn ? settings : never);
      });
      incoming.forEach((link, index) => {
        this.inIndex[link] = index;
      });
      this.switches.push(createChunkSwitch(ports, incoming.length + 1, setting.pauseAboveBytes, setting.resumeAtBytes));
    }
  }

  port(link: number) {
    return this.switches[this.topology.linkFrom[link]!]!.ports[this.outIndex[link]!]!;
  }

  start(timeNs: number, flowId: number, path: number[], sizeBytes: number): void {
    this.paths.set(flowId, path);
    this.sizes.set(flowId, sizeBytes);
    const link = path[0]!;
    const source = this.topology.linkFrom[link]!;
    if (!this.senders.has(source)) {
      this.senders.set(source, createChunkSender(this.setting.chunkBytes, dcqcnSettings(this.setting.lineBytesPerSecond)));
    }
    this.at(timeNs, () => {
      startSenderFlow(this.senders.get(source)!, flowId, sizeBytes, this.nowNs);
      this.inject(link);
    });
  }

  /** Runs to the end, or to a time. Throws after `limit` events: a hang. */
  run(limit = 2_000_000, untilNs: number = Number.POSITIVE_INFINITY): void {
    for (let event = this.pop(); event !== undefined && event.timeNs <= untilNs; event = this.pop()) {
      if (++this.events > limit) throw new Error(`more than ${limit} events: the network does not come to rest`);
      this.nowNs = event.timeNs;
      event.run();
    }
  }

  private inject(link: number): void {
    const source = this.topology.linkFrom[link]!;
    const sender = this.senders.get(source);
    const port = this.port(link);
    if (sender === undefined || port.length > 0 || port.paused) return;
    const index = nextSenderFlow(sender);
    if (index === -1) return;
    const flow = sender.flows[index]!;
    if (flow.nextSendNs > this.nowNs) {
      this.at(flow.nextSendNs, () => this.inject(link));
      return;
    }
    const bytes = cutChunk(sender, index, this.nowNs);
    const local = this.switches[source]!.ingressBytes.length - 1;
    acceptChunk(this.switches[source]!, local, this.outIndex[link]!, flow.flowId, bytes, false, this.uniform);
    this.send(link);
  }

  private send(link: number): void {
    const leavesAtNs = startSending(this.port(link), this.nowNs);
    if (leavesAtNs >= 0) this.at(leavesAtNs, () => this.left(link));
  }

  private left(link: number): void {
    const from = this.topology.linkFrom[link]!;
    const port = this.port(link);
    const goesOn = releaseChunk(this.switches[from]!, this.outIndex[link]!);
    const { leftFlow, leftBytes, leftMarked, leftIngress } = port;
    this.at(this.nowNs + this.topology.linkLatencyNs[link]!, () => this.arrive(link, leftFlow, leftBytes, leftMarked));
    if (goesOn) this.signal(this.topology.incomingLinks[this.topology.incomingStart[from]! + leftIngress], false);
    this.send(link);
    this.inject(link);
  }

  private arrive(link: number, flowId: number, bytes: number, marked: boolean): void {
    const node = this.topology.linkTo[link]!;
    const path = this.paths.get(flowId)!;
    const next = path[path.indexOf(link) + 1];
    if (next === undefined) {
      if (receiveChunk(this.receiver, flowId, bytes, marked, this.nowNs)) {
        this.toSource(flowId, (sender) => notifySender(sender, flowId, this.nowNs));
      }
      if (this.receiver.receivedBytes.get(flowId) === this.sizes.get(flowId)) this.endedAtNs.set(flowId, this.nowNs);
      return;
    }
    const ingress = this.inIndex[link]!;
    const outcome = acceptChunk(this.switches[node]!, ingress, this.outIndex[next]!, flowId, bytes, marked, this.uniform);
    if (outcome === CHUNK_DROPPED) this.toSource(flowId, (sender) => resendDropped(sender, flowId, bytes, this.nowNs));
    if (shouldPause(this.switches[node]!, ingress)) this.signal(link, true);
    this.send(next);
  }

  private toSource(flowId: number, act: (sender: ChunkSender) => void): void {
    const path = this.paths.get(flowId)!;
    this.at(this.nowNs + pathLatencyNs(this.topology, path), () => {
      act(this.senders.get(this.topology.linkFrom[path[0]!]!)!);
      this.inject(path[0]!);
    });
  }

  private signal(link: number | undefined, pause: boolean): void {
    if (link === undefined) return;
    this.at(this.nowNs + this.topology.linkLatencyNs[link]!, () => {
      setPaused(this.port(link), pause, this.nowNs);
      this.send(link);
      this.inject(link);
    });
  }

  private at(timeNs: number, run: () => void): void {
    const event = { timeNs, order: this.order++, run };
    let place = this.heap.push(event) - 1;
    while (place > 0 && isBefore(event, this.heap[(place - 1) >> 1]!)) {
      this.heap[place] = this.heap[(place - 1) >> 1]!;
      place = (place - 1) >> 1;
    }
    this.heap[place] = event;
  }

  private pop(): Event | undefined {
    const top = this.heap[0];
    const last = this.heap.pop();
    if (last === undefined || this.heap.length === 0) return top;
    let place = 0;
    for (;;) {
      let child = 2 * place + 1;
      if (child + 1 < this.heap.length && isBefore(this.heap[child + 1]!, this.heap[child]!)) child++;
      if (child >= this.heap.length || isBefore(last, this.heap[child]!)) break;
      this.heap[place] = this.heap[child]!;
      place = child;
    }
    this.heap[place] = last;
    return top;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.timeNs < b.timeNs || (a.timeNs === b.timeNs && a.order < b.order);
}
