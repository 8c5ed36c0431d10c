import { type ActorId, type ActorKind, type ActorReference, actorKind, type Context, message, record, type TimerId } from '@braess/kernel';
import * as protocol from '@braess/protocol';
import { checkFabricOptions, type FabricOptions, reportedLinks } from './fabric-options.js';
import { nextCompletionNs } from './flow-allocator.js';
import { flowIdOf, requesterOf, transferOf, transferStatus, transfersAtEnd } from './flow-id.js';
import {
  advanceNetwork,
  cancelTransfer,
  createFlowNetwork,
  type FlowNetwork,
  setBackgroundShare,
  setLinkHealth,
  startTransfer,
} from './flow-network.js';
import { beatChanges, createLinkBeat, type LinkBeat, startBeat } from './link-beat.js';
import { linkRates } from './link-counters.js';
import { createOnOffSource, type OnOffSource, toggleOnOff } from './on-off.js';
import { tier } from './topology.js';

/** Fabric -> telemetry, each period, for links that did something: share of capacity used since the last report (background included). */
export const linkUse = record('linkUse', ['link', 'utilisation', 'transferBytes', 'flows']);

/** Who wants to hear of which links. */
export interface LinkSubscription {
  readonly actor: ActorReference;
  /** Link ids, or all that are reported. */
  readonly links: readonly number[] | 'all';
}

/** Who hears of which links. */
export interface FabricSetup {
  readonly subscriptions: readonly LinkSubscription[];
}

interface Transfer {
  readonly source: number;
  readonly destination: number;
  readonly transferBytes: number;
  readonly weight: number;
  readonly startNs: number;
  /** Latency of its path; -1 while it has none. */
  latencyNs: number;
  /** Runs while it stands still without a way, else -1. */
  timer: TimerId;
}

/** State of the fabric at flow fidelity. */
export interface FabricState {
  readonly network: FlowNetwork;
  /** By flow id, see `flowIdOf`. */
  readonly transfers: Map<number, Transfer>;
  /** Transfers that never had a way. */
  readonly unstarted: Set<number>;
  readonly sources: OnOffSource[];
  readonly subscribers: { readonly actor: number; readonly links: Int32Array }[];
  /** A settling of this instant's changes is on its way. */
  settling: boolean;
  timer: TimerId;
  timerNs: number;
  /** Reports and on-off traffic go on until this moment, or longer while transfers are under way. */
  awakeUntilNs: number;
  toggling: boolean;
  /** Records of the time series, and reports to subscribers. */
  readonly series: LinkBeat;
  readonly telling: LinkBeat;
  arrived: number;
  unreachable: number;
  cancelled: number;
}

const { cancelTransfer: cancelMessage, linkReport, setLinkShare, startTransfer: startMessage, transferEnded } = protocol;
const fabricSettle = message('fabricSettle');
const fabricCompletion = message('fabricCompletion');
const fabricUnreachable = message('fabricUnreachable', ['flow']);
const fabricReport = message('fabricReport');
const fabricTell = message('fabricTell');
const fabricToggle = message('fabricToggle');

/**
 * The one actor that owns the network at flow fidelity. It takes `startTransfer` and `cancelTransfer` from any actor, answers each start
 * with one `transferEnded` (unless a cancel crossed the end), and `setLinkShare` from the fault schedule.
 *
 * A transfer of b bytes takes the time its max-min fair rate needs for b, plus the latency of its path (at least `leastDelayNs`), plus
 * the delay of the request itself. All changes of one instant are solved together, after the last of them.
 */
export function fabricKind(options: FabricOptions): ActorKind<'fabric', string, FabricSetup> {
  checkFabricOptions(options);
  const fabric = new FlowFabric(options);
  return actorKind({
    name: 'fabric',
    messages: {
      startTransfer: startMessage,
      cancelTransfer: cancelMessage,
      setLinkShare,
      fabricSettle,
      fabricCompletion,
      fabricUnreachable,
      fabricReport,
      fabricTell,
      fabricToggle,
    },
    streams: ['background'],
    state: (setup: FabricSetup) => fabric.createState(setup),
    atEnd: ({ transfers }) => transfersAtEnd(transfers),
    start: (state, context) => fabric.begin(state, context),
    on: {
      startTransfer(state, message, context) {
        const { sender, transfer, source, destination, transferBytes, weight } = message;
        fabric.start(state, context, flowIdOf(sender, transfer), source, destination, transferBytes, weight);
      },
      cancelTransfer: (state, { sender, transfer }, context) => fabric.cancel(state, context, flowIdOf(sender, transfer)),
      setLinkShare: (state, { first, count, share }, context) => fabric.setShare(state, context, first, count, share),
      fabricSettle(state, _message, context) {
        state.settling = false;
        fabric.setTimer(state, context);
        fabric.tellRates(state, context);
      },
      fabricCompletion(state, _message, context) {
        state.timerNs = Number.POSITIVE_INFINITY;
        fabric.setTimer(state, context);
        fabric.tellRates(state, context);
      },
      fabricUnreachable: (state, { flow }, context) => fabric.giveUp(state, context, flow),
      fabricReport: (state, _message, context) => fabric.report(state, context),
      fabricTell: (state, _message, context) => fabric.tell(state, context),
      fabricToggle: (state, _message, context) => fabric.toggle(state, context),
    },
  });
}

