import { existsSync, type Stats, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Command } from 'commander';

/** Refuses an argument or option: the message names it, its value and the fix. Ends with exit code 2. */
export function refuse(command: Command, message: string): never {
  command.error(`error: ${message}`);
}

/** What stands at a path, if anything; refuses one that may not be looked at: that is not the same as nothing. */
function lookAt(command: Command, what: string, path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    refuse(command, `${what}: '${path}' cannot be read: ${(error as Error).message}`);
  }
}

/** Refuses what is no readable file; `what` is the argument's name. */
export function checkFile(command: Command, what: string, path: string): void {
  const found = lookAt(command, what, path);
  if (found === undefined) refuse(command, `${what}: there is no file '${path}'; check the path`);
  if (found.isDirectory()) refuse(command, `${what}: '${path}' is a folder; give a file`);
}

/** Refuses a scenario, or a trace to put into it, that is no readable file. */
export function checkInputs(command: Command, scenario: string, trace: string | undefined): void {
  checkFile(command, 'SCENARIO', scenario);
  if (trace !== undefined) checkFile(command, '--trace', trace);
}

/** Refuses what is no run folder. A run folder that is damaged passes: reading it says what is wrong. */
export function checkRunFolder(command: Command, folder: string): void {
  const fix = 'give the folder that a run has written (braess run SCENARIO --out RUN)';
  if (lookAt(command, 'RUN', folder) === undefined) refuse(command, `RUN: there is no folder '${folder}'; ${fix}`);
  if (lookAt(command, 'RUN', join(folder, 'manifest.json')) === undefined)
    refuse(command, `RUN: '${folder}' is not a run folder, it has no manifest.json; ${fix}`);
}

/** Runs what throws a RangeError for an argument that names nothing, and refuses that argument. */
export async function refusingRanges<Result>(command: Command, use: () => Promise<Result>): Promise<Result> {
  try {
    return await use();
  } catch (error) {
    if (error instanceof RangeError) refuse(command, error.message);
    throw error;
  }
}

/** Refuses a file to write whose folder is not there, before the work is done; `what` is the option's name. */
export function checkOutput(command: Command, path: string, what = '--out'): void {
  const folder = dirname(path);
  if (!existsSync(folder)) refuse(command, `${what}: there is no folder '${folder}' for '${path}'; make it first`);
  if (existsSync(path) && statSync(path).isDirectory()) refuse(command, `${what}: '${path}' is a folder; give a file`);
}

/** Makes the folder that something will be written to, or refuses it, before the work is done; `what` is the name of the option or argument. */
export async function makeOutputFolder(command: Command, path: string, what = '--out'): Promise<void> {
  const { makeFolder } = await import('@braess/telemetry');
  try {
    makeFolder(path);
  } catch (error) {
    refuse(command, `${what}: ${(error as Error).message}`);
  }
}
