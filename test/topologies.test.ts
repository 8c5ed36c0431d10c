import { planCluster, readScenario, validateScenario } from '@braess/cluster';
import { buildTopology, linksOfClass } from '@braess/fabric';
import { describe, expect, it } from 'vitest';
import { createProject, type ProjectRun } from './small-cluster.js';

const project = createProject();
const scenario = (name: string, cluster: string, prefill: number, decode: number): void => {
  project.write(
    `${name}.yaml`,
    `name: ${name}
cluster: ${cluster}
model: { name: Llama-3.1-8B }
serving:
  - { name: prefill, count: ${prefill}, role: prefill, tensorParallel: 1 }
  - { name: decode, count: ${decode}, role: decode, tensorParallel: 1 }
router: { policy: round-robin, oracle: { policy: periodic, parameters: { seconds: 0.1 } } }
workload:
  requests: 40
  source:
    kind: independent
    arrivals: { kind: poisson, ratePerSecond: 40 }
    inputTokens: { kind: lognormal, meanTokens: 4000, sigma: 0.9, maxTokens: 20000 }
    outputTokens: { kind: constant, tokens: 5 }
`,
  );
};
// Fat-trees as of Al-Fares et al. 2008: k pods of k/2 leaves and k/2 spines, (k/2)^2 cores, k^3/4 hosts, here of one GPU each. One rate for all links.
const fatTree = (k: number): string => `{ pods: ${k}, racksPerPod: ${k / 2}, serversPerRack: ${k / 2}, gpusPerServer: 1, topology:
  { kind: fat-tree, nicsPerServer: 1, spinesPerPod: ${k / 2}, uplinksPerLeaf: ${k / 2}, cores: ${k ** 2 / 4}, uplinksPerPod: ${k ** 2 / 4} } }`;
scenario('tree4', fatTree(4), 6, 10);
scenario('tree16', fatTree(16), 200, 824);
scenario(
  'rails',
  '{ pods: 2, racksPerPod: 1, serversPerRack: 4, gpusPerServer: 4, topology: { kind: rail-optimised, nicsPerServer: 4, spinesPerPod: 2, uplinksPerLeaf: 2, cores: 2, uplinksPerPod: 4 } }',
  14,
  18,
);
scenario(
  'zones',
  '{ pods: 2, racksPerPod: 2, serversPerRack: 2, gpusPerServer: 2, topology: { kind: multi-zone, zones: 2, nicsPerServer: 2, spinesPerPod: 2, uplinksPerLeaf: 2, cores: 2, uplinksPerPod: 4 } }',
  14,
  18,
);
const linkBytesPerSecond = 50e9;
/** 32 layers x 2 x 8 heads of 128 in 16 bit. */
const kvBytesPerToken = 131_072;
const levels = ['same node', 'same rack', 'same pod', 'across pods', 'across zones'];

/** The distance of two engines by their names alone: zone0/pod1/rack0/node1/engine0. */
function levelByName(from: string, to: string, rails: boolean): number {
  const [a, b] = [from, to].map((name) => Object.fromEntries(name.split('/').map((part) => [part.replace(/\d+/, ''), part])));
  const differs = (...parts: string[]): boolean => parts.some((part) => a?.[part] !== b?.[part]);
  if (differs('zone')) return 4;
  if (differs('pod')) return 3;
  if (!differs('rack', 'node')) return 0;
  return differs(rails ? 'engine' : 'rack') ? 2 : 1;
}

/** Bytes over all links between servers, by the kinds of node at their ends: a use stands for its period and all after it until the next. */
async function bytesByKind({ query }: ProjectRun): Promise<Map<string, number>> {
  const rows = await query(
    `select regexp_replace(entity, '[a-z0-9/]*/|[0-9]+', '', 'g') as kind, sum(value * periods) as uses from
     (select *, coalesce(lead(time_s) over (partition by entity order by time_s) - time_s, 1) as periods from series where metric = 'link_use') group by all`,
  );
  return new Map(rows.map(({ kind, uses }) => [kind as string, (uses as number) * linkBytesPerSecond]));
}

