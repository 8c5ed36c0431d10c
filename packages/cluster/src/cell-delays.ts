import type { World } from '@braess/kernel';
import type { ClusterPlan } from './plan.js';

/** Delays between cell classes, ns; every message takes at least its own. */
export interface Delays {
  readonly client: number;
  readonly control: number;
  /** Inside and between servers and fabric. */
  readonly server: number;
  readonly notice: number;
  readonly release: number;
}

export function delaysOf({ delays, cluster }: ClusterPlan['scenario']): Delays {
  return {
    client: Math.round(delays.clientUs * 1e3),
    control: Math.round(delays.controlUs * 1e3),
    server: Math.max(1, Math.round(cluster.fabric.delayUs * 1e3)),
    notice: Math.max(1, Math.round(cluster.fabric.noticeUs * 1e3)),
    release: Math.max(1, Math.round(delays.releaseUs * 1e3)),
  };
}

/** Which cells send to which, and how late at least; the fabric at chunk fidelity adds its own. */
export function declareLookahead(world: World, plan: ClusterPlan, delays: Delays): void {
  const { client, control, server, notice, release } = delays;
  const both = (a: string, b: string, delayNs: number): void => {
    world.lookahead(a, b, delayNs);
    if (a !== b) world.lookahead(b, a, delayNs);
  };
  both('client', 'control', client);
  both('control', 'server', control);
  both('control', 'control', control);
  // At chunk fidelity an engine asks the server that its KV comes from for the transfer.
  const isChunk = plan.scenario.cluster.fabric.fidelity === 'chunk';
  both('server', 'server', isChunk ? Math.min(server, release) : release);
  both('server', 'storage', server);
  for (const from of ['server', 'storage']) {
    world.lookahead(from, 'fabric', server);
    // The chunk fabric declares its own way from fabric actors to servers.
    if (!(isChunk && from === 'server')) world.lookahead('fabric', from, notice);
  }
  world.lookahead('fabric', 'control', notice);
  for (const to of ['server', 'fabric', 'control', 'storage']) world.lookahead('faults', to, server);
}
