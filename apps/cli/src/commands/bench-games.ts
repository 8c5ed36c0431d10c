import type { GamesResult } from '@braess/bench';
import { Command } from 'commander';
import { seedText, wholeNumber } from '../option-values.js';
import { fixed, textTable, verdict } from '../text-output.js';

/** `braess bench games`: what an equilibrium and an assignment cost. */
export function gamesCommand(): Command {
  return new Command('games')
    .description('CPU time of Nash equilibria by best response, and of assignments')
    .option('--players <N>', 'players of the routing game', wholeNumber(1, 1e6), 1000)
    .option('--workers <N>', 'workers of the routing game', wholeNumber(1, 10_000), 64)
    .option('--size <N>', 'rows and columns of the assignment', wholeNumber(1, 4096), 512)
    .option('--seed <S>', 'seed of the games and costs', seedText, '1')
    .option('--json', 'print one JSON object and nothing else')
    .action(async ({ json, ...options }: { players: number; workers: number; size: number; seed: string; json?: boolean }) => {
      const { measureGames } = await import('@braess/bench');
      const result = measureGames(options);
      process.stdout.write(`${json === true ? JSON.stringify(result) : describe(result)}\n`);
    });
}

function describe({ players, workers, size, nash, assignment, nashLimitMs, assignmentLimitMs }: GamesResult): string {
  const equilibria = textTable(
    ['routing game', 'start', 'CPU ms', 'slowest', 'sweeps', 'moves'],
    nash.map((row) => [row.game, row.start, fixed(row.cpuMs, 1), fixed(row.slowestMs, 1), fixed(row.sweeps), fixed(row.moves)]),
    ['left', 'left', 'right', 'right', 'right', 'right'],
  );
  const assignments = textTable(
    ['costs', 'CPU ms', 'slowest'],
    assignment.map(({ costs, cpuMs, slowestMs }) => [costs, fixed(cpuMs, 1), fixed(slowestMs, 1)]),
    ['left', 'right', 'right'],
  );
  const nashMs = Math.max(...nash.map(({ cpuMs }) => cpuMs));
  const ordinary = Math.max(...assignment.filter(({ worstCase }) => !worstCase).map(({ cpuMs }) => cpuMs));
  return [
    `Nash equilibria of ${fixed(players)} players on ${fixed(workers)} workers (median of several games; each checked: nobody gains by moving)`,
    equilibria,
    `asked at 1,000 x 64: at most ${nashLimitMs} ms (slowest kind ${fixed(nashMs, 1)}): ${verdict(nashMs <= nashLimitMs)}`,
    `\nassignments of ${fixed(size)} x ${fixed(size)} (each certified by its dual prices)`,
    assignments,
    `asked at 512 x 512: at most ${assignmentLimitMs} ms (slowest kind but for the worst case ${fixed(ordinary, 1)}): ${verdict(ordinary <= assignmentLimitMs)}`,
  ].join('\n');
}
