import { describe, expect, it } from 'vitest';
import { actorKind, defineProgram, message, modelOf } from '../src/index.js';
import { placeCells } from '../src/placement.js';

const tick = message('tick');
const idle = actorKind({ name: 'idle', messages: { tick }, state: () => ({}), on: { tick() {} } });

/** Cells by class as [class, weights]; names sort in the order given. Returns the shards of each class's cells. */
function placed(shards: number, ...classes: (readonly [name: string, ...weights: number[]])[]): number[][] {
  const program = defineProgram(undefined, 'placement', (world) => {
    for (const [name, ...weights] of classes)
      for (const [index, weight] of weights.entries())
        world.actor(`${name}${String(index).padStart(3, '0')}`, idle, undefined, { class: name, weight });
    for (const [from] of classes) for (const [to] of classes) world.lookahead(from, to, 1000);
  });
  const model = modelOf(program, undefined);
  const shardOfCell = placeCells(model, shards);
  return classes.map(([name]) => [...shardOfCell].filter((_, cell) => (model.cellNames[cell] as string).startsWith(name)));
}

describe('the placement of cells', () => {
  it('cuts each class into consecutive runs of equal weight', () => {
    expect(placed(2, ['a', 1, 1, 1, 1], ['b', 3, 1, 1, 1])).toEqual([
      [0, 0, 1, 1],
      [0, 1, 1, 1],
    ]);
    expect(placed(3, ['a', 1, 1, 1, 1, 1, 1])).toEqual([[0, 0, 1, 1, 2, 2]]);
  });

  it('gives a lone cell to the emptiest shard, and the larger classes make up for it', () => {
    // 2 + 6 over two shards is 4 each: the shard with the lone cell takes 2 of the six.
    expect(placed(2, ['a', 2], ['b', 1, 1, 1, 1, 1, 1])).toEqual([[0], [0, 0, 1, 1, 1, 1]]);
    expect(placed(2, ['a', 2], ['b', 2], ['c', 1, 1])).toEqual([[0], [1], [0, 1]]);
    // A cell heavier than all the rest leaves nothing more to its shard.
    expect(placed(2, ['a', 9], ['b', 1, 1, 1])).toEqual([[0], [1, 1, 1]]);
  });

  it('spreads cells without weight by number, and uses every shard', () => {
    expect(placed(2, ['a', 0, 0, 0, 0])).toEqual([[0, 0, 1, 1]]);
    expect(new Set(placed(4, ['a', ...Array<number>(1000).fill(1)])[0]).size).toBe(4);
  });
});
