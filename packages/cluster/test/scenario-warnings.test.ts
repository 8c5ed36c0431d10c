import { parseScenario, planCluster, validateScenario } from '@braess/cluster';
import { describe, expect, it } from 'vitest';

const text = `cluster: { gpu: H100 }
serving:
  - { name: prefill, count: 1, role: prefill, tensorParallel: 4 }
  - { name: decode, count: 1, role: decode, tensorParallel: 4 }
workload:
  requests: 10
  source: { kind: independent, arrivals: { kind: poisson, ratePerSecond: 1 }, inputTokens: { kind: constant, tokens: 100 }, outputTokens: { kind: constant, tokens: 10 } }
`;

async function warned(settings: readonly string[]): Promise<string[]> {
  const { warnings } = await validateScenario(parseScenario(text, 'reports.yaml', settings));
  return warnings.filter((warning) => warning.includes('load reports')).map((warning) => warning.split(':')[0]!);
}

describe('whoever goes by load reports is warned where no engine sends any', () => {
  const policies: [string, string][] = [
    ...['load-aware', 'cla', 'cache-aware', 'weighted', 'netkv-static', 'netkv-self', 'netkv', 'netkv-path', 'netkv-joint'].map(
      (policy): [string, string] => ['router.decode', `router.decode={ policy: ${policy}, parameters: { load: report } }`],
    ),
    ['router', 'router={ policy: load-aware, parameters: { load: report } }'],
    ['router.frontendParameters[1]', 'router={ policy: load-aware, frontends: 2, frontendParameters: [{}, { load: report }] }'],
    ['router.oracle', 'router.oracle={ policy: cost-triple }'],
    ['planner', 'planner={ policy: load }'],
  ];
  it.each(policies)('%s of %s', async (path, setting) => {
    // cache-aware takes the parameter and looks at prefixes alone.
    expect(await warned([setting])).toEqual(setting.includes('cache-aware') ? [] : [path]);
    expect(await warned([setting, 'router.loadReportMs=100'])).toEqual([]);
  });

  it('and nobody else is', async () => {
    for (const policy of [
      'round-robin',
      'random',
      'power-of-two',
      'least-loaded',
      'kv',
      'cla',
      'weighted',
      'netkv',
      'tier-first',
      'zone-first',
    ])
      expect(await warned([`router.decode={ policy: ${policy} }`])).toEqual([]);
    expect(await warned(['router.oracle={ policy: cost-triple, parameters: { load: account } }'])).toEqual([]);
    expect(planCluster(parseScenario(text, 'reports.yaml')).policies.planner.policy).toBe('static');
  });
});

describe('a decode router that asks about the network is warned where no oracle answers', () => {
  const told = async (...settings: string[]): Promise<string[]> => {
    const { warnings } = await validateScenario(parseScenario(text, 'network.yaml', settings));
    return warnings.filter((warning) => warning.includes('there is no oracle'));
  };

  it('wherever it is named, and nobody else', async () => {
    for (const policy of ['netkv', 'netkv-path', 'netkv-joint', 'weighted', 'tier-first', 'zone-first']) {
      const [warning] = await told(`router.decode={ policy: ${policy} }`);
      expect(warning).toMatch(`router.decode: '${policy}' asks what moving KV`);
      expect(await told(`router.decode={ policy: ${policy} }`, 'router.oracle={ policy: static-tier }')).toEqual([]);
      expect((await told(`router={ policy: ${policy} }`))[0]).toMatch(/^router: /);
    }
    for (const policy of ['cla', 'load-aware', 'cache-aware', 'round-robin'])
      expect(await told(`router.decode={ policy: ${policy} }`)).toEqual([]);
    // Engines that do both stages move nothing.
    expect(await told('router={ policy: netkv }', 'serving=[{ count: 2, role: aggregated, tensorParallel: 4 }]')).toEqual([]);
  });
});

describe('an oracle that counts as ill between two words that it says', () => {
  const told = async (oracle: string, ...settings: string[]): Promise<string[]> => {
    const { warnings } = await validateScenario(
      parseScenario(text, 'health.yaml', ['router.decode={ policy: netkv }', `router.oracle=${oracle}`, ...settings]),
    );
    return warnings.filter((warning) => warning.includes('counts as ill'));
  };

  it('is told of with its period', async () => {
    expect((await told('{ policy: periodic, health: { timeoutMs: 1000 } }'))[0]).toMatch(
      /timeoutMs is 1000 and 'periodic' speaks each 1000 ms/,
    );
    expect((await told('{ policy: rtt-median, health: { timeoutMs: 5000 } }'))[0]).toMatch(/'rtt-median' speaks each 10000 ms/);
    for (const fine of [
      'periodic, health: { timeoutMs: 1001 }',
      'exact, health: { timeoutMs: 10 }',
      'static-tier, health: { timeoutMs: 1 }',
      'periodic',
    ])
      expect(await told(`{ policy: ${fine} }`)).toEqual([]);
    expect(await told('{ policy: periodic, health: { timeoutMs: 500 } }', 'router.linkReportMs=100')).toEqual([]);
  });
});

describe('a longest wait that lifts nothing', () => {
  it('is told of', async () => {
    const told = async (decode: string): Promise<string[]> =>
      (await validateScenario(parseScenario(text, 'wait.yaml', [`router.decode={ policy: cla, ${decode} }`]))).warnings.filter((warning) =>
        warning.includes('longestWaitMs does nothing'),
      );
    expect(await told('longestWaitMs: 100')).toHaveLength(1);
    expect(await told('longestWaitMs: 100, utilisationCap: 0.8')).toEqual([]);
    expect(await told('longestWaitMs: 100, nearPriority: 1')).toEqual([]);
    expect(await told('utilisationCap: 0.8')).toEqual([]);
  });
});
