import { readScenario } from '@braess/cluster';
import { MeasurePool } from '../../measure-pool.js';
import type { Measurement } from '../../measure-scenario.js';
import { table2, table6 } from './published.js';
import { netkvCase, requests, sloShare, tbtMs, tierPercent, transferMs, ttftMs } from './setup.js';

/** What the fit may choose. Everything else of the configuration stays as it stands there. */
export interface NetkvParameters {
  /** Mean of the RAG prompts before they are capped, tokens. */
  readonly meanTokens: number;
  /** Common prompts that 70 % of the requests begin with. */
  readonly prefixGroups: number;
  /** Constant part of a prefill and of a decode pass, ms. */
  readonly prefillMs: number;
  readonly decodeMs: number;
  /** Limit on TTFT that the SLO shares were counted with, ms. */
  readonly sloTtftMs: number;
}

/** A published number the fit looks at, and what the configuration found makes of it. */
export interface FitTarget {
  readonly id: string;
  readonly published: number;
  readonly emulated: number;
}

/** The free parameters as found again, beside those that the scenarios hold. */
export interface NetkvFit {
  readonly found: NetkvParameters;
  /** What the scenario file holds. */
  readonly frozen: NetkvParameters;
  readonly targets: readonly FitTarget[];
  /** Parameter sets that were run, each under round robin and CLA* with every seed. */
  readonly tries: number;
  readonly runs: number;
}

/** What makes a fit thinner, and who is told of its tries. */
export interface FitOptions {
  readonly parallel?: number;
  readonly seeds?: readonly number[];
  /** Requests a run. */
  readonly requests?: number;
  /** Numbers of common prompts to try. */
  readonly prefixGroups?: readonly number[];
  readonly onTry?: (tries: number, parameters: NetkvParameters) => void;
}

/** Where the search starts: the lengths and times of an independent model of the paper. */
const start: NetkvParameters = { meanTokens: 7800, prefixGroups: 10, prefillMs: 200, decodeMs: 12.27, sloTtftMs: 4400 };

/** Halvings of the interval in which the SLO's limit is looked for. */
const sloHalvings = 5;

const [published] = table2 as [(typeof table2)[number]];

/**
 * Rebuilds the fitted parameters of configs/paper/netkv/rag.yaml from the published numbers of round robin and CLA* at 100 % load, and nothing else: for each
 * number of common prompts the mean length that gives round robin's transfer (it is proportional to it, so one correction does), of these the one with the
 * least squared relative error of both transfers and of CLA*'s tier shares; then the constant times, which only add, and the SLO's limit by halving.
 */
export async function fitNetkv(options: FitOptions = {}): Promise<NetkvFit> {
  const pool = new MeasurePool(options.parallel);
  const search = new Search(pool, options);
  try {
    let best: { parameters: NetkvParameters; loss: number } | undefined;
    for (const prefixGroups of options.prefixGroups ?? [40, 60, 80, 100, 140]) {
      const first = { ...start, prefixGroups };
      const { rr } = await search.run(first);
      const parameters = { ...first, meanTokens: round((first.meanTokens * published.rr[3]) / mean(rr, transferMs), 10) };
      const runs = await search.run(parameters);
      const loss = lossOf(runs);
      if (best === undefined || loss < best.loss) best = { parameters, loss };
    }
    const found = await search.addConstants((best as NonNullable<typeof best>).parameters);
    const final = await search.findLimit(found);
    return { ...final, frozen: frozenParameters(), tries: search.tries, runs: search.runs };
  } finally {
    await pool.close();
  }
}

/** The parameters as the scenario file has them. */
export function frozenParameters(): NetkvParameters {
  const { scenario } = readScenario(netkvCase({ scheduler: 'cla' }).file);
  const { source, slo } = scenario.workload;
  const timing = scenario.serving[0]?.timing;
  if (source.kind !== 'independent' || source.inputTokens.kind !== 'lognormal' || timing?.kind !== 'linear')
    throw new Error('configs/paper/netkv/rag.yaml has another workload or timing than the fit knows; change both together');
  return {
    meanTokens: source.inputTokens.meanTokens,
    prefixGroups: source.prefix?.groups ?? 0,
    prefillMs: timing.prefillMs,
    decodeMs: timing.decodeMs,
    sloTtftMs: slo?.ttftMs ?? Number.NaN,
  };
}

interface Runs {
  readonly rr: readonly Measurement[];
  readonly cla: readonly Measurement[];
}

