import { Command } from 'commander';
import type { Logger } from 'pino';
import { exitCodeHelp } from '../exit-codes.js';
import { textTable } from '../text-output.js';
import { codecCommand } from './bench-codec.js';
import { decideCommand } from './bench-decide.js';
import { forkCommand } from './bench-fork.js';
import { gamesCommand } from './bench-games.js';
import { gridCommand } from './bench-grid.js';
import { growthCommand } from './bench-growth.js';
import { jobCommand } from './bench-job.js';
import { pholdCommand } from './bench-phold.js';
import { poaShareCommand } from './bench-poa.js';
import { queuesCommand } from './bench-queues.js';
import { startupCommand } from './bench-startup.js';

/** `braess bench`: without a name, the list of benches. */
export function benchCommand(logger: Logger): Command {
  const command = new Command('bench').description('benchmarks of the kernel and of whole runs').addHelpText('after', exitCodeHelp);
  for (const child of [
    pholdCommand(logger),
    queuesCommand(),
    codecCommand(),
    growthCommand(logger),
    gridCommand(logger),
    startupCommand(),
    forkCommand(),
    jobCommand(),
    decideCommand(),
    gamesCommand(),
    poaShareCommand(),
  ])
    command.addCommand(child.addHelpText('after', exitCodeHelp));
  return command
    .option('--json', 'print the list as one JSON object')
    .enablePositionalOptions()
    .allowExcessArguments()
    .action(({ json }: { json?: boolean }) => {
      const benches = command.commands.map((child) => ({ name: child.name(), description: child.description() }));
      const [unknown] = command.args;
      if (unknown !== undefined)
        command.error(`error: there is no bench '${unknown}'; it must be one of ${benches.map(({ name }) => name).join(', ')}`);
      const text = json ? JSON.stringify({ benches }) : describe(benches);
      process.stdout.write(`${text}\n`);
    });
}

function describe(benches: readonly { readonly name: string; readonly description: string }[]): string {
  const rows = benches.map(({ name, description }) => [name, description]);
  return `${textTable(['bench', 'what it measures'], rows, ['left', 'left'])}\nRun one with: braess bench <name> (--help lists its options)`;
}
