import { OUTCOME } from '@braess/protocol';
import type { RequestSegment } from '../records/requests.js';
import { MS_PER_NS, meetsSlo, type Slo, tpotNsOf } from './slo.js';
import { addValue, createValueList, type Distribution, distributionOf, type ValueList } from './values.js';

/** A tenant's part of a run's summary; every number as defined for the whole run (`RunSummary`). */
export interface TenantFigures {
  submitted: number;
  completed: number;
  rejected: number;
  failed: number;
  inFlight: number;
  requestsPerSecond: number;
  outputTokensPerSecond: number;
  /** Null for a tenant without an SLO. */
  goodput: number | null;
  sloAttainment: number | null;
  ttftMs: Distribution | null;
  /** Null, too, where a run has more than `MOST_TENANTS`: engines do not tell the gaps of so many apart. */
  itlMs: Distribution | null;
  tpotMs: Distribution | null;
  e2eMs: Distribution | null;
}

export interface TenantSummary extends TenantFigures {
  name: string;
}

/** All tenants that have no entry of their own, as one. */
export interface OtherTenants extends TenantFigures {
  /** How many they are. */
  tenants: number;
}

/** What a summary says of tenants: nothing where a run has one. */
export interface TenantSummaries {
  /** In the order of the run's names; of more than `MOST_TENANTS` those that submitted most, the largest first. */
  tenants?: TenantSummary[];
  otherTenants?: OtherTenants;
}

/** Tenants with an entry of their own in a summary: a trace can name thousands. */
export const MOST_TENANTS = 64;

/** Counts by tenant, and whose each latency of the whole run is: 8 bytes a completed request and 72 a tenant. Plain data. */
export interface TenantState {
  names: readonly string[];
  /** By tenant and `COUNT`. */
  counts: Float64Array;
  /** Of each value in the run's list of TTFT and of E2E: 2 x tenant, and 1 more where the request has a TPOT. */
  owners: ValueList;
}

/** The latencies of the whole run, in the order in which requests were added, and the gaps between tokens by tenant, where they were told apart. */
export interface RunLatencies {
  ttftNs: ValueList;
  tpotNs: ValueList;
  e2eNs: ValueList;
  itlOfTenants: readonly (Distribution | null)[];
}

/** A tenant's counts; those of the four outcomes stand first, under their codes. */
const COUNT = { measured: 4, judged: 5, good: 6, outputTokens: 7, tpots: 8 } as const;
const COUNTS = 9;

export function createTenantState(names: readonly string[]): TenantState {
  return { names: [...names], counts: new Float64Array(names.length * COUNTS), owners: createValueList() };
}

/** Adds rows that the whole run's summary has accepted just before. `sloOf` gives what a tenant's requests have to meet. */
export function addSegmentToTenants(
  state: TenantState,
  segment: RequestSegment,
  warmupNs: number,
  sloOf: (tenant: number) => Slo | null,
): void {
  const { counts, names } = state;
  for (let row = 0; row < segment.rows; row++) {
    const tenant = segment.tenantId[row]!;
    if (!(tenant >= 0 && tenant < names.length)) {
      throw new RangeError(`request ${segment.requestId[row]} is of tenant ${tenant}, but the run has ${names.length} tenants (0..)`);
    }
    const at = tenant * COUNTS;
    const outcome = segment.outcome[row]!;
    counts[at + outcome]!++;
    if (segment.arrivalNs[row]! < warmupNs || outcome === OUTCOME.inFlight) continue;
    const slo = sloOf(tenant);
    if (slo !== null) counts[at + COUNT.judged]!++;
    if (outcome !== OUTCOME.completed) continue;
    const ttftNs = segment.firstTokenNs[row]! - segment.arrivalNs[row]!;
    const e2eNs = segment.lastTokenNs[row]! - segment.arrivalNs[row]!;
    const tpotNs = tpotNsOf(segment.outputTokens[row]!, ttftNs, e2eNs);
    counts[at + COUNT.measured]!++;
    counts[at + COUNT.outputTokens]! += segment.outputTokens[row]!;
    if (tpotNs >= 0) counts[at + COUNT.tpots]!++;
    if (slo !== null && meetsSlo(slo, ttftNs, tpotNs, segment.maxItlNs[row]!, e2eNs)) counts[at + COUNT.good]!++;
    addValue(state.owners, 2 * tenant + (tpotNs >= 0 ? 1 : 0));
  }
}

