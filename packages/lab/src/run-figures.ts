import { meanInterval } from '@braess/games';
import type { Distribution } from '@braess/telemetry';
import type { ScenarioSummary } from './run-scenario.js';

/** Mean of a figure over the runs that have it. */
export interface FigureMean {
  readonly mean: number;
  /** Half the width of the 95 % interval of the mean (Student's t over the runs); null with fewer than two runs. */
  readonly halfWidth: number | null;
  /** Runs that have the figure. */
  readonly runs: number;
}

const plainFigures = ['requestsPerSecond', 'outputTokensPerSecond', 'goodput', 'sloAttainment', 'lost'] as const;
const latencyFigures = ['ttftMs', 'itlMs', 'tpotMs', 'e2eMs', 'transferMs', 'tierFetchMs'] as const;

/** The main figures of a run, or of several, by the names that they have in a summary. Null: there is none. */
export type Figures<Value> = { readonly [Name in (typeof plainFigures)[number]]: Value | null } & {
  readonly [Name in (typeof latencyFigures)[number]]: { readonly [Part in keyof Distribution]: Value } | null;
} & { readonly hitRates: { readonly [Tier in keyof ScenarioSummary['hitRates']]: Value | null } };

/** Means of what the summaries of runs say: `ttftMs.p99` is the mean of the runs' P99s, not the P99 of all their requests. */
export type RunFigures = Figures<FigureMean>;

/** Means over runs of the same scenario with different seeds. */
export function figuresOf(summaries: readonly ScenarioSummary[]): RunFigures {
  const plain = plainFigures.map((name) => [name, meanOf(summaries.map((summary) => summary[name]))]);
  const latencies = latencyFigures.map((name) => {
    const found = summaries.flatMap((summary) => summary[name] ?? []);
    return [name, found.length === 0 ? null : partsOf(found, ['mean', 'p50', 'p90', 'p99'])];
  });
  const hitRates = partsOf(
    summaries.map((summary) => summary.hitRates),
    ['g1', 'g2', 'g3', 'g4', 'total'],
  );
  return { ...Object.fromEntries([...plain, ...latencies]), hitRates } as RunFigures;
}

function partsOf<Name extends string>(
  values: readonly Readonly<Record<Name, number>>[],
  names: readonly Name[],
): Record<Name, FigureMean | null> {
  return Object.fromEntries(names.map((name) => [name, meanOf(values.map((each) => each[name]))])) as Record<Name, FigureMean | null>;
}

function meanOf(values: readonly (number | null)[]): FigureMean | null {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  const { mean, halfWidth } = meanInterval(known);
  return { mean, halfWidth, runs: known.length };
}
