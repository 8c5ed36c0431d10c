import {
  type ClusterPlan,
  estimateSaturation,
  loadWorkload,
  planCluster,
  promptKvBytes,
  readScenario,
  workloadMeans,
} from '@braess/cluster';

/** A cluster under prompts of one length, loaded to a share of what its engines can do. */
export interface ContextLoad {
  readonly contextTokens: number;
  readonly settings: readonly string[];
  readonly ratePerSecond: number;
  /** KV of one prompt, bytes, over all GPUs of an engine. */
  readonly kvBytes: number;
  /** What keeps prompts of this length from being served; null: nothing. */
  readonly refusal: string | null;
}

/** What would disturb a measurement in a steady state, or decide about requests in the place of the routers that are compared. */
const steady = [
  'workload.client={ kind: open-loop }',
  'workload.rateFactor=1',
  'workload.retry=null',
  'workload.sessions=null',
  'workload.connections=null',
  'workload.tenants=null',
  'planner=null',
  'controller=null',
  'faults=null',
  'untilSeconds=null',
];

/** Mean answer of the scenario's own workload. @throws ScenarioError; RangeError for a cluster that moves no KV. */
export async function meanOutputTokens(file: string): Promise<number> {
  const read = readScenario(file);
  if (!planCluster(read).disaggregated)
    throw new RangeError(`${file} has aggregated engines only, which move no KV; give a scenario with prefill and decode engines`);
  return workloadMeans((await loadWorkload(read)).table).outputTokens;
}

interface LoadOptions {
  /** Prompt and answer: of a context as long as the model's window the prompt leaves room for the longest answer. */
  readonly contextTokens: number;
  readonly outputTokens: number;
  /** Share of the rate at which the engines saturate. */
  readonly load: number;
  readonly requests: number;
}

/** Settings under which a scenario serves independent prompts of one length at a steady rate. */
export async function contextLoad(file: string, settings: readonly string[], options: LoadOptions): Promise<ContextLoad> {
  const { contextTokens, outputTokens, load, requests } = options;
  const longestAnswer = Math.ceil(4 * outputTokens);
  const at = (inputTokens: number, ratePerSecond: number): string[] => [
    ...steady,
    ...settings,
    `workload.requests=${requests}`,
    `workload.source={ kind: independent, arrivals: { kind: poisson, ratePerSecond: ${ratePerSecond} }, inputTokens: { kind: constant, tokens: ${inputTokens} }, outputTokens: { kind: lognormal, meanTokens: ${outputTokens}, sigma: 0.5, maxTokens: ${longestAnswer} } }`,
  ];
  const plan = planCluster(readScenario(file, at(contextTokens, 1)));
  const window = Math.min(...plan.groups.map(({ maxModelTokens }) => maxModelTokens));
  const inputTokens = Math.min(contextTokens, window - longestAnswer);
  const means = workloadMeans((await loadWorkload(readScenario(file, at(Math.max(1, inputTokens), 1)))).table);
  const ratePerSecond = load * estimateSaturation(plan, means).requestsPerSecond;
  return {
    contextTokens,
    settings: [...at(inputTokens, ratePerSecond), `warmupSeconds=${(0.1 * requests) / ratePerSecond}`],
    ratePerSecond,
    kvBytes: promptKvBytes(plan.groups[0]!, inputTokens),
    refusal: refusalOf(plan, contextTokens, window, longestAnswer),
  };
}

function refusalOf(plan: ClusterPlan, contextTokens: number, window: number, longestAnswer: number): string | null {
  if (contextTokens > window || window <= longestAnswer) return `the window ends at ${window}`;
  const room = Math.min(...plan.groups.map(({ capacityBlocks, blockTokens }) => capacityBlocks * blockTokens));
  return room < contextTokens + longestAnswer ? `an engine has room for ${room}` : null;
}
