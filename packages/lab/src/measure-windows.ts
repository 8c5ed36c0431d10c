import type { PoaSample } from '@braess/cluster';
import { OUTCOME, type RunTables, sortedQuantile } from '@braess/telemetry';

/** A stretch of a run to look at by itself. */
export interface MeasureWindow {
  readonly name: string;
  readonly fromSeconds: number;
  readonly toSeconds: number;
}

/** What happened in a window. Latencies are those of the completed requests that came within it, also when they ended later. */
export interface WindowMeasure {
  readonly name: string;
  readonly seconds: number;
  readonly came: number;
  /** Requests that ended within the window, a second. */
  readonly requestsPerSecond: number;
  readonly ttftMeanMs: number;
  readonly ttftP99Ms: number;
  /** The same of the requests whose first token came within the window, as a histogram of a server or client counts them: those who waited before it, too. */
  readonly ttftP99ByTokenMs: number;
  /** Mean from coming to ending. */
  readonly latencyMeanMs: number;
  /** Mean from first to last token. */
  readonly decodeMeanMs: number;
  /** Mean number in flight. */
  readonly inFlight: number;
  /**
   * Little's law, relative error: rate x mean latency of those that came, against the mean number in flight, which the PoA actor counted by itself (without
   * it: time spent in the window). The rate is the mean of those of coming and ending, which cancels what crosses the edges to first order, over whole
   * service times from the window's beginning: a closed loop comes in bursts, one a service time, and part of one would count for a whole.
   */
  readonly littleError: number;
  /** PoA-hat, null where it is undefined: (mean number of rows x mean realised latency of the requests that came) / mean of the optimal assignment. */
  readonly poa: number | null;
  /** The same from snapshots, which see long requests more often: sum of numerators / sum of denominators. */
  readonly poaSnapshots: number | null;
}

interface Row {
  readonly cameS: number;
  readonly firstS: number;
  readonly endS: number;
  readonly lastS: number;
}

export function measureWindows(tables: RunTables, poa: readonly PoaSample[], windows: readonly MeasureWindow[]): WindowMeasure[] {
  if (windows.length === 0) return [];
  const rows = completedRows(tables);
  return windows.map((window) => measureWindow(rows, poa, window));
}

function completedRows(tables: RunTables): Row[] {
  return tables.requests.segments.flatMap(({ rows, outcome, arrivalNs, firstTokenNs, lastTokenNs, endNs }) =>
    Array.from({ length: rows }, (_, row) => row)
      .filter((row) => outcome[row] === OUTCOME.completed)
      .map((row) => ({
        cameS: arrivalNs[row]! / 1e9,
        firstS: firstTokenNs[row]! / 1e9,
        lastS: lastTokenNs[row]! / 1e9,
        endS: endNs[row]! / 1e9,
      })),
  );
}

function measureWindow(rows: readonly Row[], poa: readonly PoaSample[], window: MeasureWindow): WindowMeasure {
  const { fromSeconds: from, toSeconds: to } = window;
  const seconds = to - from;
  const came = rows.filter(({ cameS }) => cameS >= from && cameS < to);
  const ended = rows.filter(({ endS }) => endS >= from && endS < to);
  const requestsPerSecond = ended.length / seconds;
  const latencyMean = meanOf(came, latencyOf);
  return {
    name: window.name,
    seconds,
    came: came.length,
    requestsPerSecond,
    ttftMeanMs: 1e3 * meanOf(came, ({ cameS, firstS }) => firstS - cameS),
    ttftP99Ms: 1e3 * percentile99(came.map(({ cameS, firstS }) => firstS - cameS)),
    ttftP99ByTokenMs:
      1e3 * percentile99(rows.filter(({ firstS }) => firstS >= from && firstS < to).map(({ cameS, firstS }) => firstS - cameS)),
    latencyMeanMs: 1e3 * latencyMean,
    decodeMeanMs: 1e3 * meanOf(came, ({ firstS, lastS }) => lastS - firstS),
    inFlight: meanInFlight(rows, from, to),
    littleError: littleError(rows, poa, from, wholeCycles(came, from, to)),
    ...poaOf(poa, from, to, latencyMean),
  };
}

const latencyOf = ({ cameS, endS }: Row): number => endS - cameS;

/** From the time each spent in the stretch. */
function meanInFlight(rows: readonly Row[], from: number, to: number): number {
  return rows.reduce((sum, { cameS, endS }) => sum + Math.max(0, Math.min(endS, to) - Math.max(cameS, from)), 0) / (to - from);
}

/** End of the whole service times from `from` on. One is the least TTFT, which is without any wait, and the mean time from there. */
function wholeCycles(came: readonly Row[], from: number, to: number): number {
  const cycle =
    meanOf(came, ({ firstS, endS }) => endS - firstS) +
    came.reduce((least, { cameS, firstS }) => Math.min(least, firstS - cameS), Infinity);
  return cycle < to - from ? from + Math.floor((to - from) / cycle) * cycle : to;
}

function littleError(rows: readonly Row[], poa: readonly PoaSample[], from: number, to: number): number {
  const came = rows.filter(({ cameS }) => cameS >= from && cameS < to);
  const ended = rows.filter(({ endS }) => endS >= from && endS < to);
  const rate = (came.length + ended.length) / 2 / (to - from);
  const counts = poa.filter(({ atNs }) => atNs >= from * 1e9 && atNs < to * 1e9).map(({ inFlight }) => inFlight);
  const counted = counts.length === 0 ? meanInFlight(rows, from, to) : counts.reduce((sum, count) => sum + count, 0) / counts.length;
  return (rate * meanOf(came, latencyOf)) / counted - 1;
}

function poaOf(samples: readonly PoaSample[], from: number, to: number, latencyMean: number): Pick<WindowMeasure, 'poa' | 'poaSnapshots'> {
  const inside = samples.filter(({ atNs, denominatorSeconds }) => atNs >= from * 1e9 && atNs < to * 1e9 && denominatorSeconds > 0);
  const best = inside.reduce((sum, { denominatorSeconds }) => sum + denominatorSeconds, 0);
  if (inside.length === 0) return { poa: null, poaSnapshots: null };
  const rows = inside.reduce((sum, { inFlight }) => sum + inFlight, 0);
  const realised = inside.reduce((sum, { numeratorSeconds }) => sum + numeratorSeconds, 0);
  return { poa: (rows * latencyMean) / best, poaSnapshots: realised / best };
}

function meanOf(rows: readonly Row[], value: (row: Row) => number): number {
  return rows.length === 0 ? Number.NaN : rows.reduce((sum, row) => sum + value(row), 0) / rows.length;
}

function percentile99(values: readonly number[]): number {
  return values.length === 0 ? Number.NaN : sortedQuantile(Float64Array.from(values).sort(), 0.99);
}
