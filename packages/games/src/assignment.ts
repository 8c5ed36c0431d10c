import { GameInputError, requireInteger, requireLength } from './input-check.js';

/**
 * An exact optimum of the rectangular assignment problem: min sum of cost[i, columnOfRow[i]], every row at most one column,
 * every column at most one row, min(rows, columns) pairs.
 */
export interface Assignment {
  /** Column of each row, -1 for a row that stays unassigned (only when rows > columns). */
  readonly columnOfRow: Int32Array;
  /** Row of each column, -1 for a free column. */
  readonly rowOfColumn: Int32Array;
  /** Sum over pairs, in the unit of the costs. */
  readonly totalCost: number;
  readonly pairs: number;
  /**
   * Dual prices: rowPrice[i] + columnPrice[j] <= cost[i, j], with equality on pairs. When one side is longer, its prices are at most 0,
   * and 0 where unassigned.
   * Their sum equals totalCost, which certifies optimality.
   */
  readonly rowPrice: Float64Array;
  readonly columnPrice: Float64Array;
}

/**
 * Solves the rectangular assignment problem exactly in O(min^2 max) by shortest augmenting paths.
 * Method: D. F. Crouse, "On implementing 2D rectangular assignment algorithms", IEEE Trans. Aerospace and Electronic Systems 52(4), 2016
 * (Dijkstra over columns with dual prices), warm-started by column reduction (square problems
 * only), row reduction and augmenting row reduction of R. Jonker and A. Volgenant, Computing 38, 1987. The latter two only lower prices of
 * assigned columns, so they stay valid when columns outnumber rows. Speed at 512 x 512: 3 to 10 ms on random, integer and load-like costs;
 * the product matrix cost[i, j] = i j is the known worst case, some 200 ms.
 *
 * @param cost row-major matrix of rows x columns; Infinity forbids a pair; -Infinity and NaN are refused.
 * @returns undefined when the forbidden pairs leave no full matching of the smaller side.
 * @throws GameInputError on a wrong size or a cost that is NaN or -Infinity.
 */
export function solveAssignment(cost: Float64Array, rows: number, columns: number): Assignment | undefined {
  requireInteger('rows', rows, 0);
  requireInteger('columns', columns, 0);
  requireLength('cost', cost.length, rows * columns, `a ${rows} x ${columns} matrix`);
  requireOrdinaryCosts(cost, columns);
  if (rows <= columns) return solveWide(cost, rows, columns);
  const solved = solveWide(transpose(cost, rows, columns), columns, rows);
  if (solved === undefined) return undefined;
  const { columnOfRow, rowOfColumn, rowPrice, columnPrice, totalCost, pairs } = solved;
  return { columnOfRow: rowOfColumn, rowOfColumn: columnOfRow, rowPrice: columnPrice, columnPrice: rowPrice, totalCost, pairs };
}

/** Two in the source; measured at 512 x 512, passes three and four still pay for themselves on uniform costs and cost little on others. */
const REDUCTION_PASSES = 4;

interface Search {
  readonly cost: Float64Array;
  readonly rows: number;
  readonly columns: number;
  readonly columnOfRow: Int32Array;
  readonly rowOfColumn: Int32Array;
  readonly rowPrice: Float64Array;
  readonly columnPrice: Float64Array;
  /** Shortest known distance to each column in the current search. */
  readonly distance: Float64Array;
  /** Row from which each column was reached. */
  readonly predecessor: Int32Array;
  /** Column prices, -Infinity once a column is scanned in the current search. */
  readonly openPrice: Float64Array;
  /** Columns scanned in the current search, in order, and their final distances. */
  readonly scanned: Int32Array;
  readonly scannedDistance: Float64Array;
  /** The nearest free column found in the current search. */
  freeDistance: number;
  freeColumn: number;
}

