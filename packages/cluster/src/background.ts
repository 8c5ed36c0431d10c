import { type FabricOptions, type LinkClass, nodeId, type Topology } from '@braess/fabric';
import type { Scenario } from './scenario/schema.js';

/** Background traffic of a scenario, as the fabrics of both fidelities take it. */
export function backgroundOf(
  topology: Topology,
  scenario: Scenario,
): Pick<FabricOptions, 'backgroundShare' | 'onOff'> & { readonly onOffUntilNs?: number } {
  const { background, onOff } = scenario.cluster.fabric;
  const backgroundShare: Partial<Record<LinkClass, number>> = Object.fromEntries(background.map(({ link, share }) => [link, share]));
  return {
    backgroundShare,
    onOff: onOff.map(({ from, to, bytesPerSecond, meanOnMs, meanOffMs }) => ({
      source: nodeId(topology, from),
      destination: nodeId(topology, to),
      bytesPerSecond,
      meanOnNs: meanOnMs * 1e6,
      meanOffNs: meanOffMs * 1e6,
    })),
    ...(scenario.untilSeconds === undefined ? {} : { onOffUntilNs: Math.round(scenario.untilSeconds * 1e9) }),
  };
}