/** Constants and the steps of a transfer's life; holds no state of its own. */
class FlowFabric {
  readonly options: FabricOptions;
  readonly links: Int32Array;
  readonly tellPeriodNs: number;

  constructor(options: FabricOptions) {
    this.options = options;
    this.tellPeriodNs = options.tellPeriodNs ?? options.reportPeriodNs ?? 0;
    this.links = reportedLinks(options);
  }

  createState(setup: FabricSetup): FabricState {
    const { topology, avoidBelowShare = 0, transferLimit, lingerNs = 1e9 } = this.options;
    const limits = transferLimit === undefined ? {} : { flowLimit: transferLimit };
    return {
      network: createFlowNetwork(topology, avoidBelowShare, limits),
      transfers: new Map(),
      unstarted: new Set(),
      sources: [],
      subscribers: setup.subscriptions.map(({ actor, links }) => ({
        actor: actor.id,
        links: links === 'all' ? this.links.slice() : Int32Array.from(links),
      })),
      settling: false,
      timer: -1,
      timerNs: Number.POSITIVE_INFINITY,
      awakeUntilNs: lingerNs,
      toggling: false,
      series: createLinkBeat(topology.linkCount),
      telling: createLinkBeat(topology.linkCount),
      arrived: 0,
      unreachable: 0,
      cancelled: 0,
    };
  }

  begin(state: FabricState, context: Context<'background'>): void {
    const { topology, backgroundShare = {}, onOff = [] } = this.options;
    for (const [name, share] of Object.entries(backgroundShare)) {
      setBackgroundShare(topology, state.network, 0, name as keyof typeof backgroundShare, share);
    }
    const uniform = (): number => context.random('background');
    for (const { source, destination, bytesPerSecond, meanOnNs, meanOffNs } of onOff) {
      const made = createOnOffSource(source, destination, bytesPerSecond, meanOnNs, meanOffNs, 0, uniform);
      state.sources.push(made);
    }
    state.sources.forEach((_source, index) => {
      this.followSource(state, 0, index);
    });
    this.wake(state, context);
    // Subscribers that hear of every change hear of the background, too.
    if (state.sources.length > 0 || this.options.tellPeriodNs === 0) this.changed(state, context);
  }

  start(
    state: FabricState,
    context: Context,
    flowId: number,
    source: number,
    destination: number,
    transferBytes: number,
    weight: number,
  ): void {
    const { topology, unreachableAfterNs = 1e9 } = this.options;
    this.reachNow(state, context);
    if (state.transfers.has(flowId)) throw new Error(`transfer ${transferOf(flowId)} of actor ${requesterOf(flowId)} is under way already`);
    const latencyNs = startTransfer(topology, state.network, context.now, flowId, source, destination, transferBytes, weight);
    const transfer: Transfer = { source, destination, transferBytes, weight, startNs: context.now, latencyNs, timer: -1 };
    state.transfers.set(flowId, transfer);
    if (latencyNs < 0) {
      state.unstarted.add(flowId);
      transfer.timer = context.timer(fabricUnreachable, unreachableAfterNs, flowId);
    }
    this.wake(state, context);
    this.changed(state, context);
  }

  /** A transfer that has ended already is not known any more: its `transferEnded` is on its way. */
  cancel(state: FabricState, context: Context, flowId: number): void {
    this.reachNow(state, context);
    if (!state.transfers.has(flowId)) return;
    this.stop(state, context, flowId, transferStatus.cancelled);
    this.changed(state, context);
  }

  giveUp(state: FabricState, context: Context, flowId: number): void {
    this.reachNow(state, context);
    (state.transfers.get(flowId) as Transfer).timer = -1;
    this.stop(state, context, flowId, transferStatus.unreachable);
    this.changed(state, context);
  }

