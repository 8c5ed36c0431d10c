import { CommanderError } from 'commander';

/** What the command's exit codes mean; printed by `--help`. */
export const exitCodes = { done: 0, failed: 1, badOption: 2, lost: 3, interrupted: 130 } as const;

export const exitCodeHelp = `
Exit codes:
  0    done
  1    it failed: a run, a check, engines that disagree, or requests that do not add up; the message says what, where and how to replay it
  2    an option or argument is wrong
  3    the run is done, but requests were rejected or failed (the summary says how many)
  130  ended by Ctrl-C, with what there was until then`;

/** Maps what a command threw to an exit code, and prints what commander has not printed already. */
export function exitCodeOf(error: unknown, print: (text: string) => void): number {
  // Commander throws for --help and --version too, with exit code 0.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.badOption;
  print(`error: ${error instanceof Error ? error.message : String(error)}`);
  return exitCodes.failed;
}
