import { type ActorId, type ActorKind, type ActorReference, actorKind } from '@braess/kernel';
import { linkReport } from '@braess/protocol';

/** What the program passes for each switch (or NIC) actor. */
export interface SwitchSetup {
  /** Links that leave the switch, ascending; their reports come from the fabric. */
  readonly links: readonly number[];
  /** Who gets the reports relayed: oracles, controllers, telemetry. */
  readonly listeners: readonly ActorReference[];
  /** Delay of a relayed report, at least the lookahead to every listener. */
  readonly relayDelayNs: number;
}

/** Counters of a switch as it would export them, by place in `links`. */
export interface SwitchState {
  readonly links: Int32Array;
  readonly listeners: number[];
  readonly relayDelayNs: number;
  readonly utilisation: Float64Array;
  readonly transferBytes: Float64Array;
  readonly flows: Int32Array;
  readonly marks: Float64Array;
  readonly pausedNs: Float64Array;
  reports: number;
}

/** A switch at flow fidelity: it holds what the fabric last reported of its links and relays it, late, to whoever listens. */
export const switchKind: ActorKind<'switch', 'linkReport', SwitchSetup> = actorKind({
  name: 'switch',
  messages: { linkReport },
  state: ({ links, listeners, relayDelayNs }: SwitchSetup): SwitchState => ({
    links: Int32Array.from(links),
    listeners: listeners.map((listener) => listener.id),
    relayDelayNs,
    utilisation: new Float64Array(links.length),
    transferBytes: new Float64Array(links.length),
    flows: new Int32Array(links.length),
    marks: new Float64Array(links.length),
    pausedNs: new Float64Array(links.length),
    reports: 0,
  }),
  on: {
    linkReport(state, { link, utilisation, transferBytes, flows, marks, pausedNs }, context) {
      const place = state.links.indexOf(link);
      if (place < 0)
        throw new Error(`a report of link ${link} came to a switch that has ${state.links.join(', ')}; check its subscription`);
      state.reports++;
      state.utilisation[place] = utilisation;
      state.transferBytes[place]! += transferBytes;
      state.flows[place] = flows;
      state.marks[place]! += marks;
      state.pausedNs[place]! += pausedNs;
      for (const listener of state.listeners) {
        context.send(listener as ActorId, linkReport, state.relayDelayNs, link, utilisation, transferBytes, flows, marks, pausedNs);
      }
    },
  },
});