async function check(name: string, policy: string, placement = 'packed'): Promise<number[]> {
  const placed = [0, 1].map((group) => `serving[${group}].placement=${placement}`);
  const run = await project.run(`${name}.yaml`, [`router.decode={policy: ${policy}}`, ...placed]);
  expect(run.summary, `${name}, ${policy}`).toMatchObject({ submitted: 40, completed: 40 });
  const rows = await run.query('select prefill_worker p, decode_worker d, network_tier t, transfer_bytes b, input_tokens i from requests');
  const rails = name === 'rails';
  const bytes = [0, 0, 0, 0, 0];
  for (const { p, d, t, b, i } of rows) {
    const level = levelByName(p as string, d as string, rails);
    expect(t, `${name}, ${policy}: ${p} to ${d}`).toBe(levels[level]);
    expect(Number(b)).toBe((i as number) * kvBytesPerToken);
    bytes[level]! += Number(b);
  }
  const beyond = (level: number): number => bytes.slice(level).reduce((sum, one) => sum + one, 0);
  const carried = await bytesByKind(run);
  const leaf = rails ? 'rail' : 'leaf';
  const pairs = [
    ['nic', leaf, 1],
    [leaf, 'spine', 2],
    ['spine', 'core', 3],
    ['gateway', 'gateway', 4],
  ] as const;
  for (const [low, high, level] of pairs)
    for (const kind of [`${low}->${high}`, `${high}->${low}`])
      expect(Math.abs((carried.get(kind) ?? 0) - beyond(level)), `${name}, ${policy}: ${kind}`).toBeLessThan(1 + 1e-6 * beyond(level));
  return bytes;
}

describe('on every topology, with every decode router, all is served, distances are those of the names, and every level carries what crosses it', () => {
  const policies = [
    'round-robin',
    'cache-aware',
    'load-aware',
    'cla',
    'netkv-static',
    'netkv-self',
    'netkv',
    'weighted',
    'tier-first',
    'zone-first',
    'netkv-path',
    'netkv-joint',
  ];
  // Each router on two of the three.
  it.each([
    ['tree4', 0, [2, 3]],
    ['rails', 1, [0, 1, 2, 3]],
    ['zones', 2, [1, 2, 3, 4]],
  ] as const)('%s', async (name, skipped, levelsThere) => {
    const used = [0, 0, 0, 0, 0];
    for (const [index, policy] of policies.entries())
      if (index % 3 !== skipped) for (const [level, bytes] of (await check(name, policy)).entries()) used[level]! += bytes;
    // No distance that the shape has between these engines went untried.
    expect(used.flatMap((bytes, level) => (bytes > 0 ? [level] : []))).toEqual(levelsThere);
  });

  it('a fat-tree of 1,024 hosts', async () => {
    const packed = await check('tree16', 'netkv');
    // 200 prefill engines fill three pods and a rack of the fourth: of the 40 that are asked first, all are in pods without decode engines.
    expect(packed.map(Math.sign)).toEqual([0, 0, 0, 1, 0]);
    // Now each of the 128 racks has one or two prefill engines and six or seven decode engines.
    const spread = await check('tree16', 'tier-first', 'spread');
    expect(spread.map(Math.sign)).toEqual([0, 1, 0, 0, 0]);
  });

  it('engines that are spread over zones, pods and racks reach near ones where the router looks', async () => {
    const near = await check('zones', 'tier-first', 'spread');
    expect(near.slice(3)).toEqual([0, 0]);
    const blind = await check('zones', 'round-robin', 'spread');
    expect(blind[4]).toBeGreaterThan(0);
  });
});

describe('validate', () => {
  it.each([
    ['slower-links', 4, 1],
    ['slower-links', 2.5, 5],
    ['fewer-links', 4, 2],
  ] as const)('prints uplinks as they are drawn: %s %d:1, %d:1', async (by, leaf, core) => {
    const cluster = `{ pods: 2, racksPerPod: 2, serversPerRack: 2, gpusPerServer: 4, topology: { kind: KIND, oversubscription: { leaf: ${leaf}, core: ${core}, by: ${by} } } }`;
    for (const [kind, prefix] of [
      ['fat-tree', 'network'],
      ['multi-zone', 'network.zone'],
    ] as const) {
      scenario('uplinks', cluster.replace('KIND', kind), 6, 10);
      const read = readScenario(project.path('uplinks.yaml'));
      const { defaults } = await validateScenario(read);
      const printed = (path: string): number => Number(defaults.find((entry) => entry.path === `${prefix}.${path}`)?.value);
      const topology = buildTopology(planCluster(read).topologySpec);
      const zones = kind === 'fat-tree' ? 1 : 2;
      for (const [linkClass, count, link, switches] of [
        ['leaf-uplink', 'uplinksPerLeaf', 'leafUplink', 4 * zones],
        ['core-uplink', 'uplinksPerPod', 'coreUplink', 2 * zones],
      ] as const) {
        const drawn = linksOfClass(topology, linkClass); // Both directions of each cable.
        expect(printed(count)).toBe(drawn.length / 2 / switches);
        expect(printed(`${link}.bytesPerSecond`)).toBe(topology.linkBytesPerSecond[drawn[0]!]);
      }
    }
  });
});
