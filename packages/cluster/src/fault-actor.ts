import { type ActorId, type ActorReference, actorKind } from '@braess/kernel';
import { setGpuSpeed, setLinkShare, setTelemetryLoss, setTierSpeed } from '@braess/protocol';

/** One entry of the fault schedule, resolved to actors and links. */
export type FaultEntry =
  | { readonly kind: 'gpu-speed'; readonly atNs: number; readonly gpu: ActorReference; readonly factor: number }
  | {
      readonly kind: 'link-share';
      readonly atNs: number;
      readonly fabric: ActorReference;
      readonly links: readonly number[];
      readonly share: number;
    }
  | { readonly kind: 'tier-speed'; readonly atNs: number; readonly tier: ActorReference; readonly factor: number }
  | { readonly kind: 'telemetry-loss'; readonly atNs: number; readonly target: ActorReference; readonly lost: boolean };

/** What the program passes to the fault schedule. */
export interface FaultSetup {
  readonly entries: readonly FaultEntry[];
  /** Delay of every message of the schedule; a fault at time T is told so that it takes hold at T, or at this moment when T is earlier. */
  readonly leastDelayNs: number;
}

interface FaultState {
  readonly leastDelayNs: number;
  /** In order of time: whom to tell, and up to three fields. */
  readonly orders: { readonly atNs: number; readonly kind: FaultEntry['kind']; readonly to: number; readonly values: number[] }[];
}

/** The fault schedule: it knows beforehand what it will do, so all its messages leave at the start, each timed to arrive when its fault takes hold. */
export const faultKind = actorKind({
  name: 'faults',
  messages: {},
  state: ({ entries, leastDelayNs }: FaultSetup): FaultState => ({
    leastDelayNs,
    orders: entries.flatMap(ordersOf).sort((a, b) => a.atNs - b.atNs),
  }),
  start(state, context) {
    for (const order of state.orders) {
      const delayNs = Math.max(order.atNs, state.leastDelayNs);
      const to = order.to as ActorId;
      const [a = 0, b = 0, c = 0] = order.values;
      if (order.kind === 'gpu-speed') context.send(to, setGpuSpeed, delayNs, a);
      else if (order.kind === 'link-share') context.send(to, setLinkShare, delayNs, a, b, c);
      else if (order.kind === 'tier-speed') context.send(to, setTierSpeed, delayNs, a);
      else context.send(to, setTelemetryLoss, delayNs, a);
    }
  },
  on: {},
});

function ordersOf(entry: FaultEntry): FaultState['orders'] {
  if (entry.kind === 'gpu-speed') return [{ atNs: entry.atNs, kind: entry.kind, to: entry.gpu.id, values: [entry.factor] }];
  if (entry.kind === 'tier-speed') return [{ atNs: entry.atNs, kind: entry.kind, to: entry.tier.id, values: [entry.factor] }];
  if (entry.kind === 'telemetry-loss') return [{ atNs: entry.atNs, kind: entry.kind, to: entry.target.id, values: [entry.lost ? 1 : 0] }];
  return entry.links.map((link) => ({ atNs: entry.atNs, kind: entry.kind, to: entry.fabric.id, values: [link, 1, entry.share] }));
}
