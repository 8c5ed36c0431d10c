import { queryRun } from '@braess/telemetry';
import { expect, it } from 'vitest';
import { runText } from './small-runs.js';

/** Alternating layers: 18 keep every token, 18 the last 128. */
const scenario = `
name: windowed
cluster: { racksPerPod: 1, serversPerRack: 2, gpusPerServer: 1 }
model: { name: gpt-oss-120b, weightPrecision: fp4 }
serving: [{ count: 1, role: prefill }, { count: 1, role: decode }]
telemetry: { decisionsEvery: 0 }
workload:
  requests: 2
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 1 }
    inputTokens: { kind: constant, tokens: 1000 }
    outputTokens: { kind: constant, tokens: 2 }
`;

it('moves the KV of the whole prompt in half of the layers, and of the window in the others', async () => {
  const moved = async (tokens: number): Promise<unknown> => {
    const { folder } = await runText(scenario, [`workload.source.inputTokens.tokens=${tokens}`]);
    return (await queryRun(folder, 'select transfer_bytes from requests')).rows;
  };
  const layerBytes = 2 * 8 * 64 * 2;
  expect(await moved(1000)).toEqual(Array(2).fill([18 * layerBytes * (1000 + 128)]));
  // Shorter than the window.
  expect(await moved(100)).toEqual(Array(2).fill([18 * layerBytes * (100 + 100)]));
});

it('moves the state of linear attention with each prompt', async () => {
  const settings = ['model={name: Qwen3-Next-80B-A3B, weightPrecision: fp8}', 'cluster.gpusPerServer=2', 'cluster.gpu=H200'];
  const engines = 'serving=[{count: 1, role: prefill, tensorParallel: 2}, {count: 1, role: decode, tensorParallel: 2}]';
  const { rows } = await queryRun((await runText(scenario, [...settings, engines])).folder, 'select transfer_bytes from requests');
  const stateBytes = 36 * (32 * 128 * 128 * 4 + (2 * 16 * 128 + 32 * 128) * 3 * 2);
  expect(rows).toEqual(Array(2).fill([1000 * 12 * 2 * 2 * 256 * 2 + stateBytes]));
});
