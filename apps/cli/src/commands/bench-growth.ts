import type { GrowthResult } from '@braess/bench';
import { plot } from 'asciichart';
import { Command } from 'commander';
import type { Logger } from 'pino';
import { benchSession } from '../bench-session.js';
import { exitCodes } from '../exit-codes.js';
import { seedText, wholeNumber } from '../option-values.js';
import { replayCommand } from '../replay.js';
import { fixed, millions, textTable, verdict } from '../text-output.js';

const chartColumns = 60;

export function growthCommand(logger: Logger): Command {
  return new Command('growth')
    .description('memory over many events, and over many timers set far ahead and cancelled')
    .option('--events <N>', 'events, and timers (50000000 is the full size)', wholeNumber(1000, 1e11), 5_000_000)
    .option('--seed <S>', 'seed of every random stream', seedText, '1')
    .option('--json', 'print one JSON object and nothing else')
    .action(async ({ events, seed, json }: { events: number; seed: string; json?: boolean }) => {
      const { measureGrowth } = await import('@braess/bench');
      const replay = replayCommand(['braess', 'bench', 'growth'], { events, seed });
      const result = await benchSession(json === true, (session) => measureGrowth({ ...session, events, seed, replay }), describe);
      const grown = result.rows.filter((row) => !row.constant);
      for (const { load, growthMb } of grown) logger.error({ load, growthMb }, 'memory grew');
      if (grown.length > 0) process.exitCode = exitCodes.failed;
    });
}

function describe({ rows, seed }: GrowthResult): string {
  const table = textTable(
    ['load', 'count', 'events', 'growth', 'constant', 'fingerprint'],
    rows.map((row) => [
      row.load,
      fixed(row.count),
      millions(row.eventsPerSecond),
      `${fixed(row.growthMb, 1)} MB`,
      verdict(row.constant),
      row.fingerprint,
    ]),
  );
  const charts = rows.map((row) => `\nresident MB over the run, ${row.load}:\n${plot(thinned(row.rssMb), { height: 6 })}`);
  return `${table}\ngrowth: median memory of the last quarter less that of the second; seed ${seed}${charts.join('')}`;
}

function thinned(values: readonly number[]): number[] {
  const columns = Math.min(chartColumns, values.length);
  return Array.from({ length: columns }, (_, column) => values[Math.floor((column * values.length) / columns)] as number);
}
