import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { basename, extname, resolve } from 'node:path';
import { Command } from 'commander';
import { refuse } from '../arguments.js';
import { exitCodes } from '../exit-codes.js';

/** `braess policy test`: `node` on the test that `policy new` wrote, which finds @braess packages also where they are not installed beside it. */
export function policyTestCommand(): Command {
  return new Command('test')
    .description("runs a policy's test, wherever it lies")
    .argument('<FILE>', 'the .test.mjs file that braess policy new wrote')
    .action(async (file: string, _options: unknown, command: Command) => {
      if (!existsSync(file)) refuse(command, `FILE: '${file}' does not exist`);
      if (!/\.[cm]?js$/.test(file))
        refuse(
          command,
          `FILE: '${file}' is no test that Node runs; give the one beside a policy, such as ${basename(file, extname(file))}.test.mjs`,
        );
      const registers = `data:text/javascript,${encodeURIComponent(
        `import { register } from 'node:module'; register(${JSON.stringify(hook)}, { data: ${JSON.stringify(import.meta.url)} });`,
      )}`;
      const child = spawn(process.execPath, ['--import', registers, resolve(file)], { stdio: 'inherit' });
      process.exitCode = await new Promise<number>((done, fail) => {
        child.once('error', fail);
        child.once('close', (code) => done(code === 0 ? exitCodes.done : exitCodes.failed));
      });
    });
}

/** What is not found from the test's own folder is looked for from this command. */
const hook = `data:text/javascript,${encodeURIComponent(`
let command;
export const initialize = (url) => { command = url; };
export async function resolve(specifier, context, next) {
  try {
    return await next(specifier, context);
  } catch (error) {
    if (!specifier.startsWith('@braess/')) throw error;
    return next(specifier, { ...context, parentURL: command });
  }
}`)}`;
