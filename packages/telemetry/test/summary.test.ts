import {
  addSegmentToSummary,
  appendRequest,
  createLatencyHistogram,
  createRequestColumns,
  createSummaryState,
  emptyRequestRecord,
  finishSummary,
  meetsSlo,
  OUTCOME,
  type RequestRecord,
  recordLatency,
  type Slo,
  summarize,
} from '@braess/telemetry';
import fc from 'fast-check';
import { quantileSorted } from 'simple-statistics';
import { describe, expect, it } from 'vitest';

const MS = 1e6;

function completed(
  id: number,
  arrivalMs: number,
  ttftMs: number,
  tokens: number,
  gapMs: number,
  more: Partial<RequestRecord> = {},
): RequestRecord {
  const firstTokenNs = (arrivalMs + ttftMs) * MS;
  const lastTokenNs = firstTokenNs + gapMs * MS * (tokens - 1);
  return {
    ...emptyRequestRecord(),
    requestId: id,
    outcome: OUTCOME.completed,
    arrivalNs: arrivalMs * MS,
    prefillStartNs: (arrivalMs + 1) * MS,
    prefillEndNs: (arrivalMs + 2) * MS,
    firstTokenNs,
    lastTokenNs,
    endNs: lastTokenNs,
    maxItlNs: tokens > 1 ? gapMs * MS : -1,
    inputTokens: 1000,
    outputTokens: tokens,
    ...more,
  };
}

