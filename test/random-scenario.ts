/** A source of random choices: the same for the same seed, on any machine. */
interface Dice {
  /** In [0, 1). */
  roll(): number;
  chance(probability: number): boolean;
  whole(least: number, most: number): number;
  one<Value>(...values: readonly Value[]): Value;
}

/** Mulberry32, public domain (Tommy Ettinger): good enough to mix features. */
function diceOf(seed: number): Dice {
  let state = Math.imul(seed + 1, 0x9e3779b1);
  const roll = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const whole = (least: number, most: number): number => least + Math.floor(roll() * (most - least + 1));
  return { roll, chance: (probability) => roll() < probability, whole, one: (...values) => values[whole(0, values.length - 1)]! };
}

type Json = { [key: string]: unknown };

/** A small scenario that mixes features at random; valid by construction, and always one that ends by itself. */
export function randomScenario(seed: number): Json {
  const scenario = plainScenario(seed);
  // Dice of their own: what is thrown here changes nothing that seeds were chosen for.
  return withWide(withPairs(withMixture(scenario, diceOf(seed ^ 0x2a5a5a5a)), diceOf(seed ^ 0x15555555)), diceOf(seed ^ 0x0f0f0f0f));
}

/** Engines over two servers of two GPUs, in a cluster of twice as many servers a rack. */
function withWide(scenario: Json, dice: Dice): Json {
  const serving = scenario.serving as (Json & { count: number; attention?: string })[];
  if (scenario.kvTiers !== undefined || serving.some(({ tensorParallel }) => tensorParallel !== 2) || dice.chance(0.5)) return scenario;
  return {
    ...scenario,
    cluster: { ...(scenario.cluster as Json), serversPerRack: 4 },
    serving: serving.map((group) => ({
      ...group,
      tensorParallel: dice.one(2, 4),
      ...(group.attention === undefined ? {} : { twoBatchOverlap: group.timing === undefined && dice.chance(0.5) }),
      ...(dice.chance(0.5) && group.prompts === undefined ? { maxChunkTokens: 64 } : {}),
    })),
  };
}

/** Engines of two GPUs, some of a mixture of experts that keep requests apart or look back over windows, and KV that moves GPU by GPU. */
function withPairs(scenario: Json, dice: Dice): Json {
  const serving = scenario.serving as (Json & { count: number })[];
  if (serving.reduce((sum, { count }) => sum + count, 0) > 4 || dice.chance(0.4)) return scenario;
  const experts = dice.chance(0.5);
  const cluster = scenario.cluster as { fabric: Json };
  return {
    ...scenario,
    cluster: { ...cluster, fabric: { ...cluster.fabric, shards: dice.one('aggregate', 'per-gpu') } },
    ...(experts
      ? {
          model: {
            ...(scenario.model as Json),
            name: dice.one('Qwen3-30B-A3B', 'gpt-oss-20b', 'Qwen3-Next-80B-A3B'),
            weightPrecision: 'fp8',
          },
        }
      : {}),
    serving: serving.map((group) => ({
      ...group,
      tensorParallel: 2,
      ...(experts && dice.chance(0.7) ? { attention: 'data-parallel' } : {}),
    })),
  };
}

/** Beside the source of the scenario, another one of a tenant of its own. */
function withMixture(scenario: Json, dice: Dice): Json {
  const workload = scenario.workload as Json & { source: Json };
  // Parts name their tenants, or none does.
  if (dice.chance(0.8) || workload.sessions !== undefined || workload.tenants !== undefined) return scenario;
  const batch = {
    kind: 'independent',
    arrivals: { kind: 'poisson', ratePerSecond: dice.one(20, 200) },
    inputTokens: { kind: 'constant', tokens: 700 },
    outputTokens: { kind: 'constant', tokens: dice.one(1, 60) },
  };
  return {
    ...scenario,
    workload: { ...workload, source: { kind: 'mixture', parts: [{ source: workload.source }, { tenant: 'nightly', source: batch }] } },
  };
}

