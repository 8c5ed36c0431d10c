import { body, type MessageType, type RunRecord, record, rowRecord } from '@braess/kernel';
import { type RequestRecord, requestRowColumns } from '@braess/protocol';

/** One request's row, at the time its outcome is known. */
export const requestEnded = rowRecord('requestEnded', requestRowColumns);

/** The row of a request that is in flight where the run is cut: what its frontend knows of it then. */
export const requestInFlight = rowRecord('requestInFlight', requestRowColumns);

/** A request has reached a frontend; with `requestEnded` it makes the books balance: in flight = arrived - ended. */
export const requestArrived = record('requestArrived', ['request', 'tenant', 'inputTokens', 'priority']);

/** The row of a `requestEnded` or `requestInFlight` record. */
export function requestRowOf({ fields, timeNs }: RunRecord): RequestRecord {
  return {
    requestId: fields[0]!,
    tenantId: fields[1]!,
    outcome: fields[2]!,
    reason: fields[3]!,
    attempts: fields[4]!,
    preemptions: fields[5]!,
    networkTier: fields[6]!,
    prefillWorkerId: fields[7]!,
    decodeWorkerId: fields[8]!,
    inputTokens: fields[9]!,
    outputTokens: fields[10]!,
    cachedTokensG1: fields[11]!,
    cachedTokensG2: fields[12]!,
    cachedTokensG3: fields[13]!,
    cachedTokensG4: fields[14]!,
    transferBytes: fields[15]!,
    arrivalNs: fields[16]!,
    queuedNs: fields[17]!,
    prefillStartNs: fields[18]!,
    prefillEndNs: fields[19]!,
    transferStartNs: fields[20]!,
    transferEndNs: fields[21]!,
    firstTokenNs: fields[22]!,
    lastTokenNs: fields[23]!,
    maxItlNs: fields[24]!,
    tierFetchNs: fields[25]!,
    tierFetchBytes: fields[26]!,
    endNs: timeNs,
  };
}

/**
 * What one routing decision saw, for a share of the requests: a row of `decisionColumns` a candidate, row after row; the chosen one is among them.
 * NaN and -1 stand for "not seen". `stage` is a value of `routerStage`; `candidates` counts all, also those not recorded.
 */
export interface DecisionBody {
  readonly policy: string;
  readonly rows: Float64Array;
}
export const decisionColumns = [
  'candidateId',
  'chosen',
  'score',
  'overlapBlocks',
  'prefillBlocks',
  'activeBlocks',
  'transferMs',
  'congestion',
  'networkTier',
  'viewAgeNs',
] as const;
export const routingDecision: MessageType<'routingDecision', readonly ['request', 'stage', 'candidates'], DecisionBody> = record(
  'routingDecision',
  ['request', 'stage', 'candidates'],
  body<DecisionBody>(),
);

/** Name of the policy that decided. */
export interface AdmissionBody {
  readonly policy: string;
}
/**
 * Whether a request was let in (`admitted` 1, else 0), for a share of the requests, and what the policy saw: requests in flight and waiting at this
 * frontend, and the prompt tokens under way at all engines by its account.
 */
export const admissionDecision = record(
  'admissionDecision',
  ['request', 'admitted', 'inFlightRequests', 'waitingRequests', 'activePrefillTokens'],
  body<AdmissionBody>(),
);
