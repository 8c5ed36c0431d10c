/**
 * What a request must meet to count as good. Limits that are absent do not count. `tpotMs` bounds the request's mean gap, `itlMs` its longest gap.
 */
export interface Slo {
  ttftMs?: number;
  tpotMs?: number;
  itlMs?: number;
  e2eMs?: number;
}

export const MS_PER_NS = 1e-6;

/** Whether a completed request met its SLO; tpotNs and maxItlNs are negative (and met) for a request of one token. */
export function meetsSlo(slo: Slo, ttftNs: number, tpotNs: number, maxItlNs: number, e2eNs: number): boolean {
  return (
    ttftNs * MS_PER_NS <= (slo.ttftMs ?? Infinity) &&
    tpotNs * MS_PER_NS <= (slo.tpotMs ?? Infinity) &&
    maxItlNs * MS_PER_NS <= (slo.itlMs ?? Infinity) &&
    e2eNs * MS_PER_NS <= (slo.e2eMs ?? Infinity)
  );
}

/** Mean gap of a request rounded to 1 ns; -1 for a request of one token, which has none. */
export function tpotNsOf(outputTokens: number, ttftNs: number, e2eNs: number): number {
  return outputTokens > 1 ? Math.round((e2eNs - ttftNs) / (outputTokens - 1)) : -1;
}
