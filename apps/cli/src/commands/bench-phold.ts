import { availableParallelism } from 'node:os';
import type { PholdResult } from '@braess/bench';
import { Command } from 'commander';
import type { Logger } from 'pino';
import { benchSession } from '../bench-session.js';
import { realNumber, seedText, shardCount, wholeNumber } from '../option-values.js';
import { replayCommand } from '../replay.js';
import { fixed, millions, textTable, times } from '../text-output.js';

interface Options {
  readonly actors: number;
  readonly remote: number;
  readonly lookahead: number;
  readonly shards: number | 'auto';
  readonly work: number;
  readonly events?: number;
  readonly seed: string;
  readonly json?: boolean;
}

/** Long enough that the start, when code is still being compiled, weighs little. */
const bareEvents = 8_000_000;

export function pholdCommand(logger: Logger): Command {
  return new Command('phold')
    .description('PHOLD on a plain engine, on one shard and on several: medians of 3 interleaved runs')
    .option('--actors <N>', 'actors, one event pending each', wholeNumber(1, 2_000_000), 65_536)
    .option('--remote <P>', 'share of events that go to an actor drawn from all', realNumber(0, 1), 0.25)
    .option('--lookahead <S>', 'lookahead as a share of the mean delay', realNumber(1e-6, 0.99), 0.1)
    .option('--shards <N>', "shards on threads, 1 to 64, or 'auto' to let the kernel choose", shardCount, 'auto')
    .option('--work <US>', 'microseconds of extra work an event', realNumber(0, 1000), 0)
    .option('--events <N>', 'about how many events each run has (default: 8,000,000, fewer with extra work)', wholeNumber(1000, 1e11))
    .option('--seed <S>', 'seed of every random stream', seedText, '1')
    .option('--json', 'print one JSON object and nothing else')
    .action(async (options: Options) => {
      const { comparePhold } = await import('@braess/bench');
      const { actors, remote, lookahead, shards, work, seed } = options;
      const events = options.events ?? Math.max(1000, Math.round(bareEvents / (1 + 3 * work)));
      const replay = replayCommand(['braess', 'bench', 'phold'], { actors, remote, lookahead, shards, work, events, seed });
      warnOfCores(logger, shards);
      await benchSession(
        options.json === true,
        (session) => comparePhold({ ...session, actors, remote, lookahead, shards, workMicroseconds: work, events, seed, replay }),
        describe,
      );
    });
}

function warnOfCores(logger: Logger, shards: number | 'auto'): void {
  const cores = availableParallelism();
  if (shards !== 'auto' && shards > cores) logger.warn({ shards, cores }, 'more shards than cores: they will wait for each other');
}

function describe(result: PholdResult): string {
  const { shards, choice } = result;
  const rows = [
    ['plain engine', millions(result.plainEventsPerSecond), times(result.plainEventsPerSecond === null ? null : 1), ''],
    [
      'kernel, 1 shard',
      millions(result.oneShardEventsPerSecond),
      times(result.oneShardOverPlain),
      times(result.eventsPerSecond === null ? null : 1),
    ],
  ];
  if (shards > 1) {
    rows.push([`kernel, ${shards} shards`, millions(result.eventsPerSecond), times(result.overPlain), times(result.speedupOverOneShard)]);
  }
  const facts = [
    `${fixed(result.actors)} actors, ${result.remote * 100} % remote, lookahead ${result.lookahead} of the mean delay, ${result.workMicroseconds} us of work an event`,
    `${fixed(result.events)} events a run, the first third to warm up; medians of ${result.rounds.length} rounds, ratios taken inside a round`,
    `seed ${result.seed}, fingerprint ${result.fingerprint ?? '-'} (all engines alike)`,
    `peak memory ${fixed(result.peakRssMb)} MB${result.barrierMicroseconds === null ? '' : `, barrier ${fixed(result.barrierMicroseconds, 2)} us a round`}`,
  ];
  if (choice !== null) facts.push(`auto chose ${shards} shard${shards === 1 ? '' : 's'}: ${choice}`);
  return [textTable(['engine', 'events', 'over plain', 'over 1 shard'], rows), ...facts, reading(result)]
    .filter((line) => line !== '')
    .join('\n');
}

function reading({ shards, speedupOverOneShard, oneShardOverPlain, barrierMicroseconds }: PholdResult): string {
  if (speedupOverOneShard === null || oneShardOverPlain === null) return '';
  const alone = `One shard runs at ${times(oneShardOverPlain)} the plain engine.`;
  if (shards === 1) return alone;
  const together =
    speedupOverOneShard >= 1
      ? `${shards} shards gain ${times(speedupOverOneShard)}`
      : `${shards} shards lose: ${times(speedupOverOneShard)}`;
  const slowBarrier =
    barrierMicroseconds !== null && barrierMicroseconds > 5
      ? ' The barrier is slow: other programs hold the cores, so take the numbers of several shards with care.'
      : '';
  return `${alone} ${together}.${slowBarrier}`;
}
