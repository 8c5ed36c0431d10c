import { requestRowColumns } from '@braess/protocol';
import {
  appendDecision,
  appendRequest,
  appendRequestRow,
  createDecisionColumns,
  createRequestColumns,
  drainSegments,
  emptyDecisionRecord,
  emptyRequestRecord,
  type RequestRecord,
} from '@braess/telemetry';
import { describe, expect, it } from 'vitest';

describe('column tables', () => {
  it('keep every field of every row, also across segments', () => {
    const columns = createRequestColumns(1000, 7);
    const numeric = emptyRequestRecord();
    const keys = Object.keys(numeric) as (keyof RequestRecord)[];
    for (let row = 0; row < 30; row++) {
      keys.forEach((key, i) => {
        numeric[key] = (row * 31 + i * 7) % 100;
      });
      appendRequest(columns, numeric);
    }
    let row = 0;
    for (const segment of columns.segments) {
      for (let i = 0; i < segment.rows; i++, row++) {
        keys.forEach((key, k) => {
          expect(segment[key][i], `${key} of row ${row}`).toBe((row * 31 + k * 7) % 100);
        });
      }
    }
    expect(row).toBe(30);
  });

  it('keep counts and names beyond 65,535: candidates of a decision, tenants', () => {
    const decisions = createDecisionColumns();
    appendDecision(decisions, { ...emptyDecisionRecord(), candidates: 70_000 });
    expect(decisions.segments[0]?.candidates[0]).toBe(70_000);
    const requests = createRequestColumns();
    appendRequest(requests, { ...emptyRequestRecord(), tenantId: 70_000 });
    expect(requests.segments[0]?.tenantId[0]).toBe(70_000);
  });

  it('take less than 150 bytes a request', () => {
    const columns = createRequestColumns();
    const record = emptyRequestRecord();
    // Whole segments: what the last one has free is memory as well, but of no request.
    const rows = 25 * columns.segmentRows;
    for (let i = 0; i < rows; i++) appendRequest(columns, record);
    let bytes = 0;
    for (const segment of columns.segments) {
      for (const value of Object.values(segment)) if (ArrayBuffer.isView(value)) bytes += value.byteLength;
    }
    expect(bytes / rows).toBeLessThan(150);
  });

  it('append in well under a microsecond', () => {
    // As they come from the engines' thread: numbers one row after another.
    const rows = Float64Array.from({ length: 100 * requestRowColumns.length }, (_, i) => i % 97);
    const perAppendNs = [1, 2, 3].map(() => {
      const columns = createRequestColumns();
      const start = process.cpuUsage(); // Not the wall clock: whatever else the machine does is no fault of the table.
      for (let i = 0; i < 200_000; i++) appendRequestRow(columns, rows, (i % 100) * requestRowColumns.length, i, i);
      const { user, system } = process.cpuUsage(start);
      return ((user + system) * 1000) / 200_000;
    });
    expect(Math.min(...perAppendNs)).toBeLessThan(700);
  });

  it('are plain data', () => {
    const columns = createRequestColumns(10, 4);
    appendRequest(columns, emptyRequestRecord());
    expect(structuredClone(columns)).toEqual(columns);
    expect(Object.getPrototypeOf(columns)).toBe(Object.prototype);
  });

  it('hand on full segments in order, reuse them, and stop at their limit', () => {
    const columns = createRequestColumns(10, 4);
    const record = emptyRequestRecord();
    const seen: number[] = [];
    const take = (all: boolean): void =>
      drainSegments(columns, all, (segment) => {
        for (let i = 0; i < segment.rows; i++) seen.push(segment.requestId[i]!);
      });
    for (let i = 0; i < 10; i++) {
      record.requestId = i;
      appendRequest(columns, record);
      take(false);
    }
    expect(seen).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(columns.segments).toHaveLength(1);
    expect(() => appendRequest(columns, record)).toThrow(/"requests" is full: 10 rows of at most 10/);
    take(true);
    expect(seen).toHaveLength(10);
    expect(columns).toMatchObject({ rows: 10, releasedRows: 10, segments: [] });
  });
});
