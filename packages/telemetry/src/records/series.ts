import { type ColumnTable, reserveRow } from './table.js';

/** Samples of named quantities: (time, metric, entity, value). Metric names are those of `SERIES_METRICS`; entities are actors. 22 bytes a row. */
export interface SeriesSegment {
  rows: number;
  timeNs: Float64Array;
  metricId: Uint16Array;
  /** Numeric actor id, -1 for the whole cluster. */
  entityId: Int32Array;
  value: Float64Array;
}

/** All samples of all series, a row each. */
export type SeriesColumns = ColumnTable<SeriesSegment>;

export function createSeriesColumns(maxRows = 200_000_000, segmentRows = 16_384): SeriesColumns {
  return { name: 'series', segments: [], spare: [], rows: 0, releasedRows: 0, segmentRows, maxRows };
}

function createSeriesSegment(rows: number): SeriesSegment {
  return {
    rows: 0,
    timeNs: new Float64Array(rows),
    metricId: new Uint16Array(rows),
    entityId: new Int32Array(rows),
    value: new Float64Array(rows),
  };
}

/** Adds one sample; `entityId` -1 stands for the whole cluster. */
export function appendSample(columns: SeriesColumns, timeNs: number, metricId: number, entityId: number, value: number): void {
  const segment = reserveRow(columns, createSeriesSegment);
  const row = segment.rows++;
  segment.timeNs[row] = timeNs;
  segment.metricId[row] = metricId;
  segment.entityId[row] = entityId;
  segment.value[row] = value;
}
