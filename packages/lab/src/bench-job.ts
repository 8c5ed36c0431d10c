import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { traceSetting } from '@braess/cluster';
import type { ScenarioSummary } from './run-scenario.js';
import { scenarioFile } from './scenario-files.js';
import type { WindowCounts } from './window-bound.js';

/** One job of `braess bench job`. */
export interface JobSpec {
  readonly name: string;
  /** What it is, for a reader. */
  readonly description: string;
  readonly scenario: string;
  readonly settings: readonly string[];
  /** Trace of the job, relative to the shared folder; the scenario's own generator stands in where it is absent. */
  readonly trace: string | null;
  readonly shards: number;
  readonly target: JobTarget;
}

/** What a job is to reach: aims, not what it reaches (docs/speed.md has that). */
export interface JobTarget {
  /** At least; the other two at most. */
  readonly requestsPerSecond?: number;
  readonly wallSeconds?: number;
  readonly peakRssMb?: number;
  /** Cost per request at most, or speed at least, so many times that of another job. */
  readonly costTimes?: { readonly of: string; readonly most: number };
  readonly speedTimes?: { readonly of: string; readonly least: number };
}

/** What a job took, and whether that is what was asked of it. */
export interface JobResult {
  readonly name: string;
  readonly requests: number;
  readonly completed: number;
  readonly requestsPerSecond: number;
  readonly eventsPerSecond: number;
  /** From the first trace byte to the closed Parquet files, in a fresh process. */
  readonly wallSeconds: number;
  /** Processor time of that process from start to end, all threads: what wall time would be on a quiet machine, start-up included. */
  readonly cpuSeconds: number;
  readonly peakRssMb: number;
  readonly fingerprint: string;
  readonly shards: number;
  readonly input: 'trace' | 'generated';
  /** How events fell into windows; null on one shard. */
  readonly windows: WindowCounts | null;
  /** What was asked for and whether it was reached. */
  readonly targets: readonly { readonly what: string; readonly reached: boolean }[];
}

/** What a child process is told. */
export interface JobTask {
  readonly file: string;
  readonly settings: readonly string[];
  readonly shards: number;
  readonly out: string;
}

/** What a child process answers. */
export interface JobAnswer {
  readonly summary: ScenarioSummary;
  readonly cpuSeconds: number;
  readonly windows: WindowCounts | null;
}

const streaming = ['telemetry.streamTokens=true'];

export const jobs: readonly JobSpec[] = [
  job('j64', 'j64.yaml', 'jobs/j64.csv.gz', '64 aggregated engines, 20,000 requests', { requestsPerSecond: 50_000, peakRssMb: 300 }),
  job('j8', 'j8.yaml', 'jobs/j8.csv.gz', '8 aggregated engines, 20,000 requests', { requestsPerSecond: 50_000, peakRssMb: 300 }),
  // Ten times as many requests: what a run costs once its code is compiled, which is half the cost of the short ones.
  job('j64-long', 'j64.yaml', null, 'j64 with 200,000 requests', { requestsPerSecond: 50_000 }, ['workload.requests=200000']),
  job('j8-long', 'j8.yaml', null, 'j8 with 200,000 requests', { requestsPerSecond: 50_000 }, ['workload.requests=200000']),
  job('j64-stepwise', 'j64.yaml', 'jobs/j64.csv.gz', 'j64 pass by pass', {}, ['serving[0].passes=stepwise']),
  job('j64-disaggregated', 'j64-disaggregated.yaml', 'jobs/j64.csv.gz', '24 prefill + 40 decode engines, KV over the fabric', {
    requestsPerSecond: 20_000,
  }),
  job('mooncake', 'mooncake-64gpu.yaml', 'traces/mooncake_conversation.jsonl.gz', 'the conversation trace on 64 GPUs', {
    wallSeconds: 3,
    peakRssMb: 500,
  }),
  job('mooncake-dram', 'mooncake-64gpu-dram.yaml', 'traces/mooncake_conversation.jsonl.gz', 'the same with a DRAM tier', {
    costTimes: { of: 'mooncake', most: 1.5 },
  }),
  job('1024-gpu', '1024-gpu.yaml', null, '1,024 GPUs, 48 prefill + 80 decode groups, 200,000 requests', {
    peakRssMb: 500,
    costTimes: { of: 'j64-disaggregated', most: 1.5 },
  }),
  { ...job('1024-gpu-2', '1024-gpu.yaml', null, 'the same on 2 shards', { speedTimes: { of: '1024-gpu', least: 1.4 } }), shards: 2 },
  {
    ...job('1024-gpu-2-promises', '1024-gpu.yaml', null, 'on 2 shards, with promises of silence', {}, ['execution.promises=true']),
    shards: 2,
  },
  job('streaming', '1024-gpu.yaml', null, 'the 1,024 GPUs with every token sent', {}, streaming),
  {
    ...job('streaming-2', '1024-gpu.yaml', null, 'the same on 2 shards', { speedTimes: { of: 'streaming', least: 1.4 } }, streaming),
    shards: 2,
  },
];

