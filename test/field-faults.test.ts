import { readFileSync } from 'node:fs';
import { parseScenario, readScenario, validateScenario, writeWorkload } from '@braess/cluster';
import { describe, expect, it } from 'vitest';
import { createProject } from './small-cluster.js';
import { root } from './workspaces.js';

// Kinds of fault that users of cluster simulators have reported, and what shows that none of them is here: a test of its own below, or one elsewhere,
// by file and title, which must be there.

const shownElsewhere: readonly (readonly [fault: string, file: string, title: string])[] = [
  ['waits that differ from queueing theory', 'packages/lab/test/by-hand.test.ts', 'first come first served at load'],
  [
    'a trace that reads back otherwise',
    'packages/workload/test/readers.test.ts',
    'keeps the real conversation trace and all its prefix hits',
  ],
  [
    'prefix hits that a real cache would not have',
    'packages/kvbm/test/mooncake-trace.test.ts',
    'is hit by an unlimited pool as by a trie, request by request',
  ],
  [
    'outputs of running requests missing from the cache',
    'test/field-faults.test.ts',
    'finds the prompt before and its answer where both were computed',
  ],
  [
    'a number of KV blocks unlike the engine has',
    'packages/serving/test/catalogue.test.ts',
    'derives the KV tokens that vLLM reported, within 3 %',
  ],
  ['a number of KV blocks that nobody can see', 'apps/cli/test/run.test.ts', 'prints blocks, memory, saturation and defaults'],
  [
    'a number of KV blocks that nobody can set',
    'packages/serving/test/catalogue.test.ts',
    'takes a given number of blocks, but not more than fit',
  ],
  ['stalls lost in means of gaps', 'packages/telemetry/test/summary.test.ts', 'follows its definitions on a run worked out by hand'],
  [
    'transfers that do not share, of a duration fixed at their start',
    'packages/fabric/test/fabric-actor.test.ts',
    'agrees with an event-by-event max-min simulation on random traces',
  ],
  ['losses behind an exit code of 0', 'apps/cli/test/run.test.ts', 'the exit code says what became of it'],
  [
    'bytes moved that the destination has',
    'packages/serving/test/engine-actor.test.ts',
    'computes only what is not there, and moves only what the destination lacks',
  ],
  ['a balancing policy that does not balance', 'packages/control/test/router.test.ts', 'uses all engines alike'],
  [
    'offload without the wait for a poll',
    'packages/kvbm/test/fair-pipe.test.ts',
    'is noticed at the next poll, while the bandwidth is free from the true end on',
  ],
  [
    'bad cells read as 0',
    'packages/workload/test/bad-input.test.ts',
    'with random damage is read in full or refused with a TraceError, never anything else',
  ],
  ['rows skipped in silence', 'packages/workload/test/bad-input.test.ts', 'can be read with bad rows counted, never silently'],
  ['a model that cannot fit', 'packages/serving/test/catalogue.test.ts', 'refuses what does not fit, with the sums'],
  ['an option without effect', 'packages/lab/test/options.test.ts', 'no option of the schema is left out'],
  ['an edge value used unseen', 'packages/serving/test/timing.test.ts', 'clamps, counts and warns outside'],
  [
    'hangs with offload on',
    'packages/kvbm/test/tier-actor.test.ts',
    'conserves blocks, pins and transfers, and gives one fingerprint on two shards and in strict mode',
  ],
  [
    'requests frozen under load',
    'packages/serving/test/engine-actor-runs.test.ts',
    'accounts for every request and block, also under faults',
  ],
  ['a standstill that nobody names', 'packages/lab/test/run-scenario.test.ts', 'what does not add up is named'],
  ['a handler that never returns', 'packages/kernel/test/faults.test.ts', 'is named within 2 s and ended after limits.handlerLimitMs'],
  [
    'whole views copied for policies that do not read them',
    'packages/control/test/views.test.ts',
    'are ignored, and prefixes not looked up, when the policy does not read overlap',
  ],
  ['a pass over all blocks in each step', 'packages/serving/test/equality.test.ts', 'the lazy engine equals the pass-by-pass engine'],
  ['kilobytes a request', 'packages/telemetry/test/budget.test.ts', 'writes 20,000 requests in a fresh process within'],
  ['memory that grows with the run', 'bench/test/benches.test.ts', 'tells a leak from a start-up'],
  ['cost that grows with the cluster (braess bench job checks it)', 'packages/lab/src/bench-job.ts', 'cost per request'],
  ['no Mooncake traces', 'packages/workload/test/readers.test.ts', 'Mooncake conversation has its published statistics'],
  ['no Azure traces', 'packages/workload/test/readers.test.ts', 'Azure conversation'],
  [
    'no conversations of several turns',
    'packages/workload/test/workloads.test.ts',
    'arrive in order and each turn shares every whole block of the one before, and no more',
  ],
  ['metric names of its own', 'packages/telemetry/test/metrics.test.ts', 'are valid, unique and follow the conventions of their type'],
  ['no mixture of experts', 'packages/serving/test/timing.test.ts', 'a MoE pass reads the distinct experts hit in expectation'],
  [
    'no latent attention, no shared KV heads',
    'packages/serving/test/catalogue.test.ts',
    'splits KV heads over ranks, duplicates them beyond their number, replicates MLA',
  ],
  ['no consumer GPUs', 'packages/serving/data/gpus.json', 'RTX 4090'],
  ['GPUs only after a profiling run', 'packages/serving/test/catalogue.test.ts', 'takes entries of users, the later replacing the earlier'],
];

