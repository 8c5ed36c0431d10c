import { expect, it } from 'vitest';
import { measureScenario } from '../src/measure-scenario.js';
import { testFile } from './small-runs.js';

const file = testFile(
  'many-transfers.yaml',
  `name: many-transfers
model: { name: Llama-3.1-8B }
serving: [{ count: 1, role: prefill }, { count: 1, role: decode }]
workload:
  requests: 4200
  source:
    kind: independent
    arrivals: { kind: constant, ratePerSecond: 100 }
    inputTokens: { kind: constant, tokens: 16 }
    outputTokens: { kind: constant, tokens: 2 }
`,
);

it('an engine takes more transfers than their numbers count before they begin again (4,096)', async () => {
  const { summary } = await measureScenario({ file, settings: [] });
  expect(summary).toMatchObject({ completed: 4200, failed: 0 });
});
