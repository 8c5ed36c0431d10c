import type { RunScenarioOptions, ScenarioSummary, SweepAxis } from '@braess/lab';
import { SingleBar } from 'cli-progress';
import { Command, InvalidArgumentError, Option } from 'commander';
import type { Logger } from 'pino';
import { checkInputs, refusingRanges } from '../arguments.js';
import { exitCodeHelp, exitCodes } from '../exit-codes.js';
import { type Interruption, interruptible } from '../interruption.js';
import { listItems } from '../option-lists.js';
import { fileName, folderName, listOf, seedText, settingText, shardCount, wholeNumber } from '../option-values.js';
import { quoted, replayCommand } from '../replay.js';
import { summaryText } from '../summary-text.js';
import { sweepText } from '../sweep-text.js';
import { runsText } from '../text-output.js';

interface RunOptions {
  readonly trace?: string;
  readonly seed?: string;
  readonly shards: number | 'auto';
  readonly pace: number | 'max';
  readonly until?: number;
  readonly warmup?: number;
  readonly out?: string;
  readonly set?: string[];
  readonly sweep?: SweepAxis[];
  readonly seeds?: number;
  readonly report: boolean;
  readonly quiet?: boolean;
  readonly json?: boolean;
}

/** Options that several runs do not follow: they share the cores, each on one thread, as fast as it can. */
const singleRunOptions = ['pace', 'shards'];

/** `braess run`: a scenario from start to report. */
export function runCommand(logger: Logger): Command {
  return new Command('run')
    .description('runs a scenario and writes a run folder: requests, series and decisions as Parquet, a summary and a report')
    .argument('<scenario>', 'scenario file (YAML)')
    .option('--trace <file>', 'take the requests from this trace', fileName)
    .option('--seed <seed>', 'seed of every random stream', seedText)
    .option('--shards <n>', "threads that share the work, or 'auto'; the result does not depend on it", shardCount, 1)
    .option('--pace <k>', 'k times wall clock, or max', paceValue, 'max')
    .option('--until <time>', 'stop at this simulated time, e.g. 90s, 5m', endSeconds)
    .option('--warmup <time>', 'leave requests that arrive before out of latencies and rates', durationSeconds)
    .option('--out <folder>', 'run folder; default the next free runs/<name>-<number>', folderName)
    .option('--set <path=value>', 'set a value of the scenario; may be given several times', listOf(settingText))
    .addOption(
      new Option(
        '--sweep <path=a,b,c>',
        'run once for each value, several at a time, and mark the knee under the SLO; may be given several times: every combination',
      )
        .argParser(sweepAxes)
        .conflicts(singleRunOptions),
    )
    .addOption(
      new Option(
        '--seeds <n>',
        'run n times with seeds counted on from that of the scenario, or of --seed, the same ones at every point of a sweep: means with 95 % intervals',
      )
        .argParser(wholeNumber(1, 1000))
        .conflicts(singleRunOptions),
    )
    .option('--no-report', 'do not write report.html')
    .option('--quiet', 'print the summary only')
    .option('--json', 'print one JSON object on stdout and nothing else')
    .addHelpText('after', exitCodeHelp)
    .action(async (file: string, options: RunOptions, command: Command) => {
      checkInputs(command, file, options.trace);
      try {
        if (options.sweep === undefined && options.seeds === undefined)
          await interruptible((interruption) => runOnce(file, options, interruption), false);
        else await interruptible((interruption) => runSweep(command, file, options, interruption));
      } catch (error) {
        logger.debug(error);
        throw error;
      }
    });
}

async function settingsOf(options: RunOptions): Promise<string[]> {
  const { traceSetting } = await import('@braess/cluster');
  return [
    ...(options.trace === undefined ? [] : [traceSetting(options.trace)]),
    ...(options.seed === undefined ? [] : [`seed=${JSON.stringify(options.seed)}`]),
    ...(options.until === undefined ? [] : [`untilSeconds=${options.until}`]),
    ...(options.warmup === undefined ? [] : [`warmupSeconds=${options.warmup}`]),
    ...(options.set ?? []),
  ];
}

async function runOnce(file: string, options: RunOptions, { signal, listen }: Interruption): Promise<void> {
  const { runScenario } = await import('@braess/lab');
  const settings = await settingsOf(options);
  const progress = progressOf(options);
  const replay = [
    replayCommand(['braess', 'run', quoted(file)], { shards: options.shards }),
    ...settings.map((setting) => `--set ${quoted(setting)}`),
  ].join(' ');
  let summary: ScenarioSummary;
  try {
    summary = await runScenario({
      file,
      settings,
      shards: options.shards,
      pace: options.pace,
      signal,
      onStarted: listen,
      replay,
      onStall: ({ actor, message, nowNs, stalledMs }) =>
        void process.stderr.write(
          `actor ${actor} has not returned from message '${message}' for ${Math.round(stalledMs)} ms (simulated time ${nowNs} ns); Ctrl-C ends the run\n`,
        ),
      ...(options.out === undefined ? {} : { out: options.out }),
      ...(progress === undefined ? {} : { onProgress: progress.update }),
    });
  } finally {
    progress?.stop();
  }
  const report = options.report ? await (await import('@braess/telemetry')).writeReport(summary.folder) : null;
  process.stdout.write(options.json === true ? `${JSON.stringify({ ...summary, report })}\n` : `${summaryText(summary, report)}\n`);
  if (options.json !== true) for (const fault of summary.faults) process.stderr.write(`fault: ${fault}\n`);
  process.exitCode = exitCodeOfRun(summary, signal.aborted);
}

