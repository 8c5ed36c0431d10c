import type { TuneAim, Tuning } from '@braess/lab';
import { Command, InvalidArgumentError, Option } from 'commander';
import { checkInputs } from '../arguments.js';
import { exitCodeHelp, exitCodes } from '../exit-codes.js';
import { fileName, folderName, listOf, seedText, settingText, wholeNumber } from '../option-values.js';
import { fixed, runsText, textTable } from '../text-output.js';

// Named here, and held to the type: loading the lab for its list would cost every command its start.
const aims = Object.keys({ 'ttft-mean': 0, 'ttft-p99': 0, 'slo-missed': 0 } satisfies Record<TuneAim, 0>);

interface TuneCommandOptions {
  readonly grid?: [string, number[]][];
  readonly aim: TuneAim;
  readonly requests: number;
  readonly seed: string;
  readonly set?: string[];
  readonly trace?: string;
  readonly out?: string;
  readonly json?: boolean;
}

/** `braess tune`: weights of the decode policy, searched on a slice that is not measured. */
export function tuneCommand(): Command {
  return new Command('tune')
    .description("grid-search the weights of a scenario's decode policy on a sample that is not measured")
    .argument('<scenario>', 'scenario file')
    .option('--grid <name=a,b,c>', 'values of a parameter (repeat for more); default the weights of cla or weighted', listOf(gridValue))
    .addOption(
      new Option('--aim <what>', 'what is made least: mean or P99 of TTFT, or the share of requests over their SLO')
        .choices(aims)
        .default('ttft-mean'),
    )
    .option('--requests <N>', 'requests of the sample', wholeNumber(1, 1e9), 500)
    .option('--seed <S>', 'seed of the sample: not that of the run to be measured', seedText, 'tune')
    .option('--trace <file>', 'take the sample from this trace: not the one to be measured', fileName)
    .option('--set <path=value>', 'change a setting (repeat for more)', listOf(settingText))
    .option('--out <folder>', 'where run folders go', folderName)
    .option('--json', 'print one JSON object and nothing else')
    .addHelpText('after', exitCodeHelp)
    .action(async (file: string, { grid, aim, requests, seed, set, trace, out, json }: TuneCommandOptions, command: Command) => {
      checkInputs(command, file, trace);
      const { tuneScenario } = await import('@braess/lab');
      const tuning = await tuneScenario({
        file,
        aim,
        requests,
        seed,
        settings: set ?? [],
        ...(trace === undefined ? {} : { trace }),
        out: out ?? `runs/tune-${process.pid}`,
        ...(grid === undefined ? {} : { grid: Object.fromEntries(grid) }),
        onProgress: (progress) => {
          if (json !== true && process.stderr.isTTY) process.stderr.write(`${runsText(progress)}\n`);
        },
      });
      process.stdout.write(`${json === true ? JSON.stringify(tuning) : describe(tuning)}\n`);
      if (tuning.best === null) process.exitCode = exitCodes.failed;
    });
}

function describe({ policy, points, best, aim, requests, seed }: Tuning): string {
  const names = Object.keys(points[0]?.parameters ?? {});
  const errors = [...new Set(points.flatMap(({ error }) => (error === null ? [] : [error])))];
  const rows = points.map((point) => [
    ...names.map((name) => String(point.parameters[name])),
    point.ttftMeanMs === null ? '' : fixed(point.ttftMeanMs, 1),
    point.ttftP99Ms === null ? '' : fixed(point.ttftP99Ms, 1),
    point.sloAttainment === null ? '' : fixed(100 * point.sloAttainment, 1),
    point === best ? 'best' : point.error === null ? '' : `(${errors.indexOf(point.error) + 1})`,
  ]);
  const table = textTable([...names, 'TTFT mean ms', 'TTFT p99 ms', 'SLO %', ''], rows);
  const found = best === null ? 'no run was valid' : `best: ${JSON.stringify(best.parameters)}`;
  const notes = errors.map((error, index) => `(${index + 1}) ${error}\n`).join('');
  return `${table}\n${notes}${policy} by ${aim} on ${fixed(requests)} requests of seed '${seed}': ${found}`;
}

function gridValue(text: string): [string, number[]] {
  const [name, list] = text.split('=', 2);
  const values = (list ?? '').split(',').map((value) => (value.trim() === '' ? Number.NaN : Number(value)));
  if (name === undefined || name === '' || values.some(Number.isNaN))
    throw new InvalidArgumentError('It must have the form name=a,b,c with numbers, e.g. loadWeight=1,5,10.');
  return [name, values];
}