function solveWide(cost: Float64Array, rows: number, columns: number): Assignment | undefined {
  const search: Search = {
    cost,
    rows,
    columns,
    columnOfRow: new Int32Array(rows).fill(-1),
    rowOfColumn: new Int32Array(columns).fill(-1),
    rowPrice: new Float64Array(rows),
    columnPrice: new Float64Array(columns),
    distance: new Float64Array(columns),
    predecessor: new Int32Array(columns),
    openPrice: new Float64Array(columns),
    scanned: new Int32Array(columns),
    scannedDistance: new Float64Array(columns),
    freeDistance: Number.POSITIVE_INFINITY,
    freeColumn: -1,
  };
  if (rows === columns) reduceColumns(search);
  let free = reduceRows(search);
  for (let pass = 0; pass < REDUCTION_PASSES && free.length > 0; pass++) free = augmentingRowReduction(search, free);
  for (const row of free) if (!augment(search, row)) return undefined;
  return finish(search);
}

/** Prices each column at its cheapest row. Only for square problems: elsewhere a column that stays free must keep price 0. */
function reduceColumns(search: Search): void {
  const { cost, rows, columns, columnPrice } = search;
  columnPrice.set(cost.subarray(0, columns));
  for (let row = 1; row < rows; row++) {
    const base = row * columns;
    for (let column = 0; column < columns; column++)
      if (cost[base + column]! < columnPrice[column]!) columnPrice[column] = cost[base + column]!;
  }
  for (let column = 0; column < columns; column++) if (columnPrice[column] === Number.POSITIVE_INFINITY) columnPrice[column] = 0;
}

/** Each row takes its cheapest column, after prices, if nobody has it. */
function reduceRows(search: Search): number[] {
  const { cost, rows, columns, columnOfRow, rowOfColumn, rowPrice, columnPrice } = search;
  const free: number[] = [];
  for (let row = 0; row < rows; row++) {
    const base = row * columns;
    let best = Number.POSITIVE_INFINITY;
    let bestColumn = -1;
    for (let column = 0; column < columns; column++) {
      const value = cost[base + column]! - columnPrice[column]!;
      if (value < best || (value === best && bestColumn >= 0 && rowOfColumn[bestColumn]! >= 0 && rowOfColumn[column]! < 0)) {
        best = value;
        bestColumn = column;
      }
    }
    rowPrice[row] = bestColumn < 0 ? 0 : best;
    if (bestColumn >= 0 && rowOfColumn[bestColumn]! < 0) {
      rowOfColumn[bestColumn] = row;
      columnOfRow[row] = bestColumn;
    } else free.push(row);
  }
  return free;
}

/**
 * A free row takes its best column and lowers that column's price until the second best is as good; the owner becomes free.
 * The limit on steps matters: with floats the price can fall by less than one ulp for ever.
 */
function augmentingRowReduction(search: Search, free: readonly number[]): number[] {
  const { cost, columns, columnOfRow, rowOfColumn, rowPrice, columnPrice } = search;
  const queue = free.slice();
  const stillFree: number[] = [];
  let stepsLeft = 4 * free.length;
  for (let next = 0; next < queue.length; ) {
    const row = queue[next++]!;
    const base = row * columns;
    let best = Number.POSITIVE_INFINITY;
    let second = Number.POSITIVE_INFINITY;
    let bestColumn = -1;
    let secondColumn = -1;
    for (let column = 0; column < columns; column++) {
      const value = cost[base + column]! - columnPrice[column]!;
      if (value < second) {
        if (value < best) {
          second = best;
          secondColumn = bestColumn;
          best = value;
          bestColumn = column;
        } else {
          second = value;
          secondColumn = column;
        }
      }
    }
    if (bestColumn < 0 || second === Number.POSITIVE_INFINITY) {
      stillFree.push(row);
      continue;
    }
    if (best === second && rowOfColumn[bestColumn]! >= 0) bestColumn = secondColumn;
    const owner = rowOfColumn[bestColumn]!;
    rowPrice[row] = second;
    columnPrice[bestColumn] = columnPrice[bestColumn]! - (second - best);
    rowOfColumn[bestColumn] = row;
    columnOfRow[row] = bestColumn;
    if (owner < 0) continue;
    columnOfRow[owner] = -1;
    if (second > best && --stepsLeft > 0) queue[--next] = owner;
    else stillFree.push(owner);
  }
  return stillFree;
}