describe('faults that others report are looked for', () => {
  it.each(shownElsewhere)('%s: %s', (_fault, file, title) => {
    expect(readFileSync(root + file, 'utf8')).toContain(title);
  });
});

describe('a workload written as a trace', () => {
  const project = createProject();

  it('replays to the same run, with its sessions, prefixes, tenants and hits', async () => {
    const file = project.write(
      'talk.yaml',
      `name: talk
model: { name: Llama-3.1-8B }
serving: [{ count: 2, role: prefill, blockTokens: 64 }, { count: 2, role: decode, blockTokens: 64 }]
router: { policy: kv }
workload:
  requests: 80
  source:
    kind: sessions
    sessionArrivals: { kind: poisson, ratePerSecond: 4 }
    turns: { kind: uniform, minTokens: 1, maxTokens: 5 }
    firstTokens: { kind: lognormal, meanTokens: 700, sigma: 0.6 }
    turnTokens: { kind: constant, tokens: 90 }
    outputTokens: { kind: exponential, meanTokens: 40, maxTokens: 200 }
    meanThinkS: 0.5
    maxInputTokens: 8000
    prefix: { groups: 3, popularity: { kind: uniform }, prefixTokens: { kind: constant, tokens: 512 } }
    blockTokens: 64
  sessions: { next: think, meanThinkMs: 400 }
  tenants: [{ name: a, share: 1, slo: { ttftMs: 100 } }, { name: b, share: 2 }]
  slo: { ttftMs: 50 }
`,
    );
    const trace = project.path('talk.csv.gz');
    await writeWorkload(readScenario(file), trace);
    const made = await project.run('talk.yaml');
    const replayed = await project.run('talk.yaml', [`workload.source={kind: trace, file: ${trace}}`]);
    const { fingerprint, hitRates, ttftMs, sloAttainment } = made.summary;
    expect(hitRates.g1).toBeGreaterThan(0.1);
    expect(replayed.summary).toMatchObject({ fingerprint, hitRates, ttftMs, sloAttainment });
    const tenants = 'select tenant, count(*) as requests from requests group by all order by tenant';
    expect(await replayed.query(tenants)).toEqual(await made.query(tenants));
    // Names that the scenario does not know are no tenants of it.
    const other = [`workload.source={kind: trace, file: ${trace}}`, 'workload.tenants=[{name: c, share: 1}]'];
    await expect(project.run('talk.yaml', other)).rejects.toThrow('the trace names its own: ');
  });
});

describe('a request that needs more KV than there is', () => {
  const project = createProject();

  it.each([
    ['at an engine that does both', '[{ count: 2, kvBlocks: 40 }]', '{}'],
    [
      'at the prefill engine, with tiers below',
      '[{ count: 1, role: prefill, kvBlocks: 40 }, { count: 1, role: decode }]',
      '{ g2: { gigabytes: 1 } }',
    ],
    ['at the decode engine only', '[{ count: 1, role: prefill }, { count: 1, role: decode, kvBlocks: 40 }]', '{}'],
  ])('is rejected and counted, the others are served: %s', async (name, serving, tiers) => {
    // 40 blocks of 16 tokens: prompts of 100 and 900 tokens in turn.
    const rows = Array.from({ length: 20 }, (_, row) => `${row * 0.05},${row % 2 === 0 ? 100 : 900},5`);
    const trace = project.write('long.csv', `arrival_s,input_tokens,output_tokens\n${rows.join('\n')}\n`);
    const text = `name: long
model: { name: Llama-3.1-8B }
serving: ${serving}
kvTiers: ${tiers}
workload: { source: { kind: trace, file: ${trace} } }
`;
    const scenario = `${name.replaceAll(/\W/g, '-')}.yaml`;
    project.write(scenario, text);
    const { summary, query } = await project.run(scenario);
    expect(summary).toMatchObject({ submitted: 20, completed: 10, rejected: 10, failed: 0, inFlight: 0, faults: [], lost: 10 });
    expect(await query("select distinct input_tokens, reason from requests where outcome = 'rejected'")).toEqual([
      { input_tokens: 900, reason: 'too_long' },
    ]);
    const report = await validateScenario(parseScenario(text, 'long.yaml'));
    expect(report.unservable).toBe(10);
  });
});

