import { type BoundPolicy, loadPolicy, type OraclePolicy, oracleBeatNs, oracleListens } from '@braess/control';
import type { TraceReport } from '@braess/workload';
import { loadReportWarnings } from './load-report-warnings.js';
import type { LoadedWorkload } from './load-source.js';
import { linkReportNs } from './network-oracle.js';
import { placeWarnings } from './place-warnings.js';
import type { ClusterPlan } from './plan.js';
import type { Scenario } from './scenario/schema.js';

/** What a reader of the results should know before anything runs, one sentence each. */
export function scenarioWarnings(plan: ClusterPlan, workload: LoadedWorkload): string[] {
  return [
    ...plan.modelNotes,
    ...workloadWarnings(plan, workload),
    ...thinkWarnings(plan.scenario),
    ...placeWarnings(plan),
    ...loadReportWarnings(plan),
    ...oracleWarnings(plan),
    ...waitWarnings(plan),
    ...priorityWarnings(plan.scenario),
  ];
}

/** Priorities of tenants that nothing goes by, and a limit that none of them reaches. */
function priorityWarnings({ workload, serving, router }: Scenario): string[] {
  const priorities = workload.tenants.map(({ priority }) => priority ?? 0);
  const nearPriority = router.decode?.nearPriority;
  if (nearPriority !== undefined) {
    const highest = priorities.length === 0 ? 0 : Math.max(...priorities);
    if (highest >= nearPriority) return [];
    const whose =
      priorities.length === 0 ? 'there are no tenants, and requests have priority 0' : `the highest priority of a tenant is ${highest}`;
    return [
      `router.decode.nearPriority is ${nearPriority} and ${whose}, so every request keeps away from the nearest engines while there are others; lower it, or give tenants a priority`,
    ];
  }
  const isRead = router.queue.order === 'wspt' || serving.some(({ schedulingPolicy }) => schedulingPolicy === 'priority');
  if (isRead || priorities.every((priority) => priority === 0)) return [];
  return [
    'workload.tenants have priorities, but nothing goes by them: set schedulingPolicy: priority in serving, router.decode.nearPriority, or router.queue.order: wspt with a limit (a policy of your own may read them)',
  ];
}

/** A longest wait where nothing makes a request wait that it could let go. */
function waitWarnings({ scenario: { router } }: ClusterPlan): string[] {
  const { longestWaitMs, utilisationCap, nearPriority } = router.decode ?? {};
  if (longestWaitMs === undefined || utilisationCap !== undefined || nearPriority !== undefined) return [];
  return [
    'router.decode.longestWaitMs does nothing: it lifts utilisationCap and nearPriority, and neither is set; set one of them, or leave it out',
  ];
}

/** A decode router that asks about the network, and nobody there to answer, or nobody who answers in time. */
function oracleWarnings({ scenario, policies, groups }: ClusterPlan): string[] {
  const { baseDirectory, decodeRouter, oracle } = policies;
  const { policy } = loadPolicy('router', decodeRouter, { baseDirectory });
  if (policy.reads?.network !== true || !groups.some(({ role }) => role === 'decode')) return [];
  if (oracle !== null) return silenceWarnings(scenario, loadPolicy('oracle', oracle, { baseDirectory }));
  const path = scenario.router.decode === undefined ? 'router' : 'router.decode';
  return [
    `${path}: '${policy.name}' asks what moving KV to each engine costs and there is no oracle, so all are as near and as fast; set router.oracle, e.g. to { policy: periodic }`,
  ];
}

/** An oracle that counts as ill between two words that it says. */
function silenceWarnings(scenario: Scenario, bound: BoundPolicy<OraclePolicy>): string[] {
  const timeoutMs = scenario.router.oracle?.health.timeoutMs;
  if (timeoutMs === undefined || !oracleListens(bound.policy)) return [];
  const reportNs = linkReportNs(scenario, bound);
  const spokenMs = Math.min(oracleBeatNs(bound), reportNs ?? Number.POSITIVE_INFINITY) / 1e6;
  // With a report at each change nobody knows how often it speaks.
  if (reportNs === 0 || timeoutMs > spokenMs) return [];
  return [
    `router.oracle.health.timeoutMs is ${timeoutMs} and '${bound.policy.name}' speaks each ${spokenMs} ms, so it counts as ill in between; set it above, e.g. to ${3 * spokenMs}`,
  ];
}

/** Think times that were meant to be kept, and only plan arrivals for which nobody waits. */
function thinkWarnings({ workload: { source, sessions } }: Scenario): string[] {
  if (source.kind !== 'sessions' || source.meanThinkS === 0 || sessions?.next !== 'think' || sessions.meanThinkMs > 0) return [];
  return [
    `workload.sessions.next is think with meanThinkMs 0, so turns come at once after the answer; source.meanThinkS plans arrivals, which do not matter then: set meanThinkMs, e.g. to ${source.meanThinkS * 1000}`,
  ];
}

/** How a trace was read: what of its rows is left out, or may be meant in another way. */
function traceWarnings({ workload }: Scenario, report: TraceReport): string[] {
  const { spreadTickNs, rejectedRows, rejections, ignoredFields, shorterTurns, timedTurns } = report;
  const warnings: string[] = [];
  if (spreadTickNs > 0) {
    warnings.push(
      `equal timestamps of the trace are spread over its ${spreadTickNs / 1e6} ms tick (workload.source.arrivals: as-is keeps them)`,
    );
  }
  if (rejectedRows > 0) warnings.push(`${rejectedRows} rows of the trace are left out: ${rejections[0]}`);
  if (ignoredFields.length > 0) warnings.push(`rows of the trace have fields that nothing goes by: ${ignoredFields.join(', ')}`);
  if (shorterTurns > 0)
    warnings.push(
      `${shorterTurns} later turns of the trace's sessions have shorter prompts than the turn before; if rows have what a turn adds and not its whole prompt, set workload.source.turnPrompts: added`,
    );
  if (timedTurns > 0 && workload.sessions === undefined)
    warnings.push(
      `${timedTurns} later turns of the trace's sessions come at their timestamps, whether or not the answer before has come; set workload.sessions: { next: arrival } to let them wait for it`,
    );
  return warnings;
}

/** Of the requests: how traces were read, and what no engine can do as asked. */
function workloadWarnings(plan: ClusterPlan, { table, reports }: LoadedWorkload): string[] {
  const warnings = reports.flatMap((report) => traceWarnings(plan.scenario, report));
  const longest = Math.max(...plan.groups.filter(({ role }) => role !== 'prefill').map(({ maxModelTokens }) => maxModelTokens));
  let cut = 0;
  for (let row = 0; row < table.requestCount; row++) {
    const input = table.inputTokens[row]!;
    if (input < longest && input + table.outputTokens[row]! > longest) cut++;
  }
  if (cut > 0) {
    warnings.push(
      `${cut} of ${table.requestCount} requests ask for more output than the model length leaves: prompt and output end at ${longest} tokens (serving maxModelTokens)`,
    );
  }
  return warnings;
}
