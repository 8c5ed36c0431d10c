import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseScenario, planCluster, validateScenario } from '@braess/cluster';
import { afterAll, describe, expect, it } from 'vitest';

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

describe('places', () => {
  const told = async (serving: string, cluster: string, ...settings: string[]): Promise<string[]> =>
    (await validateScenario(parseScenario(text, 'places.yaml', [`serving=${serving}`, `cluster=${cluster}`, ...settings]))).warnings.filter(
      (warning) => /^(cluster|serving): /.test(warning),
    );
  const both = (count: number, more = ''): string =>
    `[{ count: ${count}, role: prefill, tensorParallel: 4${more} }, { count: ${count}, role: decode, tensorParallel: 4${more} }]`;
  const zones = '{ pods: 2, racksPerPod: 1, serversPerRack: 2, topology: { kind: multi-zone, zones: 2 } }';

  it('without an engine are told of, the outermost of those within one another', async () => {
    expect(await told(both(2), zones)).toEqual([
      'cluster: no engine is in zone1, zone0/pod1 (16 of 64 GPUs are in use), and no KV goes to zone1; raise serving count, set serving placement: spread, or lower topology.zones, pods',
    ]);
    expect(await told(both(8), zones)).toEqual([
      'serving: 8 of 8 prefill engines have no decode engine in their zone, so their KV crosses zones; set placement: spread in both groups to have both in each',
    ]);
    expect(await told(both(8, ', placement: spread'), zones)).toEqual([]);
    expect((await told(both(1), '{ pods: 2, racksPerPod: 3, serversPerRack: 4 }'))[0]).toMatch(
      /^cluster: no engine is in pod1, pod0\/rack1, pod0\/rack2 and 3 more \(8 of 192 GPUs are in use\); raise/,
    );
  });

  it('have NICs that their GPUs can fill: each GPU of an H100 server has 64 GB/s to them', async () => {
    const slow = (more: string) => told(both(2), `{ serversPerRack: 2, topology: { ${more} } }`);
    expect(await slow('bytesPerSecond: { nic: 64.0e+9 }')).toEqual([]);
    expect(await slow('bytesPerSecond: { nic: 100.0e+9 }')).toEqual([
      'cluster: a NIC carries 100 GB/s and the PCIe links to it 64 GB/s, so KV between servers gets no more than that; raise topology.bytesPerSecond.pcie, or lower nic',
    ]);
    // Two GPUs share a NIC; two NICs share a GPU.
    expect(await slow('nicsPerServer: 4, bytesPerSecond: { nic: 100.0e+9 }')).toEqual([]);
    expect((await slow('nicsPerServer: 16, bytesPerSecond: { nic: 50.0e+9 }'))[0]).toContain(
      'a NIC carries 50 GB/s and the PCIe links to it 32 GB/s',
    );
    const aggregated = '[{ count: 4, tensorParallel: 4 }]';
    expect(await told(aggregated, '{ serversPerRack: 2, topology: { bytesPerSecond: { nic: 100.0e+9 } } }', 'router.decode=null')).toEqual(
      [],
    );
  });

  it('have GPUs whose NICs the flows that stand for them all take', async () => {
    const thin = async (serving: string, topology: string, shards = 'aggregate'): Promise<string[]> => {
      const cluster = `{ serversPerRack: 4, topology: ${topology}, fabric: { shards: ${shards} } }`;
      const settings = [`serving=${serving}`, `cluster=${cluster}`, 'model={ name: Llama-3.1-70B, weightPrecision: fp8 }'];
      const { warnings } = await validateScenario(parseScenario(text, 'flows.yaml', settings));
      return warnings.filter((warning) => warning.startsWith('cluster.fabric: KV'));
    };
    const groups = (prefill: number, ...decode: number[]): string =>
      `[{ count: 1, role: prefill, tensorParallel: ${prefill} }, ${decode.map((gpus) => `{ count: 1, role: decode, tensorParallel: ${gpus} }`).join(', ')}]`;
    // A flow a server, and drawn as they are 16 NICs.
    expect(await thin(groups(16, 16), '{ nicsPerServer: 8 }')).toEqual([
      'cluster.fabric: KV from prefill0 to decode1 gets 13 % of what the NICs of their GPUs carry, as one flow stands for the GPUs of a server and takes one NIC; set shards: per-gpu',
    ]);
    expect(await thin(groups(16, 16), '{ nicsPerServer: 8 }', 'per-gpu')).toEqual([]);
    expect(await thin(groups(16, 16), '{ nicsPerServer: 1 }')).toEqual([]);
    expect(await thin(groups(4, 4), '{ nicsPerServer: 2 }')).toEqual([]);
    expect((await thin(groups(8, 8), '{ nicsPerServer: 2 }'))[0]).toContain('gets 50 %');
    // NICs are drawn as one of all GPUs of a group, or of the smallest: of four here.
    expect(await thin(groups(16, 8), '{}')).toEqual([]);
    expect(await thin(groups(8, 4), '{}')).toEqual([]);
    expect((await thin(groups(8, 4, 8), '{}'))[0]).toContain('KV from prefill0 to decode2 gets 50 %');
  });

  it('that background flows begin and end at are in use', async () => {
    const flows =
      'cluster.fabric.onOff=[{ from: pod0/rack0/node1/gpu0, to: pod0/rack0/node2/gpu3, bytesPerSecond: 1, meanOnMs: 1, meanOffMs: 1 }]';
    expect(await told(both(1), '{ serversPerRack: 3 }', flows)).toEqual([]);
    expect((await told(both(1), '{ serversPerRack: 4 }', flows))[0]).toMatch(
      /in pod0\/rack0\/node3 .*; raise serving count, or lower serversPerRack$/,
    );
  });

  it('of prefill engines are told of where most have no decode engine in their pod, and may not change their roles', async () => {
    const pods = '{ pods: 2, racksPerPod: 2 }';
    expect(await told(both(4), pods)).toEqual([
      'serving: 4 of 4 prefill engines have no decode engine in their pod, so their KV crosses pods; set placement: spread in both groups to have both in each',
    ]);
    // Four fill pod0, two are with all that decode in pod1.
    const uneven = (prefill: number): string =>
      `[{ count: ${prefill}, role: prefill, tensorParallel: 4 }, { count: 2, role: decode, tensorParallel: 4 }]`;
    expect((await told(uneven(6), pods))[0]).toMatch(/^serving: 4 of 6 prefill engines have no decode engine in their pod/);
    expect(await told(both(4), pods, 'planner.policy=load', 'router.loadReportMs=100')).toEqual([]);
    expect(await told(both(2), pods, 'servingRounds=2')).toEqual([]);
    expect(await told('[{ count: 8, tensorParallel: 4 }]', pods)).toEqual([]);
  });

  it('are not to be spread where an engine is larger than a rack', async () => {
    const wide = (more: string): string =>
      `[{ count: 2, role: prefill, tensorParallel: 16${more} }, { count: 2, role: decode, tensorParallel: 16${more} }]`;
    const model = 'model={ name: Llama-3.1-405B, weightPrecision: fp8 }';
    const pods = '{ pods: 2, racksPerPod: 4, serversPerRack: 1 }';
    await expect(told(wide(', placement: spread'), pods, model)).rejects.toThrow(/tensorParallel is 16; a rack has 8 GPUs/);
    expect(await told(wide(''), pods, model)).toEqual([
      'serving: 2 of 2 prefill engines have no decode engine in their pod, so their KV crosses pods; place groups of fewer engines in several servingRounds to have both in each',
    ]);
    const rounds = '[{ count: 1, role: prefill, tensorParallel: 16 }, { count: 1, role: decode, tensorParallel: 16 }]';
    expect(await told(rounds, pods, model, 'servingRounds=2')).toEqual([]);
    expect(await told(rounds, pods, model)).toEqual([
      'cluster: no engine is in pod1 (32 of 64 GPUs are in use); raise serving count, or lower pods',
    ]);
  });
});

