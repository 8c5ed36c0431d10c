import { type ClusterPlan, clientAnswers, clusterProgram, loadWorkload, planCluster, readScenario, seriesPeriodNs } from '@braess/cluster';
import { engineRole, type FrontendState, requestEnded, requestRowOf, slotsInFlight, steerFrontend } from '@braess/control';
import { type PairedRatio, pairedRatio } from '@braess/games';
import { modelOf, type RunRecord, Simulation } from '@braess/kernel';
import { readManifest, readSummary } from '@braess/telemetry';

/** Which run is forked, where, and how long better placements are looked for. */
export interface CounterfactualOptions {
  /** Run folder. */
  readonly folder: string;
  /** Moments at which the run is forked, spread evenly over it. */
  readonly moments: number;
  /** Decisions replaced after each. */
  readonly decisions: number;
  /** Forks tried a moment, the one that changes nothing and the warm start included. */
  readonly forks: number;
  readonly signal?: AbortSignal;
  readonly onMoment?: (done: number, of: number) => void;
}

/** One moment: what the run's own decisions came to, and the best that the search found. */
export interface CounterfactualMoment {
  readonly atSeconds: number;
  /** Requests whose latencies count: those in flight at the frontends at the moment, and those of the decisions. */
  readonly requests: number;
  readonly realisedSeconds: number;
  readonly warmStartSeconds: number;
  readonly bestSeconds: number;
  /** Decisions in which the best differs from the run's own. */
  readonly changed: number;
}

/** What the forks found. `estimate` is a ratio of latencies, 1 where nothing better was found. */
export interface CounterfactualPoa {
  readonly moments: readonly CounterfactualMoment[];
  /** Realised over best found, with a 95 % interval; null with fewer than three moments. */
  readonly estimate: PairedRatio | null;
  readonly bias: string;
  readonly forks: number;
  /** The run from the folder again, to its end, had the folder's fingerprint: the forks are of that very run. */
  readonly sameRun: boolean;
}

/**
 * Price of anarchy of a run's decode placements, measured: at each moment the run is forked, the next decisions replaced by others, and the realised
 * total latency compared. No frozen loads, no latency model: what the others suffer or gain counts too.
 * @throws Error when the folder does not say what was run; ScenarioError when the scenario is gone.
 */
export async function counterfactualPoa(options: CounterfactualOptions): Promise<CounterfactualPoa> {
  const manifest = readManifest(options.folder);
  if (manifest.source === undefined || manifest.source === null)
    throw new Error(`run folder ${options.folder} does not say which scenario file it came from; run it again with this version`);
  const read = readScenario(manifest.source.file, manifest.source.settings);
  const plan = planCluster(read);
  const { table } = await loadWorkload(read);
  const parameters = { plan, table, seriesNs: seriesPeriodNs(read.scenario, table), alone: true };
  const run = new Simulation(modelOf(clusterProgram, parameters), { seed: String(read.scenario.seed), keepRecords: true });
  const endSeconds = readSummary(options.folder).simulatedSeconds;
  const moments: CounterfactualMoment[] = [];
  let forks = 0;
  for (let index = 0; index < options.moments && options.signal?.aborted !== true; index++) {
    // Neither the empty start nor the end, where nothing more is decided.
    const atSeconds = endSeconds * (0.1 + (0.7 * (index + 0.5)) / options.moments);
    run.runUntil(Math.round(atSeconds * 1e9));
    run.takeRecords();
    const search = new MomentSearch(run, plan, clientAnswers(plan, table), options.decisions);
    const found = search.run(options.forks, index);
    forks += search.forks;
    if (found !== undefined) moments.push({ atSeconds, ...found });
    options.onMoment?.(index + 1, options.moments);
  }
  run.runUntil(read.scenario.untilSeconds === undefined ? Number.POSITIVE_INFINITY : Math.round(read.scenario.untilSeconds * 1e9));
  const pairs = [moments.map(({ realisedSeconds }) => realisedSeconds), moments.map(({ bestSeconds }) => bestSeconds)] as const;
  return {
    moments,
    estimate: pairedRatio(...pairs) ?? null,
    bias: 'a lower bound: the best is only the best that the search found within its forks, over a few decisions; forks that overlap in time make the interval too narrow',
    forks,
    sameRun: run.fingerprint === manifest.fingerprint,
  };
}

/** How far a fork goes at a time, and at most, simulated ns. */
const strideNs = 250e6;
const horizonNs = 600e9;

interface ForkOutcome {
  readonly totalSeconds: number;
  readonly requests: readonly number[];
  readonly chosen: readonly number[];
}

