import { advanceNetwork, buildTopology, createFlowNetwork, nextCompletionNs, startTransfer } from '@braess/fabric';
import { describe, expect, it } from 'vitest';
import { fatTree } from './clusters.js';
import { seededUniform } from './random.js';

describe('cost', { timeout: 15_000 }, () => {
  it('solves few flows per change, whatever their number and the size of the cluster', () => {
    // Work is counted, not timed: a limit in seconds would depend on the machine.
    const touched = (pods: number, racks: number, flows: number): number => {
      const topology = buildTopology(fatTree(pods, racks, 2));
      const network = createFlowNetwork(topology);
      const uniform = seededUniform(5);
      const pick = (): number => topology.gpus[Math.floor(uniform() * topology.gpus.length)]!;
      let flowId = 0;
      const start = (nowNs: number): void => {
        startTransfer(topology, network, nowNs, flowId++, pick(), pick(), 1e6 + Math.floor(uniform() * 1e8));
      };
      for (let flow = 0; flow < flows; flow++) start(0);
      nextCompletionNs(network.allocator);
      const { solveCount, solvedFlowCount } = network.allocator;
      for (let step = 0; step < 1000; step++) {
        const nowNs = nextCompletionNs(network.allocator);
        const ended = advanceNetwork(network, nowNs);
        for (let i = 0; i < ended; i++) start(nowNs);
      }
      return (network.allocator.solvedFlowCount - solvedFlowCount) / (network.allocator.solveCount - solveCount);
    };
    const small = touched(2, 2, 64);
    const large = touched(4, 8, 512);
    expect(small).toBeLessThan(10);
    expect(large).toBeLessThan(2 * small);
  });
});
