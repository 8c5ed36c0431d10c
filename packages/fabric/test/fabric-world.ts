import { type ActorId, actorKind, defineProgram, message, modelOf, Simulation } from '@braess/kernel';
import { cancelTransfer, linkReport, setLinkShare, startTransfer, transferEnded } from '@braess/protocol';

/** A transfer that a test asks for: at `atNs` from the requester's point of view. */
export interface Planned {
  atNs: number;
  source: number;
  destination: number;
  transferBytes: number;
  weight?: number;
  /** Given up at this moment. */
  cancelNs?: number;
}

export interface Ended {
  transfer: number;
  atNs: number;
  status: number;
  startNs: number;
  movedBytes: number;
  networkTier: number;
}

export interface RequesterState {
  fabric: number;
  ended: Ended[];
  reports: { atNs: number; link: number; utilisation: number; transferBytes: number; flows: number }[];
}

export const REQUEST_DELAY_NS = 1000;

const ask = message('ask', ['transfer']);
const giveUp = message('giveUp', ['transfer']);

/** Asks for the planned transfers of one requester and keeps what it hears. */
export function requesterKind(plans: readonly (readonly Planned[])[]) {
  return actorKind({
    name: 'requester',
    messages: { ask, giveUp, transferEnded, linkReport },
    state: ({ index, fabricOf }: { index: number; fabricOf: (source: number) => number }) => ({
      index,
      fabrics: (plans[index] ?? []).map((plan) => fabricOf(plan.source)),
      ended: [] as Ended[],
      reports: [] as RequesterState['reports'],
    }),
    start(state, context) {
      (plans[state.index] ?? []).forEach((plan, transfer) => {
        context.send(context.self, ask, plan.atNs, transfer);
        if (plan.cancelNs !== undefined) context.send(context.self, giveUp, plan.cancelNs, transfer);
      });
    },
    on: {
      ask(state, { transfer }, context) {
        const { source, destination, transferBytes, weight = 1 } = plans[state.index]![transfer]!;
        const fabric = state.fabrics[transfer] as ActorId;
        context.send(fabric, startTransfer, REQUEST_DELAY_NS, transfer, source, destination, transferBytes, weight);
      },
      giveUp(state, { transfer }, context) {
        context.send(state.fabrics[transfer] as ActorId, cancelTransfer, REQUEST_DELAY_NS, transfer);
      },
      transferEnded(state, { transfer, status, startNs, movedBytes, networkTier }, context) {
        state.ended.push({ transfer, atNs: context.now, status, startNs, movedBytes, networkTier });
      },
      linkReport(state, { link, utilisation, transferBytes, flows }, context) {
        state.reports.push({ atNs: context.now, link, utilisation, transferBytes, flows });
      },
    },
  });
}

export interface PlannedShare {
  atNs: number;
  first: number;
  count: number;
  share: number;
}

const fault = message('fault', ['index']);

/** Sends the planned link shares to every fabric actor. */
export function faultKind(plan: readonly PlannedShare[]) {
  return actorKind({
    name: 'faults',
    messages: { fault },
    state: (fabrics: readonly { id: number }[]) => ({ fabrics: fabrics.map((fabric) => fabric.id) }),
    start(_state, context) {
      plan.forEach(({ atNs }, index) => {
        context.send(context.self, fault, atNs, index);
      });
    },
    on: {
      fault(state, { index }, context) {
        const { first, count, share } = plan[index]!;
        for (const fabric of state.fabrics) context.send(fabric as ActorId, setLinkShare, REQUEST_DELAY_NS, first, count, share);
      },
    },
  });
}

/** All that tests ask for is over long before. */
const latestNs = 60e9;

/** Runs until nothing is left to happen. */
export function runToEnd(simulation: Simulation): void {
  simulation.runUntil(latestNs);
  if (simulation.completeNs < Number.POSITIVE_INFINITY)
    throw new Error(`the fabric is not at rest after ${latestNs / 1e9} simulated s: a transfer never ends, or reports go on without one`);
}

export { defineProgram, modelOf, Simulation };
