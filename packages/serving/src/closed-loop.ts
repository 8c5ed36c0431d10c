import { engineRole } from '@braess/protocol';
import { type BlockAccounting, blocksRefused, type CountingPool, countingBlocks, createCountingPool } from './blocks.js';
import { advance, nextEventNs, submit } from './engine.js';
import { createEngine, type EngineRules } from './engine-state.js';
import { clearEvents, createEvents, engineEvent } from './events.js';
import type { TimingModel } from './timing.js';

/** Chat clients that send the next request the moment the last answer ends. */
export interface ClosedLoopLoad {
  clients: number;
  requests: number;
  inputMeanTokens: number;
  inputMedianTokens: number;
  outputMeanTokens: number;
  outputMedianTokens: number;
  /** Share of the input tokens that the prefix cache holds. */
  hitShare: number;
  /** Time between the client and the engine. */
  requestNs: number;
}

export interface ClosedLoopResult {
  ttftMedianMs: number;
  tpotMedianMs: number;
  requestsPerSecond: number;
}

/** Pool of an engine whose prefix cache holds a fixed share of each prompt. */
interface SharePool extends CountingPool {
  hitShare: number;
}

const shareCached: BlockAccounting<SharePool> = {
  ...countingBlocks,
  admit: (pool, requestId, tokens) =>
    countingBlocks.admit(pool, requestId, tokens) === blocksRefused ? blocksRefused : Math.floor(tokens * pool.hitShare),
};

/** Runs the load on one engine; lengths are lognormal with the given means and medians, drawn from `random` (uniform in [0, 1)). */
export function emulateClosedLoop(timing: TimingModel, rules: EngineRules, load: ClosedLoopLoad, random: () => number): ClosedLoopResult {
  const pool: SharePool = { ...createCountingPool(rules.capacityBlocks, rules.blockTokens), hitShare: load.hitShare };
  const engine = createEngine({ role: engineRole.aggregated, rules, timing, pool });
  const events = createEvents();
  const sentNs = new Float64Array(load.requests);
  const firstNs = new Float64Array(load.requests);
  const outputs = new Int32Array(load.requests);
  const ttftMs: number[] = [];
  const tpotMs: number[] = [];
  // The way to the engine takes all requests equally long, so they arrive in the order they were sent.
  const prompts = new Int32Array(load.requests);
  let sent = 0;
  let arrived = 0;
  const send = (nowNs: number): void => {
    if (sent === load.requests) return;
    const id = sent++;
    prompts[id] = lognormalTokens(load.inputMeanTokens, load.inputMedianTokens, rules.maxModelTokens / 2, random());
    outputs[id] = lognormalTokens(load.outputMeanTokens, load.outputMedianTokens, rules.maxModelTokens / 2 - 1, random());
    sentNs[id] = nowNs;
  };
  for (let client = 0; client < load.clients; client++) send(0);
  let nowNs = 0;
  for (let finished = 0; finished < load.requests; ) {
    const arrivalNs = arrived < sent ? sentNs[arrived]! + Math.round(load.requestNs) : Number.POSITIVE_INFINITY;
    nowNs = Math.min(arrivalNs, nextEventNs(engine));
    advance(engine, shareCached, nowNs, events);
    if (arrivalNs === nowNs) {
      const id = arrived++;
      const slot = submit(engine, shareCached, { id, promptTokens: prompts[id]!, outputTokens: outputs[id]!, transferred: false }, nowNs);
      if (slot < 0) throw new Error(`closed loop: request ${id} of ${prompts[id]} tokens refused with code ${slot}`);
    }
    for (let i = 0; i < events.count; i++) {
      const id = events.request[i]!;
      if (events.kind[i] === engineEvent.firstToken) {
        firstNs[id] = events.timeNs[i]!;
        ttftMs.push((firstNs[id] - sentNs[id]!) / 1e6);
      } else if (events.kind[i] === engineEvent.finished) {
        finished++;
        if (outputs[id]! > 1) tpotMs.push((events.timeNs[i]! - firstNs[id]!) / (outputs[id]! - 1) / 1e6);
        send(events.timeNs[i]!);
      }
    }
    clearEvents(events);
  }
  return { ttftMedianMs: medianOf(ttftMs), tpotMedianMs: medianOf(tpotMs), requestsPerSecond: load.requests / (nowNs / 1e9) };
}

/** Inverse CDF of the lognormal distribution with that mean and median (sigma^2 = 2 ln(mean / median)), rounded, within 1..maximum. */
function lognormalTokens(mean: number, median: number, maximum: number, uniform: number): number {
  const sigma = Math.sqrt(2 * Math.log(mean / median));
  return Math.max(1, Math.min(Math.floor(maximum), Math.round(median * Math.exp(sigma * inverseNormal(uniform)))));
}

/** Quantile of the standard normal distribution, by bisection on its CDF (complementary error function of Abramowitz and Stegun 7.1.26, error below 1.5e-7). */
function inverseNormal(uniform: number): number {
  let low = -6;
  let high = 6;
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2;
    if (normalCdf(middle) < uniform) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

function normalCdf(x: number): number {
  const z = Math.abs(x) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * z);
  const tail = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429)))) * Math.exp(-z * z);
  return x >= 0 ? 1 - tail / 2 : tail / 2;
}

export function medianOf(values: readonly number[]): number {
  const sorted = Float64Array.from(values).sort();
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
