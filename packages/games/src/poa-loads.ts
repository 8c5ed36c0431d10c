import { isPastPole, latencyWithRule, type SaturatingLatency } from './latency-model.js';
import { type PoaHat, type PoaOptions, poaHat } from './poa-hat.js';

/**
 * PoA-hat of a moment of which only counts are known, as one who watches it live has them: requests at each of so many equal workers, and in flight at all.
 * No latency is known yet: all count 0 until `withRealised`. The same as `poaHat` of the requests one by one; where every request costs a worker the same, the
 * optimal assignment follows from the loads alone, and takes time by the workers only.
 */
export function poaHatOfLoads(loads: Int32Array, inFlight: number, latency: SaturatingLatency, options: PoaOptions): PoaHat {
  const inService = loads.reduce((sum, load) => sum + load, 0);
  if (loads.length === 0) return { status: 'undefined', reason: 'no-workers', rows: inFlight, workersPastPole: 0 };
  const countsDo = options.definition === 'published' && options.loadNotion === 'in-service' && inService <= inFlight;
  return countsDo
    ? byCounts(loads, options.rows === 'in-flight' ? inFlight : inService, latency, options)
    : oneByOne(loads, inFlight, latency, options);
}

/** A snapshot of `poaHatOfLoads` once the mean latency of everything in flight is known, seconds (NaN: unknown). Only the published definition goes by it. */
export function withRealised(hat: PoaHat, meanSeconds: number, { definition, aggregate }: PoaOptions): PoaHat {
  if (hat.status === 'undefined' || definition !== 'published') return hat;
  if (Number.isNaN(meanSeconds))
    return { status: 'undefined', reason: 'latency-unknown', rows: hat.rows, workersPastPole: hat.workersPastPole };
  const numeratorSeconds = aggregate === 'mean' ? meanSeconds : meanSeconds * hat.rows;
  return { ...hat, numeratorSeconds, value: numeratorSeconds / hat.denominatorSeconds };
}

function byCounts(loads: Int32Array, rows: number, latency: SaturatingLatency, options: PoaOptions): PoaHat {
  const { pastPole, slotsPerWorker, minimumInFlight, aggregate } = options;
  const slots = slotsPerWorker === 'unlimited' ? rows : Math.min(slotsPerWorker, rows);
  const costs = new Float64Array(loads.length);
  let open = 0;
  let workersPastPole = 0;
  let feasible = true;
  for (const load of loads) {
    const past = isPastPole(latency, load);
    if (past) workersPastPole++;
    if (load > slots) feasible = false;
    if (!past || pastPole !== 'exclude') costs[open++] = latencyWithRule(latency, load, pastPole);
  }
  const undefinedBecause = (reason: 'too-few-in-flight' | 'past-pole' | 'zero-denominator'): PoaHat => ({
    status: 'undefined',
    reason,
    rows,
    workersPastPole,
  });
  if (rows < minimumInFlight) return undefinedBecause('too-few-in-flight');
  const sorted = costs.subarray(0, open).sort();
  let left = rows;
  let total = 0;
  for (let place = 0; place < open && left > 0; place++) {
    const taken = Math.min(slots, left);
    total += taken * sorted[place]!;
    left -= taken;
  }
  if (open === 0 || !(total < Number.POSITIVE_INFINITY)) return undefinedBecause('past-pole');
  if (!(total > 0)) return undefinedBecause('zero-denominator');
  const pairs = rows - left;
  const denominatorSeconds = aggregate === 'mean' ? total / pairs : total;
  return { status: 'defined', value: 0, numeratorSeconds: 0, denominatorSeconds, rows, pairs, workersPastPole, feasible };
}

function oneByOne(loads: Int32Array, inFlight: number, latency: SaturatingLatency, options: PoaOptions): PoaHat {
  const workerOfRequest = new Int32Array(inFlight).fill(-1);
  let row = 0;
  for (let worker = 0; worker < loads.length; worker++) {
    const end = Math.min(inFlight, row + loads[worker]!);
    workerOfRequest.fill(worker, row, end);
    row = end;
  }
  const models = new Array<SaturatingLatency>(loads.length).fill(latency);
  return poaHat({ workerOfRequest, realisedLatencySeconds: new Float64Array(inFlight) }, models, options);
}