  setShare(state: FabricState, context: Context, first: number, count: number, share: number): void {
    const { topology, unreachableAfterNs = 1e9 } = this.options;
    this.reachNow(state, context);
    const links = Array.from({ length: count }, (_unused, index) => first + index);
    const { rerouted, latenciesNs, stranded } = setLinkHealth(topology, state.network, context.now, links, share);
    for (const flowId of stranded) {
      const transfer = state.transfers.get(flowId);
      if (transfer !== undefined && transfer.timer < 0) transfer.timer = context.timer(fabricUnreachable, unreachableAfterNs, flowId);
    }
    rerouted.forEach((flowId, place) => {
      const transfer = state.transfers.get(flowId);
      if (transfer !== undefined) transfer.latencyNs = latenciesNs[place]!;
      this.stopTimer(state, context, flowId);
    });
    if (share > 0) {
      for (const flowId of [...state.unstarted]) this.startAgain(state, context, flowId);
      state.sources.forEach((_source, index) => {
        this.followSource(state, context.now, index);
      });
    }
    this.changed(state, context);
  }

  /** Brings the network to the present before a change, unless a change of this instant already has: rates are not solved in between. */
  private reachNow(state: FabricState, context: Context): void {
    if (state.network.allocator.nowNs !== context.now) this.advance(state, context);
  }

  /** Hands out all that has completed by now. */
  advance(state: FabricState, context: Context): void {
    const { allocator } = state.network;
    const count = advanceNetwork(state.network, context.now);
    for (let index = 0; index < count; index++) {
      const flowId = allocator.completedFlowIds[index]!;
      const transfer = state.transfers.get(flowId);
      if (transfer === undefined) continue;
      state.transfers.delete(flowId);
      state.arrived++;
      this.answer(context, flowId, transfer, transferStatus.arrived, transfer.transferBytes);
    }
    if (count > 0) state.awakeUntilNs = context.now + (this.options.lingerNs ?? 1e9);
  }

  /** Hands out what has completed and sets the one timer at the next completion. */
  setTimer(state: FabricState, context: Context): void {
    this.advance(state, context);
    const nextNs = nextCompletionNs(state.network.allocator);
    if (nextNs === state.timerNs) return;
    if (state.timerNs !== Number.POSITIVE_INFINITY) context.cancelTimer(state.timer);
    state.timerNs = nextNs;
    if (nextNs !== Number.POSITIVE_INFINITY) state.timer = context.timer(fabricCompletion, nextNs - context.now);
  }

  /** Rates are solved and the timer is set once an instant, by a message that comes behind all others of this instant. */
  private changed(state: FabricState, context: Context): void {
    if (state.settling) return;
    state.settling = true;
    context.send(context.self, fabricSettle, 0);
  }

  private startAgain(state: FabricState, context: Context, flowId: number): void {
    const transfer = state.transfers.get(flowId) as Transfer;
    const { source, destination, transferBytes, weight } = transfer;
    const { topology } = this.options;
    const latencyNs = startTransfer(topology, state.network, context.now, flowId, source, destination, transferBytes, weight);
    if (latencyNs < 0) return;
    transfer.latencyNs = latencyNs;
    state.unstarted.delete(flowId);
    this.stopTimer(state, context, flowId);
  }

  private stopTimer(state: FabricState, context: Context, flowId: number): void {
    const transfer = state.transfers.get(flowId);
    if (transfer === undefined || transfer.timer < 0) return;
    context.cancelTimer(transfer.timer);
    transfer.timer = -1;
  }

  private stop(state: FabricState, context: Context, flowId: number, status: number): void {
    const transfer = state.transfers.get(flowId) as Transfer;
    this.stopTimer(state, context, flowId);
    const movedBytes = state.unstarted.delete(flowId) ? 0 : cancelTransfer(state.network, context.now, flowId);
    state.transfers.delete(flowId);
    if (status === transferStatus.cancelled) state.cancelled++;
    else state.unreachable++;
    this.answer(context, flowId, transfer, status, movedBytes);
  }

  private answer(context: Context, flowId: number, transfer: Transfer, status: number, movedBytes: number): void {
    const { leastDelayNs, topology } = this.options;
    const requester = requesterOf(flowId) as ActorId;
    const delayNs = status === transferStatus.arrived ? Math.max(leastDelayNs, transfer.latencyNs) : leastDelayNs;
    const networkTier = tier(topology, transfer.source, transfer.destination);
    const endNs = context.now + Math.max(0, transfer.latencyNs);
    context.send(requester, transferEnded, delayNs, transferOf(flowId), status, transfer.startNs, movedBytes, networkTier, endNs);
  }