function exitCodeOfRun(summary: ScenarioSummary, interrupted: boolean): number {
  if (summary.faults.length > 0) return exitCodes.failed;
  if (interrupted) return exitCodes.interrupted;
  return summary.lost > 0 ? exitCodes.lost : exitCodes.done;
}

async function runSweep(command: Command, file: string, options: RunOptions, { signal }: Interruption): Promise<void> {
  const { sweep: axes = [], seeds } = options;
  const { sweepScenario } = await import('@braess/lab');
  const settings = await settingsOf(options);
  const sweeps = await refusingRanges(command, () =>
    sweepScenario({
      file,
      settings,
      axes,
      ...(seeds === undefined ? {} : { seeds }),
      ...(options.out === undefined ? {} : { out: options.out }),
      signal,
      onProgress: (progress) => {
        if (options.json !== true && options.quiet !== true && progress.runsDone > 0) process.stderr.write(`${runsText(progress)}\n`);
      },
    }),
  );
  process.stdout.write(`${options.json === true ? JSON.stringify(axes.length <= 1 ? sweeps[0] : sweeps) : sweepText(sweeps)}\n`);
  const runs = sweeps.flatMap(({ points }) => points.flatMap((point) => point.runs));
  const summaries = runs.flatMap(({ summary }) => summary ?? []);
  if (options.json !== true)
    for (const { folder, faults } of summaries) for (const fault of faults) process.stderr.write(`fault: ${folder}: ${fault}\n`);
  const failed = summaries.length < runs.length || summaries.some(({ faults }) => faults.length > 0);
  if (sweeps.some(({ interrupted }) => interrupted)) process.exitCode = exitCodes.interrupted;
  else if (failed) process.exitCode = exitCodes.failed;
  else process.exitCode = summaries.some(({ lost }) => lost > 0) ? exitCodes.lost : exitCodes.done;
}

/** A bar on a terminal; nothing where nobody looks. */
function progressOf(
  options: RunOptions,
): { readonly update: NonNullable<RunScenarioOptions['onProgress']>; readonly stop: () => void } | undefined {
  if (options.json === true || options.quiet === true || process.stderr.isTTY !== true) return undefined;
  const bar = new SingleBar({
    format: '{bar} {percentage}% | {simulated} s simulated | {value} of {total} requests | {rate} events/s | {left}',
    stream: process.stderr,
    hideCursor: true,
    clearOnComplete: true,
  });
  let started = false;
  return {
    update: ({ simulatedSeconds, ended, requests, eventsPerSecond, remainingSeconds }) => {
      const payload = {
        simulated: simulatedSeconds.toFixed(0),
        rate: Math.round(eventsPerSecond).toLocaleString('en-US'),
        left: remainingSeconds === undefined ? '' : `about ${Math.ceil(remainingSeconds)} s left`,
      };
      if (!started) bar.start(requests, ended, payload);
      started = true;
      bar.update(ended, payload);
    },
    stop: () => bar.stop(),
  };
}

/** What a scenario takes for a time, seconds: simulated time is whole ns and ends after 52 days. */
const leastSeconds = 1e-9;
const mostSeconds = 4_503_599;

/** Reads a time, 0 or more. @throws InvalidArgumentError, so that the option is named and not the setting that it becomes. */
function durationSeconds(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|)$/.exec(text.trim());
  if (match === null) throw new InvalidArgumentError('It must be a number with ms, s, m or h, e.g. 90s or 5m.');
  const seconds = Number(match[1]) * ({ ms: 1e-3, s: 1, m: 60, h: 3600, '': 1 }[match[2] ?? ''] as number);
  if (seconds === 0 || (seconds >= leastSeconds && seconds <= mostSeconds)) return seconds;
  throw new InvalidArgumentError(`It must be 0 or from 1 ns to ${mostSeconds} s (52 days).`);
}

function endSeconds(text: string): number {
  const seconds = durationSeconds(text);
  if (seconds > 0) return seconds;
  throw new InvalidArgumentError('It must be above 0: the run would end before it begins.');
}

function paceValue(text: string): number | 'max' {
  if (text === 'max') return text;
  const value = Number(text);
  if (text.trim() !== '' && value > 0 && value <= 1e6) return value;
  throw new InvalidArgumentError("It must be a number above 0 (1 is wall clock), or 'max'.");
}

function sweepAxes(text: string, before: readonly SweepAxis[] = []): SweepAxis[] {
  const equals = text.indexOf('=');
  const values = listItems(text.slice(equals + 1));
  if (equals < 1 || values.some((value) => value === ''))
    throw new InvalidArgumentError('It must have the form path=a,b,c, e.g. workload.rateFactor=0.5,1,2.');
  const path = text.slice(0, equals);
  if (before.some((axis) => axis.path === path)) throw new InvalidArgumentError(`${path} is swept already: give all its values at once.`);
  return [...before, { path, values }];
}
