import {
  appendDecision,
  appendRequest,
  appendSample,
  closeRunFolder,
  createLatencyHistogram,
  DECISION_KIND,
  emptyDecisionRecord,
  emptyRequestRecord,
  OUTCOME,
  openRunFolder,
  REASON,
  type RequestRecord,
  recordLatency,
} from '@braess/telemetry';

const ms = 1e6;

/** Names by actor id. */
export const actors = ['pod0/rack0/node0/engine0', 'pod0/rack0/node1/engine0', 'control/frontend0', 'pod0/rack0/node0/gpu0'] as const;

interface MadeRun {
  readonly gapMs?: number;
  readonly fingerprint?: string;
  /** Further keys of the scenario. */
  readonly scenario?: Readonly<Record<string, unknown>>;
  readonly change?: (record: RequestRecord) => Partial<RequestRecord>;
}

/**
 * A run folder small enough to know every value: request 0 goes through prefill, transfer and decode and asks for `tokens` tokens `gapMs` apart, request 1
 * is served where it was prefilled, 2 is rejected, 3 fails. Two samples of one GPU. The run lasts one second.
 */
export function makeRun(folder: string, { gapMs = 10, fingerprint = '0123456789abcdef', scenario = {}, change }: MadeRun = {}): void {
  const run = openRunFolder({
    folder,
    scenario: { name: 'made-up', ...scenario },
    seed: '7',
    versions: { braess: '0.1.0' },
    names: {
      actors,
      tenants: ['default'],
      networkTiers: ['same node', 'same rack'],
      metrics: ['gpu_use'],
      policies: ['kv'],
      notes: [],
    },
    summary: { slo: { ttftMs: 100 } },
  });
  for (const record of records(gapMs)) appendRequest(run.requests, { ...record, ...change?.(record) });
  for (const chosen of [true, false]) {
    appendDecision(run.decisions, {
      ...emptyDecisionRecord(),
      timeNs: 100 * ms,
      kind: DECISION_KIND.prefillRoute,
      actorId: 2,
      requestId: 0,
      policyId: 0,
      decisionId: 0,
      candidateId: chosen ? 0 : 1,
      candidates: 2,
      chosen,
      score: chosen ? 12.5 : 20,
      overlapBlocks: chosen ? 4 : 0,
    });
  }
  appendSample(run.series, 100 * ms, 0, 3, 0.25);
  appendSample(run.series, 200 * ms, 0, 3, 0.75);
  const itl = createLatencyHistogram();
  recordLatency(itl, gapMs * ms, 4);
  recordLatency(itl, 20 * ms, 1);
  closeRunFolder(run, itl, { fingerprint, wallSeconds: 0.5, events: 24, peakRssMb: 64 }, { simulatedNs: 1e9 });
}

function records(gapMs: number): RequestRecord[] {
  const base = { ...emptyRequestRecord(), attempts: 1 };
  const moved: RequestRecord = {
    ...base,
    requestId: 0,
    outcome: OUTCOME.completed,
    prefillWorkerId: 0,
    decodeWorkerId: 1,
    networkTier: 1,
    inputTokens: 1000,
    outputTokens: 5,
    cachedTokensG1: 256,
    transferBytes: 50e6,
    arrivalNs: 100 * ms,
    queuedNs: 101 * ms,
    prefillStartNs: 110 * ms,
    prefillEndNs: 140 * ms,
    transferStartNs: 141 * ms,
    transferEndNs: 142 * ms,
    firstTokenNs: 150 * ms,
    lastTokenNs: (150 + 4 * gapMs) * ms,
    endNs: (150 + 4 * gapMs) * ms,
    maxItlNs: gapMs * ms,
  };
  const stayed: RequestRecord = {
    ...base,
    requestId: 1,
    outcome: OUTCOME.completed,
    prefillWorkerId: 0,
    decodeWorkerId: 0,
    inputTokens: 500,
    outputTokens: 2,
    arrivalNs: 200 * ms,
    queuedNs: 200 * ms,
    prefillStartNs: 200 * ms,
    prefillEndNs: 350 * ms,
    firstTokenNs: 350 * ms,
    lastTokenNs: 370 * ms,
    endNs: 370 * ms,
    maxItlNs: 20 * ms,
  };
  const rejected: RequestRecord = {
    ...base,
    requestId: 2,
    outcome: OUTCOME.rejected,
    reason: REASON.queueFull,
    inputTokens: 10,
    arrivalNs: 300 * ms,
    endNs: 300 * ms,
  };
  const failed: RequestRecord = { ...rejected, requestId: 3, outcome: OUTCOME.failed, reason: REASON.workerLost, endNs: 400 * ms };
  return [moved, stayed, rejected, failed];
}
