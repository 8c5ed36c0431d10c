import { type FlowAllocator, nextCompletionNs } from '@braess/fabric';

/** Goes from completion to completion until no flow is left; each step must end one or more. */
export function drain(allocator: FlowAllocator, advanceTo: (nowNs: number) => void): void {
  for (let before = allocator.flowCount; before > 0; before = allocator.flowCount) {
    const nextNs = nextCompletionNs(allocator);
    if (nextNs < Number.POSITIVE_INFINITY) advanceTo(nextNs);
    if (allocator.flowCount < before) continue;
    throw new Error(`${before} flows are left at ${allocator.nowNs} ns and none ended at the next completion, ${nextNs} ns`);
  }
}

/** Counts the steps of a simulation of `flows` flows: each starts and ends once, and rounding may take some more. */
export function stepCounter(flows: number): () => void {
  const limit = 10 * flows + 100;
  let steps = 0;
  return () => {
    if (++steps > limit) throw new Error(`${flows} flows have not ended after ${limit} steps of the simulation that is right by itself`);
  };
}
