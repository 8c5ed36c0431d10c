import { Hash } from './fingerprint.js';
import type { Model } from './model.js';

/**
 * Which shard runs each cell. Every class of cells is cut on its own, in the order of names (names are places, so neighbours in the cluster stay
 * together): each shard then does its share of every kind of work, and one kind's busy moment does not leave the others waiting. A class of fewer
 * cells than shards goes first, cell by cell to the shard with least weight; the cuts of the larger classes make up for it. Depends on the model
 * and the count alone.
 */
export function placeCells(model: Model, shardCount: number): Int32Array {
  const loads = new Float64Array(shardCount);
  const shardOfCell = new Int32Array(model.weightOfCell.length);
  if (shardCount === 1) return shardOfCell;
  const classes = cellsByClass(model);
  for (const cells of classes.filter(({ length }) => length < shardCount)) placeOneByOne(cells, model.weightOfCell, loads, shardOfCell);
  for (const cells of classes.filter(({ length }) => length >= shardCount)) placeInRuns(cells, model.weightOfCell, loads, shardOfCell);
  return shardOfCell;
}

/** The cells of each class in the order of their names, classes by number. */
function cellsByClass(model: Model): number[][] {
  const classes: number[][] = model.lookahead.classNames.map(() => []);
  for (let cell = 0; cell < model.classOfCell.length; cell++) (classes[model.classOfCell[cell] as number] as number[]).push(cell);
  return classes;
}

function placeOneByOne(cells: readonly number[], weights: Float64Array, loads: Float64Array, shardOfCell: Int32Array): void {
  for (const cell of cells) {
    const shard = loads.indexOf(Math.min(...loads));
    shardOfCell[cell] = shard;
    loads[shard] = (loads[shard] as number) + (weights[cell] as number);
  }
}

/** Consecutive runs, one a shard, whose weights even out what the shards have already; runs of equal length where cells weigh nothing. */
function placeInRuns(cells: readonly number[], weights: Float64Array, loads: Float64Array, shardOfCell: Int32Array): void {
  const weightOf = (cell: number): number => weights[cell] as number;
  const isWeightless = cells.every((cell) => weightOf(cell) === 0);
  const weigh = isWeightless ? () => 1 : weightOf;
  const total = cells.reduce((sum, cell) => sum + weigh(cell), 0);
  const ends = isWeightless ? evenEnds(total, loads.length) : levellingEnds(total, loads);
  let before = 0;
  let shard = 0;
  for (const cell of cells) {
    // A cell belongs to the run that holds its middle.
    while (shard < loads.length - 1 && before + weigh(cell) / 2 >= (ends[shard] as number)) shard++;
    shardOfCell[cell] = shard;
    loads[shard] = (loads[shard] as number) + weightOf(cell);
    before += weigh(cell);
  }
}

function evenEnds(total: number, shardCount: number): number[] {
  return Array.from({ length: shardCount }, (_, shard) => ((shard + 1) * total) / shardCount);
}

/** Where the runs end (in weight) when `total` is poured over the shards so that the emptiest fill up first. */
function levellingEnds(total: number, loads: Float64Array): number[] {
  const ascending = [...loads].sort((a, b) => a - b);
  let level = 0;
  let below = 0;
  for (const [index, load] of ascending.entries()) {
    below += load;
    level = (total + below) / (index + 1);
    if (level <= (ascending[index + 1] ?? Number.POSITIVE_INFINITY)) break;
  }
  let end = 0;
  return [...loads].map((load) => {
    end += Math.max(0, level - load);
    return end;
  });
}

/** Digest of a model and of where its cells run: all that the threads of a run must agree on. */
export function placementDigest(model: Model, shardOfCell: Int32Array): string {
  const hash = new Hash();
  hash.string(model.digest);
  for (const kind of model.kinds) hash.value([kind.messages.map((type) => type.name), kind.sendsTo]);
  hash.value(shardOfCell);
  return hash.digest();
}
