import { OUTCOME } from '@braess/protocol';
import type { RequestColumns, RequestSegment } from '../records/requests.js';
import { histogramMean, histogramQuantile, type LatencyHistogram } from './histogram.js';
import { MS_PER_NS, meetsSlo, type Slo, tpotNsOf } from './slo.js';
import { addSegmentToTenants, createTenantState, finishTenants, type TenantState, type TenantSummaries } from './tenants.js';
import { addValue, createValueList, type Distribution, distributionOf, type ValueList } from './values.js';

/** What counts in a summary, and as good. */
export interface SummaryOptions {
  slo?: Slo;
  /** By tenant id; a tenant that is not listed uses `slo`. */
  tenantSlos?: ReadonlyMap<number, Slo>;
  /** Requests that arrive earlier are counted (conservation) but left out of latencies, rates, goodput and hit rates. */
  warmupNs?: number;
  /** Names by tenant id. Where there are two or more, the summary tells them apart. */
  tenantNames?: readonly string[];
}

/**
 * The summary of a run (JSON). Definitions, over completed requests that arrived after the warm-up:
 * TTFT = first token - arrival; E2E = last token - arrival; TPOT = (last - first token) / (output tokens - 1) per request of two or more tokens, rounded to 1 ns;
 * ITL = every gap between two consecutive tokens of a request, each gap counted once; transfer = transfer end - transfer start;
 * tier fetch = wait of a prompt for its blocks from G2, G3 and G4, of the requests that fetched any.
 * The gaps come from the caller, who leaves out those of the warm-up. Rates are per simulated second after the warm-up. Quantiles interpolate between order statistics (type 7); those of ITL are within 0.05 %. Null: no such value.
 */
export interface RunSummary extends TenantSummaries {
  submitted: number;
  completed: number;
  rejected: number;
  failed: number;
  inFlight: number;
  simulatedSeconds: number;
  /** Completed requests per simulated second. */
  requestsPerSecond: number;
  /** Tokens of completed requests per simulated second. */
  outputTokensPerSecond: number;
  /** Completed requests that met their SLO per simulated second; null when no SLO was given. */
  goodput: number | null;
  /** Share of ended requests (completed, rejected, failed) that met their SLO; null when no SLO was given. */
  sloAttainment: number | null;
  /** Share of the input tokens of prefilled requests found in each tier. */
  hitRates: { g1: number; g2: number; g3: number; g4: number; total: number };
  ttftMs: Distribution | null;
  itlMs: Distribution | null;
  tpotMs: Distribution | null;
  e2eMs: Distribution | null;
  transferMs: Distribution | null;
  tierFetchMs: Distribution | null;
}

/** Accumulates request segments as they pass by: 40 bytes a completed request, 48 where tenants are told apart. Plain data; any order of segments gives the same summary. */
export interface SummaryState {
  slo: Slo | null;
  tenantSlos: Map<number, Slo>;
  warmupNs: number;
  outcomes: Float64Array;
  lastNs: number;
  measured: { completed: number; judged: number; good: number; outputTokens: number; inputTokens: number; cached: Float64Array };
  ttftNs: ValueList;
  tpotNs: ValueList;
  e2eNs: ValueList;
  transferNs: ValueList;
  tierFetchNs: ValueList;
  /** Null where tenants are not told apart. */
  tenants: TenantState | null;
}

export function createSummaryState(options: SummaryOptions = {}): SummaryState {
  return {
    slo: options.slo === undefined ? null : { ...options.slo },
    tenantSlos: new Map(options.tenantSlos ?? []),
    warmupNs: options.warmupNs ?? 0,
    outcomes: new Float64Array(4),
    lastNs: 0,
    measured: { completed: 0, judged: 0, good: 0, outputTokens: 0, inputTokens: 0, cached: new Float64Array(4) },
    ttftNs: createValueList(),
    tpotNs: createValueList(),
    e2eNs: createValueList(),
    transferNs: createValueList(),
    tierFetchNs: createValueList(),
    tenants: (options.tenantNames?.length ?? 0) < 2 ? null : createTenantState(options.tenantNames!),
  };
}

