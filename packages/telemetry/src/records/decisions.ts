import { type ColumnTable, reserveRow } from './table.js';

/** Who decided what. */
export const DECISION_KIND = { prefillRoute: 0, decodeRoute: 1, plan: 2, control: 3, admission: 4 } as const;
export const DECISION_KIND_NAMES = ['prefill_route', 'decode_route', 'plan', 'control', 'admission'] as const;

/**
 * One candidate of one decision, with what the decider saw of it: a decision over k recorded candidates is k rows with the same decisionId,
 * so plain SQL can compare the chosen with the others. One on admission is a row without a candidate, chosen if the request was let in.
 * NaN (numbers) and -1 (ids, times) stand for "not seen".
 */
export interface DecisionRecord {
  timeNs: number;
  decisionId: number;
  kind: number;
  /** The deciding actor. */
  actorId: number;
  requestId: number;
  policyId: number;
  candidateId: number;
  /** Candidates the decision had in all; how many of them are recorded is up to the decider. */
  candidates: number;
  chosen: boolean;
  /** The policy's cost of the candidate: lower is better. */
  score: number;
  overlapBlocks: number;
  prefillBlocks: number;
  activeBlocks: number;
  /** Predicted transfer time. */
  transferMs: number;
  /** Congestion reported by the oracle, 0..1. */
  congestion: number;
  networkTier: number;
  /** Age of the report the view rests on. */
  viewAgeNs: number;
  /** Short text, e.g. what a planner moved. */
  noteId: number;
  /** What an admission policy saw: requests in flight and waiting at its frontend, prompt tokens under way at all engines by its account. */
  inFlightRequests: number;
  waitingRequests: number;
  activePrefillTokens: number;
}

/** 90 bytes a row. */
export interface DecisionSegment {
  rows: number;
  timeNs: Float64Array;
  decisionId: Int32Array;
  kind: Uint8Array;
  actorId: Int32Array;
  requestId: Int32Array;
  policyId: Int32Array;
  candidateId: Int32Array;
  candidates: Int32Array;
  chosen: Uint8Array;
  score: Float64Array;
  overlapBlocks: Float32Array;
  prefillBlocks: Float32Array;
  activeBlocks: Float32Array;
  transferMs: Float32Array;
  congestion: Float32Array;
  networkTier: Int8Array;
  viewAgeNs: Float64Array;
  noteId: Int32Array;
  inFlightRequests: Int32Array;
  waitingRequests: Int32Array;
  activePrefillTokens: Float64Array;
}

/** All candidates of all recorded decisions, a row each. */
export type DecisionColumns = ColumnTable<DecisionSegment>;

export function createDecisionColumns(maxRows = 200_000_000, segmentRows = 8192): DecisionColumns {
  return { name: 'decisions', segments: [], spare: [], rows: 0, releasedRows: 0, segmentRows, maxRows };
}

function createDecisionSegment(rows: number): DecisionSegment {
  return {
    rows: 0,
    timeNs: new Float64Array(rows),
    decisionId: new Int32Array(rows),
    kind: new Uint8Array(rows),
    actorId: new Int32Array(rows),
    requestId: new Int32Array(rows),
    policyId: new Int32Array(rows),
    candidateId: new Int32Array(rows),
    candidates: new Int32Array(rows),
    chosen: new Uint8Array(rows),
    score: new Float64Array(rows),
    overlapBlocks: new Float32Array(rows),
    prefillBlocks: new Float32Array(rows),
    activeBlocks: new Float32Array(rows),
    transferMs: new Float32Array(rows),
    congestion: new Float32Array(rows),
    networkTier: new Int8Array(rows),
    viewAgeNs: new Float64Array(rows),
    noteId: new Int32Array(rows),
    inFlightRequests: new Int32Array(rows),
    waitingRequests: new Int32Array(rows),
    activePrefillTokens: new Float64Array(rows),
  };
}

/** A record with nothing seen: the start of a reused one. */
export function emptyDecisionRecord(): DecisionRecord {
  return {
    timeNs: 0,
    decisionId: 0,
    kind: DECISION_KIND.prefillRoute,
    actorId: -1,
    requestId: -1,
    policyId: -1,
    candidateId: -1,
    candidates: 0,
    chosen: false,
    score: Number.NaN,
    overlapBlocks: Number.NaN,
    prefillBlocks: Number.NaN,
    activeBlocks: Number.NaN,
    transferMs: Number.NaN,
    congestion: Number.NaN,
    networkTier: -1,
    viewAgeNs: -1,
    noteId: -1,
    inFlightRequests: -1,
    waitingRequests: -1,
    activePrefillTokens: Number.NaN,
  };
}

/** Adds one candidate of one decision. The record is read and not kept. */
export function appendDecision(columns: DecisionColumns, record: DecisionRecord): void {
  const segment = reserveRow(columns, createDecisionSegment);
  const row = segment.rows++;
  segment.timeNs[row] = record.timeNs;
  segment.decisionId[row] = record.decisionId;
  segment.kind[row] = record.kind;
  segment.actorId[row] = record.actorId;
  segment.requestId[row] = record.requestId;
  segment.policyId[row] = record.policyId;
  segment.candidateId[row] = record.candidateId;
  segment.candidates[row] = record.candidates;
  segment.chosen[row] = record.chosen ? 1 : 0;
  segment.score[row] = record.score;
  segment.overlapBlocks[row] = record.overlapBlocks;
  segment.prefillBlocks[row] = record.prefillBlocks;
  segment.activeBlocks[row] = record.activeBlocks;
  segment.transferMs[row] = record.transferMs;
  segment.congestion[row] = record.congestion;
  segment.networkTier[row] = record.networkTier;
  segment.viewAgeNs[row] = record.viewAgeNs;
  segment.noteId[row] = record.noteId;
  segment.inFlightRequests[row] = record.inFlightRequests;
  segment.waitingRequests[row] = record.waitingRequests;
  segment.activePrefillTokens[row] = record.activePrefillTokens;
}