describe('summary', () => {
  it('follows its definitions on a run worked out by hand', () => {
    const columns = createRequestColumns(100, 2);
    const itl = createLatencyHistogram();
    appendRequest(columns, completed(0, 0, 100, 11, 10, { cachedTokensG1: 500, transferStartNs: 10 * MS, transferEndNs: 30 * MS }));
    appendRequest(columns, completed(1, 1000, 300, 5, 30, { cachedTokensG2: 100 }));
    appendRequest(columns, completed(2, 2000, 200, 1, 0));
    appendRequest(columns, {
      ...emptyRequestRecord(),
      requestId: 3,
      outcome: OUTCOME.rejected,
      arrivalNs: 2500 * MS,
      endNs: 2500 * MS,
      inputTokens: 9,
    });
    appendRequest(columns, { ...emptyRequestRecord(), requestId: 4, outcome: OUTCOME.inFlight, arrivalNs: 2600 * MS, inputTokens: 9 });
    recordLatency(itl, 10 * MS, 10);
    recordLatency(itl, 30 * MS, 4);
    const summary = summarize(columns, itl, { slo: { ttftMs: 250, tpotMs: 20 }, simulatedNs: 4e9 });
    expect(summary).toMatchObject({ submitted: 5, completed: 3, rejected: 1, failed: 0, inFlight: 1, simulatedSeconds: 4 });
    expect(summary.requestsPerSecond).toBe(3 / 4);
    expect(summary.outputTokensPerSecond).toBe(17 / 4);
    // Requests 0 and 2 meet the SLO, request 1 does not; four have ended.
    expect(summary.goodput).toBe(2 / 4);
    expect(summary.sloAttainment).toBe(2 / 4);
    expect(summary.hitRates).toEqual({ g1: 500 / 3000, g2: 100 / 3000, g3: 0, g4: 0, total: 600 / 3000 });
    expect(summary.ttftMs).toEqual({ mean: 200, p50: 200, p90: expect.closeTo(280, 9), p99: expect.closeTo(298, 9) });
    expect(summary.tpotMs?.p50).toBeCloseTo(20, 9);
    expect(summary.transferMs?.mean).toBe(20);
    // 14 gaps: 10 of 10 ms, 4 of 30 ms. Pooled over gaps the mean is not that of TPOT.
    expect(summary.itlMs?.mean).toBeCloseTo(220 / 14, 9);
    expect(summary.itlMs?.p99).toBeCloseTo(30, 1);
  });

  it('asks for the SLO of those who have one', () => {
    const columns = createRequestColumns();
    // Tenant 1 has an SLO: met, missed and rejected. Tenant 0 has none to meet or to miss.
    for (const [id, tenantId, ttftMs] of [
      [0, 1, 100],
      [1, 1, 900],
      [2, 0, 100],
      [3, 0, 900],
    ] as const)
      appendRequest(columns, completed(id, 1000 * id, ttftMs, 2, 10, { tenantId }));
    appendRequest(columns, { ...emptyRequestRecord(), requestId: 4, tenantId: 1, outcome: OUTCOME.rejected, arrivalNs: 0, endNs: 1 });
    const tenantSlos = new Map<number, Slo>([[1, { ttftMs: 500 }]]);
    const summary = summarize(columns, createLatencyHistogram(), { tenantSlos, simulatedNs: 4e9 });
    expect(summary).toMatchObject({ goodput: 1 / 4, sloAttainment: 1 / 3 });
    expect(summarize(columns, createLatencyHistogram(), { tenantSlos, slo: { e2eMs: 5e3 }, simulatedNs: 4e9 })).toMatchObject({
      goodput: 3 / 4,
      sloAttainment: 3 / 5,
    });
  });

  it('leaves requests of the warm-up out of everything but the counts', () => {
    const columns = createRequestColumns();
    appendRequest(columns, completed(0, 0, 900, 2, 900));
    appendRequest(columns, completed(1, 2000, 100, 2, 10));
    const summary = summarize(columns, createLatencyHistogram(), { warmupNs: 1e9, simulatedNs: 3e9 });
    expect(summary.completed).toBe(2);
    expect(summary.ttftMs?.mean).toBe(100);
    expect(summary.requestsPerSecond).toBe(1 / 2);
    expect(summary.goodput).toBeNull();
    expect(summary.itlMs).toBeNull();
  });

  it('gives the same summary however the rows are split into segments and ordered', () => {
    const request = fc.record({
      arrival: fc.integer({ min: 0, max: 1e6 }),
      ttft: fc.integer({ min: 1, max: 1e5 }),
      tokens: fc.integer({ min: 1, max: 900 }),
      gap: fc.integer({ min: 1, max: 400 }),
      tenant: fc.integer({ min: 0, max: 2 }),
    });
    fc.assert(
      fc.property(fc.array(request, { minLength: 1, maxLength: 40 }), fc.integer({ min: 1, max: 7 }), (list, segments) => {
        const records = list.map((r, id) => completed(id, r.arrival, r.ttft, r.tokens, r.gap, { tenantId: r.tenant }));
        const options = { slo: { ttftMs: 5e4 }, tenantSlos: new Map<number, Slo>([[1, { itlMs: 100 }]]) };
        const whole = createSummaryState(options);
        const parts = Array.from({ length: segments }, () => createRequestColumns());
        for (const record of records) {
          const columns = createRequestColumns();
          appendRequest(columns, record);
          addSegmentToSummary(whole, columns.segments[0]!);
          appendRequest(parts[record.requestId % segments]!, record);
        }
        const split = createSummaryState(options);
        for (const part of parts.reverse()) for (const segment of part.segments) addSegmentToSummary(split, segment);
        expect(finishSummary(split, createLatencyHistogram())).toEqual(finishSummary(whole, createLatencyHistogram()));
        const good = records.filter((r) => (r.tenantId === 1 ? r.maxItlNs <= 100 * MS : r.firstTokenNs - r.arrivalNs <= 5e4 * MS)).length;
        expect(finishSummary(split, createLatencyHistogram()).sloAttainment).toBe(good / records.length);
      }),
      { numRuns: 60 },
    );
  });

  it('has the medians of an independent library', () => {
    const columns = createRequestColumns();
    const ttfts = Array.from({ length: 501 }, (_, i) => ((i * 7919) % 1009) + 1);
    ttfts.forEach((ttft, id) => {
      appendRequest(columns, completed(id, id, ttft, 2, 1));
    });
    const sorted = [...ttfts].sort((a, b) => a - b);
    expect(summarize(columns, createLatencyHistogram()).ttftMs?.p50).toBeCloseTo(quantileSorted(sorted, 0.5), 9);
  });

  it('judges an SLO on the limits that are given and lets one-token requests pass limits on gaps', () => {
    expect(meetsSlo({ itlMs: 10 }, 5e9, 5e9, 10 * MS, 5e9)).toBe(true);
    expect(meetsSlo({ itlMs: 10 }, 0, 0, 10 * MS + 1, 0)).toBe(false);
    expect(meetsSlo({ ttftMs: 1 }, MS + 1, 0, 0, 0)).toBe(false);
    expect(meetsSlo({ e2eMs: 1 }, 0, 0, 0, MS + 1)).toBe(false);
    expect(meetsSlo({ tpotMs: 1, itlMs: 1 }, 0, -1, -1, 0)).toBe(true);
  });

  it('refuses a completed request whose times are out of order, naming it', () => {
    const columns = createRequestColumns();
    appendRequest(columns, { ...completed(42, 1000, 100, 5, 10), firstTokenNs: 10 });
    expect(() => summarize(columns, createLatencyHistogram())).toThrow(/request 42 is completed/);
  });
});
