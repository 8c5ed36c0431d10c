import { clusterProgram, loadWorkload, parseScenario, planCluster } from '@braess/cluster';
import type { FrontendState } from '@braess/control';
import { modelOf, Simulation } from '@braess/kernel';
import { type BlockPool, checkTierState, type PrefixIndex, type TierState } from '@braess/kvbm';
import type { EngineActorState } from '@braess/serving';
import { describe, expect, it } from 'vitest';

/** Two aggregated engines whose caches are full: nearly every block of output evicts one, named (of prompts) or not (of answers). */
const full = (kvTiers: string): string => `
name: full
cluster: { racksPerPod: 1, serversPerRack: 1, gpusPerServer: 2 }
serving: [{ count: 2, kvBlocks: 400 }]
router: { policy: kv, frontends: 2 }
kvTiers: ${kvTiers}
workload:
  requests: 400
  source:
    kind: independent
    arrivals: { kind: poisson, ratePerSecond: 10 }
    inputTokens: { kind: uniform, minTokens: 1, maxTokens: 300 }
    outputTokens: { kind: uniform, minTokens: 1, maxTokens: 400 }
    prefix: { groups: 8, popularity: { kind: zipf, exponent: 1 }, prefixTokens: { kind: constant, tokens: 160 } }
`;
const hostMemory = (mode: string): string => `{ g2: { gigabytes: 1, mode: ${mode} } }`;

async function stateAtEnd(kvTiers: string) {
  const read = parseScenario(full(kvTiers), 'full.yaml');
  const plan = planCluster(read);
  const { table } = await loadWorkload(read);
  const run = new Simulation(modelOf(clusterProgram, { plan, table, seriesNs: 0 }), { seed: '1' });
  run.runUntil();
  const frontends = [0, 1].map((index) => run.stateOf(`control/frontend${index}`) as FrontendState);
  const pools = [0, 1].map((index) => {
    const { engine } = run.stateOf(`pod0/rack0/node0/engine${index}`) as EngineActorState<{ pool: BlockPool }>;
    return engine.pool.pool;
  });
  const tier = kvTiers === '{}' ? undefined : (run.stateOf('pod0/rack0/node0/g2') as TierState);
  return { frontends, pools, tier };
}

const sorted = (identities: Iterable<number>): number[] => [...identities].filter((identity) => identity > 0).sort((a, b) => a - b);

/** What a router believes an engine to hold. */
function believed({ overlap }: FrontendState, engine: number): number[] {
  const { identities, holders, words, rows } = overlap as PrefixIndex;
  return sorted(Array.from(identities.subarray(0, rows)).filter((_, row) => ((holders[row * words] as number) & (1 << engine)) !== 0));
}

describe('engines with full caches', () => {
  it.each([
    ['nothing', '{}'],
    ['a tier that is written through', hostMemory('write-through')],
    ['a tier that takes what is evicted', hostMemory('on-eviction')],
  ])('tell all evictions to every router, above %s: in the end each believes what is there', async (_what, kvTiers) => {
    const { frontends, pools, tier } = await stateAtEnd(kvTiers);
    for (const [engine, pool] of pools.entries()) {
      const held = sorted(pool.cache.identity);
      expect(held.length).toBeGreaterThan(100);
      expect(pool.evictedBlocks).toBeGreaterThan(4000);
      for (const frontend of frontends) {
        expect(believed(frontend, engine)).toEqual(held);
        expect(frontend.counters.kvEventGaps).toBe(0);
      }
    }
    if (tier === undefined) return;
    expect(checkTierState(tier)).toEqual([]);
    const evicted = pools.reduce((sum, pool) => sum + pool.evictedBlocks, 0);
    // What an engine evicts is offered down in full, named or not.
    if (kvTiers.includes('on-eviction')) expect(tier.totals.offeredBlocks).toBe(evicted);
  });
});