class Search {
  tries = 0;
  runs = 0;
  readonly #pool: MeasurePool;
  readonly #options: FitOptions;

  constructor(pool: MeasurePool, options: FitOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  async run(parameters: NetkvParameters): Promise<Runs> {
    this.tries++;
    this.#options.onTry?.(this.tries, parameters);
    const seeds = this.#options.seeds ?? [1, 2, 3, 4, 5];
    const of = (scheduler: 'rr' | 'cla'): Promise<Measurement[]> => {
      const { file, settings } = netkvCase({
        scheduler,
        settings: [requests(this.#options.requests ?? 8000), ...settingsOf(parameters)],
      });
      return Promise.all(seeds.map((seed) => this.#pool.measure({ file, settings: [...settings, `seed=${seed}`] })));
    };
    this.runs += 2 * seeds.length;
    const [rr, cla] = await Promise.all([of('rr'), of('cla')]);
    return { rr, cla };
  }

  /** TTFT without the transfer, and the time between tokens, only shift with the constants. */
  async addConstants(parameters: NetkvParameters): Promise<NetkvParameters> {
    const { rr, cla } = await this.run(parameters);
    const rest = (runs: readonly Measurement[]): number => mean(runs, ttftMs) - mean(runs, transferMs);
    const decodeStep = (published.rr[1] + published.cla[1] - mean(rr, tbtMs) - mean(cla, tbtMs)) / 2;
    const restPublished = (published.rr[0] - published.rr[3] + published.cla[0] - published.cla[3]) / 2;
    const prefillStep = restPublished - (rest(rr) + rest(cla)) / 2 - decodeStep;
    return {
      ...parameters,
      prefillMs: round(parameters.prefillMs + prefillStep, 1),
      decodeMs: round(parameters.decodeMs + decodeStep, 0.01),
    };
  }

  async findLimit(parameters: NetkvParameters): Promise<{ found: NetkvParameters; targets: FitTarget[] }> {
    let low = 3000;
    let high = 6000;
    for (let halving = 0; halving < sloHalvings; halving++) {
      const sloTtftMs = (low + high) / 2;
      const { rr, cla } = await this.run({ ...parameters, sloTtftMs });
      if (mean(rr, sloShare) + mean(cla, sloShare) < published.rr[2] + published.cla[2]) low = sloTtftMs;
      else high = sloTtftMs;
    }
    const found = { ...parameters, sloTtftMs: round((low + high) / 2, 50) };
    return { found, targets: targetsOf(await this.run(found)) };
  }
}

function settingsOf({ meanTokens, prefixGroups, prefillMs, decodeMs, sloTtftMs }: NetkvParameters): string[] {
  return [
    `workload.source.inputTokens.meanTokens=${meanTokens}`,
    `workload.source.prefix.groups=${prefixGroups}`,
    ...[0, 1].flatMap((group) => [`serving[${group}].timing.prefillMs=${prefillMs}`, `serving[${group}].timing.decodeMs=${decodeMs}`]),
    `workload.slo.ttftMs=${sloTtftMs}`,
  ];
}

function lossOf({ rr, cla }: Runs): number {
  const errors = [
    mean(rr, transferMs) / published.rr[3] - 1,
    mean(cla, transferMs) / published.cla[3] - 1,
    (mean(cla, (run) => tierPercent(run, 2)) - table6.cla[2]) / 100,
  ];
  return errors.reduce((sum, error) => sum + error * error, 0);
}

function targetsOf(runs: Runs): FitTarget[] {
  const rows = (['rr', 'cla'] as const).flatMap((name) =>
    (
      [
        ['ttft', published[name][0], ttftMs],
        ['tbt', published[name][1], tbtMs],
        ['slo', published[name][2], sloShare],
        ['transfer', published[name][3], transferMs],
      ] as const
    ).map(([what, value, of]) => ({ id: `table2.rag.100.${name}.${what}`, published: value, emulated: mean(runs[name], of) })),
  );
  const shares = [2, 3].map((tier) => ({
    id: `table6.cla.tier${tier}`,
    published: table6.cla[tier] as number,
    emulated: mean(runs.cla, (run) => tierPercent(run, tier)),
  }));
  return [...rows, ...shares];
}

function mean(runs: readonly Measurement[], of: (run: Measurement) => number): number {
  return runs.reduce((sum, run) => sum + of(run), 0) / runs.length;
}

function round(value: number, step: number): number {
  return Number((Math.round(value / step) * step).toPrecision(12));
}
