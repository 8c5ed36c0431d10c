import { fewRows } from '../engine-state.js';
import type { EngineEvents } from '../events.js';
import { forEachGapRun, gapNs } from '../gaps.js';
import type { GapRows } from './engine-records.js';

/** Rows that leave as one record. */
const rowLimit = 2048;

/** The gaps of an engine: rows for the sink, and what is needed to tell the longest gap of each request. */
export interface GapLog {
  rows: number;
  gapNs: Float64Array;
  counts: Float64Array;
  lastBucket: number;
  /** Stretches seen so far: a clock by which requests remember where their gaps begin. */
  clock: number;
  /** Longest gaps so far, falling: entry i is the longest of all stretches from `stackClock[i - 1] + 1` on, last reached at `stackClock[i]`. */
  stackCount: number;
  stackClock: Float64Array;
  stackMaxNs: Float64Array;
  /** Null where tenants are not told apart. */
  tenants: TenantGaps | null;
}

/** Whose gaps are whose: all sequences of a stretch have the same gaps, so numbers of sequences do. */
interface TenantGaps {
  /** Sequences in the batch by tenant. */
  sequences: Int32Array;
  /** Tenant of each row. */
  rowTenant: Int32Array;
  /** Last row of each tenant, -1 for none. */
  lastRow: Int32Array;
}

/** @param tenants How many are told apart, 0 for none. */
export function createGapLog(tenants = 0): GapLog {
  const log = {
    rows: 0,
    gapNs: new Float64Array(fewRows / 2),
    counts: new Float64Array(fewRows / 2),
    lastBucket: -1,
    clock: 0,
    stackCount: 0,
    stackClock: new Float64Array(fewRows / 2),
    stackMaxNs: new Float64Array(fewRows / 2),
    tenants:
      tenants === 0
        ? null
        : {
            sequences: new Int32Array(tenants),
            rowTenant: new Int32Array(fewRows / 2),
            lastRow: new Int32Array(tenants).fill(-1),
          },
  };
  // Once at birth, for what is said of request tables.
  widenRows(log);
  widenStack(log);
  return log;
}

const double = new Float64Array(1);
const words = new Int32Array(double.buffer);

/** 1024 buckets an octave, from the leading bits of the number (little endian, as all platforms of Node). */
function bucketOf(gap: number): number {
  double[0] = gap;
  return words[1]! >> 10;
}

/** The log being written by `sinkRun`; set for the length of one call. */
let current: GapLog | undefined;

/** Notes stretch `index`; rows only where `keepRows`. */
export function noteStretch(log: GapLog, events: EngineEvents, index: number, keepRows: boolean): void {
  noteLongest(log, longestGapNs(events, index));
  if (!keepRows) return;
  current = log;
  if (log.tenants === null) forEachGapRun(events, index, bucketOf, sinkRun);
  else {
    currentSequences = events.stretchSequences[index]!;
    forEachGapRun(events, index, bucketOf, sinkTenantRun);
  }
  current = undefined;
}

/** A gap that is part of no stretch; `tenant` is that of its request, where tenants are told apart. */
export function noteGap(log: GapLog, gap: number, tenant: number): void {
  if (log.tenants === null) addRow(log, bucketOf(gap), gap, 1);
  else addTenantRow(log, log.tenants, tenant, gap, 1);
}

function sinkRun(bucket: number, count: number, sumNs: number): void {
  const log = current!;
  // Whole nanoseconds with an exact sum: the mean rounded down, and up for the remainder.
  const mean = Math.floor(sumNs / count);
  const above = sumNs - mean * count;
  addRow(log, bucket, mean, count - above);
  if (above > 0) addRow(log, bucket, mean + 1, above);
}

/** Sequences of the stretch that `sinkTenantRun` sorts. */
let currentSequences = 0;

/** The same for each tenant: the sum over them is what `sinkRun` would note. */
function sinkTenantRun(_bucket: number, count: number, sumNs: number): void {
  const log = current!;
  const tenants = log.tenants!;
  const mean = Math.floor(sumNs / count);
  // Of one sequence; whole numbers, as all sequences have the same gaps.
  const gaps = count / currentSequences;
  const above = (sumNs - mean * count) / currentSequences;
  for (let tenant = 0; tenant < tenants.sequences.length; tenant++) {
    const sequences = tenants.sequences[tenant]!;
    if (sequences === 0) continue;
    addTenantRow(log, tenants, tenant, mean, sequences * (gaps - above));
    if (above > 0) addTenantRow(log, tenants, tenant, mean + 1, sequences * above);
  }
}

