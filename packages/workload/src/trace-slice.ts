import { appendRequest, createRequestTableBuilder, finishRequestTable, type RequestTable, requestRow } from './requests.js';

/** Part of a trace: requests from a time on whose prompts are within limits. */
export interface TraceSlice {
  readonly fromNs: number;
  readonly minInputTokens: number;
  readonly maxInputTokens: number;
}

/** The requests of a slice; its beginning is time 0, prefix identities stay. A turn whose session has lost those before comes at its arrival. */
export function sliceRequests(table: RequestTable, { fromNs, minInputTokens, maxInputTokens }: TraceSlice): RequestTable {
  const builder = createRequestTableBuilder(table.blockTokens, table.firstRequest);
  for (let row = 0; row < table.requestCount; row++) {
    const inputTokens = table.inputTokens[row]!;
    const arrivalNs = table.arrivalNs[row]! - fromNs;
    if (arrivalNs < 0 || inputTokens < minInputTokens || inputTokens > maxInputTokens) continue;
    appendRequest(builder, { ...requestRow(table, row), arrivalNs });
  }
  return { ...finishRequestTable(builder), tenantNames: table.tenantNames, sessionNames: table.sessionNames };
}