/** Search over the next placements from one moment of a run. */
class MomentSearch {
  forks = 0;
  readonly #run: Simulation;
  readonly #frontend: string;
  readonly #decisions: number;
  readonly #byClient: boolean;
  /** Requests in flight at the moment. */
  readonly #inFlight: readonly number[];
  /** Those whose latencies count; known after the first fork. */
  #counted: ReadonlySet<number> | undefined;

  constructor(run: Simulation, plan: ClusterPlan, byClient: boolean, decisions: number) {
    this.#run = run;
    this.#decisions = decisions;
    const names = Array.from({ length: plan.scenario.router.frontends }, (_, index) => `control/frontend${index}`);
    const inFlightOf = (name: string): number[] => {
      const { slots } = run.stateOf(name) as FrontendState;
      return slotsInFlight(slots).map((slot) => slots.request[slot] as number);
    };
    // Where the most is under way is where the next decisions are made.
    this.#frontend = names.reduce((best, name) => (inFlightOf(name).length > inFlightOf(best).length ? name : best));
    this.#inFlight = names.flatMap(inFlightOf);
    this.#byClient = byClient;
  }

  /** Undefined when nothing is decided any more. */
  run(budget: number, salt: number): Omit<CounterfactualMoment, 'atSeconds'> | undefined {
    const own = this.#fork(new Array<number>(this.#decisions).fill(-1));
    if (own === undefined || own.chosen.length < this.#decisions) return undefined;
    const warm = this.#fork(this.#warmStart());
    let best = own;
    if (warm !== undefined && warm.totalSeconds < best.totalSeconds) best = warm;
    const candidates = this.#candidates();
    // A deterministic walk over single changes: each decision in turn, the engines in turn.
    for (let step = 0; this.forks < budget && candidates.length > 1; step++) {
      const place = (step + salt) % this.#decisions;
      const others = candidates.filter((engine) => engine !== best.chosen[place]);
      const engines = [...best.chosen];
      engines[place] = others[(Math.floor(step / this.#decisions) + salt) % others.length]!;
      const tried = this.#fork(engines);
      if (tried !== undefined && tried.totalSeconds < best.totalSeconds) best = tried;
    }
    return {
      requests: this.#counted!.size,
      realisedSeconds: own.totalSeconds,
      warmStartSeconds: warm?.totalSeconds ?? Number.NaN,
      bestSeconds: best.totalSeconds,
      changed: best.chosen.filter((engine, place) => engine !== own.chosen[place]).length,
    };
  }

  #candidates(): number[] {
    const { engines } = this.#run.stateOf(this.#frontend) as FrontendState;
    return Array.from({ length: engines.count }, (_, engine) => engine).filter((engine) => engines.role[engine] !== engineRole.prefill);
  }

  /** The optimum from the frozen loads, for equal engines of convex latency: each to the least loaded, those placed before it counted. */
  #warmStart(): number[] {
    const { engines } = this.#run.stateOf(this.#frontend) as FrontendState;
    const candidates = this.#candidates();
    const load = new Map(candidates.map((engine) => [engine, engines.activeRequests[engine]!]));
    return Array.from({ length: this.#decisions }, () => {
      const least = candidates.reduce((best, engine) => (load.get(engine)! < load.get(best)! ? engine : best));
      load.set(least, load.get(least)! + 1);
      return least;
    });
  }

  /** Runs a fork whose next placements go to these engines until all that count have ended. Undefined when they never do. */
  #fork(engines: readonly number[]): ForkOutcome | undefined {
    this.forks++;
    const fork = this.#run.fork({ keepRecords: true });
    const steering = steerFrontend(fork.stateOf(this.#frontend) as FrontendState, engines);
    const latencies = new Map<number, number>();
    for (let untilNs = fork.nowNs + strideNs; untilNs < this.#run.nowNs + horizonNs; untilNs += strideNs) {
      fork.runUntil(untilNs);
      for (const record of fork.takeRecords()) this.#take(record, latencies);
      if (steering.chosen.length < engines.length) continue;
      this.#counted ??= new Set([...this.#inFlight, ...steering.requests]);
      let total = 0;
      let left = this.#counted.size;
      for (const request of this.#counted) {
        const latency = latencies.get(request);
        if (latency === undefined) break;
        total += latency;
        left--;
      }
      if (left === 0) return { totalSeconds: total, requests: [...steering.requests], chosen: [...steering.chosen] };
    }
    return undefined;
  }

  #take(record: RunRecord, latencies: Map<number, number>): void {
    if (this.#byClient) {
      if (record.type !== 'clientRequest') return;
      const [request, , cameNs] = record.fields as [number, number, number];
      latencies.set(request, (record.timeNs - cameNs) / 1e9);
      return;
    }
    if (record.type !== requestEnded.name) return;
    const { requestId, arrivalNs, endNs } = requestRowOf(record);
    latencies.set(requestId, (endNs - arrivalNs) / 1e9);
  }
}