/** Adds the rows of one segment. */
export function addSegmentToSummary(state: SummaryState, segment: RequestSegment): void {
  for (let row = 0; row < segment.rows; row++) addRow(state, segment, row);
  if (state.tenants !== null) addSegmentToTenants(state.tenants, segment, state.warmupNs, (tenant) => sloOf(state, tenant));
}

/** Adds the rows of one segment, less those of fewer output tokens, to summaries of each tenant alone: `states` is by tenant id. */
export function addSegmentByTenant(states: readonly SummaryState[], segment: RequestSegment, leastOutputTokens: number): void {
  for (let row = 0; row < segment.rows; row++)
    if (segment.outputTokens[row]! >= leastOutputTokens) addRow(states[segment.tenantId[row]!]!, segment, row);
}

function addRow(state: SummaryState, segment: RequestSegment, row: number): void {
  const outcome = segment.outcome[row]!;
  if (outcome > 3) throw new RangeError(`request ${segment.requestId[row]} has outcome code ${outcome}; use one of OUTCOME (0..3)`);
  state.outcomes[outcome]!++;
  state.lastNs = Math.max(state.lastNs, segment.endNs[row]!, segment.arrivalNs[row]!);
  if (segment.arrivalNs[row]! < state.warmupNs) return;
  addHits(state, segment, row);
  if (outcome !== OUTCOME.inFlight && sloOf(state, segment.tenantId[row]!) !== null) state.measured.judged++;
  if (outcome === OUTCOME.completed) addCompleted(state, segment, row);
}

/**
 * The summary of what was added. `simulatedNs` is the length of the run (default: the last outcome or arrival), `itl` every gap, `itlOfTenants` those of each
 * tenant by its id, empty where gaps were counted without their tenant.
 */
export function finishSummary(
  state: SummaryState,
  itl: LatencyHistogram,
  simulatedNs = state.lastNs,
  itlOfTenants: readonly LatencyHistogram[] = [],
): RunSummary {
  const { measured, outcomes } = state;
  const seconds = Math.max(simulatedNs - state.warmupNs, 0) / 1e9;
  const rate = (count: number): number => (seconds > 0 ? count / seconds : 0);
  const hit = (tier: number): number => (measured.inputTokens > 0 ? measured.cached[tier]! / measured.inputTokens : 0);
  const hasSlo = state.slo !== null || state.tenantSlos.size > 0;
  const cachedTokens = measured.cached[0]! + measured.cached[1]! + measured.cached[2]! + measured.cached[3]!;
  return {
    submitted: outcomes[0]! + outcomes[1]! + outcomes[2]! + outcomes[3]!,
    completed: outcomes[OUTCOME.completed]!,
    rejected: outcomes[OUTCOME.rejected]!,
    failed: outcomes[OUTCOME.failed]!,
    inFlight: outcomes[OUTCOME.inFlight]!,
    simulatedSeconds: simulatedNs / 1e9,
    requestsPerSecond: rate(measured.completed),
    outputTokensPerSecond: rate(measured.outputTokens),
    goodput: hasSlo ? rate(measured.good) : null,
    sloAttainment: hasSlo && measured.judged > 0 ? measured.good / measured.judged : null,
    hitRates: { g1: hit(0), g2: hit(1), g3: hit(2), g4: hit(3), total: measured.inputTokens > 0 ? cachedTokens / measured.inputTokens : 0 },
    ttftMs: distributionOf(state.ttftNs, MS_PER_NS),
    itlMs: histogramDistribution(itl),
    tpotMs: distributionOf(state.tpotNs, MS_PER_NS),
    e2eMs: distributionOf(state.e2eNs, MS_PER_NS),
    transferMs: distributionOf(state.transferNs, MS_PER_NS),
    tierFetchMs: distributionOf(state.tierFetchNs, MS_PER_NS),
    ...(state.tenants === null
      ? {}
      : finishTenants(state.tenants, { ...state, itlOfTenants: itlOfTenants.map(histogramDistribution) }, seconds, (tenant) =>
          sloOf(state, tenant),
        )),
  };
}

