import { Command } from 'commander';
import { checkOutput, checkRunFolder } from '../arguments.js';
import { exitCodeHelp } from '../exit-codes.js';

export function reportCommand(): Command {
  return new Command('report')
    .description('one HTML page about a run: latencies, where time went, timelines, topology, decisions')
    .argument('<RUN>', 'folder that a run has written')
    .option('--out <FILE>', 'where to write the page (default: report.html in the run folder)')
    .option('--json', 'print one JSON object with the path and nothing else')
    .addHelpText('after', exitCodeHelp)
    .action(async (folder: string, { out, json }: { out?: string; json?: boolean }, command: Command) => {
      checkRunFolder(command, folder);
      if (out !== undefined) checkOutput(command, out);
      const { writeReport } = await import('@braess/telemetry');
      const path = await writeReport(folder, out);
      process.stdout.write(`${json ? JSON.stringify({ path }) : `report written to ${path}`}\n`);
    });
}