function plainScenario(seed: number): Json {
  const dice = diceOf(seed);
  const cluster = clusterOf(dice);
  const apart = dice.chance(0.65);
  const planned = apart && dice.chance(0.3);
  const tiers = dice.chance(0.35) ? tiersOf(dice) : undefined;
  const blockTokens = dice.one(16, 32, 64);
  const group = (role: string, count: number): Json => ({
    role,
    count,
    ...engineOf(dice, blockTokens, role, planned, tiers !== undefined),
  });
  const serving = apart ? [group('prefill', dice.whole(1, 3)), group('decode', dice.whole(1, 4))] : [group('aggregated', dice.whole(1, 4))];
  if (dice.chance(0.5)) serving.reverse();
  const chunk = dice.chance(0.2);
  return {
    name: `random-${seed}`,
    seed,
    cluster: { ...cluster, fabric: fabricOf(dice, chunk, apart) },
    model: { name: 'Llama-3.1-8B', kvPrecision: dice.one('bf16', 'fp8') },
    serving,
    router: routerOf(dice, apart, planned),
    workload: workloadOf(dice),
    ...(tiers === undefined ? {} : { kvTiers: tiers }),
    ...(dice.chance(0.45)
      ? { faults: faultsOf(dice, apart ? cluster.topology.kind : undefined, serving[0]?.role === 'decode' ? undefined : tiers) }
      : {}),
    ...(planned ? { planner: plannerOf(dice) } : {}),
    telemetry: {
      firstTokenAt: dice.one('decode', 'decode', 'prefill'),
      streamTokens: dice.chance(0.2),
      decisionsEvery: dice.one(0, 1),
      seriesSeconds: dice.one(0, 0.5),
    },
    ...(dice.chance(0.3) ? { delays: { clientUs: dice.one(1, 1000), controlUs: dice.one(50, 2000), releaseUs: dice.one(50, 3000) } } : {}),
    execution: { promises: dice.chance(0.3) },
  };
}

function clusterOf(dice: Dice): Json & { topology: { kind: string } } {
  const topology: Json & { kind: string } = { kind: dice.one('fat-tree', 'fat-tree', 'rail-optimised'), spinesPerPod: dice.one(1, 2) };
  if (dice.chance(0.3)) topology.oversubscription = { leaf: 4 };
  if (dice.chance(0.4)) topology.bytesPerSecond = { nic: dice.one(1e9, 12.5e9) };
  return { gpu: 'H100', racksPerPod: 2, serversPerRack: 2, gpusPerServer: 2, topology };
}

function engineOf(dice: Dice, blockTokens: number, role: string, planned: boolean, tiers: boolean): Json {
  const engine: Json = { blockTokens, placement: dice.one('packed', 'spread') };
  if (dice.chance(0.4)) engine.maxSequences = dice.one(1, 2, 8);
  if (dice.chance(0.4)) engine.maxBatchedTokens = dice.one(256, 2048);
  if (dice.chance(0.6)) engine.kvBlocks = dice.one(640, 1024, 16_384) / blockTokens;
  if (dice.chance(0.2)) engine.maxModelTokens = dice.one(1200, 3000);
  if (dice.chance(0.2)) engine.maxWaiting = dice.one(1, 20);
  if (dice.chance(0.3)) engine.schedulingPolicy = 'priority';
  if (dice.chance(0.2)) engine.prefixCaching = false;
  else if (dice.chance(tiers ? 0.7 : 0.3)) engine.cacheBlocks = dice.one(0, 3, 50);
  if (dice.chance(0.4)) engine.eviction = dice.one('lfu', 'fifo', 's3-fifo', 'cost-aware', 'lineage');
  if (dice.chance(0.2)) engine.holdsSlots = true;
  if (dice.chance(0.2)) engine.newBatchStallMs = 5;
  if (dice.chance(0.3)) engine.timing = { kind: 'linear', prefillMs: 2, prefillMsPerToken: 0.02, decodeMs: 4, decodeMsPerSequence: 0.3 };
  if (role === 'prefill' && !planned && dice.chance(0.15)) engine.prompts = 'independent';
  return engine;
}

