import type { GridResult } from '@braess/bench';
import { Command } from 'commander';
import type { Logger } from 'pino';
import { benchSession } from '../bench-session.js';
import { listOf, seedText, wholeNumber } from '../option-values.js';
import { fixed, millions, textTable, times, verdict } from '../text-output.js';

interface Options {
  readonly actors?: number[];
  readonly events: number;
  readonly seed: string;
  readonly json?: boolean;
}

export function gridCommand(logger: Logger): Command {
  return new Command('grid')
    .description('PHOLD over actors, lookahead and work: one shard, two shards, and whether auto comes within 10 % of the better')
    .option('--events <N>', 'about how many events a run has without extra work', wholeNumber(1000, 1e11), 40_000_000)
    .option('--actors <N...>', 'numbers of actors (default: 64 1024 65536)', listOf(wholeNumber(1, 2_000_000)))
    .option('--seed <S>', 'seed of every random stream', seedText, '1')
    .option('--json', 'print one JSON object and nothing else')
    .action(async ({ actors, events, seed, json }: Options) => {
      const { measureGrid } = await import('@braess/bench');
      const result = await benchSession(
        json === true,
        (session) => measureGrid({ ...session, events, seed, ...(actors && { actors }) }),
        describe,
      );
      const outside = result.rows.filter((row) => !row.withinTenPercent).length;
      if (outside > 0) logger.warn({ outside, of: result.rows.length }, 'auto was not within 10 % of the better fixed choice everywhere');
    });
}

function describe({ rows, seed, autoWithinTenPercent }: GridResult): string {
  const table = textTable(
    ['actors', 'lookahead', 'work us', '1 shard', '2 shards', 'auto', 'auto / better', 'in 10 %', 'auto chose'],
    rows.map((row) => [
      fixed(row.actors),
      String(row.lookahead),
      String(row.workMicroseconds),
      millions(row.oneShardEventsPerSecond),
      millions(row.twoShardsEventsPerSecond),
      millions(row.autoEventsPerSecond),
      times(row.autoOverBetter),
      verdict(row.withinTenPercent),
      row.choice,
    ]),
    ['right', 'right', 'right', 'right', 'right', 'right', 'right', 'left', 'left'],
  );
  return `${table}\nauto is within 10 % of the better fixed choice in ${autoWithinTenPercent} of ${rows.length}; rates over whole runs, trials included (two shards: at most 5 s); seed ${seed}`;
}
