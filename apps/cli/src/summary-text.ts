import type { ScenarioSummary } from '@braess/lab';
import type { TenantFigures } from '@braess/telemetry';
import { fixed, textTable } from './text-output.js';

const latencies = [
  ['TTFT', 'ttftMs'],
  ['ITL', 'itlMs'],
  ['TPOT', 'tpotMs'],
  ['E2E', 'e2eMs'],
  ['KV transfer', 'transferMs'],
  ['KV fetch', 'tierFetchMs'],
] as const;

/** A run's summary for a reader. */
export function summaryText(summary: ScenarioSummary, report: string | null): string {
  const rows = latencies.flatMap(([name, key]) => {
    const values = summary[key];
    return values === null ? [] : [[name, ...[values.mean, values.p50, values.p90, values.p99].map((value) => fixed(value, 1))]];
  });
  const hits = (['g1', 'g2', 'g3', 'g4'] as const).filter((tier) => summary.hitRates[tier] > 0);
  const lines = [
    `${summary.name}: ${fixed(summary.submitted)} submitted = ${fixed(summary.completed)} completed + ${fixed(summary.rejected)} rejected + ${fixed(summary.failed)} failed + ${fixed(summary.inFlight)} in flight${summary.stopped ? ' (stopped early)' : ''}`,
    textTable(['ms', 'mean', 'p50', 'p90', 'p99'], rows),
    `${fixed(summary.requestsPerSecond, 2)} requests/s, ${fixed(summary.outputTokensPerSecond)} output tokens/s over ${fixed(summary.simulatedSeconds, 1)} simulated s`,
  ];
  if (summary.goodput !== null) {
    lines.push(
      `goodput under the SLO: ${fixed(summary.goodput, 2)} requests/s; ${fixed(100 * (summary.sloAttainment ?? 0), 1)} % of the requests met it`,
    );
  }
  if (summary.tenants !== undefined) lines.push(tenantsText(summary));
  if (hits.length > 0) {
    lines.push(
      `KV found: ${hits.map((tier) => `${tier.toUpperCase()} ${fixed(100 * summary.hitRates[tier], 1)} %`).join(', ')} of the input tokens`,
    );
  }
  if (summary.oracleFallbackSeconds > 0) lines.push(`without the network oracle: ${fixed(summary.oracleFallbackSeconds, 1)} s`);
  const { used, givenBack } = summary.gpuHours;
  if (givenBack > 0)
    lines.push(
      `${fixed(used, 2)} GPU-hours, ${fixed(givenBack, 2)} given back by the planner (${fixed((100 * givenBack) / (used + givenBack), 1)} %)`,
    );
  if (summary.poa !== null) lines.push(poaLine(summary.poa));
  if (summary.lost > 0) {
    const reasons = Object.entries(summary.lostReasons).map(([reason, count]) => `${fixed(count)} ${reason}`);
    lines.push(
      `LOST: ${fixed(summary.lost)} requests were rejected, failed or never ended${reasons.length === 0 ? '' : `: ${reasons.join(', ')}`}`,
    );
  }
  lines.push(...summary.warnings.map((warning) => `WARNING: ${warning}`));
  if (summary.pacing !== null) {
    const { pace, lagP50Ms, lagP99Ms, lagMaxMs, keptUp } = summary.pacing;
    lines.push(
      `pace ${pace}: lag p50 ${fixed(lagP50Ms, 1)} ms, p99 ${fixed(lagP99Ms, 1)} ms, max ${fixed(lagMaxMs, 1)} ms; ${keptUp ? 'kept up' : 'COULD NOT KEEP UP'}`,
    );
  }
  lines.push(
    `fingerprint ${summary.fingerprint}; ${fixed(summary.events)} events in ${fixed(summary.wallSeconds, 2)} s wall on ${summary.shards} ${summary.shards === 1 ? 'shard' : 'shards'}${windowText(summary)}, ${fixed(summary.peakRssMb)} MB`,
    `run folder ${summary.folder}${report === null ? '' : `, report ${report}`}`,
  );
  return lines.join('\n');
}

/** More rows would push the rest of the summary off the screen. */
const mostTenantRows = 16;

/** A row a tenant; of many, those that submitted most. */
function tenantsText({ tenants = [], otherTenants }: ScenarioSummary): string {
  const shown =
    tenants.length <= mostTenantRows ? tenants : tenants.toSorted((one, other) => other.submitted - one.submitted).slice(0, mostTenantRows);
  const row = (name: string, tenant: TenantFigures): string[] => [
    name,
    fixed(tenant.submitted),
    fixed(tenant.completed),
    fixed(tenant.requestsPerSecond, 2),
    fixed(tenant.goodput, 2),
    tenant.sloAttainment === null ? '-' : `${fixed(100 * tenant.sloAttainment, 1)} %`,
    fixed(tenant.ttftMs?.p50 ?? null, 1),
    fixed(tenant.ttftMs?.p99 ?? null, 1),
    fixed(tenant.itlMs?.p99 ?? null, 1),
    fixed(tenant.tpotMs?.p99 ?? null, 1),
    fixed(tenant.e2eMs?.p99 ?? null, 1),
  ];
  const rows = shown.map((tenant) => row(tenant.name, tenant));
  if (otherTenants !== undefined) rows.push(row(`(${fixed(otherTenants.tenants)} others)`, otherTenants));
  const head = [
    'tenant',
    'submitted',
    'completed',
    'requests/s',
    'goodput',
    'SLO met',
    'TTFT p50',
    'TTFT p99',
    'ITL p99',
    'TPOT p99',
    'E2E p99',
  ];
  const left = tenants.length - shown.length;
  return textTable(head, rows) + (left === 0 ? '' : `\n${fixed(left)} more tenants in summary.json`);
}

/** Threads meet at the end of every window: with few events in one they mostly wait for each other. */
function windowText({ shards, windows, events }: ScenarioSummary): string {
  if (shards === 1 || windows === 0) return '';
  const each = events / windows;
  return ` (${fixed(each, 1)} events a window${each < fewEvents ? ': threads mostly wait for each other, try --shards 1' : ''})`;
}

/** A meeting of threads costs some tens of microseconds, an event one or two. */
const fewEvents = 16;

function poaLine({ value, snapshots, brokenSeconds, leadSeconds }: NonNullable<ScenarioSummary['poa']>): string {
  const broken =
    brokenSeconds === null
      ? ''
      : `; the TTFT objective broke at ${fixed(brokenSeconds, 1)} s, ${leadSeconds === null ? 'with no warning by PoA-hat' : `PoA-hat had risen ${fixed(leadSeconds, 1)} s before`}`;
  return `PoA-hat ${value === null ? 'undefined' : fixed(value, 2)} over ${fixed(snapshots)} moments${broken}`;
}
