import { join } from 'node:path';
import { readScenario } from '@braess/cluster';
import { runScenario, type ScenarioSummary } from './run-scenario.js';
import { seedAt } from './seeds.js';
import { folderPart, type SweepTask } from './sweep.js';

/** The piscina task of a sweep: one run on this thread, so that the runs of a sweep share the cores. */
export default function runPoint({ file, settings, out, seedIndex }: SweepTask): Promise<ScenarioSummary> {
  if (seedIndex === null) return runScenario({ file, settings, out, transport: 'memory' });
  const seed = seedAt(readScenario(file, settings).scenario.seed, seedIndex);
  return runScenario({
    file,
    settings: [...settings, `seed=${JSON.stringify(seed)}`],
    out: join(out, `seed-${folderPart(seed)}`),
    transport: 'memory',
  });
}
