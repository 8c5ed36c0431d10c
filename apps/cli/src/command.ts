import { createRequire } from 'node:module';
import { Command } from 'commander';
import type { Logger } from 'pino';
import { accuracyCommand } from './commands/accuracy.js';
import { benchCommand } from './commands/bench.js';
import { compareCommand } from './commands/compare.js';
import { doctorCommand } from './commands/doctor.js';
import { explainCommand } from './commands/explain.js';
import { exportCommand } from './commands/export.js';
import { fitCommand } from './commands/fit.js';
import { initCommand } from './commands/init.js';
import { poaCommand } from './commands/poa.js';
import { policyCommand } from './commands/policy.js';
import { queryCommand } from './commands/query.js';
import { reportCommand } from './commands/report.js';
import { reproduceCommand } from './commands/reproduce.js';
import { runCommand } from './commands/run.js';
import { studyCommand } from './commands/study.js';
import { traceCommand } from './commands/trace.js';
import { tuneCommand } from './commands/tune.js';
import { validateCommand } from './commands/validate.js';
import { exitCodeHelp } from './exit-codes.js';

/** The whole command line. Errors are thrown, so that one place decides on exit codes. */
export function buildCommand(logger: Logger): Command {
  const { version, description } = createRequire(import.meta.url)('../package.json') as { version: string; description: string };
  const command = new Command('braess')
    .description(`${description}: emulates clusters that serve large language models`)
    .version(version)
    // Options after a command's name belong to that command: both `bench` and its benches have --json.
    .enablePositionalOptions()
    .addHelpText('after', exitCodeHelp);
  command.addCommand(benchCommand(logger)).addCommand(doctorCommand());
  const inspecting = [queryCommand(), compareCommand(), explainCommand(), reportCommand(), exportCommand(), poaCommand()];
  const proving = [accuracyCommand(), reproduceCommand(), fitCommand(), studyCommand()];
  const running = [initCommand(), runCommand(logger), validateCommand(), traceCommand(), tuneCommand()];
  for (const child of [...running, ...inspecting, ...proving, policyCommand()]) command.addCommand(child);
  throwErrors(command);
  return command;
}

function throwErrors(command: Command): void {
  command.exitOverride().showHelpAfterError('(add --help for the options)');
  for (const child of command.commands) throwErrors(child);
}
