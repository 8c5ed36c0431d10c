/**
 * Least-cost assignment of rows to columns, at most one row a column. `costs[row * columns + column]`, finite, with rows <= columns. Returns each row's column, of
 * equal ones the first. A row's `rows` cheapest columns are enough for it: the other rows cannot take them all. So most columns are looked at once.
 */
export function assignLeastCost(costs: Float64Array, rows: number, columns: number): Int32Array {
  if (4 * rows > columns) return solve(costs, rows, columns);
  const kept = cheapestColumns(costs, rows, columns);
  const few = new Float64Array(rows * kept.length);
  for (let row = 0; row < rows; row++)
    for (let at = 0; at < kept.length; at++) few[row * kept.length + at] = costs[row * columns + kept[at]!]!;
  return solve(few, rows, kept.length).map((at) => kept[at]!);
}

/** The columns that are among the `rows` cheapest of some row, ascending; of equal ones the first. */
function cheapestColumns(costs: Float64Array, rows: number, columns: number): Int32Array {
  const taken = new Uint8Array(columns);
  const cheapest = new Float64Array(rows);
  const places = new Int32Array(rows);
  for (let row = 0; row < rows; row++) {
    takeCheapest(costs.subarray(row * columns, (row + 1) * columns), cheapest, places);
    for (let at = 0; at < rows; at++) taken[places[at]!] = 1;
  }
  let count = 0;
  for (let column = 0; column < columns; column++) count += taken[column]!;
  const kept = new Int32Array(count);
  for (let column = 0, at = 0; column < columns; column++) if (taken[column] === 1) kept[at++] = column;
  return kept;
}

/** Fills `cheapest`, ascending, and `places` with the least of a row's costs and their columns. */
function takeCheapest(costs: Float64Array, cheapest: Float64Array, places: Int32Array): void {
  const last = cheapest.length - 1;
  cheapest.fill(Number.POSITIVE_INFINITY);
  for (let column = 0; column < costs.length; column++) {
    const cost = costs[column]!;
    if (cost >= cheapest[last]!) continue;
    let at = last;
    for (; at > 0 && cheapest[at - 1]! > cost; at--) {
      cheapest[at] = cheapest[at - 1]!;
      places[at] = places[at - 1]!;
    }
    cheapest[at] = cost;
    places[at] = column;
  }
}

/** Shortest augmenting paths with potentials (the Hungarian method as of Jonker and Volgenant, Computing 38, 1987); O(rows^2 columns). */
function solve(costs: Float64Array, rows: number, columns: number): Int32Array {
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