function job(
  name: string,
  scenario: string,
  trace: string | null,
  description: string,
  target: JobTarget,
  settings: readonly string[] = [],
): JobSpec {
  return { name, description, scenario, settings, trace, shards: 1, target };
}

/** How jobs are run. */
export interface JobOptions {
  /** Folder that may hold traces/ and jobs/. */
  readonly shared?: string;
  readonly onJob?: (name: string) => void;
  /** So many generated requests instead of the job's own, for a quick look; targets are for whole jobs. */
  readonly requests?: number;
}

/** Runs a job, or all, each in a fresh process, and compares with what is asked. @throws RangeError for an unknown name. */
export async function benchJobs(name: string | undefined, options: JobOptions = {}): Promise<JobResult[]> {
  const chosen = name === undefined ? jobs : jobs.filter((spec) => spec.name === name);
  if (chosen.length === 0) throw new RangeError(`no job is named '${name}'; jobs are ${jobs.map((spec) => spec.name).join(', ')}`);
  const results: JobResult[] = [];
  for (const spec of chosen) {
    options.onJob?.(spec.name);
    results.push(await runJob(spec, options, results));
  }
  return results;
}

async function runJob(spec: JobSpec, options: JobOptions, before: readonly JobResult[]): Promise<JobResult> {
  const repository = fileURLToPath(new URL('../../../', import.meta.url));
  const { shared = join(repository, '..', 'shared') } = options;
  const trace = spec.trace === null || options.requests !== undefined ? null : join(shared, spec.trace);
  const hasTrace = trace !== null && existsSync(trace);
  const folder = mkdtempSync(join(tmpdir(), 'braess-job-'));
  try {
    const settings = [...(hasTrace ? [traceSetting(trace)] : []), ...spec.settings, ...requestSettings(options)];
    // The last setting of a name counts.
    const answer = await freshProcess({ file: scenarioFile(spec.scenario), settings, shards: spec.shards, out: join(folder, 'run') });
    const result = resultOf(spec, answer, hasTrace, before);
    return options.requests === undefined ? result : { ...result, targets: [] };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function requestSettings({ requests }: JobOptions): string[] {
  return requests === undefined ? [] : [`workload.requests=${requests}`];
}

function resultOf(spec: JobSpec, { summary, cpuSeconds, windows }: JobAnswer, hasTrace: boolean, before: readonly JobResult[]): JobResult {
  const { submitted, completed, wallSeconds, events, peakRssMb, fingerprint } = summary;
  const result = {
    name: spec.name,
    requests: submitted,
    completed,
    requestsPerSecond: submitted / wallSeconds,
    eventsPerSecond: events / wallSeconds,
    wallSeconds,
    cpuSeconds,
    peakRssMb,
    fingerprint,
    shards: spec.shards,
    input: hasTrace ? ('trace' as const) : ('generated' as const),
    windows,
  };
  return { ...result, targets: targetsOf(spec.target, result, before) };
}

function targetsOf(
  target: JobTarget,
  result: Omit<JobResult, 'targets'>,
  before: readonly JobResult[],
): { what: string; reached: boolean }[] {
  const checks: { what: string; reached: boolean }[] = [];
  const { requestsPerSecond, wallSeconds, peakRssMb, costTimes, speedTimes } = target;
  if (requestsPerSecond !== undefined) {
    checks.push({ what: `at least ${requestsPerSecond} requests/s`, reached: result.requestsPerSecond >= requestsPerSecond });
  }
  if (wallSeconds !== undefined) checks.push({ what: `at most ${wallSeconds} s`, reached: result.wallSeconds <= wallSeconds });
  if (peakRssMb !== undefined) checks.push({ what: `at most ${peakRssMb} MB`, reached: result.peakRssMb <= peakRssMb });
  const base = before.find(({ name }) => name === (costTimes ?? speedTimes)?.of);
  if (base !== undefined) {
    const times = base.requestsPerSecond / result.requestsPerSecond;
    if (costTimes !== undefined) {
      checks.push({
        what: `cost per request ${times.toFixed(2)} times ${base.name}'s, at most ${costTimes.most}`,
        reached: times <= costTimes.most,
      });
    }
    if (speedTimes !== undefined) {
      checks.push({
        what: `speed ${(1 / times).toFixed(2)} times ${base.name}'s, at least ${speedTimes.least}`,
        reached: 1 / times >= speedTimes.least,
      });
    }
  }
  return checks;
}

/** A process of its own for each job: no warmed-up code, no memory of the job before. */
function freshProcess(task: JobTask): Promise<JobAnswer> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [fileURLToPath(new URL('./job-process.js', import.meta.url)), JSON.stringify(task)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    let errors = '';
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString();
    });
    child.stderr.on('data', (chunk: Buffer) => {
      errors += chunk.toString();
    });
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve(JSON.parse(output) as JobAnswer);
      else reject(new Error(`the job's process ended with code ${code}: ${errors.trim()}`));
    });
  });
}
