import { solveAssignment } from './assignment.js';
import { GameInputError, requireInteger, requireLength } from './input-check.js';
import { checkLatency, isPastPole, latencyWithRule, type PastPoleRule, type SaturatingLatency } from './latency-model.js';
import { marginalLatencyCosts, optimumUnderLoad } from './load-optimum.js';

/** Everything in flight at one moment; realised latencies are filled in once the requests have ended. */
export interface PoaSnapshot {
  /** Worker that serves each request, -1 while it waits upstream. */
  readonly workerOfRequest: Int32Array;
  /** End-to-end latency each request turned out to have, in seconds. */
  readonly realisedLatencySeconds: Float64Array;
  /** Load per worker as a (late) report had it, in the unit of the latency model; needed by load notion `reported`. */
  readonly reportedLoad?: Float64Array;
  /** requests x workers, row-major, seconds: costs of a pair apart from load (prefill of what is not cached). Default 0. */
  readonly fixedSeconds?: Float64Array;
}

/** The choices that the published sentence leaves open. Each has a name, and every result depends on them. */
export interface PoaOptions {
  /**
   * `published`: sum of realised latencies (measured seconds) / optimal assignment on the cost matrix (model seconds). Biased upward by
   *   frozen loads and an uncalibrated model; the units differ, so 1 has no meaning and values below 1 occur.
   * `same-units`: cost of the assignment that was made / optimal assignment, both on the cost matrix. At least 1 when what was made is
   *   feasible under the slots. Measures only what another assignment would gain if loads did not react.
   * `load-dependent`: model latency of the placement that was made / optimum of the model when loads follow the placement (min-cost flow).
   *   Always at least 1. No frozen loads; still the model's seconds. Only requests in service are placed.
   */
  readonly definition: 'published' | 'same-units' | 'load-dependent';
  /** Rows of the matrix: all in flight, or only those a worker serves. */
  readonly rows: 'in-flight' | 'in-service';
  /**
   * Requests one worker may be assigned. With 1, only as many rows as workers are matched: the numerator sums over C requests, the
   * denominator over m pairs, and the ratio grows with C whatever the router does. `unlimited` lets each request take its cheapest worker.
   */
  readonly slotsPerWorker: number | 'unlimited';
  /** Load fed into the model: requests in service, the same without the row's own request, or `reportedLoad`. */
  readonly loadNotion: 'in-service' | 'excluding-self' | 'reported';
  /** Sums, or means over rows and over pairs (removes the C / m artefact of unmatched rows). */
  readonly aggregate: 'sum' | 'mean';
  /** A worker at or past its pole: see PastPoleRule; `exclude` takes its column out of the matrix. */
  readonly pastPole: PastPoleRule;
  /** Below this many rows the value is undefined: the denominator is tiny. The paper excludes 1..4. */
  readonly minimumInFlight: number;
}

/**
 * The choices under which the formula gives the published shape: a plateau that does not depend on load, growth like C^2 past the knee.
 * The paper does not print them; they are inferred from its figures.
 */
export const PUBLISHED_POA_OPTIONS: PoaOptions = {
  definition: 'published',
  rows: 'in-flight',
  slotsPerWorker: 1,
  loadNotion: 'in-service',
  aggregate: 'sum',
  pastPole: 'clamp',
  minimumInFlight: 5,
};

export interface DefinedPoa {
  readonly status: 'defined';
  readonly value: number;
  /** Seconds: sums or means, as `aggregate` says. */
  readonly numeratorSeconds: number;
  readonly denominatorSeconds: number;
  readonly rows: number;
  /** Rows that the optimal assignment matched. */
  readonly pairs: number;
  readonly workersPastPole: number;
  /** Whether the assignment that was made fits the slots; only then does `same-units` promise at least 1. */
  readonly feasible: boolean;
}

export interface UndefinedPoa {
  readonly status: 'undefined';
  readonly reason: 'too-few-in-flight' | 'no-workers' | 'past-pole' | 'zero-denominator' | 'latency-unknown';
  readonly rows: number;
  readonly workersPastPole: number;
}

export type PoaHat = DefinedPoa | UndefinedPoa;

/**
 * PoA-hat of one snapshot: (sum of realised latencies) / (value of the optimal assignment with each worker's frozen load in the latency
 * model). Source: arXiv 2606.17081. A regime indicator, not the price of anarchy of a game: its growth past the knee is queueing.
 * @param latency one model per worker; `unlimited` slots and k slots cost l_j(frozen load) each.
 */
