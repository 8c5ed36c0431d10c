/** A growing table kept as segments of fixed size, oldest first. Plain data, so an actor can hold one as state. */
export interface ColumnTable<Segment extends { rows: number }> {
  name: string;
  segments: Segment[];
  /** Emptied segments kept for reuse (at most one). */
  spare: Segment[];
  /** Rows ever appended, released ones included. */
  rows: number;
  /** Rows whose segments were handed on (written to disk) and emptied. */
  releasedRows: number;
  segmentRows: number;
  maxRows: number;
}

/** The segment that takes the next row. Throws at the table's limit. */
export function reserveRow<Segment extends { rows: number }>(
  table: ColumnTable<Segment>,
  createSegment: (rows: number) => Segment,
): Segment {
  const { segments } = table;
  if (table.rows >= table.maxRows) {
    throw new RangeError(
      `table "${table.name}" is full: ${table.rows} rows of at most ${table.maxRows}; raise maxRows or record less (longer sampling period, fewer candidates)`,
    );
  }
  table.rows++;
  const last = segments.length > 0 ? segments[segments.length - 1]! : undefined;
  if (last !== undefined && last.rows < table.segmentRows) return last;
  const next = table.spare.pop() ?? createSegment(table.segmentRows);
  segments.push(next);
  return next;
}

/** Whether the oldest segment is full, so that `drainSegments` has something to hand on. */
export function hasFullSegment(table: ColumnTable<{ rows: number }>): boolean {
  return table.segments.length > 0 && table.segments[0]!.rows === table.segmentRows;
}

/** Hands every full segment (with `all`, also the last, partial one) to `use` in order, then empties it for reuse. */
export function drainSegments<Segment extends { rows: number }>(
  table: ColumnTable<Segment>,
  all: boolean,
  use: (segment: Segment) => void,
): void {
  const { segments } = table;
  let drained = 0;
  while (drained < segments.length) {
    const segment = segments[drained]!;
    if (segment.rows === 0 || (segment.rows < table.segmentRows && !all)) break;
    use(segment);
    table.releasedRows += segment.rows;
    segment.rows = 0;
    if (table.spare.length === 0) table.spare.push(segment);
    drained++;
  }
  if (drained > 0) segments.splice(0, drained);
}
