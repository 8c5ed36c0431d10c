import { OUTCOME_NAMES, REASON_NAMES } from '@braess/protocol';
import type { ColumnArray, ParquetType } from '../parquet/page.js';
import type { ColumnValues, ParquetColumn } from '../parquet/writer.js';
import { DECISION_KIND_NAMES, type DecisionSegment } from '../records/decisions.js';
import type { RequestSegment } from '../records/requests.js';
import type { SeriesSegment } from '../records/series.js';

/** The names behind the numbers in the tables, by id. They may grow during the run, but never change. */
export interface RunNames {
  /** Actor names by numeric actor id (workers, deciders, entities of series). */
  actors: readonly string[];
  tenants: readonly string[];
  networkTiers: readonly string[];
  metrics: readonly string[];
  policies: readonly string[];
  notes: readonly string[];
}

/** How a field of a segment becomes a column of a Parquet file. */
export interface FieldColumn<Segment> extends ParquetColumn {
  field: { [Key in keyof Segment]: Segment[Key] extends ColumnArray ? Key : never }[keyof Segment];
  names?: (names: RunNames) => readonly string[];
}

const column = <Segment>(
  field: FieldColumn<Segment>['field'],
  name: string,
  type: ParquetType,
  optional = false,
  names?: (names: RunNames) => readonly string[],
): FieldColumn<Segment> => ({ field, name, type, optional, ...(names === undefined ? {} : { names }) });

const actors = (names: RunNames): readonly string[] => names.actors;

/** requests.parquet: one row per request; NULL where the request never got there (tokens, bytes and the wait for a tier are 0). Units stand at the end of the names. */
export const REQUEST_COLUMNS: readonly FieldColumn<RequestSegment>[] = [
  column('requestId', 'request_id', 'int32'),
  column('tenantId', 'tenant', 'string', false, (names) => names.tenants),
  column('outcome', 'outcome', 'string', false, () => OUTCOME_NAMES),
  column('reason', 'reason', 'string', false, () => REASON_NAMES),
  column('attempts', 'attempts', 'int32'),
  column('preemptions', 'preemptions', 'int32'),
  column('prefillWorkerId', 'prefill_worker', 'string', true, actors),
  column('decodeWorkerId', 'decode_worker', 'string', true, actors),
  column('networkTier', 'network_tier', 'string', true, (names) => names.networkTiers),
  column('inputTokens', 'input_tokens', 'int32'),
  column('outputTokens', 'output_tokens', 'int32'),
  column('cachedTokensG1', 'cached_tokens_g1', 'int32'),
  column('cachedTokensG2', 'cached_tokens_g2', 'int32'),
  column('cachedTokensG3', 'cached_tokens_g3', 'int32'),
  column('cachedTokensG4', 'cached_tokens_g4', 'int32'),
  column('tierFetchBytes', 'tier_fetch_bytes', 'int64'),
  column('transferBytes', 'transfer_bytes', 'int64'),
  column('arrivalNs', 'arrival_ns', 'int64'),
  column('queuedNs', 'queued_ns', 'int64', true),
  column('prefillStartNs', 'prefill_start_ns', 'int64', true),
  column('tierFetchNs', 'tier_fetch_ns', 'int64'),
  column('prefillEndNs', 'prefill_end_ns', 'int64', true),
  column('transferStartNs', 'transfer_start_ns', 'int64', true),
  column('transferEndNs', 'transfer_end_ns', 'int64', true),
  column('firstTokenNs', 'first_token_ns', 'int64', true),
  column('lastTokenNs', 'last_token_ns', 'int64', true),
  column('endNs', 'end_ns', 'int64', true),
  column('maxItlNs', 'max_itl_ns', 'int64', true),
];

/** series.parquet: one row per sample; entity NULL for the whole cluster. */
export const SERIES_COLUMNS: readonly FieldColumn<SeriesSegment>[] = [
  column('timeNs', 'time_ns', 'int64'),
  column('metricId', 'metric', 'string', false, (names) => names.metrics),
  column('entityId', 'entity', 'string', true, actors),
  column('value', 'value', 'double'),
];

/** decisions.parquet: one row per candidate of a decision; NULL for what the decider did not see. */
export const DECISION_COLUMNS: readonly FieldColumn<DecisionSegment>[] = [
  column('timeNs', 'time_ns', 'int64'),
  column('decisionId', 'decision_id', 'int32'),
  column('kind', 'kind', 'string', false, () => DECISION_KIND_NAMES),
  column('actorId', 'actor', 'string', true, actors),
  column('requestId', 'request_id', 'int32', true),
  column('policyId', 'policy', 'string', true, (names) => names.policies),
  column('candidateId', 'candidate', 'string', true, actors),
  column('candidates', 'candidates', 'int32'),
  column('chosen', 'chosen', 'boolean'),
  column('score', 'score', 'double', true),
  column('overlapBlocks', 'overlap_blocks', 'float', true),
  column('prefillBlocks', 'prefill_blocks', 'float', true),
  column('activeBlocks', 'active_blocks', 'float', true),
  column('transferMs', 'transfer_ms', 'float', true),
  column('congestion', 'congestion', 'float', true),
  column('networkTier', 'network_tier', 'string', true, (names) => names.networkTiers),
  column('viewAgeNs', 'view_age_ns', 'int64', true),
  column('noteId', 'note', 'string', true, (names) => names.notes),
  column('inFlightRequests', 'inflight_requests', 'int32', true),
  column('waitingRequests', 'waiting_requests', 'int32', true),
  column('activePrefillTokens', 'active_prefill_tokens', 'double', true),
];

/** The values of every column of a segment, in the order of `columns`. */
export function columnValues<Segment>(segment: Segment, columns: readonly FieldColumn<Segment>[], names: RunNames): ColumnValues[] {
  return columns.map((entry) => {
    const values = segment[entry.field] as ColumnArray;
    return entry.names === undefined ? { values } : { values, names: entry.names(names) };
  });
}
