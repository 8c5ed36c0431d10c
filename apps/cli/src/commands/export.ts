import { Command } from 'commander';
import { checkOutput, checkRunFolder, refuse, refusingRanges } from '../arguments.js';
import { exitCodeHelp } from '../exit-codes.js';
import { commaList, commaNumbers } from '../option-lists.js';
import { fixed } from '../text-output.js';

interface Options {
  readonly requests?: number[];
  readonly gpus?: string[];
  readonly out: string;
  readonly json?: boolean;
}

export function exportCommand(): Command {
  return new Command('export')
    .description('chosen requests and GPUs of a run as a trace for Perfetto (ui.perfetto.dev) or chrome://tracing')
    .argument('<RUN>', 'folder that a run has written')
    .option('--requests <a,b>', 'numbers of requests: a track each, and slices on the workers they used', commaNumbers)
    .option('--gpus <c,d>', 'names of GPUs, or of anything else with a series (engines, links): counter tracks', commaList)
    .requiredOption('--out <FILE>', 'where to write the trace (JSON)')
    .option('--json', 'print one JSON object with path and number of events and nothing else')
    .addHelpText('after', exitCodeHelp)
    .action(async (folder: string, { requests = [], gpus = [], out, json }: Options, command: Command) => {
      checkRunFolder(command, folder);
      checkOutput(command, out);
      if (requests.length + gpus.length === 0) refuse(command, 'nothing is chosen; give --requests a,b or --gpus c,d or both');
      const { exportTrace } = await import('@braess/telemetry');
      const events = await refusingRanges(command, () => exportTrace(folder, { requestIds: requests, entities: gpus }, out));
      process.stdout.write(`${json ? JSON.stringify({ path: out, events }) : `${fixed(events)} events written to ${out}`}\n`);
    });
}
