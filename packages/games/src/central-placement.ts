import type { LegacyHighs } from 'highs';
import { type CachingGame, cachingTotalCost, checkCachingGame, type Placement } from './caching-game.js';
import { GameInputError } from './input-check.js';

/** Central optimum of a caching game. */
export interface CentralPlacement {
  readonly placement: Placement;
  /** Total cost of `placement`, computed from the placement itself and not read from the solver. */
  readonly totalCost: number;
  /** Value of the linear relaxation: a lower bound on every placement's cost. Equal to totalCost when the relaxation is tight. */
  readonly lowerBound: number;
}

/** Solves placements; made once because the solver's WebAssembly module loads asynchronously. */
export interface PlacementSolver {
  /**
   * Cheapest placement for everybody together: the data placement problem (I. Baev, R. Rajaraman, C. Swamy, SIAM J. Computing 38, 2008)
   * as a mixed-integer program: x[j, o] in {0, 1}: j keeps o; y[i, j, o] <= x[j, o]: share of i's requests for o served by j;
   * capacity rows; the rest are misses. Exact to the solver's relative gap 1e-9.
   * @throws GameInputError above `maximumVariables` and when the solver does not end optimal.
   */
  optimum(game: CachingGame): CentralPlacement;
}

export async function createPlacementSolver(maximumVariables = 50_000): Promise<PlacementSolver> {
  // Loaded on demand: shard workers import this package too and never solve placements.
  const module = await import('highs');
  // The package's types describe its CommonJS file; the ES module that is really imported has the loader as its default export.
  const load = module.default as unknown as typeof module.default.default;
  const highs: LegacyHighs = await load();
  return { optimum: (game) => solve(highs, game, maximumVariables) };
}

function solve(highs: LegacyHighs, game: CachingGame, maximumVariables: number): CentralPlacement {
  checkCachingGame(game);
  const program = writeProgram(game);
  if (program.variables > maximumVariables) {
    throw new GameInputError(
      `the placement has ${program.variables} variables, above maximumVariables ${maximumVariables}; use fewer objects`,
    );
  }
  if (program.served.length === 0) {
    // Nobody can keep anything that saves: everything misses, and an empty program has nothing to solve.
    return { placement: new Uint8Array(game.nodes * game.objects), totalCost: program.constant, lowerBound: program.constant };
  }
  const relaxed = run(highs, program.relaxation);
  const exact = run(highs, program.relaxation.replace(/End\n$/, `Binary\n ${program.kept.join('\n ')}\nEnd\n`));
  const placement = new Uint8Array(game.nodes * game.objects);
  for (const name of program.kept) {
    const [node, object] = name.slice(1).split('_').map(Number) as [number, number];
    placement[node * game.objects + object] = exact.value(name) > 0.5 ? 1 : 0;
  }
  return { placement, totalCost: cachingTotalCost(game, placement), lowerBound: relaxed.objective + program.constant };
}

interface Program {
  /** The linear relaxation in CPLEX LP format. */
  readonly relaxation: string;
  readonly kept: readonly string[];
  readonly served: readonly string[];
  readonly variables: number;
  /** Cost if every request missed; the objective counts savings against it, which keeps the miss variables out. */
  readonly constant: number;
}

function writeProgram(game: CachingGame): Program {
  const { nodes, objects } = game;
  const objective: string[] = [];
  const rows: string[] = [];
  const served: string[] = [];
  const kept = new Set<string>();
  let constant = 0;
  for (let node = 0; node < nodes; node++) {
    for (let object = 0; object < objects; object++) {
      const demand = game.demand[node * objects + object]!;
      if (demand === 0) continue;
      constant += demand * game.missCost[node]!;
      const sources: string[] = [];
      for (let other = 0; other < nodes; other++) {
        const saving = demand * (game.missCost[node]! - game.accessCost[node * nodes + other]!);
        if (!(saving > 0) || game.capacity[other] === 0) continue;
        const name = `y${node}_${other}_${object}`;
        objective.push(`- ${saving} ${name}`);
        rows.push(`${name} - x${other}_${object} <= 0`);
        kept.add(`x${other}_${object}`);
        sources.push(name);
      }
      if (sources.length > 0) rows.push(`${sources.join(' + ')} <= 1`);
      served.push(...sources);
    }
  }
  const names = [...kept];
  if (game.placementCost) for (const name of names) objective.push(`+ ${game.placementCost} ${name}`);
  for (let node = 0; node < nodes; node++) {
    const mine = names.filter((name) => name.startsWith(`x${node}_`));
    if (mine.length > game.capacity[node]!) rows.push(`${mine.join(' + ')} <= ${game.capacity[node]}`);
  }
  const bounds = [...names, ...served].map((name) => `0 <= ${name} <= 1`);
  const text = (lines: readonly string[]) => lines.join('\n ');
  const relaxation = `Minimize\n ${text(objective)}\nSubject To\n ${text(rows)}\nBounds\n ${text(bounds)}\nEnd\n`;
  return { relaxation, kept: names, served, variables: names.length + served.length, constant };
}

function run(highs: LegacyHighs, program: string): { objective: number; value(name: string): number } {
  const solution = highs.solve(program, { mip_rel_gap: 1e-9, mip_abs_gap: 1e-9 });
  if (solution.Status !== 'Optimal') {
    throw new GameInputError(`the placement solver ended with status ${solution.Status}; check for costs above 1e15 or shrink the game`);
  }
  const columns = solution.Columns as Record<string, { Primal?: number }>;
  return { objective: solution.ObjectiveValue, value: (name) => columns[name]?.Primal ?? 0 };
}