export function poaHat(snapshot: PoaSnapshot, latency: readonly SaturatingLatency[], options: PoaOptions = PUBLISHED_POA_OPTIONS): PoaHat {
  checkSnapshot(snapshot, latency, options);
  const rows = selectRows(snapshot, options);
  const load = loadOf(snapshot, latency.length, options);
  const workersPastPole = latency.filter((model, worker) => isPastPole(model, load[worker]!)).length;
  const undefinedBecause = (reason: UndefinedPoa['reason']): UndefinedPoa => ({
    status: 'undefined',
    reason,
    rows: rows.length,
    workersPastPole,
  });
  if (rows.length < options.minimumInFlight) return undefinedBecause('too-few-in-flight');
  const parts =
    options.definition === 'load-dependent' ? loadDependentParts(snapshot, latency, rows) : matrixParts(snapshot, latency, options, rows);
  if (parts === undefined || !(parts.denominator < Number.POSITIVE_INFINITY)) return undefinedBecause('past-pole');
  if (!(parts.denominator > 0)) return undefinedBecause('zero-denominator');
  if (Number.isNaN(parts.numerator)) return undefinedBecause('latency-unknown');
  const mean = options.aggregate === 'mean';
  const numeratorSeconds = mean ? parts.numerator / parts.numeratorRows : parts.numerator;
  const denominatorSeconds = mean ? parts.denominator / parts.pairs : parts.denominator;
  return {
    status: 'defined',
    value: numeratorSeconds / denominatorSeconds,
    numeratorSeconds,
    denominatorSeconds,
    rows: rows.length,
    pairs: parts.pairs,
    workersPastPole,
    feasible: parts.feasible,
  };
}

interface Parts {
  readonly numerator: number;
  readonly numeratorRows: number;
  readonly denominator: number;
  readonly pairs: number;
  readonly feasible: boolean;
}

function matrixParts(
  snapshot: PoaSnapshot,
  latency: readonly SaturatingLatency[],
  options: PoaOptions,
  rows: readonly number[],
): Parts | undefined {
  const load = loadOf(snapshot, latency.length, options);
  const open = latency
    .map((_, worker) => worker)
    .filter((worker) => options.pastPole !== 'exclude' || !isPastPole(latency[worker]!, load[worker]!));
  if (open.length === 0) return undefined;
  const cost = (request: number, worker: number) => pairCost(snapshot, latency, options, load, request, worker);
  const slots = options.slotsPerWorker === 'unlimited' ? rows.length : Math.min(options.slotsPerWorker, rows.length);
  const alike = snapshot.fixedSeconds === undefined && options.loadNotion !== 'excluding-self';
  const best =
    (alike ? cheapestSlots(rows, open, slots, cost) : undefined) ??
    (options.slotsPerWorker === 'unlimited' ? cheapestEach(rows, open, cost) : bestMatching(rows, open, slots, cost));
  if (best === undefined) return undefined;
  const feasible = fitsSlots(snapshot, latency.length, rows, slots);
  if (options.definition === 'published') {
    let numerator = 0;
    for (const request of rows) numerator += snapshot.realisedLatencySeconds[request]!;
    return { numerator, numeratorRows: rows.length, denominator: best.total, pairs: best.pairs, feasible };
  }
  let numerator = 0;
  let numeratorRows = 0;
  for (const request of rows) {
    const worker = snapshot.workerOfRequest[request]!;
    if (worker < 0) continue;
    numerator += cost(request, worker);
    numeratorRows++;
  }
  return { numerator, numeratorRows, denominator: best.total, pairs: best.pairs, feasible: feasible && numeratorRows === rows.length };
}

function pairCost(
  snapshot: PoaSnapshot,
  latency: readonly SaturatingLatency[],
  options: PoaOptions,
  load: Float64Array,
  request: number,
  worker: number,
): number {
  const own = options.loadNotion === 'excluding-self' && snapshot.workerOfRequest[request] === worker ? 1 : 0;
  const fixed = snapshot.fixedSeconds === undefined ? 0 : snapshot.fixedSeconds[request * latency.length + worker]!;
  return latencyWithRule(latency[worker]!, load[worker]! - own, options.pastPole) + fixed;
}

type PairCost = (request: number, worker: number) => number;

function cheapestEach(rows: readonly number[], open: readonly number[], cost: PairCost): { total: number; pairs: number } {
  let total = 0;
  for (const request of rows) {
    let cheapest = Number.POSITIVE_INFINITY;
    for (const worker of open) cheapest = Math.min(cheapest, cost(request, worker));
    total += cheapest;
  }
  return { total, pairs: rows.length };
}

