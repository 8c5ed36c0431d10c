import { body, type MessageType, type RunRecord, record } from '@braess/kernel';

/**
 * One request's row leaves the frontend as a few records of numbers, in this order and one right after the other: `requestHits` and `requestTransfer`
 * where there is something to say, `requestTimes`, `requestPlace`, and `requestEnded` last, at the time the outcome was known. Six-number records
 * cost a tenth of one with a body, which is copied, packed and unpacked. Ids are actor ids; times ns, -1 for never.
 */
export const requestHits = record('requestHits', ['request', 'cachedTokensG1', 'cachedTokensG2', 'cachedTokensG3', 'cachedTokensG4']);
export const requestTransfer = record('requestTransfer', ['request', 'transferStartNs', 'transferEndNs', 'transferBytes', 'networkTier']);
export const requestTimes = record('requestTimes', [
  'arrivalNs',
  'queuedNs',
  'prefillStartNs',
  'prefillEndNs',
  'firstTokenNs',
  'lastTokenNs',
]);
export const requestPlace = record('requestPlace', [
  'prefillWorkerId',
  'decodeWorkerId',
  'inputTokens',
  'outputTokens',
  'maxItlNs',
  'preemptions',
]);
export const requestEnded = record('requestEnded', ['request', 'tenant', 'outcome', 'reason', 'attempts']);

/** A request has reached a frontend; with `requestEnded` it makes the books balance: in flight = arrived - ended. */
export const requestArrived = record('requestArrived', ['request', 'tenant', 'inputTokens', 'priority']);

/** Outcomes and reasons as the run folder's requests table counts them. */
export const recordedOutcome = { inFlight: 0, completed: 1, rejected: 2, failed: 3 } as const;
export const recordedReason = {
  none: 0,
  queueFull: 1,
  tooLong: 2,
  noWorker: 3,
  timeout: 4,
  cancelled: 5,
  workerLost: 6,
  transferLost: 7,
  admission: 8,
  other: 9,
} as const;

/** One request's life, named as the columns of the run folder's requests table. */
export interface RequestRow {
  requestId: number;
  tenantId: number;
  outcome: number;
  reason: number;
  attempts: number;
  preemptions: number;
  networkTier: number;
  prefillWorkerId: number;
  decodeWorkerId: number;
  inputTokens: number;
  outputTokens: number;
  cachedTokensG1: number;
  cachedTokensG2: number;
  cachedTokensG3: number;
  cachedTokensG4: number;
  transferBytes: number;
  arrivalNs: number;
  queuedNs: number;
  prefillStartNs: number;
  prefillEndNs: number;
  transferStartNs: number;
  transferEndNs: number;
  firstTokenNs: number;
  lastTokenNs: number;
  endNs: number;
  maxItlNs: number;
}

/** Puts rows together from a run's merged records: `read` gives the row when its last record has come, else undefined. The row object is reused. */
export class RequestRowReader {
  readonly #row: RequestRow = emptyRow();
  #hasHits = false;
  #hasTransfer = false;

  read(run: RunRecord): RequestRow | undefined {
    const row = this.#row;
    const { fields } = run;
    switch (run.type) {
      case requestHits.name:
        row.cachedTokensG1 = fields[1]!;
        row.cachedTokensG2 = fields[2]!;
        row.cachedTokensG3 = fields[3]!;
        row.cachedTokensG4 = fields[4]!;
        this.#hasHits = true;
        return undefined;
      case requestTransfer.name:
        row.transferStartNs = fields[1]!;
        row.transferEndNs = fields[2]!;
        row.transferBytes = fields[3]!;
        row.networkTier = fields[4]!;
        this.#hasTransfer = true;
        return undefined;
      case requestTimes.name:
        row.arrivalNs = fields[0]!;
        row.queuedNs = fields[1]!;
        row.prefillStartNs = fields[2]!;
        row.prefillEndNs = fields[3]!;
        row.firstTokenNs = fields[4]!;
        row.lastTokenNs = fields[5]!;
        return undefined;
      case requestPlace.name:
        row.prefillWorkerId = fields[0]!;
        row.decodeWorkerId = fields[1]!;
        row.inputTokens = fields[2]!;
        row.outputTokens = fields[3]!;
        row.maxItlNs = fields[4]!;
        row.preemptions = fields[5]!;
        return undefined;
      case requestEnded.name:
        return this.#finish(run);
      default:
        return undefined;
    }
  }

  #finish(run: RunRecord): RequestRow {
    const row = this.#row;
    if (!this.#hasHits) Object.assign(row, noHits);
    if (!this.#hasTransfer) Object.assign(row, noTransfer);
    this.#hasHits = false;
    this.#hasTransfer = false;
    row.requestId = run.fields[0]!;
    row.tenantId = run.fields[1]!;
    row.outcome = run.fields[2]!;
    row.reason = run.fields[3]!;
    row.attempts = run.fields[4]!;
    row.endNs = run.timeNs;
    return row;
  }
}

const noHits = { cachedTokensG1: 0, cachedTokensG2: 0, cachedTokensG3: 0, cachedTokensG4: 0 };
const noTransfer = { transferStartNs: -1, transferEndNs: -1, transferBytes: 0, networkTier: -1 };

function emptyRow(): RequestRow {
  return {
    requestId: 0,
    tenantId: 0,
    outcome: recordedOutcome.inFlight,
    reason: recordedReason.none,
    attempts: 1,
    preemptions: 0,
    prefillWorkerId: -1,
    decodeWorkerId: -1,
    inputTokens: 0,
    outputTokens: 0,
    ...noHits,
    ...noTransfer,
    arrivalNs: -1,
    queuedNs: -1,
    prefillStartNs: -1,
    prefillEndNs: -1,
    firstTokenNs: -1,
    lastTokenNs: -1,
    endNs: -1,
    maxItlNs: -1,
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
export const routingDecision: MessageType<'routingDecision', readonly ['decision', 'request', 'stage', 'candidates'], DecisionBody> =
  record('routingDecision', ['decision', 'request', 'stage', 'candidates'], body<DecisionBody>());