describe('a priority that nothing comes of', () => {
  const told = async (...settings: string[]): Promise<string[]> =>
    (await validateScenario(parseScenario(text, 'priorities.yaml', settings))).warnings.filter((warning) => /riorit/.test(warning));
  const tenants = 'workload.tenants=[{ name: a, share: 1, priority: 2 }, { name: b, share: 1 }]';

  it('is told of: a nearPriority above all of them, and priorities that nobody reads', async () => {
    expect(await told('router.decode={ policy: cla, nearPriority: 3 }', tenants)).toEqual([
      'router.decode.nearPriority is 3 and the highest priority of a tenant is 2, so every request keeps away from the nearest engines while there are others; lower it, or give tenants a priority',
    ]);
    expect((await told('router.decode={ policy: cla, nearPriority: 1 }'))[0]).toMatch(/nearPriority is 1 and there are no tenants/);
    expect((await told(tenants))[0]).toMatch(/^workload.tenants have priorities, but nothing goes by them/);
    for (const read of [
      'router.decode={ policy: cla, nearPriority: 2 }',
      'router.queue.order=wspt',
      'serving[1].schedulingPolicy=priority',
    ])
      expect(await told(read, tenants)).toEqual([]);
  });
});

describe('a Mooncake trace', () => {
  const folder = mkdtempSync(join(tmpdir(), 'braess-warnings-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const told = async (rows: object[], ...settings: string[]): Promise<string[]> => {
    const file = join(folder, 'rows.jsonl');
    writeFileSync(file, rows.map((row) => `${JSON.stringify({ output_length: 5, ...row })}\n`).join(''));
    const source = `workload.source={ kind: trace, arrivals: as-is, file: ${file} }`;
    return (await validateScenario(parseScenario(text, 'trace.yaml', [source, 'workload.requests=null', ...settings]))).warnings.filter(
      (warning) => /rows of the trace|sessions/.test(warning),
    );
  };

  it('is told of where rows may be meant in another way, and of what nothing goes by', async () => {
    const timed = [
      { session_id: 'a', timestamp: 0, input_length: 700, hash_ids: [1, 2], priority: 1 },
      { session_id: 'a', timestamp: 90, input_length: 20, hash_ids: [3] },
    ];
    const [ignored, shorter, alone, ...more] = await told(timed);
    expect(ignored).toMatch(/fields that nothing goes by: priority$/);
    expect(shorter).toMatch(/^1 later turns .* shorter prompts than the turn before; .*turnPrompts: added/);
    expect(alone).toMatch(/^1 later turns .* come at their timestamps, .*workload\.sessions: \{ next: arrival \}/);
    expect(more).toEqual([]);
    expect(await told(timed, 'workload.source.turnPrompts=added', 'workload.sessions={}')).toEqual([ignored]);
    expect(
      await told([
        { session_id: 'a', timestamp: 0, input_length: 700 },
        { session_id: 'a', delay: 5, input_length: 20 },
      ]),
    ).toEqual([]);
  });
  it('with delays needs a client that waits for answers', async () => {
    const rows = [
      { session_id: 'a', timestamp: 0, input_length: 700 },
      { session_id: 'a', delay: 5, input_length: 20 },
    ];
    const client = (more: string) => told(rows, `workload.client={ kind: closed-loop, inFlight: 2${more} }`);
    await expect(client('')).rejects.toThrow(/workload\.client.* is a loop that takes requests in order, but turns of the trace/);
    await expect(client(', style: semaphore, backlog: true')).rejects.toThrow(/takes requests in order/);
    expect(await client(', style: semaphore')).toEqual([]);
  });
});

describe('think times that are not kept', () => {
  it('are told of', async () => {
    const told = async (think: string): Promise<string[]> => {
      const tokens = '{ kind: constant, tokens: 9 }';
      const source = `workload.source={ kind: sessions, sessionArrivals: { kind: poisson, ratePerSecond: 1 }, turns: ${tokens}, firstTokens: ${tokens}, turnTokens: ${tokens}, outputTokens: ${tokens}, meanThinkS: 20, maxInputTokens: 1000 }`;
      const { warnings } = await validateScenario(parseScenario(text, 'think.yaml', [source, `workload.sessions=${think}`]));
      return warnings.filter((warning) => warning.includes('meanThinkMs'));
    };
    expect(await told('{ next: think }')).toEqual([expect.stringMatching(/set meanThinkMs, e\.g\. to 20000$/)]);
    expect(await told('{ next: think, meanThinkMs: 1 }')).toEqual([]);
    expect(await told('{ next: arrival }')).toEqual([]);
  });
});

describe('weights of a quantised checkpoint', () => {
  const parent = mkdtempSync(join(tmpdir(), 'braess-quantised-'));
  afterAll(() => rmSync(parent, { recursive: true }));

  it('are told of where the scenario has them in bf16', async () => {
    const shape = { hidden_size: 64, intermediate_size: 64, num_attention_heads: 4, num_hidden_layers: 2, vocab_size: 1000 };
    const config = { model_type: 'llama', max_position_embeddings: 4096, ...shape };
    const told = async (more: object, settings: readonly string[]): Promise<string[]> => {
      writeFileSync(join(parent, 'Tiny.json'), JSON.stringify({ ...config, ...more }));
      const all = [`catalogue=[${join(parent, 'Tiny.json')}]`, 'model.name=Tiny', ...settings];
      const { warnings } = await validateScenario(parseScenario(text, 'tiny.yaml', all));
      return warnings.filter((warning) => warning.includes('quantised'));
    };
    const quantised = { quantization_config: { quant_method: 'awq', bits: 4 } };
    expect(await told(quantised, [])).toEqual([expect.stringMatching(/^Tiny: its checkpoint is quantised \(awq, 4 bits\).* is bf16/)]);
    expect(await told(quantised, ['model.weightPrecision=fp4'])).toEqual([]);
    expect(await told({}, [])).toEqual([]);
  });
});
