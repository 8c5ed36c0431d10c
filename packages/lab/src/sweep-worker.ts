import { runScenario, type ScenarioSummary } from './run-scenario.js';
import type { SweepTask } from './sweep.js';

/** The piscina task of a sweep: one run on this thread, so that the points of a sweep share the cores. */
export default function runPoint(task: SweepTask): Promise<ScenarioSummary> {
  return runScenario({ ...task, transport: 'memory' });
}