function fabricOf(dice: Dice, chunk: boolean, apart: boolean): Json {
  const fabric: Json = chunk ? { fidelity: 'chunk', chunkBytes: 4_000_000 } : {};
  if (apart && dice.chance(0.3)) fabric.overlap = 'layers';
  if (dice.chance(0.3)) fabric.unreachableAfterSeconds = 0.05;
  if (apart && !chunk && dice.chance(0.3)) fabric.background = [{ link: dice.one('nic', 'leaf-uplink'), share: dice.one(0.2, 0.9) }];
  if (apart && !chunk && dice.chance(0.2)) {
    const [from, to] = ['pod0/rack0/node0/gpu0', 'pod0/rack1/node0/gpu0'];
    fabric.onOff = [{ from, to, bytesPerSecond: 10e9, meanOnMs: 20, meanOffMs: 50 }];
  }
  return fabric;
}

function tiersOf(dice: Dice): Json {
  const mode = (): string => dice.one('write-through', 'on-eviction');
  const tiers: Json = { g2: { gigabytes: dice.one(0.2, 5), mode: mode(), pollMs: dice.one(0, 5) } };
  if (dice.chance(0.4)) tiers.g3 = { gigabytes: 50, mode: mode(), minimumFrequency: dice.one(1, 2) };
  if (dice.chance(0.4)) tiers.g4 = { gigabytes: 100, mode: mode() };
  return tiers;
}

function routerOf(dice: Dice, apart: boolean, planned: boolean): Json {
  const router: Json = { policy: dice.one('round-robin', 'random', 'power-of-two', 'least-loaded', 'kv', 'kv', 'cla') };
  if (router.policy === 'kv') router.parameters = { omega: dice.one(0, 1), tau: dice.one(0, 0.3) };
  if (apart && dice.chance(0.6)) {
    const policy = dice.one('netkv-static', 'netkv-self', 'netkv', 'netkv-joint', 'weighted', 'tier-first', 'least-loaded', 'kv');
    const decode: Json = { policy };
    if (dice.chance(0.3)) decode.reserve = dice.one(0, 0.1);
    if (dice.chance(0.3)) decode.utilisationCap = dice.one(0.5, 1);
    if (dice.chance(0.3)) decode.longestWaitMs = 50;
    if (dice.chance(0.3)) decode.longTokens = 500;
    router.decode = decode;
    if (/^netkv|weighted|tier/.test(policy)) {
      const oracle = dice.one('static-tier', 'exact', 'periodic', 'rtt-median', 'active', 'trend', 'noisy', 'failing', 'cost-triple');
      router.oracle = { policy: oracle, ...(dice.chance(0.4) ? { health: { timeoutMs: dice.one(50, 1000) } } : {}) };
    }
  }
  if (dice.chance(0.4)) Object.assign(router, { frontends: 2, frontendBy: dice.one('turn', 'hash'), replicaSyncMs: dice.one(0, 5) });
  if (planned || dice.chance(0.4)) router.loadReportMs = dice.one(5, 100);
  if (dice.chance(0.4)) router.kvEventMs = dice.one(1, 50);
  if (dice.chance(0.3)) router.admission = { policy: 'in-flight-limit', parameters: { maxInFlight: dice.one(10, 30) } };
  if (dice.chance(0.5)) {
    router.queue = { order: dice.one('fcfs', 'wspt', 'fair'), limit: dice.one(0, 20, 1000), maxEngineRequests: dice.one(1, 3, 16) };
  }
  return { ...router, maxAttempts: dice.one(1, 2, 3), onEngineDeath: dice.one('retry', 'retry', 'fail') };
}

