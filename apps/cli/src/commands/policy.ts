import { Command } from 'commander';
import { exitCodeHelp } from '../exit-codes.js';
import { policyListCommand } from './policy-list.js';
import { policyNewCommand } from './policy-new.js';
import { policyTestCommand } from './policy-test.js';

/** `braess policy`: the policies that a scenario can name, and skeletons for one's own. */
export function policyCommand(): Command {
  const command = new Command('policy').description('built-in policies, and skeletons for your own').addHelpText('after', exitCodeHelp);
  for (const child of [policyListCommand(), policyNewCommand(), policyTestCommand()])
    command.addCommand(child.addHelpText('after', exitCodeHelp));
  return command;
}
