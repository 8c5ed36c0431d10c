import type { FolderSummary } from '../run/folder.js';
import type { RunDatabase } from '../run/query.js';
import type { TenantFigures } from '../statistics/tenants.js';
import { formatMs, formatNumber, formatShare } from './chart.js';
import { table } from './layout.js';

export function latencyTable(summary: FolderSummary): string {
  const rows = (
    [
      ['TTFT', summary.ttftMs],
      ['ITL, every gap', summary.itlMs],
      ['TPOT, per request', summary.tpotMs],
      ['E2E', summary.e2eMs],
      ['KV transfer', summary.transferMs],
      ...(summary.tierFetchMs === null ? [] : [['KV fetch, lower tiers', summary.tierFetchMs] as const]),
    ] as const
  ).map(([name, d]) => [name, formatMs(d?.mean), formatMs(d?.p50), formatMs(d?.p90), formatMs(d?.p99)]);
  return table(['latency', 'mean', 'p50', 'p90', 'p99'], rows, [1, 2, 3, 4]);
}

/** A row a tenant; null where the run has one tenant. */
export function tenantTable({ tenants, otherTenants }: FolderSummary): string | null {
  if (tenants === undefined) return null;
  const row = (name: string, tenant: TenantFigures): string[] => [
    name,
    ...[tenant.submitted, tenant.completed, tenant.rejected, tenant.failed, tenant.inFlight].map(formatNumber),
    ...[tenant.requestsPerSecond, tenant.outputTokensPerSecond, tenant.goodput].map(formatNumber),
    formatShare(tenant.sloAttainment),
    ...[tenant.ttftMs, tenant.itlMs, tenant.tpotMs, tenant.e2eMs].flatMap((d) => [formatMs(d?.p50), formatMs(d?.p99)]),
  ];
  const rows = tenants.map((tenant) => row(tenant.name, tenant));
  if (otherTenants !== undefined) rows.push(row(`(${formatNumber(otherTenants.tenants)} others)`, otherTenants));
  const counts = ['submitted', 'completed', 'rejected', 'failed', 'in flight', 'requests/s', 'tokens/s', 'goodput', 'met the SLO'];
  const head = ['tenant', ...counts, ...['TTFT', 'ITL', 'TPOT', 'E2E'].flatMap((name) => [`${name} p50`, `${name} p99`])];
  return table(head, rows, head.map((_, column) => column).slice(1));
}

/** Outcomes other than completed, by reason; null when all went well. */
export async function lossTable(database: RunDatabase): Promise<string | null> {
  const { rows } = await database.query(`select outcome, reason, count(*), sum(input_tokens), min(arrival_s), max(arrival_s) from requests
    where outcome <> 'completed' group by outcome, reason order by count(*) desc, outcome, reason`);
  if (rows.length === 0) return null;
  return table(
    ['outcome', 'reason', 'requests', 'input tokens', 'first arrival (s)', 'last arrival (s)'],
    rows.map(([outcome, reason, count, tokens, first, last]) => [
      String(outcome).replaceAll('_', ' '),
      reason === 'none' ? null : reason,
      ...[count, tokens, first, last].map((value) => formatNumber(Number(value))),
    ]),
    [2, 3, 4, 5],
  );
}

/** Decisions by kind and policy: how many, how often the cheapest recorded candidate was taken, how old the view was. */
export async function decisionTable(database: RunDatabase): Promise<string | null> {
  const { rows } = await database.query(`with decided as (
      select kind, policy, decision_id, max(candidates) as candidates, max(view_age_ms) filter (where chosen) as age,
        min(score) as best, min(score) filter (where chosen) as taken, min(score) filter (where not chosen) as other
      from decisions where kind <> 'admission' group by kind, policy, decision_id)
    select kind, policy, count(*), avg(candidates), avg(case when taken is not null then (taken <= best)::int end), avg(other - taken), avg(age), max(age)
    from decided group by kind, policy order by count(*) desc, kind`);
  if (rows.length === 0) return null;
  return table(
    ['decision', 'policy', 'recorded', 'candidates (mean)', 'took the cheapest', 'margin to the next', 'view age (mean)', 'view age (max)'],
    rows.map(([kind, policy, count, candidates, cheapest, margin, age, oldest]) => [
      String(kind).replaceAll('_', ' '),
      policy,
      formatNumber(Number(count)),
      formatNumber(Number(candidates)),
      formatShare(cheapest as number | null),
      formatNumber(margin as number | null),
      formatMs(age as number | null),
      formatMs(oldest as number | null),
    ]),
    [2, 3, 4, 5, 6, 7],
  );
}

/** What admission policies answered, and the mean of what they saw then; null where there is none. */
export async function admissionTable(database: RunDatabase): Promise<string | null> {
  // Asked first: run folders from before admission was recorded have not these columns.
  const { rows: some } = await database.query(`select 1 from decisions where kind = 'admission' limit 1`);
  if (some.length === 0) return null;
  const { rows } =
    await database.query(`select policy, chosen, count(*), avg(inflight_requests), avg(waiting_requests), avg(active_prefill_tokens)
    from decisions where kind = 'admission' group by policy, chosen order by policy, chosen desc`);
  return table(
    ['admission', 'answer', 'recorded', 'requests in flight (mean)', 'waiting (mean)', 'prompt tokens at the engines (mean)'],
    rows.map(([policy, chosen, ...numbers]) => [
      policy,
      chosen ? 'let in' : 'rejected',
      ...numbers.map((value) => formatNumber(Number(value))),
    ]),
    [2, 3, 4, 5],
  );
}

/** The last moves of planners and controllers, which are few and change much. */
export async function moveTable(database: RunDatabase): Promise<string | null> {
  const { rows } = await database.query(`select time_s, kind, actor, policy, candidate, note from decisions
    where kind in ('plan', 'control') and chosen order by time_ns desc, decision_id desc limit 12`);
  if (rows.length === 0) return null;
  const body = rows.map(([time, ...rest]) => [Number(time).toFixed(3), ...rest]);
  return table(['time (s)', 'kind', 'actor', 'policy', 'worker', 'move'], body, []);
}