function workloadOf(dice: Dice): Json {
  const ratePerSecond = dice.one(20, 100, 300);
  const tokens = (meanTokens: number): Json =>
    dice.one<Json>(
      { kind: 'constant', tokens: meanTokens },
      { kind: 'uniform', minTokens: 1, maxTokens: 2 * meanTokens },
      { kind: 'exponential', meanTokens, maxTokens: 4 * meanTokens },
    );
  const arrivals = dice.one<Json>(
    { kind: 'constant', ratePerSecond },
    { kind: 'poisson', ratePerSecond },
    { kind: 'gamma', ratePerSecond, cv: 3 },
  );
  const prefix = { groups: 3, popularity: { kind: 'uniform' }, prefixTokens: { kind: 'constant', tokens: dice.one(60, 600) } };
  const shared = dice.chance(0.7) ? { prefix } : {};
  const sessions = dice.chance(0.35);
  const outputTokens = tokens(dice.one(1, 20, 100, 300));
  const source = sessions
    ? {
        kind: 'sessions',
        sessionArrivals: arrivals,
        turns: { kind: 'uniform', minTokens: 1, maxTokens: 4 },
        firstTokens: tokens(200),
        turnTokens: tokens(50),
        outputTokens,
        meanThinkS: dice.one(0, 0.3),
        maxInputTokens: 8000,
        ...shared,
      }
    : { kind: 'independent', arrivals, inputTokens: tokens(dice.one(40, 300)), outputTokens, ...shared };
  const workload: Json = { requests: dice.one(20, 40, 60), source };
  const linked = sessions && dice.chance(0.6);
  if (linked) workload.sessions = { next: dice.one('arrival', 'think'), meanThinkMs: 50, afterFailure: dice.one('continue', 'abandon') };
  else if (dice.chance(0.3)) workload.client = { kind: 'closed-loop', style: dice.one('workers', 'semaphore'), inFlight: dice.one(1, 6) };
  if (dice.chance(0.35)) {
    const order = dice.one('fifo', 'lifo', 'random', 'barge', 'aiohttp');
    workload.connections = { connections: dice.one(1, 3, 10), order, queueLimit: dice.one(5, 1000) };
  }
  if (dice.chance(0.5)) {
    const attempts = dice.one(1, 2, 4);
    const retry: Json = {
      timeoutMs: dice.one(5, 100, 500, 2000),
      attempts,
      backoffMs: dice.one(0, 0, 20),
      jitter: dice.one('none', 'full'),
    };
    if (dice.chance(0.3)) retry.deadlineMs = dice.one(100, 2000);
    workload.retry = retry;
  }
  if (dice.chance(0.5)) {
    workload.tenants = [
      { name: 'a', share: 3, priority: 1 },
      { name: 'b', share: 1, priority: -2 },
    ];
  }
  return workload;
}

/** Of links only where a topology is given, of tiers only where node 0 has them: others would be refused. Node 0 has engines of the first group. */
function faultsOf(dice: Dice, topology: string | undefined, tiers: Json | undefined): Json[] {
  const faults: Json[] = [];
  for (let left = dice.whole(1, 3); left > 0; left--) {
    const atSeconds = dice.one(0, 0.05, 0.11, 0.3);
    const laterSeconds = atSeconds + dice.one(0.02, 0.4);
    const kind = dice.one('gpu-speed', 'gpu-speed', 'link-share', 'telemetry-loss', 'tier-speed');
    const back = dice.chance(0.6);
    if (kind === 'gpu-speed') {
      faults.push({ kind, atSeconds, gpu: 'pod0/rack0/node0/gpu0', factor: dice.one(0, 0, 0.1) });
      if (back) faults.push({ kind, atSeconds: laterSeconds, gpu: 'pod0/rack0/node0/gpu0', factor: 1 });
    } else if (kind === 'link-share' && topology !== undefined) {
      const cable = { kind, from: 'pod0/rack0/node0/nic0', to: topology === 'fat-tree' ? 'pod0/rack0/leaf0' : 'pod0/rail0' };
      faults.push({ ...cable, atSeconds, share: dice.one(0, 0, 0.01) });
      if (back) faults.push({ ...cable, atSeconds: laterSeconds, share: 1 });
    } else if (kind === 'telemetry-loss') faults.push({ kind, atSeconds, actor: 'control/frontend0', lost: true });
    else if (kind === 'tier-speed' && tiers !== undefined)
      faults.push({ kind, atSeconds, tier: 'pod0/rack0/node0/g2', factor: dice.one(0, 0.01) });
  }
  return faults;
}

function plannerOf(dice: Dice): Json {
  const policy = dice.one('load', 'sla', 'schedule', 'schedule');
  const change = (atMs: number): Json => ({ atMs, engine: 'pod0/rack0/node0/engine0', role: dice.one('prefill', 'decode') });
  return {
    policy,
    switchSeconds: dice.one(0.05, 0.5),
    startSeconds: 0.3,
    ...(policy === 'schedule' ? { parameters: { changes: [change(dice.one(20, 100)), change(dice.one(200, 500))] } } : {}),
  };
}