describe('a session that goes on', () => {
  const project = createProject();
  const talk = (serving: string): string => `name: grown
model: { name: Llama-3.1-8B }
serving: ${serving}
router: { policy: kv }
workload:
  requests: 60
  source:
    kind: sessions
    sessionArrivals: { kind: constant, ratePerSecond: 0.2 }
    turns: { kind: constant, tokens: 6 }
    firstTokens: { kind: constant, tokens: 100 }
    turnTokens: { kind: constant, tokens: 50 }
    outputTokens: { kind: constant, tokens: 200 }
    meanThinkS: 10
    maxInputTokens: 100000
    blockTokens: 16
  sessions: { next: think, meanThinkMs: 400 }
`;
  const whole = (tokens: number): number => Math.floor(tokens / 16) * 16;
  // Of a later turn: the prompt before, its answer less the last token, which has no KV, and 50 new tokens.
  const earlier = (inputTokens: number): number => inputTokens - 50 - 200;

  it('finds the prompt before and its answer where both were computed', async () => {
    project.write('grown.yaml', talk('[{ count: 1 }]'));
    const { summary, query } = await project.runOnShards('grown.yaml');
    expect(summary).toMatchObject({ completed: 60, faults: [] });
    const rows = (await query('select input_tokens, cached_tokens_g1 from requests')) as {
      input_tokens: number;
      cached_tokens_g1: number;
    }[];
    expect(new Set(rows.map(({ input_tokens }) => input_tokens)).size).toBe(6);
    for (const { input_tokens, cached_tokens_g1 } of rows)
      expect(cached_tokens_g1, `${input_tokens}`).toBe(input_tokens === 100 ? 0 : whole(earlier(input_tokens) + 199));
    const stepwise = await project.run('grown.yaml', ['serving[0].passes=stepwise']);
    expect(stepwise.summary.hitRates).toEqual(summary.hitRates);
    // Replayed from a trace that names sessions and blocks: the same.
    const trace = project.path('grown.csv');
    await writeWorkload(readScenario(project.path('grown.yaml')), trace);
    expect((await project.run('grown.yaml', [`workload.source={kind: trace, file: ${trace}}`])).summary.fingerprint).toBe(
      summary.fingerprint,
    );
  });

  it('finds the prompt at the prefill engine, which never had the answer, and moves neither to the decode engine that has both', async () => {
    project.write('apart.yaml', talk('[{ count: 1, role: prefill }, { count: 1, role: decode }]'));
    const { query } = await project.runOnShards('apart.yaml');
    const rows = (await query('select input_tokens, cached_tokens_g1, transfer_bytes / 131072 as moved from requests')) as {
      input_tokens: number;
      cached_tokens_g1: number;
      moved: number;
    }[];
    for (const { input_tokens, cached_tokens_g1, moved } of rows) {
      expect(cached_tokens_g1).toBe(input_tokens === 100 ? 0 : whole(earlier(input_tokens)));
      expect(moved).toBe(input_tokens - (input_tokens === 100 ? 0 : whole(earlier(input_tokens) + 199)));
    }
  });
});

describe('a timing table', () => {
  const project = createProject();

  it('that a run leaves is told of with the run', async () => {
    project.write('profile/prefill_raw_data.json', JSON.stringify({ prefill_isl: [100, 1000], prefill_ttft: [10, 40] }));
    const decode = {
      x_kv_usage: [0.1, 0.9, 0.1, 0.9],
      y_context_length: [500, 500, 5000, 5000],
      z_itl: [5, 15, 6, 20],
      max_kv_tokens: [400_000],
    };
    project.write('profile/decode_raw_data.json', JSON.stringify(decode));
    const scenario = (inputTokens: number): string => `name: table
model: { name: Llama-3.1-8B }
serving: [{ count: 1, timing: { kind: dynamo-profile, folder: ./profile } }]
workload:
  requests: 5
  source: { kind: independent, arrivals: { kind: constant, ratePerSecond: 1 }, inputTokens: { kind: constant, tokens: ${inputTokens} }, outputTokens: { kind: constant, tokens: 1 } }
`;
    project.write('inside.yaml', scenario(800));
    project.write('outside.yaml', scenario(2000));
    expect((await project.run('inside.yaml')).summary.warnings).toEqual([]);
    expect((await project.run('outside.yaml')).summary.warnings).toEqual([
      'timing table: of 5 lookups 5 had a prefill length, 0 a KV use or context outside its grid, where the edge values were used (1 engines, first pod0/rack0/node0/engine0)',
    ]);
  });
});
