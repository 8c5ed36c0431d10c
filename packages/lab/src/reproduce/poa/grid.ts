import type { WindowMeasure } from '../../measure-windows.js';
import { type ReproductionRow, type RowBasis, type RowUnit, rowOf } from '../rows.js';
import type { Chart, RunsOf, ScenarioCase, SuitePart } from '../suite.js';
import {
  bandRows,
  bandRuns,
  calmSnapshots,
  fairClient,
  littleNote,
  noted,
  steadyCase,
  type TopologyName,
  windowsOf,
  workerClient,
} from './cases.js';
import { type PublishedTopology, publishedKnee, publishedTopologies } from './published.js';

const fullGrid = [1, 4, 8, 16, 32, 64, 96, 128, 256, 384, 512] as const;
const quickGrid = [1, 8, 32, 64, 96, 128, 256, 384] as const;

/** The first point past the knee: its mean TTFT is this many times that of the point before. A second derivative finds the noise at a few in flight. */
const kneeFactor = 3;

/** The plateau: enough in flight for PoA-hat to mean something, not yet past the knee. */
const plateauOf = (grid: readonly number[]): number[] => grid.filter((inFlight) => inFlight >= 8 && inFlight <= 96);

/** Few in flight need longer for about as many requests; past the knee many wait longer than a minute. */
function secondsAt(inFlight: number, quick: boolean): number {
  return inFlight <= 96 ? Math.min(600, Math.ceil((60 * 96) / inFlight)) : inFlight >= 256 && !quick ? 240 : 120;
}

/** Experiments 1 and 2: the concurrency grid on one topology. */
export function gridPart(experiment: 1 | 2, topology: TopologyName, quick: boolean): SuitePart {
  const grid = quick ? quickGrid : fullGrid;
  const caseOf = (inFlight: number, settings: readonly string[], seed: number): ScenarioCase =>
    steadyCase(topology, inFlight, secondsAt(inFlight, quick), settings, seed);
  const kneeCases = Array.from({ length: bandRuns }, (_, index) => caseOf(publishedKnee, workerClient(index, bandRuns), index + 1));
  const fairCases = (quick ? [1] : [1, 2, 3]).map((seed) => caseOf(publishedKnee, fairClient, seed));
  const casesAt = (inFlight: number): ScenarioCase[] =>
    inFlight === publishedKnee
      ? kneeCases
      : [caseOf(inFlight, [...workerClient(1, 3), ...(inFlight < publishedKnee ? calmSnapshots : [])], 2)];
  return {
    id: `exp${experiment}.${topology}`,
    title: `Experiment ${experiment}: concurrency, ${topology}`,
    note: `PoA-hat and throughput: after the first burst, past the knee the whole run; TTFT: the whole run. At 128 in flight: ${bandRuns} runs of worker loops, the fair queue beside them.`,
    cases: [...grid.flatMap(casesAt), ...fairCases],
    evaluate: (runsOf) => {
      const prefix = `exp${experiment}.${topology}`;
      const points = new Map(grid.map((inFlight) => [inFlight, pointOf(runsOf, casesAt(inFlight), inFlight)]));
      const fair = pointOf(runsOf, fairCases, publishedKnee);
      const published = publishedTopologies[topology] as PublishedTopology;
      return {
        rows: [...shapeRows(prefix, points, published), ...pointRows(prefix, points, fair, published)],
        charts: [chartOf(topology, points, published)],
      };
    },
  };
}

interface Point {
  readonly whole: readonly WindowMeasure[];
  /** What PoA-hat, throughput and Little's law are taken from: past the knee the whole run, for the longest waits began with its first burst. */
  readonly steady: readonly WindowMeasure[];
  readonly itlP99Ms: readonly number[];
}

function pointOf(runsOf: RunsOf, cases: readonly ScenarioCase[], inFlight: number): Point {
  const past = inFlight >= publishedKnee;
  return {
    whole: cases.flatMap((each) => windowsOf(runsOf, each, 'whole')),
    steady: cases.flatMap((each) => windowsOf(runsOf, each, past ? 'whole' : 'steady')),
    itlP99Ms: cases.flatMap((each) => runsOf(each).map(({ summary }) => summary.itlMs?.p99 ?? Number.NaN)),
  };
}

