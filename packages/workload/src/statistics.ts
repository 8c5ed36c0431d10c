import type { RequestTable } from './requests.js';
import { createStackDistances, type StackDistances, touchBlock, touchUniqueBlocks } from './stack-distance.js';

/** Quantiles of a column: linear between the order statistics (Hyndman and Fan's type 7). */
export interface LengthStatistics {
  mean: number;
  min: number;
  p50: number;
  p90: number;
  p99: number;
  max: number;
}

/** How much of the prompts stood in earlier ones, for an LRU cache that serves all requests (stack distances, Mattson et al. 1970). */
export interface PrefixReuse {
  blockTokens: number;
  /** Prompt blocks, the last one of a prompt perhaps partial. */
  blocks: number;
  distinctBlocks: number;
  /** Share of blocks found in an LRU cache of so many blocks. */
  lru: { cacheBlocks: number; share: number }[];
  /** With room for everything. */
  infiniteShare: number;
  infiniteTokenShare: number;
}

/** What `braess trace` says of a trace: rates are totals over the time from the first to the last arrival. */
export interface TraceStatistics {
  requests: number;
  /** From the first to the last arrival. */
  durationS: number;
  /** NaN when all arrive at once. */
  requestsPerSecond: number;
  inputTokensPerSecond: number;
  outputTokensPerSecond: number;
  /** Coefficient of variation of the gaps between arrivals: 1 for Poisson. */
  gapCv: number;
  /** Variance over mean of arrivals in whole windows of `windowS`: 1 for Poisson; NaN with fewer than two windows. */
  dispersion: number;
  windowS: number;
  input: LengthStatistics;
  output: LengthStatistics;
  sessions: number;
  /** Null when the trace carries no prefix identity. */
  prefixReuse: PrefixReuse | null;
}

/** Statistics under way; memory follows distinct lengths and distinct blocks, not requests. */
export interface TraceTally {
  requests: number;
  firstNs: number;
  lastNs: number;
  gapSquares: number;
  windowNs: number;
  windowIndex: number;
  windowCount: number;
  windowSum: number;
  windowSquares: number;
  inputCounts: Map<number, number>;
  outputCounts: Map<number, number>;
  sessions: number;
  blockTokens: number;
  stack: StackDistances;
  cacheBlocks: number[];
  /** Hits by smallest sufficient cache size, one entry more for larger distances. */
  hits: number[];
  blocks: number;
  listedBlocks: number;
  hitTokens: number;
}

/** The cache sizes at which Mooncake's published trace statistics are compared. */
export const DEFAULT_CACHE_BLOCKS = [1000, 5000, 10_000, 30_000, 50_000, 100_000];

export function createTraceTally(cacheBlocks: number[] = DEFAULT_CACHE_BLOCKS, windowS = 60): TraceTally {
  if (!(windowS > 0)) throw new RangeError(`trace statistics: windowS is ${windowS}; must be above 0`);
  return {
    requests: 0,
    firstNs: 0,
    lastNs: 0,
    gapSquares: 0,
    windowNs: windowS * 1e9,
    windowIndex: 0,
    windowCount: 0,
    windowSum: 0,
    windowSquares: 0,
    inputCounts: new Map(),
    outputCounts: new Map(),
    sessions: 0,
    blockTokens: 0,
    stack: createStackDistances(),
    cacheBlocks: [...cacheBlocks].sort((a, b) => a - b),
    hits: new Array<number>(cacheBlocks.length + 1).fill(0),
    blocks: 0,
    listedBlocks: 0,
    hitTokens: 0,
  };
}

/** Statistics of a whole table. */
export function traceStatistics(table: RequestTable, cacheBlocks: number[] = DEFAULT_CACHE_BLOCKS, windowS = 60): TraceStatistics {
  const tally = createTraceTally(cacheBlocks, windowS);
  tallyBatch(tally, table);
  return finishTally(tally);
}

/** Adds a batch; batches in order. */
export function tallyBatch(tally: TraceTally, batch: RequestTable): void {
  tally.blockTokens = batch.blockTokens;
  tally.sessions = batch.sessionNames.length;
  for (let row = 0; row < batch.requestCount; row++) {
    tallyArrival(tally, batch.arrivalNs[row]!);
    countLength(tally.inputCounts, batch.inputTokens[row]!);
    countLength(tally.outputCounts, batch.outputTokens[row]!);
    if (batch.blockTokens > 0) tallyBlocks(tally, batch, row);
  }
}

