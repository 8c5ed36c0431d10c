import { type BoundPolicy, createOracleKind, type NetworkSite, type OraclePolicy, type ProbePlace } from '@braess/control';
import { proberKind } from '@braess/fabric';
import type { ActorReference, Cell, World } from '@braess/kernel';
import type { Scenario } from './scenario/schema.js';

/** Period of link reports where nobody asks for one, ns. */
const defaultReportNs = 1e9;

/** Period of link reports that an oracle gets, ns (0: each change); undefined: it wants none. */
export function linkReportNs({ router }: Scenario, { policy, parameters }: BoundPolicy<OraclePolicy>): number | undefined {
  if (policy.observe === undefined) return undefined;
  if (router.linkReportMs !== undefined) return Math.round(router.linkReportMs * 1e6);
  return policy.linkReportNs?.(parameters) ?? defaultReportNs;
}

/** What the actor of an oracle is built with. */
export interface OracleSetting {
  readonly policy: BoundPolicy<OraclePolicy>;
  readonly site: NetworkSite;
  readonly frontends: readonly ActorReference[];
  readonly controlDelayNs: number;
  readonly readsPaths: boolean;
  /** Places of the engines, by number; filled as they are declared. */
  readonly places: readonly ProbePlace[];
}

export function addOracle(world: World, setting: OracleSetting): ActorReference {
  return world.actor('control/oracle', createOracleKind({ ...setting, engines: setting.places }), undefined, { class: 'control' });
}

/** The probe agents of the servers, where an oracle probes. */
export class Probers {
  readonly #kind: ReturnType<typeof proberKind>;
  readonly #ofServer = new Map<string, ActorReference>();

  constructor(endpointOf: (node: number) => number, transferDelayNs: number, reportDelayNs: number) {
    this.#kind = proberKind({ endpointOf, transferDelayNs, reportDelayNs });
  }

  of(server: string, cell: Cell): ActorReference {
    let prober = this.#ofServer.get(server);
    if (prober === undefined) {
      prober = cell.actor('prober', this.#kind, undefined);
      this.#ofServer.set(server, prober);
    }
    return prober;
  }
}
