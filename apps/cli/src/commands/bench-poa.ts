import type { PoaShares } from '@braess/lab';
import { Command } from 'commander';
import { wholeNumber } from '../option-values.js';
import { fixed, textTable, verdict } from '../text-output.js';

/** `braess bench poa`: what following PoA-hat costs. */
export function poaShareCommand(): Command {
  return new Command('poa')
    .description("share of a run's time that the price-of-anarchy actor takes (telemetry.poa)")
    .option('--requests <n>', 'requests of the open-loop run; the closed loop lasts in proportion', wholeNumber(100, 1_000_000), 8000)
    .option('--json', 'print one JSON object and nothing else')
    .action(async ({ requests, json }: { requests: number; json?: boolean }) => {
      const { measurePoaShares } = await import('@braess/lab');
      const shares = await measurePoaShares(requests);
      process.stdout.write(`${json === true ? JSON.stringify(shares) : describe(shares)}\n`);
    });
}

function describe({ rows, targetPercent }: PoaShares): string {
  const table = textTable(
    ['scenario', 'run, CPU ms', 'actor, CPU ms', 'share (%)'],
    rows.map(({ scenario, runMs, actorMs, percent }) => [scenario, fixed(runMs), fixed(actorMs, 1), fixed(percent, 1)]),
  );
  const most = Math.max(...rows.map(({ percent }) => percent));
  return `${table}\nat most ${targetPercent} % (most ${fixed(most, 1)} %): ${verdict(most <= targetPercent)}`;
}