const defined = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null);
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** What the grid as a whole shows. */
function shapeRows(prefix: string, points: ReadonlyMap<number, Point>, published: PublishedTopology): ReproductionRow[] {
  const grid = [...points.keys()];
  const flat = plateauOf(grid).map((inFlight) => mean(defined(points.get(inFlight)!.steady.map(({ poa }) => poa))));
  const height = mean(flat);
  const spread = (100 * (Math.max(...flat) - Math.min(...flat))) / height;
  const itl = grid.map((inFlight) => mean(points.get(inFlight)!.itlP99Ms));
  const ttft = grid.map((inFlight) => mean(points.get(inFlight)!.whole.map(({ ttftMeanMs }) => ttftMeanMs)));
  const knee = grid.find((_, place) => place > 0 && ttft[place]! > kneeFactor * ttft[place - 1]!);
  const worst = [...points].reduce((most, each) => (littleOf(each[1]) > littleOf(most[1]) ? each : most));
  return noted(
    [
      rowOf(`${prefix}.plateau.poa`, published.plateau, [height], 'ratio', 'fit'),
      { ...rowOf(`${prefix}.plateau.spread`, (100 * 0.1) / published.plateau, [spread], 'percent'), note: 'published: within 0.1' },
      rowOf(`${prefix}.knee`, publishedKnee, knee === undefined ? [] : [knee], 'requests', 'assumed'),
      rowOf(`${prefix}.itl-p99.spread`, null, [(100 * (Math.max(...itl) - Math.min(...itl))) / mean(itl)], 'percent'),
    ],
    `${littleNote(worst[1].steady)} at worst (${worst[0]})`,
  );
}

const littleOf = ({ steady }: Point): number => Math.abs(mean(steady.map(({ littleError }) => littleError)));

function pointRows(prefix: string, points: ReadonlyMap<number, Point>, fair: Point, published: PublishedTopology): ReproductionRow[] {
  const isFit = prefix.startsWith('exp1');
  return [...points].flatMap(([inFlight, { whole, steady, itlP99Ms }]) => {
    const id = `${prefix}.${inFlight}`;
    const past = inFlight >= publishedKnee;
    const basis = past ? 'assumed' : 'prediction';
    const fitsAt96 = inFlight === 96 && isFit;
    const height = published.poa[inFlight] ?? (inFlight >= 8 && !past ? published.plateau : null);
    const ttft = whole.map(({ ttftP99Ms }) => ttftP99Ms);
    const rows = [
      rowOf(`${id}.poa`, height, defined(steady.map(({ poa }) => poa)), 'ratio', basis),
      ...(past ? [rowOf(`${id}.poa-snapshots`, height, defined(steady.map(({ poaSnapshots }) => poaSnapshots)), 'ratio', basis)] : []),
      ...(inFlight === publishedKnee
        ? bandRows(`${id}.ttft-p99`, published.ttftP99At128Ms, ttft)
        : [rowOf(`${id}.ttft-p99`, inFlight === 96 ? published.ttftP99At96Ms : null, ttft, 'ms', fitsAt96 ? 'fit' : basis)]),
      meanRow(`${id}.ttft-mean`, whole, ({ ttftMeanMs }) => ttftMeanMs, 'ms', basis),
      meanRow(`${id}.rps`, steady, ({ requestsPerSecond }) => requestsPerSecond, 'rps', basis),
      rowOf(`${id}.itl-p99`, published.itlP99Ms, itlP99Ms, 'ms', fitsAt96 ? 'fit' : 'prediction'),
    ];
    return [...noted(rows, littleNote(steady)), ...(inFlight === publishedKnee ? fairRows(id, fair, published) : [])];
  });
}

/** At the knee, the same with a fair queue. */
function fairRows(id: string, { whole, steady }: Point, { ttftP99At128Ms }: PublishedTopology): ReproductionRow[] {
  return noted(
    [
      { ...meanRow(`${id}-fifo.ttft-p99`, whole, ({ ttftP99Ms }) => ttftP99Ms, 'ms', 'assumed'), published: ttftP99At128Ms },
      meanRow(`${id}-fifo.rps`, steady, ({ requestsPerSecond }) => requestsPerSecond, 'rps', 'assumed'),
    ],
    littleNote(steady),
  );
}

/** A row without a published number. */
function meanRow(
  id: string,
  windows: readonly WindowMeasure[],
  of: (window: WindowMeasure) => number,
  unit: RowUnit,
  basis: RowBasis,
): ReproductionRow {
  return rowOf(id, null, windows.map(of), unit, basis);
}

function chartOf(topology: TopologyName, points: ReadonlyMap<number, Point>, published: PublishedTopology): Chart {
  const known = [...points.keys()].flatMap((x) => {
    const y = published.poa[x] ?? (x >= 8 && x <= 96 ? published.plateau : undefined);
    return y === undefined ? [] : [{ x, y }];
  });
  const emulated = [...points].flatMap(([x, { steady }]) => {
    const values = defined(steady.map(({ poa }) => poa));
    return values.length === 0 ? [] : [{ x, y: mean(values) }];
  });
  return {
    title: `PoA-hat against requests in flight, ${topology}`,
    xLabel: 'requests in flight',
    yLabel: 'PoA-hat',
    xScale: 'log',
    series: [
      { name: 'published', kind: 'published', group: topology, points: known },
      { name: 'emulated', kind: 'emulated', group: topology, points: emulated },
    ],
  };
}
