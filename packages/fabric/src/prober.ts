import { type ActorId, type ActorKind, actorKind } from '@braess/kernel';
import { probeEnded, probeOrder, startTransfer, transferEnded } from '@braess/protocol';

/** Where probes enter the fabric, and how late; delays in ns. */
export interface ProberOptions {
  /** Who takes transfers that leave a node. */
  readonly endpointOf: (node: number) => number;
  /** To whoever takes transfers there, and to the one who ordered the probe. */
  readonly transferDelayNs: number;
  readonly reportDelayNs: number;
}

interface Probe {
  readonly orderedBy: number;
  readonly probe: number;
  readonly source: number;
  readonly destination: number;
  readonly backBytes: number;
  /** Time of the way forth, -1 while it is under way. */
  forthNs: number;
}

/** Plain data. */
export interface ProberState {
  probes: Map<number, Probe>;
  count: number;
}

const messages = { probeOrder, transferEnded };

/** The actor kind of a probe agent. */
export type ProberKind = ActorKind<'prober', keyof typeof messages, void>;

/**
 * A probe agent on a server, as a mesh of pings has them: moves real bytes through the fabric, there and back, and reports how long each way took by the time
 * stamps of the adapters.
 */
export function proberKind(options: ProberOptions): ProberKind {
  const { endpointOf, transferDelayNs, reportDelayNs } = options;
  return actorKind({
    name: 'prober',
    messages,
    state: (): ProberState => ({ probes: new Map(), count: 0 }),
    on: {
      probeOrder(state: ProberState, { sender, probe, source, destination, forthBytes, backBytes }, context) {
        const transfer = state.count++;
        state.probes.set(transfer, { orderedBy: sender, probe, source, destination, backBytes, forthNs: -1 });
        context.send(endpointOf(source) as ActorId, startTransfer, transferDelayNs, transfer, source, destination, forthBytes, 1);
      },
      transferEnded(state: ProberState, { transfer, status, startNs, endNs }, context) {
        const under = state.probes.get(transfer) as Probe;
        state.probes.delete(transfer);
        const wayNs = endNs - startNs;
        if (status === 0 && under.backBytes > 0 && under.forthNs < 0) {
          const back = state.count++;
          state.probes.set(back, { ...under, forthNs: wayNs });
          const { source, destination, backBytes } = under;
          context.send(endpointOf(destination) as ActorId, startTransfer, transferDelayNs, back, destination, source, backBytes, 1);
          return;
        }
        const [forthNs, backNs] = under.forthNs < 0 ? [wayNs, -1] : [under.forthNs, wayNs];
        context.send(under.orderedBy as ActorId, probeEnded, reportDelayNs, under.probe, status, forthNs, backNs);
      },
    },
  });
}