/** The summaries of all tenants over `seconds` of measured time. */
export function finishTenants(
  state: TenantState,
  latencies: RunLatencies,
  seconds: number,
  sloOf: (tenant: number) => Slo | null,
): TenantSummaries {
  const groups = groupTenants(state);
  const size = groups.size;
  const counts = new Float64Array(size * COUNTS);
  const judges = new Uint8Array(size);
  for (let tenant = 0; tenant < state.names.length; tenant++) {
    const group = groups.groupOf[tenant]!;
    if (sloOf(tenant) !== null) judges[group] = 1;
    for (let count = 0; count < COUNTS; count++) counts[group * COUNTS + count]! += state.counts[tenant * COUNTS + count]!;
  }
  const every = distributionsOf(state.owners, groups, counts, COUNT.measured, [latencies.ttftNs, latencies.e2eNs]);
  const gaps = distributionsOf(state.owners, groups, counts, COUNT.tpots, [latencies.tpotNs]);
  const rate = (count: number): number => (seconds > 0 ? count / seconds : 0);
  const figures = (group: number): TenantFigures => {
    const of = (count: number): number => counts[group * COUNTS + count]!;
    const hasSlo = judges[group] === 1;
    return {
      submitted: submittedOf(counts, group),
      completed: of(OUTCOME.completed),
      rejected: of(OUTCOME.rejected),
      failed: of(OUTCOME.failed),
      inFlight: of(OUTCOME.inFlight),
      requestsPerSecond: rate(of(COUNT.measured)),
      outputTokensPerSecond: rate(of(COUNT.outputTokens)),
      goodput: hasSlo ? rate(of(COUNT.good)) : null,
      sloAttainment: hasSlo && of(COUNT.judged) > 0 ? of(COUNT.good) / of(COUNT.judged) : null,
      ttftMs: every[0]![group]!,
      itlMs: latencies.itlOfTenants[groups.shown[group] ?? -1] ?? null,
      tpotMs: gaps[0]![group]!,
      e2eMs: every[1]![group]!,
    };
  };
  const others = state.names.length - groups.shown.length;
  return {
    tenants: groups.shown.map((tenant, group) => ({ name: state.names[tenant]!, ...figures(group) })),
    ...(others === 0 ? {} : { otherTenants: { tenants: others, ...figures(groups.shown.length) } }),
  };
}

/** Which tenants are told apart, and the group of each; the last group takes the rest. */
interface TenantGroups {
  shown: number[];
  groupOf: Uint8Array;
  size: number;
}

function groupTenants({ names, counts }: TenantState): TenantGroups {
  const all = names.map((_, tenant) => tenant);
  const shown =
    all.length <= MOST_TENANTS
      ? all
      : all.sort((one, other) => submittedOf(counts, other) - submittedOf(counts, one) || one - other).slice(0, MOST_TENANTS);
  const groupOf = new Uint8Array(names.length).fill(shown.length);
  for (const [group, tenant] of shown.entries()) groupOf[tenant] = group;
  return { shown, groupOf, size: shown.length + (shown.length < names.length ? 1 : 0) };
}

function submittedOf(counts: Float64Array, at: number): number {
  let sum = 0;
  for (let outcome = 0; outcome < 4; outcome++) sum += counts[at * COUNTS + outcome]!;
  return sum;
}

/** Sorts the values of each list by group: one distribution a list and group. `count` says which owners have values, and how many a group has. */
function distributionsOf(
  owners: ValueList,
  { groupOf, size }: TenantGroups,
  counts: Float64Array,
  count: typeof COUNT.measured | typeof COUNT.tpots,
  lists: readonly ValueList[],
): (Distribution | null)[][] {
  const ends = new Float64Array(size);
  for (let group = 0; group < size; group++) ends[group] = (group === 0 ? 0 : ends[group - 1]!) + counts[group * COUNTS + count]!;
  return lists.map((list) => {
    const values = new Float64Array(list.length);
    const next = Float64Array.from(ends, (end, group) => end - counts[group * COUNTS + count]!);
    for (let row = 0, index = 0; row < owners.length; row++) {
      const owner = owners.values[row]!;
      if (count === COUNT.tpots && owner % 2 === 0) continue;
      values[next[groupOf[owner >> 1]!]!++] = list.values[index++]!;
    }
    return Array.from(ends, (end, group) => {
      const length = counts[group * COUNTS + count]!;
      return distributionOf({ values: values.subarray(end - length, end), length }, MS_PER_NS);
    });
  });
}
