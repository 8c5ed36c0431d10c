import type { World } from '@braess/kernel';
import type { ClusterPlan } from './plan.js';

/** Delays between cell classes; every message takes at least its own. */
export interface Delays {
  readonly clientNs: number;
  readonly controlNs: number;
  /** From servers to the fabric and to storage. */
  readonly serverNs: number;
  /** From the fabric back: the end of a transfer is noticed. */
  readonly noticeNs: number;
  /** From server to server: held KV may go. */
  readonly releaseNs: number;
}

/** The delays of a scenario, whole ns; those inside the cluster at least 1. */
export function delaysOf({ delays, cluster }: ClusterPlan['scenario']): Delays {
  return {
    clientNs: Math.round(delays.clientUs * 1e3),
    controlNs: Math.round(delays.controlUs * 1e3),
    serverNs: Math.max(1, Math.round(cluster.fabric.delayUs * 1e3)),
    noticeNs: Math.max(1, Math.round(cluster.fabric.noticeUs * 1e3)),
    releaseNs: Math.max(1, Math.round(delays.releaseUs * 1e3)),
  };
}

/** Which cells send to which, and how late at least; the fabric at chunk fidelity adds its own. */
export function declareLookahead(world: World, plan: ClusterPlan, delays: Delays): void {
  const { clientNs, controlNs, serverNs, noticeNs, releaseNs } = delays;
  const both = (a: string, b: string, delayNs: number): void => {
    world.lookahead(a, b, delayNs);
    if (a !== b) world.lookahead(b, a, delayNs);
  };
  both('client', 'control', clientNs);
  both('control', 'server', controlNs);
  both('control', 'control', controlNs);
  // At chunk fidelity an engine asks the server that its KV comes from for the transfer.
  const isChunk = plan.scenario.cluster.fabric.fidelity === 'chunk';
  both('server', 'server', isChunk ? Math.min(serverNs, releaseNs) : releaseNs);
  both('server', 'storage', serverNs);
  for (const from of ['server', 'storage']) {
    world.lookahead(from, 'fabric', serverNs);
    // The chunk fabric declares its own way from fabric actors to servers.
    if (!(isChunk && from === 'server')) world.lookahead('fabric', from, noticeNs);
  }
  world.lookahead('fabric', 'control', noticeNs);
  for (const to of ['server', 'fabric', 'control', 'storage']) world.lookahead('faults', to, serverNs);
}
