import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type RunScenarioOptions, runScenario, type ScenarioSummary } from '@braess/lab';

/** Two prefill and two decode engines on two servers, shared prompts, KV-aware routing. */
export const disaggregated = `
name: small
cluster: { racksPerPod: 2, gpusPerServer: 2 }
serving:
  - { count: 2, role: prefill, maxBatchedTokens: 2048 }
  - { count: 2, role: decode, maxBatchedTokens: 2048 }
router: { policy: kv }
telemetry: { decisionsEvery: 1, seriesSeconds: 1 }
workload:
  requests: 60
  source:
    kind: independent
    arrivals: { kind: poisson, ratePerSecond: 20 }
    inputTokens: { kind: lognormal, meanTokens: 600, sigma: 0.5 }
    outputTokens: { kind: lognormal, meanTokens: 40, sigma: 0.5 }
    prefix: { groups: 3, popularity: { kind: zipf, exponent: 1 }, prefixTokens: { kind: constant, tokens: 800 } }
  slo: { ttftMs: 60 }
`;

/** Four engines that do both. */
export const aggregated = disaggregated.replace(/serving:[\s\S]*router/, 'serving:\n  - { count: 4, maxBatchedTokens: 2048 }\nrouter');

let runs = 0;
const folder = mkdtempSync(join(tmpdir(), 'braess-lab-'));

/** A file of the test's folder; scenarios find it by name. */
export function testFile(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

export function newFolder(): string {
  return join(folder, `run${++runs}`);
}

/** Runs a scenario text on this thread. */
export function runText(
  text: string,
  settings: readonly string[] = [],
  options: Partial<RunScenarioOptions> = {},
): Promise<ScenarioSummary> {
  const file = testFile(`scenario${++runs}.yaml`, text);
  return runScenario({ file, settings, transport: 'memory', out: newFolder(), ...options });
}

/** What a run comes to, without what differs from one machine to the next. */
export function essence(summary: ScenarioSummary): unknown {
  const {
    wallSeconds: _wall,
    peakRssMb: _memory,
    folder: _folder,
    loopSeconds: _loop,
    windows: _windows,
    shards: _shards,
    ...rest
  } = summary;
  return rest;
}
