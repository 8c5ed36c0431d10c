/**
 * Exact LRU stack distances in one pass (Mattson et al. 1970; Fenwick tree after Bennett and Kruskal 1975): the number of distinct blocks
 * touched since a block's last touch, so an LRU cache of C blocks holds it exactly when the distance is below C. Memory follows the number
 * of distinct blocks: when the positions run out, those still in use move together.
 */
export interface StackDistances {
  /** Fenwick tree over positions, 1-based: weights of the blocks whose last touch is there. */
  tree: Float64Array;
  weights: Float64Array;
  position: Map<number, number>;
  next: number;
  /** Weight of all blocks present. */
  total: number;
}

export function createStackDistances(capacity = 65_536): StackDistances {
  return { tree: new Float64Array(capacity + 1), weights: new Float64Array(capacity + 1), position: new Map(), next: 1, total: 0 };
}

/** Touches a block; returns its stack distance, or Infinity at its first touch. */
export function touchBlock(stack: StackDistances, block: number): number {
  if (stack.next >= stack.tree.length) compact(stack);
  const last = stack.position.get(block);
  let distance = Number.POSITIVE_INFINITY;
  if (last !== undefined) {
    distance = stack.total - prefixWeight(stack, last);
    addWeight(stack, last, -1);
  }
  stack.position.set(block, stack.next);
  addWeight(stack, stack.next++, 1);
  return distance;
}

/** Touches `count` blocks that were never seen and never will be again. */
export function touchUniqueBlocks(stack: StackDistances, count: number): void {
  if (count === 0) return;
  if (stack.next >= stack.tree.length) compact(stack);
  addWeight(stack, stack.next++, count);
}

function addWeight(stack: StackDistances, position: number, weight: number): void {
  const tree = stack.tree;
  stack.weights[position] = stack.weights[position]! + weight;
  stack.total += weight;
  for (let index = position; index < tree.length; index += index & -index) tree[index] = tree[index]! + weight;
}

function prefixWeight(stack: StackDistances, position: number): number {
  let sum = 0;
  for (let index = position; index > 0; index -= index & -index) sum += stack.tree[index]!;
  return sum;
}

/** Closes the gaps between positions, merging neighbours that hold only unique blocks; doubles when still more than half full. */
function compact(stack: StackDistances): void {
  const target = new Int32Array(stack.next);
  const named = new Uint8Array(stack.next);
  for (const position of stack.position.values()) named[position] = 1;
  let used = 0;
  let merging = false;
  for (let position = 1; position < stack.next; position++) {
    if (stack.weights[position] === 0) continue;
    const unique = named[position] === 0;
    if (!(unique && merging)) used++;
    merging = unique;
    target[position] = used;
  }
  const capacity = used * 2 > stack.tree.length ? stack.tree.length * 2 : stack.tree.length;
  const weights = new Float64Array(capacity);
  for (let position = 1; position < stack.next; position++) {
    const to = target[position]!;
    if (to > 0) weights[to] = weights[to]! + stack.weights[position]!;
  }
  for (const [block, position] of stack.position) stack.position.set(block, target[position]!);
  stack.weights = weights;
  stack.tree = treeOf(weights);
  stack.next = used + 1;
}

function treeOf(weights: Float64Array): Float64Array {
  const tree = weights.slice();
  for (let index = 1; index < tree.length; index++) {
    const parent = index + (index & -index);
    if (parent < tree.length) tree[parent] = tree[parent]! + tree[index]!;
  }
  return tree;
}