  /** Starts reports and on-off traffic again where they rest. */
  private wake(state: FabricState, context: Context): void {
    const { reportPeriodNs = 0 } = this.options;
    const { allocator } = state.network;
    if (reportPeriodNs > 0 && startBeat(state.series, allocator, context.now)) context.send(context.self, fabricReport, reportPeriodNs);
    if (this.tellPeriodNs > 0 && state.subscribers.length > 0 && startBeat(state.telling, allocator, context.now))
      context.send(context.self, fabricTell, this.tellPeriodNs);
    if (state.sources.length > 0 && !state.toggling) {
      state.toggling = true;
      this.toggle(state, context as Context<'background'>);
    }
  }

  private isAwake(state: FabricState, context: Context): boolean {
    return state.transfers.size > 0 || context.now < state.awakeUntilNs;
  }

  report(state: FabricState, context: Context): void {
    this.advance(state, context);
    beatChanges(state.series, state.network.allocator, context.now, this.links, (link, utilisation, movedBytes, flows) => {
      // For routers a cut link is full; in a table of what links carried it is idle.
      const cut = movedBytes === 0 && state.network.allocator.linkBytesPerSecond[link] === 0;
      context.emit(linkUse, link, cut ? 0 : utilisation, movedBytes, flows);
    });
    this.setTimer(state, context);
    state.series.ticking = this.isAwake(state, context);
    if (state.series.ticking) context.send(context.self, fabricReport, this.options.reportPeriodNs as number);
  }

  /** Reports the last period to the subscribers. It rests a period later than the traffic, so that the last they hear is of a quiet network. */
  tell(state: FabricState, context: Context): void {
    this.advance(state, context);
    beatChanges(state.telling, state.network.allocator, context.now, this.links, (link, utilisation, movedBytes, flows) => {
      this.tellLink(state, context, link, utilisation, movedBytes, flows);
    });
    this.setTimer(state, context);
    const lively = this.isAwake(state, context);
    state.telling.ticking = lively || state.telling.lively;
    state.telling.lively = lively;
    if (state.telling.ticking) context.send(context.self, fabricTell, this.tellPeriodNs);
  }

  /** Reports the links whose rates have just changed, where subscribers hear of every change. */
  tellRates(state: FabricState, context: Context): void {
    if (this.tellPeriodNs > 0 || state.subscribers.length === 0 || this.options.tellPeriodNs === undefined) return;
    const { lastUtilisation, lastFlows } = state.telling;
    const { allocator } = state.network;
    const rates = linkRates(allocator);
    for (const link of this.links) {
      const utilisation = rates[link]!;
      const flows = allocator.linkFlowCount[link]!;
      if (utilisation === lastUtilisation[link] && flows === lastFlows[link]) continue;
      lastUtilisation[link] = utilisation;
      lastFlows[link] = flows;
      this.tellLink(state, context, link, utilisation, 0, flows);
    }
  }

  private tellLink(state: FabricState, context: Context, link: number, utilisation: number, movedBytes: number, flows: number): void {
    for (const { actor, links } of state.subscribers) {
      if (!includes(links, link)) continue;
      context.send(actor as ActorId, linkReport, this.options.leastDelayNs, link, utilisation, movedBytes, flows, 0, 0);
    }
  }

  /** Lets all on-off sources change that are due, and sets the next change. Sources that rested catch up. */
  toggle(state: FabricState, context: Context<'background'>): void {
    this.reachNow(state, context);
    const uniform = (): number => context.random('background');
    let nextNs = Number.POSITIVE_INFINITY;
    state.sources.forEach((source, index) => {
      while (source.nextChangeNs <= context.now) toggleOnOff(source, uniform);
      this.followSource(state, context.now, index);
      nextNs = Math.min(nextNs, source.nextChangeNs);
    });
    this.changed(state, context);
    state.toggling = this.isAwake(state, context);
    if (state.toggling) context.send(context.self, fabricToggle, nextNs - context.now);
  }

  /** Brings the flow of an on-off source in line with its state. Its id is negative, so it is nobody's transfer. */
  private followSource(state: FabricState, nowNs: number, index: number): void {
    const { topology } = this.options;
    const source = state.sources[index]!;
    const flowId = -1 - index;
    const flowing = state.network.allocator.slotOfFlow.has(flowId);
    if (source.on === flowing) return;
    if (flowing) cancelTransfer(state.network, nowNs, flowId);
    else {
      const { destination, bytesPerSecond } = source;
      startTransfer(topology, state.network, nowNs, flowId, source.source, destination, Number.POSITIVE_INFINITY, 1, bytesPerSecond);
    }
  }
}

/** Binary search in ascending ids. */
function includes(links: Int32Array, link: number): boolean {
  let low = 0;
  let high = links.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const found = links[middle]!;
    if (found === link) return true;
    if (found < link) low = middle + 1;
    else high = middle - 1;
  }
  return false;
}
