import {
  assignLeastCost,
  bindPolicy,
  builtInPolicy,
  chooseEngine,
  createRouterView,
  NetworkAnswer,
  type NetworkSite,
  networkTiers,
  type OraclePolicy,
  type RouterPolicy,
  routerStage,
} from '@braess/control';

/** Time of one decode decision, by policy and number of candidates. */
export interface DecideResult {
  readonly rows: readonly DecideRow[];
  /** Limit at `limitCandidates`, microseconds a decision. */
  readonly limitUs: number;
  readonly limitCandidates: number;
  readonly decisions: number;
}

export interface DecideRow {
  readonly policy: string;
  readonly candidates: number;
  /** CPU time of a decision with the oracle's answer, microseconds: least of several rounds. */
  readonly usPerDecision: number;
  /** Time a candidate against that at a quarter of the candidates; 1 is linear. null for the smallest number. */
  readonly growth: number | null;
}

export interface DecideOptions {
  readonly decisions: number;
  readonly candidates?: readonly number[];
  readonly policies?: readonly string[];
}

const rounds = 5;
/** What is asked of a decision (issue: at 1,024 candidates at most 20 us). */
const limitUs = 20;
const limitCandidates = 1024;

const decodePolicies = [
  'round-robin',
  'load-aware',
  'cache-aware',
  'cla',
  'weighted',
  'tier-first',
  'zone-first',
  'netkv-static',
  'netkv-self',
  'netkv',
  'netkv-path',
  'netkv-joint',
];
/** Requests that a joint policy assigns together. */
const together = 8;

/**
 * Measures whole decode decisions: the oracle's answer for every candidate, checked, then the policy's choice. Of a joint policy: with its share of an assignment of
 * several. CPU time, so that neighbours count little.
 */
export function measureDecisions(options: DecideOptions): DecideResult {
  const { decisions, candidates = [64, 256, 1024, 4096], policies = decodePolicies } = options;
  const rows: DecideRow[] = [];
  for (const policy of policies) {
    for (const count of candidates) {
      const usPerDecision = timeDecisions(policy, count, Math.max(50, Math.ceil((decisions * limitCandidates) / count / 4)));
      const quarter = rows.find((row) => row.policy === policy && row.candidates * 4 === count);
      rows.push({
        policy,
        candidates: count,
        usPerDecision,
        growth: quarter === undefined ? null : usPerDecision / quarter.usPerDecision / 4,
      });
    }
  }
  return { rows, limitUs, limitCandidates, decisions };
}

function timeDecisions(name: string, count: number, decisions: number): number {
  const decide = decisionOf(name, count);
  let least = Number.POSITIVE_INFINITY;
  let seen = 0;
  for (let round = 0; round < rounds; round++) {
    const before = process.cpuUsage();
    for (let index = 0; index < decisions; index++) seen += decide(index);
    const { user, system } = process.cpuUsage(before);
    if (round > 0) least = Math.min(least, (user + system) / decisions);
  }
  // Reading the sum keeps the work from being skipped.
  return seen < 0 ? 0 : least;
}

/** One decision over engines of a four-tier network with loads, prefixes and congestion of all kinds. */
function decisionOf(name: string, count: number): (index: number) => number {
  const bound = bindPolicy(builtInPolicy('router', name) as RouterPolicy);
  const oracle = builtInPolicy('oracle', 'periodic') as OraclePolicy;
  const network = new NetworkAnswer(count);
  const tiers = Int8Array.from({ length: count }, (_, engine) => (engine * 7) % 4);
  const passNs = Array.from({ length: 65 }, (_, sequences) => 12e6 + sequences * 2e5);
  const sample = createRouterView({
    stage: routerStage.decode,
    blockTokens: 16,
    engines: Array.from({ length: count }, (_, engine) => ({
      maxSequences: 64,
      passNs,
      activeRequests: (engine * 13) % 80,
      activeBlocks: (engine * 131) % 4096,
      overlapBlocks: (engine * 31) % 64,
    })),
    network,
    prefillEngine: 0,
    transferBytes: 8192 * 327_680,
    sourceTransfers: [0, 1, 2, 3, 0],
  });
  // Typed columns, as a frontend has them.
  const view = {
    ...sample,
    candidates: Int32Array.from({ length: count }, (_, engine) => engine),
    overlapBlocks: Int32Array.from({ length: count }, (_, engine) => sample.overlapBlocks[engine]!),
    sourceTransfers: Float64Array.of(0, 1, 2, 3, 0),
  };
  // Ways of 1, 2 or 4 stages of 12 links, as in a four-tier fat-tree.
  const stages = [1, 2, 4].map((most) =>
    Array.from({ length: most }, (_, stage) => Int32Array.from({ length: 12 }, (_, link) => 12 * stage + link)),
  );
  const site = {
    tiersFrom: () => tiers,
    tierBytesPerSecond: [450e9, 12.5e9, 6.25e9, 3.125e9, 1e9],
    tierLatencyNs: [500, 3000, 5000, 7000, 1e6],
    pathStages: (_from: number, to: number) => stages[to % stages.length]!,
  };
  const paths = bound.policy.reads?.paths === true;
  const question = {
    nowNs: 0,
    prefillEngine: 0,
    transferBytes: view.transferBytes,
    fixedBytes: 0,
    candidates: view.candidates,
    count,
    site: site as unknown as NetworkSite,
    paths,
    inputTokens: 8192,
    blockTokens: 16,
    engines: view.engines,
    overlapBlocks: view.overlapBlocks,
  };
  const knowledge = {
    congestion: Float64Array.from({ length: networkTiers }, (_, tier) => tier / 8),
    links: paths ? Float64Array.from({ length: 48 }, (_, link) => link / 64) : null,
  };
  const request = { request: 0, inputTokens: 8192, outputTokens: 100, tenant: 0, priority: 0, attempt: 1, ageNs: 0 };
  const state = bound.policy.createState?.(bound.parameters, count) ?? null;
  const random = (): number => 0.5;
  const costs = new Float64Array(together * count);
  return (index) => {
    request.request = index;
    if (bound.policy.reads?.network === true) {
      oracle.answer(question, network, undefined, knowledge, random);
      network.check(question);
    }
    const engine = chooseEngine(bound, view, request, state, random);
    if (bound.policy.joint === undefined) return engine;
    // The scores of this decision are one row of the next assignment.
    costs.set(view.scores, (index % together) * count);
    return index % together === together - 1 ? assignLeastCost(costs, together, count)[0]! : engine;
  };
}
