import type { NetkvFit, NetkvParameters } from '@braess/lab';
import { Command } from 'commander';
import { refuse } from '../arguments.js';
import { exitCodeHelp } from '../exit-codes.js';
import { numberText } from '../number-text.js';
import { textTable } from '../text-output.js';

/** `braess fit`: the parameters of a reproduction that were fitted, found again. */
export function fitCommand(): Command {
  return new Command('fit')
    .description('finds the fitted parameters of a reproduction again, from the published numbers they were fitted to')
    .argument('<paper>', 'netkv')
    .option('--json', 'print one JSON object on stdout and nothing else')
    .addHelpText('after', exitCodeHelp)
    .action(async (paper: string, { json }: { json?: boolean }, command: Command) => {
      if (paper !== 'netkv') refuse(command, `nothing of '${paper}' is fitted; there is netkv`);
      const { fitNetkv } = await import('@braess/lab');
      const fit = await fitNetkv(json === true ? {} : { onTry: tell });
      process.stdout.write(`${json === true ? JSON.stringify(fit) : fitText(fit)}\n`);
    });
}

function tell(tries: number, parameters: NetkvParameters): void {
  if (process.stderr.isTTY === true) process.stderr.write(`try ${tries}: ${JSON.stringify(parameters)}\n`);
}

function fitText({ found, frozen, targets, tries, runs }: NetkvFit): string {
  const names = Object.keys(found) as (keyof NetkvParameters)[];
  const parameters = names.map((name) => [name, numberText(frozen[name]), numberText(found[name])]);
  const rows = targets.map(({ id, published, emulated }) => [
    id,
    numberText(published),
    numberText(Number(emulated.toPrecision(4))),
    `${((100 * (emulated - published)) / published).toFixed(1)} %`,
  ]);
  return [
    textTable(['free parameter', 'frozen', 'found'], parameters),
    textTable(['fitted to', 'published', 'emulated', 'deviation'], rows),
    `${names.length} free parameters, ${targets.length} published numbers, ${tries} tries, ${runs} runs; the frozen values stand in configs/paper/netkv/rag.yaml`,
  ].join('\n');
}