export function finishTally(tally: TraceTally): TraceStatistics {
  const durationS = (tally.lastNs - tally.firstNs) / 1e9;
  const gaps = tally.requests - 1;
  const meanGapS = durationS / gaps;
  const input = lengthStatistics(tally.inputCounts);
  const output = lengthStatistics(tally.outputCounts);
  const requestsPerSecond = durationS > 0 ? tally.requests / durationS : Number.NaN;
  const meanWindow = tally.windowSum / tally.windowIndex;
  const windowVariance = (tally.windowSquares - tally.windowSum * meanWindow) / (tally.windowIndex - 1);
  return {
    requests: tally.requests,
    durationS,
    requestsPerSecond,
    inputTokensPerSecond: requestsPerSecond * input.mean,
    outputTokensPerSecond: requestsPerSecond * output.mean,
    gapCv: Math.sqrt(Math.max(0, tally.gapSquares / gaps - meanGapS * meanGapS)) / meanGapS,
    dispersion: tally.windowIndex < 2 ? Number.NaN : windowVariance / meanWindow,
    windowS: tally.windowNs / 1e9,
    input,
    output,
    sessions: tally.sessions,
    prefixReuse: tally.listedBlocks === 0 ? null : prefixReuse(tally),
  };
}

function tallyArrival(tally: TraceTally, arrivalNs: number): void {
  if (tally.requests++ === 0) {
    tally.firstNs = arrivalNs;
  } else {
    const gapS = (arrivalNs - tally.lastNs) / 1e9;
    tally.gapSquares += gapS * gapS;
  }
  const window = Math.floor((arrivalNs - tally.firstNs) / tally.windowNs);
  if (window > tally.windowIndex) {
    tally.windowSum += tally.windowCount;
    tally.windowSquares += tally.windowCount * tally.windowCount;
    // Windows skipped are windows with no arrivals: they count, with nothing to add.
    tally.windowIndex = window;
    tally.windowCount = 0;
  }
  tally.windowCount++;
  tally.lastNs = arrivalNs;
}

function tallyBlocks(tally: TraceTally, batch: RequestTable, row: number): void {
  const inputTokens = batch.inputTokens[row]!;
  const blocks = Math.ceil(inputTokens / batch.blockTokens);
  const first = batch.blockOffsets[row]!;
  const listed = batch.blockOffsets[row + 1]! - first;
  for (let index = 0; index < listed; index++) {
    const distance = touchBlock(tally.stack, batch.blockHashes[first + index]!);
    if (distance === Number.POSITIVE_INFINITY) continue;
    let size = 0;
    while (size < tally.cacheBlocks.length && distance >= tally.cacheBlocks[size]!) size++;
    tally.hits[size] = tally.hits[size]! + 1;
    tally.hitTokens += Math.min(batch.blockTokens, inputTokens - index * batch.blockTokens);
  }
  touchUniqueBlocks(tally.stack, blocks - listed);
  tally.blocks += blocks;
  tally.listedBlocks += listed;
}

function prefixReuse(tally: TraceTally): PrefixReuse {
  let hits = 0;
  const lru = tally.cacheBlocks.map((cacheBlocks, index) => {
    hits += tally.hits[index]!;
    return { cacheBlocks, share: hits / tally.blocks };
  });
  let inputTokens = 0;
  for (const [tokens, count] of tally.inputCounts) inputTokens += tokens * count;
  return {
    blockTokens: tally.blockTokens,
    blocks: tally.blocks,
    distinctBlocks: tally.stack.total,
    lru,
    infiniteShare: (hits + tally.hits.at(-1)!) / tally.blocks,
    infiniteTokenShare: tally.hitTokens / inputTokens,
  };
}

function countLength(counts: Map<number, number>, tokens: number): void {
  counts.set(tokens, (counts.get(tokens) ?? 0) + 1);
}

function lengthStatistics(counts: Map<number, number>): LengthStatistics {
  const lengths = [...counts.keys()].sort((a, b) => a - b);
  let total = 0;
  let sum = 0;
  for (const length of lengths) {
    total += counts.get(length)!;
    sum += length * counts.get(length)!;
  }
  const quantile = (share: number): number => orderedQuantile(lengths, counts, share * (total - 1));
  return {
    mean: sum / total,
    min: lengths[0] ?? Number.NaN,
    p50: quantile(0.5),
    p90: quantile(0.9),
    p99: quantile(0.99),
    max: lengths.at(-1) ?? Number.NaN,
  };
}

/** The value at a fractional rank (from 0) of the multiset. */
function orderedQuantile(lengths: number[], counts: Map<number, number>, rank: number): number {
  let seen = 0;
  for (const [index, length] of lengths.entries()) {
    seen += counts.get(length)!;
    if (rank <= seen - 1) return length;
    if (rank < seen) return length + (rank - (seen - 1)) * (lengths[index + 1]! - length);
  }
  return Number.NaN;
}