/** Summary of a table that still holds all its rows. */
export function summarize(
  columns: RequestColumns,
  itl: LatencyHistogram,
  options: SummaryOptions & { simulatedNs?: number } = {},
): RunSummary {
  if (columns.releasedRows > 0) {
    throw new Error(
      `summarize: ${columns.releasedRows} of ${columns.rows} rows of table "${columns.name}" were already written and released; add segments to a SummaryState as they are written`,
    );
  }
  const state = createSummaryState(options);
  for (const segment of columns.segments) addSegmentToSummary(state, segment);
  return finishSummary(state, itl, options.simulatedNs);
}

function addHits(state: SummaryState, segment: RequestSegment, row: number): void {
  // Of requests in flight it depends on where the run was cut what is known.
  if (segment.outcome[row] === OUTCOME.inFlight || segment.prefillStartNs[row]! < 0) return;
  const { measured } = state;
  measured.inputTokens += segment.inputTokens[row]!;
  measured.cached[0]! += segment.cachedTokensG1[row]!;
  measured.cached[1]! += segment.cachedTokensG2[row]!;
  measured.cached[2]! += segment.cachedTokensG3[row]!;
  measured.cached[3]! += segment.cachedTokensG4[row]!;
}

function addCompleted(state: SummaryState, segment: RequestSegment, row: number): void {
  const arrivalNs = segment.arrivalNs[row]!;
  const firstTokenNs = segment.firstTokenNs[row]!;
  const outputTokens = segment.outputTokens[row]!;
  const ttftNs = firstTokenNs - arrivalNs;
  const e2eNs = segment.lastTokenNs[row]! - arrivalNs;
  if (firstTokenNs < 0 || !(ttftNs >= 0) || !(e2eNs >= ttftNs)) {
    throw new RangeError(
      `request ${segment.requestId[row]} is completed, but arrival ${arrivalNs}, first token ${firstTokenNs}, last token ${segment.lastTokenNs[row]} ns are not in order`,
    );
  }
  const tpotNs = tpotNsOf(outputTokens, ttftNs, e2eNs);
  addValue(state.ttftNs, ttftNs);
  addValue(state.e2eNs, e2eNs);
  if (tpotNs >= 0) addValue(state.tpotNs, tpotNs);
  if (segment.transferEndNs[row]! >= 0) addValue(state.transferNs, segment.transferEndNs[row]! - segment.transferStartNs[row]!);
  if (segment.tierFetchNs[row]! > 0) addValue(state.tierFetchNs, segment.tierFetchNs[row]!);
  state.measured.completed++;
  state.measured.outputTokens += outputTokens;
  const slo = sloOf(state, segment.tenantId[row]!);
  if (slo !== null && meetsSlo(slo, ttftNs, tpotNs, segment.maxItlNs[row]!, e2eNs)) state.measured.good++;
}

/** What a tenant's requests have to meet: its own SLO, else that of all; null for none. */
function sloOf(state: SummaryState, tenant: number): Slo | null {
  return state.tenantSlos.get(tenant) ?? state.slo;
}

function histogramDistribution(histogram: LatencyHistogram): Distribution | null {
  if (histogram.total === 0) return null;
  return {
    mean: histogramMean(histogram) * MS_PER_NS,
    p50: histogramQuantile(histogram, 0.5) * MS_PER_NS,
    p90: histogramQuantile(histogram, 0.9) * MS_PER_NS,
    p99: histogramQuantile(histogram, 0.99) * MS_PER_NS,
  };
}
