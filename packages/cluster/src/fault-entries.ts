import type { EngineEntry } from '@braess/control';
import { linksBetween, type Topology } from '@braess/fabric';
import type { ActorReference } from '@braess/kernel';
import type { FaultEntry } from './fault-actor.js';
import type { Scenario } from './scenario/schema.js';

/** Those whom faults can hit, by name. */
export interface FaultTargets {
  readonly gpus: ReadonlyMap<string, ActorReference>;
  readonly tiers: ReadonlyMap<string, ActorReference>;
  readonly engines: readonly EngineEntry[];
  readonly frontends: readonly ActorReference[];
  readonly oracle: readonly ActorReference[];
  readonly fabric: ActorReference | undefined;
}

/** A fault of the scenario as its actor takes it; the plan has checked the names. */
export function faultEntry(fault: Scenario['faults'][number], actors: FaultTargets, topology: Topology): FaultEntry {
  const atNs = Math.round(fault.atSeconds * 1e9);
  if (fault.kind === 'gpu-speed')
    return { kind: fault.kind, atNs, gpu: actors.gpus.get(fault.gpu) as ActorReference, factor: fault.factor };
  if (fault.kind === 'link-share') {
    const links = [...linksBetween(topology, fault.from, fault.to), ...linksBetween(topology, fault.to, fault.from)];
    return { kind: fault.kind, atNs, fabric: actors.fabric as ActorReference, links, share: fault.share };
  }
  if (fault.kind === 'tier-speed')
    return { kind: fault.kind, atNs, tier: actors.tiers.get(fault.tier) as ActorReference, factor: fault.factor };
  const target =
    actors.engines.find((engine) => engine.name === fault.actor)?.actor ??
    [...actors.frontends, ...actors.oracle].find(({ name }) => name === fault.actor);
  return { kind: fault.kind, atNs, target: target as ActorReference, lost: fault.lost };
}
