import type { DecideResult } from '@braess/bench';
import { Command } from 'commander';
import { wholeNumber } from '../option-values.js';
import { fixed, textTable, verdict } from '../text-output.js';

/** `braess bench decide`: what one decode decision costs. */
export function decideCommand(): Command {
  return new Command('decide')
    .description('CPU time of one decode decision, oracle included, by policy and number of candidates')
    .option('--decisions <N>', 'decisions of a round at 1,024 candidates, times four', wholeNumber(100, 1e7), 4000)
    .option('--json', 'print one JSON object and nothing else')
    .action(async ({ decisions, json }: { decisions: number; json?: boolean }) => {
      const { measureDecisions } = await import('@braess/bench');
      const result = measureDecisions({ decisions });
      process.stdout.write(`${json === true ? JSON.stringify(result) : describe(result)}\n`);
    });
}

function describe({ rows, limitUs, limitCandidates }: DecideResult): string {
  const table = textTable(
    ['policy', 'candidates', 'us a decision', 'ns a candidate', 'growth'],
    rows.map(({ policy, candidates, usPerDecision, growth }) => [
      policy,
      fixed(candidates),
      fixed(usPerDecision, 2),
      fixed((1000 * usPerDecision) / candidates, 1),
      growth === null ? '' : fixed(growth, 2),
    ]),
    ['left', 'right', 'right', 'right', 'right'],
  );
  const slowest = Math.max(...rows.filter(({ candidates }) => candidates === limitCandidates).map(({ usPerDecision }) => usPerDecision));
  const reached = verdict(slowest <= limitUs);
  return `${table}\ngrowth: time a candidate against that with a quarter of the candidates; 1 is linear; netkv-joint: with its share of an assignment of 8 requests\nat ${fixed(limitCandidates)} candidates at most ${limitUs} us a decision (slowest ${fixed(slowest, 1)}): ${reached}`;
}