/** One shortest augmenting path from a free row; false when no free column can be reached. */
function augment(search: Search, startRow: number): boolean {
  const { rowOfColumn, rowPrice, columnPrice, distance, scanned, scannedDistance, openPrice } = search;
  distance.fill(Number.POSITIVE_INFINITY);
  openPrice.set(columnPrice);
  search.freeDistance = Number.POSITIVE_INFINITY;
  search.freeColumn = -1;
  let scannedCount = 0;
  let row = startRow;
  let lowest = 0;
  // The price of a free row may be stale after the reductions; any value only shifts the distances of this search, so take 0.
  rowPrice[startRow] = 0;
  for (;;) {
    const column = relax(search, row, lowest - rowPrice[row]!);
    if (column < 0) return false;
    lowest = distance[column]!;
    if (rowOfColumn[column]! < 0) {
      rowPrice[startRow] = lowest;
      raisePrices(search, scannedCount, lowest);
      flipPath(search, startRow, column);
      return true;
    }
    scanned[scannedCount] = column;
    scannedDistance[scannedCount++] = lowest;
    // A scanned column must neither improve nor be chosen again; infinities do both without a branch in the hot loop.
    distance[column] = Number.POSITIVE_INFINITY;
    openPrice[column] = Number.NEGATIVE_INFINITY;
    row = rowOfColumn[column]!;
  }
}

/** Improves distances through `row` and returns the nearest open column (a free one among equals), -1 if none can be reached. */
function relax(search: Search, row: number, offset: number): number {
  const { cost, columns, rowOfColumn, openPrice, distance, predecessor } = search;
  const base = row * columns;
  // Nothing farther than the nearest free column can lie on a shortest path, so it is not even written down.
  let freeDistance = search.freeDistance;
  let nearest = freeDistance;
  let nearestColumn = -1;
  for (let column = 0; column < columns; column++) {
    const through = offset + cost[base + column]! - openPrice[column]!;
    let best = distance[column]!;
    if (through < best) {
      best = through;
      distance[column] = through;
      predecessor[column] = row;
      if (rowOfColumn[column]! < 0 && through < freeDistance) {
        freeDistance = through;
        search.freeDistance = through;
        search.freeColumn = column;
      }
    }
    if (best < nearest) {
      nearest = best;
      nearestColumn = column;
    }
  }
  return freeDistance <= nearest ? search.freeColumn : nearestColumn;
}

function raisePrices(search: Search, scannedCount: number, lowest: number): void {
  const { rowOfColumn, rowPrice, columnPrice, scanned, scannedDistance } = search;
  for (let index = 0; index < scannedCount; index++) {
    const column = scanned[index]!;
    const slack = lowest - scannedDistance[index]!;
    columnPrice[column] = columnPrice[column]! - slack;
    rowPrice[rowOfColumn[column]!] = rowPrice[rowOfColumn[column]!]! + slack;
  }
}

function flipPath(search: Search, startRow: number, sink: number): void {
  const { columnOfRow, rowOfColumn, predecessor } = search;
  let column = sink;
  for (;;) {
    const owner = predecessor[column]!;
    rowOfColumn[column] = owner;
    const previous = columnOfRow[owner]!;
    columnOfRow[owner] = column;
    if (owner === startRow) return;
    column = previous;
  }
}

function finish(search: Search): Assignment {
  const { cost, rows, columns, columnOfRow, rowOfColumn, rowPrice, columnPrice } = search;
  let totalCost = 0;
  for (let row = 0; row < rows; row++) totalCost += cost[row * columns + columnOfRow[row]!]!;
  return { columnOfRow, rowOfColumn, totalCost, pairs: rows, rowPrice, columnPrice };
}

function transpose(cost: Float64Array, rows: number, columns: number): Float64Array {
  const turned = new Float64Array(cost.length);
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < columns; column++) turned[column * rows + row] = cost[row * columns + column]!;
  return turned;
}

function requireOrdinaryCosts(cost: Float64Array, columns: number): void {
  for (let index = 0; index < cost.length; index++) {
    const value = cost[index]!;
    if (value > Number.NEGATIVE_INFINITY) continue;
    const place = `cost[${Math.floor(index / columns)}, ${index % columns}]`;
    throw new GameInputError(`${place} is ${value}; costs must be finite, or Infinity to forbid a pair`);
  }
}
