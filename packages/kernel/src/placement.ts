import type { Model } from './model.js';

/**
 * Which shard runs each cell. Cells in the order of their names are cut into consecutive runs of about equal weight: names are places, so
 * neighbours in the cluster stay together. Depends on the model and the count alone.
 */
export function placeCells(model: Model, shardCount: number): Int32Array {
  const weights = model.weightOfCell;
  let total = 0;
  for (const weight of weights) total += weight;
  const shardOfCell = new Int32Array(weights.length);
  if (total === 0) {
    for (let cell = 0; cell < weights.length; cell++) shardOfCell[cell] = Math.floor((cell * shardCount) / weights.length);
    return shardOfCell;
  }
  let before = 0;
  for (let cell = 0; cell < weights.length; cell++) {
    const weight = weights[cell] as number;
    shardOfCell[cell] = Math.min(shardCount - 1, Math.floor(((before + weight / 2) * shardCount) / total));
    before += weight;
  }
  return shardOfCell;
}
