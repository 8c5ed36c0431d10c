import {
  affineLatency,
  bestResponse,
  largestUnilateralGain,
  type RoutingGame,
  type SaturatingLatency,
  solveAssignment,
} from '@braess/games';
import seedrandom from 'seedrandom';
import { BenchError, median } from './measured.js';

/** CPU time of the solvers that run next to a cluster: equilibria of the routing game, assignments. */
export interface GamesResult {
  readonly players: number;
  readonly workers: number;
  readonly size: number;
  readonly nash: readonly NashRow[];
  readonly assignment: readonly AssignmentRow[];
  /** Most that is asked of each at 1,000 players x 64 workers and at 512 x 512, ms. */
  readonly nashLimitMs: number;
  readonly assignmentLimitMs: number;
  readonly seed: string;
}

export interface NashRow {
  readonly game: string;
  /** Where best response begins: players enter one by one, or all at one worker. */
  readonly start: 'one by one' | 'all at one';
  /** Median over games, and the slowest. */
  readonly cpuMs: number;
  readonly slowestMs: number;
  readonly sweeps: number;
  readonly moves: number;
}

export interface AssignmentRow {
  readonly costs: string;
  readonly cpuMs: number;
  readonly slowestMs: number;
  /** The known worst case of the method, beside what the limit is asked for. */
  readonly worstCase: boolean;
}

export interface GamesOptions {
  readonly players?: number;
  readonly workers?: number;
  readonly size?: number;
  readonly seed?: string;
  readonly rounds?: number;
}

/** What is asked of the solvers (issue: at most 100 ms, at most 15 ms). */
const nashLimitMs = 100;
const assignmentLimitMs = 15;

/**
 * Times best response to a Nash equilibrium on four kinds of routing game and the assignment solver on four kinds of cost matrix, each of `rounds` draws.
 * CPU time, so that neighbours count little. @throws BenchError when a placement is no equilibrium or an assignment not certified optimal by its prices.
 */
export function measureGames(options: GamesOptions = {}): GamesResult {
  const { players = 1000, workers = 64, size = 512, seed = '1', rounds = 7 } = options;
  const nash = Object.entries(gameKinds).flatMap(([game, draw]) =>
    (['one by one', 'all at one'] as const).map((start) => timeNash(game, start, rounds, (random) => draw(players, workers, random), seed)),
  );
  const assignment = Object.entries(costKinds).map(([costs, draw]) => timeAssignment(costs, rounds, size, draw, seed));
  return { players, workers, size, nash, assignment, nashLimitMs, assignmentLimitMs, seed };
}

type Random = () => number;
type DrawGame = (players: number, workers: number, random: Random) => RoutingGame;

const gameKinds: Readonly<Record<string, DrawGame>> = {
  'equal workers': (players, workers) => ({ players, latency: Array.from({ length: workers }, () => affineLatency(0.01, 0.1)) }),
  'worker speeds, pair costs': (players, workers, random) => ({
    players,
    latency: Array.from({ length: workers }, () => affineLatency(0.005 + 0.02 * random(), random())),
    fixedSeconds: Float64Array.from({ length: players * workers }, random),
  }),
  'near the pole': (players, workers, random) => ({
    players,
    latency: Array.from({ length: workers }, (): SaturatingLatency => {
      // Room for half as many again as come.
      const saturationLoad = ((1.5 * players) / workers) * (0.8 + 0.4 * random());
      return { slopeSeconds: 0.01, interceptSeconds: 0.1, poleScale: 1, saturationLoad, poleExponent: 1 };
    }),
    fixedSeconds: Float64Array.from({ length: players * workers }, random),
  }),
  'prefix groups': (players, workers, random) => {
    const groups = Math.max(1, players >> 3);
    return {
      players,
      latency: Array.from({ length: workers }, () => affineLatency(0.01, 0.1 * random())),
      group: Int32Array.from({ length: players }, () => Math.floor(groups * random())),
      groupPrefillSeconds: Float64Array.from({ length: groups }, random),
    };
  },
};

function timeNash(name: string, start: NashRow['start'], rounds: number, draw: (random: Random) => RoutingGame, seed: string): NashRow {
  const times: number[] = [];
  let sweeps = 0;
  let moves = 0;
  for (let round = -1; round < rounds; round++) {
    const game = draw(seedrandom.alea(`${seed}/${name}/${round}`));
    // Past its pole a worker costs everybody Infinity, so nobody could tell a way out: those who begin at one worker begin below its pole.
    const crowd = Math.min(game.players, Math.floor(Math.min(...game.latency.map(({ saturationLoad }) => saturationLoad))) - 1);
    const placed = Int32Array.from({ length: game.players }, (_, player) => Math.floor(player / crowd) % game.latency.length);
    const before = process.cpuUsage();
    const found = bestResponse(game, start === 'one by one' ? {} : { start: placed });
    const cpuMs = cpuMsSince(before);
    const gain = largestUnilateralGain(game, found.workerOfPlayer);
    if (!found.converged || gain > 1e-9) throw new BenchError(`best response on '${name}', ${start}, ended where a player gains ${gain} s`);
    if (round < 0) continue; // The first one is for the compiler.
    times.push(cpuMs);
    sweeps = Math.max(sweeps, found.sweeps);
    moves = Math.max(moves, found.moves);
  }
  return { game: name, start, cpuMs: median(times), slowestMs: Math.max(...times), sweeps, moves };
}

type DrawCosts = (size: number, random: Random) => Float64Array;

const costKinds: Readonly<Record<string, DrawCosts>> = {
  uniform: (size, random) => Float64Array.from({ length: size * size }, random),
  'integers to 100': (size, random) => Float64Array.from({ length: size * size }, () => Math.floor(100 * random())),
  'load of the column and a part of the pair': (size, random) => {
    const load = Float64Array.from({ length: size }, random);
    return Float64Array.from({ length: size * size }, (_, cell) => load[cell % size]! + 0.1 * random());
  },
  'row x column (worst case)': (size) =>
    Float64Array.from({ length: size * size }, (_, cell) => (1 + Math.floor(cell / size)) * (1 + (cell % size))),
};

function timeAssignment(name: string, rounds: number, size: number, draw: DrawCosts, seed: string): AssignmentRow {
  const times: number[] = [];
  for (let round = -1; round < rounds; round++) {
    const cost = draw(size, seedrandom.alea(`${seed}/${name}/${round}`));
    const before = process.cpuUsage();
    const found = solveAssignment(cost, size, size);
    const cpuMs = cpuMsSince(before);
    const prices = found === undefined ? Number.NaN : sum(found.rowPrice) + sum(found.columnPrice);
    if (!(Math.abs(prices - (found?.totalCost ?? 0)) <= 1e-6 * Math.abs(prices)))
      throw new BenchError(`assignment on '${name}': its prices do not certify it`);
    if (round >= 0) times.push(cpuMs);
  }
  return { costs: name, cpuMs: median(times), slowestMs: Math.max(...times), worstCase: name.includes('worst case') };
}

function cpuMsSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1e3;
}

const sum = (values: Float64Array): number => values.reduce((total, value) => total + value, 0);