function addTenantRow(log: GapLog, tenants: TenantGaps, tenant: number, gap: number, count: number): void {
  const last = tenants.lastRow[tenant]!;
  if (last >= 0 && log.gapNs[last] === gap) {
    log.counts[last] = log.counts[last]! + count;
    return;
  }
  if (log.rows === log.gapNs.length) widenRows(log);
  tenants.lastRow[tenant] = log.rows;
  tenants.rowTenant[log.rows] = tenant;
  log.gapNs[log.rows] = gap;
  log.counts[log.rows++] = count;
}

function addRow(log: GapLog, bucket: number, gap: number, count: number): void {
  const last = log.rows - 1;
  if (bucket === log.lastBucket && last >= 0 && log.gapNs[last] === gap) {
    log.counts[last] = log.counts[last]! + count;
    return;
  }
  if (log.rows === log.gapNs.length) widenRows(log);
  log.lastBucket = bucket;
  log.gapNs[log.rows] = gap;
  log.counts[log.rows++] = count;
}

export function gapLogFull(log: GapLog): boolean {
  return log.rows >= rowLimit;
}

/** Takes the rows out. */
export function takeGaps(log: GapLog): GapRows {
  const { rows, tenants } = log;
  const taken = { gapNs: log.gapNs.slice(0, rows), counts: log.counts.slice(0, rows) };
  log.rows = 0;
  log.lastBucket = -1;
  if (tenants === null) return taken;
  tenants.lastRow.fill(-1);
  return { ...taken, tenant: tenants.rowTenant.slice(0, rows) };
}

/** The longest gap of the stretches after the clock stood at `since`; 0 without any. */
export function longestGapSince(log: GapLog, since: number): number {
  let low = 0;
  let high = log.stackCount;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (log.stackClock[middle]! > since) high = middle;
    else low = middle + 1;
  }
  return low === log.stackCount ? 0 : log.stackMaxNs[low]!;
}

/** True when the next stretch would need more memory: `forgetGaps` first. */
export function gapStackFull(log: GapLog): boolean {
  return log.stackCount === log.stackClock.length;
}

/** Drops what no request will ask for, all up to the clock `oldest`, and makes room when that is not much. */
export function forgetGaps(log: GapLog, oldest: number): void {
  let first = 0;
  while (first < log.stackCount && log.stackClock[first]! <= oldest) first++;
  log.stackClock.copyWithin(0, first, log.stackCount);
  log.stackMaxNs.copyWithin(0, first, log.stackCount);
  log.stackCount -= first;
  if (2 * log.stackCount > log.stackClock.length) widenStack(log);
}

function noteLongest(log: GapLog, gap: number): void {
  log.clock++;
  let count = log.stackCount;
  while (count > 0 && log.stackMaxNs[count - 1]! <= gap) count--;
  if (count === log.stackClock.length) forgetGaps(log, 0);
  log.stackClock[count] = log.clock;
  log.stackMaxNs[count] = gap;
  log.stackCount = count + 1;
}

/** Within 1 ns: rounding can make a gap beside the longest one as much longer. */
function longestGapNs(events: EngineEvents, index: number): number {
  const from = events.stretchFrom[index]!;
  const last = events.stretchTo[index]! - 1;
  let longest = gapNs(events, index, from);
  if (last === from) return longest;
  longest = Math.max(longest, gapNs(events, index, last));
  const c2 = events.stretchC2Ns[index]!;
  if (c2 >= 0) return longest;
  const turn = Math.round(-events.stretchC1Ns[index]! / (2 * c2));
  return turn > from && turn < last ? Math.max(longest, gapNs(events, index, turn)) : longest;
}

function widenRows(log: GapLog): void {
  log.gapNs = widen(log.gapNs);
  log.counts = widen(log.counts);
  if (log.tenants === null) return;
  const wider = new Int32Array(log.gapNs.length);
  wider.set(log.tenants.rowTenant);
  log.tenants.rowTenant = wider;
}

function widenStack(log: GapLog): void {
  log.stackClock = widen(log.stackClock);
  log.stackMaxNs = widen(log.stackMaxNs);
}

function widen(column: Float64Array): Float64Array {
  const wider = new Float64Array(column.length * 2);
  wider.set(column);
  return wider;
}