/** Where every row costs a worker the same, the optimal assignment is the cheapest slots there are; undefined where one has no finite cost. */
function cheapestSlots(
  rows: readonly number[],
  open: readonly number[],
  slots: number,
  cost: PairCost,
): { total: number; pairs: number } | undefined {
  if (rows.length === 0) return undefined;
  const costs = Float64Array.from(open, (worker) => cost(rows[0]!, worker)).sort();
  if (!(costs.at(-1)! < Number.POSITIVE_INFINITY)) return undefined;
  let left = rows.length;
  let total = 0;
  for (let place = 0; place < costs.length && left > 0; place++) {
    const taken = Math.min(slots, left);
    total += taken * costs[place]!;
    left -= taken;
  }
  return { total, pairs: rows.length - left };
}

function bestMatching(
  rows: readonly number[],
  open: readonly number[],
  slots: number,
  cost: PairCost,
): { total: number; pairs: number } | undefined {
  const columns = open.length * slots;
  const matrix = new Float64Array(rows.length * columns);
  rows.forEach((request, row) => {
    open.forEach((worker, index) => {
      const start = row * columns + index * slots;
      matrix.fill(cost(request, worker), start, start + slots);
    });
  });
  const solved = solveAssignment(matrix, rows.length, columns);
  return solved && { total: solved.totalCost, pairs: solved.pairs };
}

/** Placement made against the optimum, loads following the placement in both. Waiting requests are on no worker and left out. */
function loadDependentParts(snapshot: PoaSnapshot, latency: readonly SaturatingLatency[], rows: readonly number[]): Parts | undefined {
  const workers = latency.length;
  const served = rows.filter((request) => snapshot.workerOfRequest[request]! >= 0);
  const count = new Float64Array(workers);
  for (const request of served) count[snapshot.workerOfRequest[request]!] = count[snapshot.workerOfRequest[request]!]! + 1;
  const fixed = new Float64Array(served.length * workers);
  let numerator = 0;
  served.forEach((request, row) => {
    const worker = snapshot.workerOfRequest[request]!;
    if (snapshot.fixedSeconds) {
      fixed.set(snapshot.fixedSeconds.subarray(request * workers, (request + 1) * workers), row * workers);
    }
    numerator += latencyWithRule(latency[worker]!, count[worker]!, 'infinite') + fixed[row * workers + worker]!;
  });
  const best = optimumUnderLoad(served.length, workers, marginalLatencyCosts(latency, served.length), fixed);
  // A placement past the pole costs Infinity: the ratio is then not a number to report.
  if (best === undefined || numerator === Number.POSITIVE_INFINITY) return undefined;
  return { numerator, numeratorRows: served.length, denominator: best.totalCost, pairs: served.length, feasible: true };
}

function selectRows(snapshot: PoaSnapshot, options: PoaOptions): number[] {
  const rows: number[] = [];
  for (let request = 0; request < snapshot.workerOfRequest.length; request++) {
    if (options.rows === 'in-flight' || snapshot.workerOfRequest[request]! >= 0) rows.push(request);
  }
  return rows;
}

function loadOf(snapshot: PoaSnapshot, workers: number, options: PoaOptions): Float64Array {
  if (options.loadNotion === 'reported') return snapshot.reportedLoad!;
  const load = new Float64Array(workers);
  for (const worker of snapshot.workerOfRequest) if (worker >= 0) load[worker] = load[worker]! + 1;
  return load;
}

function fitsSlots(snapshot: PoaSnapshot, workers: number, rows: readonly number[], slots: number): boolean {
  const used = new Int32Array(workers);
  for (const request of rows) {
    const worker = snapshot.workerOfRequest[request]!;
    if (worker >= 0 && (used[worker] = used[worker]! + 1) > slots) return false;
  }
  return true;
}

function checkSnapshot(snapshot: PoaSnapshot, latency: readonly SaturatingLatency[], options: PoaOptions): void {
  const requests = snapshot.workerOfRequest.length;
  requireInteger('workers (latency entries)', latency.length, 1);
  for (const model of latency) checkLatency(model);
  requireLength('realisedLatencySeconds', snapshot.realisedLatencySeconds.length, requests, `${requests} requests`);
  for (const worker of snapshot.workerOfRequest) requireInteger('workerOfRequest', worker, -1, latency.length - 1);
  if (snapshot.fixedSeconds)
    requireLength('fixedSeconds', snapshot.fixedSeconds.length, requests * latency.length, `${requests} x ${latency.length} pairs`);
  if (options.slotsPerWorker !== 'unlimited') requireInteger('slotsPerWorker', options.slotsPerWorker, 1);
  requireInteger('minimumInFlight', options.minimumInFlight, 1);
  if (options.loadNotion !== 'reported') return;
  if (!snapshot.reportedLoad)
    throw new GameInputError('reportedLoad is missing but loadNotion is `reported`; pass it or choose `in-service`');
  requireLength('reportedLoad', snapshot.reportedLoad.length, latency.length, `${latency.length} workers`);
}
