/**
 * Least-cost assignment of rows to columns, at most one row a column: shortest augmenting paths with potentials (the Hungarian method as of Jonker and Volgenant,
 * Computing 38, 1987). `costs[row * columns + column]`, finite, with rows <= columns; O(rows^2 columns). Returns each row's column.
 */
export function assignLeastCost(costs: Float64Array, rows: number, columns: number): Int32Array {
  const rowPotential = new Float64Array(rows + 1);
  const columnPotential = new Float64Array(columns + 1);
  /** Row matched to each column, and the column before it on the augmenting path; both count from 1, 0 is none. */
  const rowOf = new Int32Array(columns + 1);
  const before = new Int32Array(columns + 1);
  const least = new Float64Array(columns + 1);
  const done = new Uint8Array(columns + 1);
  for (let row = 1; row <= rows; row++) {
    rowOf[0] = row;
    least.fill(Number.POSITIVE_INFINITY);
    done.fill(0);
    let column = 0;
    do {
      column = scan(costs, columns, column, { rowPotential, columnPotential, rowOf, before, least, done });
    } while (rowOf[column] !== 0);
    for (; column !== 0; column = before[column]!) rowOf[column] = rowOf[before[column]!]!;
  }
  const columnOf = new Int32Array(rows).fill(-1);
  for (let column = 1; column <= columns; column++) if (rowOf[column]! > 0) columnOf[rowOf[column]! - 1] = column - 1;
  return columnOf;
}

interface Search {
  readonly rowPotential: Float64Array;
  readonly columnPotential: Float64Array;
  readonly rowOf: Int32Array;
  readonly before: Int32Array;
  readonly least: Float64Array;
  readonly done: Uint8Array;
}

/** Settles a column and returns the nearest one that is open, with the potentials moved on. */
function scan(costs: Float64Array, columns: number, settled: number, search: Search): number {
  const { rowPotential, columnPotential, rowOf, before, least, done } = search;
  done[settled] = 1;
  const row = rowOf[settled]!;
  let step = Number.POSITIVE_INFINITY;
  let next = 0;
  for (let column = 1; column <= columns; column++) {
    if (done[column] === 1) continue;
    const reduced = costs[(row - 1) * columns + column - 1]! - rowPotential[row]! - columnPotential[column]!;
    if (reduced < least[column]!) {
      least[column] = reduced;
      before[column] = settled;
    }
    if (least[column]! < step) {
      step = least[column]!;
      next = column;
    }
  }
  for (let column = 0; column <= columns; column++) {
    if (done[column] === 1) {
      rowPotential[rowOf[column]!]! += step;
      columnPotential[column]! -= step;
    } else least[column]! -= step;
  }
  return next;
}
