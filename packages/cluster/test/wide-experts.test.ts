import { fileURLToPath } from 'node:url';
import { readScenario, validateScenario } from '@braess/cluster';
import { expect, it } from 'vitest';

const file = fileURLToPath(new URL('../../../configs/deepseek-r1-h100.yaml', import.meta.url));

/** Tokens a second of each server of the prefill and of the decode engine. */
async function perServer(twoBatchOverlap: boolean): Promise<[input: number, output: number]> {
  const settings = [0, 1].map((group) => `serving[${group}].twoBatchOverlap=${twoBatchOverlap}`);
  const { saturation, workload } = await validateScenario(readScenario(file, settings));
  return [
    (saturation.prefillRequestsPerSecond * workload.inputTokens) / 4,
    (saturation.decodeRequestsPerSecond * workload.outputTokens) / 9,
  ];
}

it('estimates DeepSeek-R1 on wide engines of H100 below and above what was published of them', async () => {
  // SGLang, May 2025: 12 servers of 8 H100, prompts of 2,000 tokens, with two-batch overlap.
  const published = [52_300, 22_300] as const;
  // No overlap is a lower bound, overlap that hides all and experts that all have as much to do an upper one.
  const [none, all] = [await perServer(false), await perServer(true)];
  for (const stage of [0, 1] as const) {
    expect(none[stage]).toBeLessThan(published[stage]);
    expect(none[stage]).toBeGreaterThan(0.65 * published[stage]);
    expect(all[stage]).toBeGreaterThan(published[stage]);
    expect(all[stage]).toBeLessThan(1.45 * published[stage]);
  }
});
