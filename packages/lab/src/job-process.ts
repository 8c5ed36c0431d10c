import type { JobAnswer, JobTask } from './bench-job.js';
import { runScenario } from './run-scenario.js';
import type { WindowCounts } from './window-bound.js';

// The process of one job: told what to do as its argument, answers on stdout.
const task = JSON.parse(process.argv[2] as string) as JobTask;
let windows: WindowCounts | null = null;
const summary = await runScenario({
  ...task,
  threadsFirst: true,
  ...(task.shards === 1 ? {} : { onWindows: (counts: WindowCounts) => (windows = counts) }),
});
const { userCPUTime, systemCPUTime } = process.resourceUsage();
const answer: JobAnswer = { summary, cpuSeconds: (userCPUTime + systemCPUTime) / 1e6, windows };
process.stdout.write(JSON.stringify(answer));
