import { type ArrivalSpec, type ArrivalState, checkArrivals, createArrivalState, nextArrivalNs } from './arrivals.js';
import type { WorkloadStreams } from './generate.js';
import { interpolate, lengthQuantile } from './lengths.js';
import { MOONCAKE_INPUT, MOONCAKE_OUTPUT, PARENT_AGE_S, SHARED_SHARE } from './mooncake-statistics.js';
import type { RequestRow } from './requests.js';

/**
 * A workload like Mooncake's conversation trace: its lengths, and conversations that come back with a longer prompt. Every prompt begins
 * with block 0, the system prompt; a continuing one shares the blocks of one earlier prompt, and each prompt is continued at most once,
 * as in the trace.
 */
export interface MooncakeLikeSpec {
  kind: 'mooncake-like';
  /** Default: the trace's 3.40 requests/s, in waves as it has them. Ages of conversations stay in seconds whatever the rate. */
  arrivals?: ArrivalSpec;
}

/** A prompt that may still be continued. */
interface OpenPrompt {
  arrivalNs: number;
  /** Its whole blocks; a partial last block is never shared. */
  hashes: number[];
}

/** Plain data. */
export interface MooncakeLikeState {
  kind: 'mooncake-like';
  spec: MooncakeLikeSpec;
  blockTokens: number;
  arrivals: ArrivalState;
  nextHash: number;
  /** In order of arrival. */
  open: OpenPrompt[];
}

/**
 * 12,031 requests in 3,537 s, in waves: a fit. In windows of t seconds the counts of this process have the dispersion
 * 1 + A (1 - (1 - exp(-t / T)) T / t), where T is half the mean of a phase and A two T times the variance of the rate over its mean (Heffes and
 * Lucantoni 1986). T = 31 s and A = 3.6 are nearest, in the logarithm, to what the trace has in windows of 3, 6, 15, 30, 60 and 120 s: 1.17, 1.33, 1.77,
 * 2.31, 2.90, 3.76. Over longer ones the trace has more, as its rate rises from 2.8 to 3.7 requests/s in its hour; without that rise it has 1.55 at 60 s.
 */
const TRACE_ARRIVALS: ArrivalSpec = { kind: 'on-off', onRatePerSecond: 3.846, offRatePerSecond: 2.957, meanOnS: 62, meanOffS: 62 };
/** Prompts kept for continuation; the oldest is dropped. Enough for all of the trace's ages at its rate (6,000), bounded at any other. */
const MAX_OPEN_PROMPTS = 32_768;
/** Prompts looked at on each side of the wanted age. */
const SEARCH_PROMPTS = 192;
/** How much a mismatch in age counts against one in length; chosen so that the LRU curve and the infinite share both fit. */
const AGE_WEIGHT = 1;

export function createMooncakeLike(spec: MooncakeLikeSpec, blockTokens: number): MooncakeLikeState {
  if (spec.arrivals !== undefined) checkArrivals(spec.arrivals, 'mooncake-like.arrivals');
  return { kind: 'mooncake-like', spec, blockTokens, arrivals: createArrivalState(), nextHash: 1, open: [] };
}

/** The next request, written to `row`: one draw for each of arrival, input, output, and three for continuation. */
export function nextMooncakeLike(state: MooncakeLikeState, streams: WorkloadStreams, row: RequestRow): void {
  const blockTokens = state.blockTokens;
  row.arrivalNs = nextArrivalNs(state.spec.arrivals ?? TRACE_ARRIVALS, state.arrivals, streams.arrivals, streams.phases);
  row.inputTokens = lengthQuantile(MOONCAKE_INPUT, streams.inputs());
  row.outputTokens = lengthQuantile(MOONCAKE_OUTPUT, streams.outputs());
  row.tenant = 0;
  row.session = -1;
  const blocks = Math.ceil(row.inputTokens / blockTokens);
  const hashes = sharedBlocks(state, row.arrivalNs, blocks, streams);
  while (hashes.length < blocks) hashes.push(state.nextHash++);
  row.hashes = hashes;
  const whole = Math.floor(row.inputTokens / blockTokens);
  state.open.push({ arrivalNs: row.arrivalNs, hashes: hashes.slice(0, whole) });
  if (state.open.length > MAX_OPEN_PROMPTS) state.open.splice(0, MAX_OPEN_PROMPTS / 8);
}

/** The blocks taken over from an earlier prompt, at least the system prompt's. */
function sharedBlocks(state: MooncakeLikeState, arrivalNs: number, blocks: number, streams: WorkloadStreams): number[] {
  const [, probability, shares] = rowFor(SHARED_SHARE, blocks);
  const continues = streams.sessions() < probability;
  const wanted = Math.max(2, Math.min(blocks, Math.round(interpolate(shares, streams.prefixes(), false) * blocks)));
  const ageNs = interpolate(rowFor(PARENT_AGE_S, wanted)[1], streams.thinks(), false) * 1e9;
  const index = continues && blocks > 1 ? bestPrompt(state.open, arrivalNs, ageNs, wanted) : -1;
  if (index < 0) return [0];
  const parent = state.open[index]!;
  state.open.splice(index, 1);
  return parent.hashes.slice(0, wanted);
}

/** The last row that holds from `blocks` or less on. */
function rowFor<Row extends [number, ...unknown[]]>(rows: Row[], blocks: number): Row {
  let row = rows[0]!;
  for (const candidate of rows) if (candidate[0] <= blocks) row = candidate;
  return row;
}

/** The prompt that comes nearest to the wanted age and number of blocks; -1 when there is none of at least two blocks. */
function bestPrompt(open: OpenPrompt[], arrivalNs: number, ageNs: number, wanted: number): number {
  const centre = firstSince(open, arrivalNs - ageNs);
  const end = Math.min(open.length, centre + SEARCH_PROMPTS);
  let best = -1;
  let bestCost = Number.POSITIVE_INFINITY;
  for (let index = Math.max(0, centre - SEARCH_PROMPTS); index < end; index++) {
    const prompt = open[index]!;
    const blocks = prompt.hashes.length;
    if (blocks < 2) continue;
    const age = arrivalNs - prompt.arrivalNs;
    // Sharing less than wanted loses hits; truncating a longer prompt costs only the chance to continue it in full.
    const lengthCost = blocks < wanted ? (wanted - blocks) / wanted : (0.5 * (blocks - wanted)) / blocks;
    const cost = lengthCost + (AGE_WEIGHT * Math.abs(age - ageNs)) / (ageNs + 1e10);
    if (cost >= bestCost) continue;
    best = index;
    bestCost = cost;
  }
  return best;
}

function firstSince(open: OpenPrompt[], timeNs: number): number {
  let low = 0;
  let high = open.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (open[middle]!.arrivalNs < timeNs) low = middle + 1;
    else high = middle;
  }
  return low;
}
