import type { WindowMeasure } from '../../measure-windows.js';
import { type ReproductionRow, rowOf } from '../rows.js';
import type { Chart, RunsOf, ScenarioCase, SuitePart } from '../suite.js';
import { calmSnapshots, littleNote, steadyCase, type TopologyName, windowsOf, workerClient } from './cases.js';
import { type PublishedTopology, publishedKnee, publishedTopologies } from './published.js';

const fullGrid = [1, 4, 8, 16, 32, 64, 96, 128, 256, 384, 512] as const;
const quickGrid = [1, 8, 32, 64, 96, 128, 256, 384] as const;

/** The first point past the knee: its mean TTFT is this many times that of the point before. A second derivative finds the noise at a few in flight. */
const kneeFactor = 3;

/** The plateau: enough in flight for PoA-hat to mean something, not yet past the knee. */
const plateauOf = (grid: readonly number[]): number[] => grid.filter((inFlight) => inFlight >= 8 && inFlight <= 96);

function caseOf(topology: TopologyName, inFlight: number, quick: boolean, seed = 1, of = 3): ScenarioCase {
  // Few in flight need longer for about as many requests; past the knee many wait longer than a minute.
  const seconds = inFlight <= 96 ? Math.min(600, Math.ceil((60 * 96) / inFlight)) : inFlight >= 256 && !quick ? 240 : 120;
  const settings = [...workerClient(seed - 1, of), ...(inFlight <= 96 ? calmSnapshots : [])];
  return steadyCase(topology, inFlight, seconds, settings, seed);
}

/** Experiments 1 and 2: the concurrency grid on one topology. */
export function gridPart(experiment: 1 | 2, topology: TopologyName, quick: boolean): SuitePart {
  const grid = quick ? quickGrid : fullGrid;
  const seeds = quick ? 3 : 20;
  const kneeCases = Array.from({ length: seeds }, (_, index) => caseOf(topology, 128, quick, index + 1, seeds));
  const casesAt = (inFlight: number): ScenarioCase[] => (inFlight === 128 ? kneeCases : [caseOf(topology, inFlight, quick, 2)]);
  return {
    id: `exp${experiment}.${topology}`,
    title: `Experiment ${experiment}: concurrency, ${topology}`,
    note: 'PoA-hat and throughput: after the first burst, past the knee the whole run; TTFT: the whole run. At 128 in flight: mean over runs of worker loops.',
    cases: grid.flatMap(casesAt),
    evaluate: (runsOf) => {
      const prefix = `exp${experiment}.${topology}`;
      const points = new Map(grid.map((inFlight) => [inFlight, pointOf(runsOf, casesAt(inFlight), inFlight)]));
      const published = publishedTopologies[topology] as PublishedTopology;
      return {
        rows: [...shapeRows(prefix, points, published), ...pointRows(prefix, points, published)],
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
  return [
    rowOf(`${prefix}.plateau.poa`, published.plateau, [height], 'ratio', 'fit'),
    { ...rowOf(`${prefix}.plateau.spread`, (100 * 0.1) / published.plateau, [spread], 'percent'), note: 'published: within 0.1' },
    rowOf(`${prefix}.knee`, publishedKnee, knee === undefined ? [] : [knee], 'requests', 'assumed'),
    rowOf(`${prefix}.itl-p99.spread`, null, [(100 * (Math.max(...itl) - Math.min(...itl))) / mean(itl)], 'percent'),
  ];
}

function pointRows(prefix: string, points: ReadonlyMap<number, Point>, published: PublishedTopology): ReproductionRow[] {
  return [...points].flatMap(([inFlight, { whole, steady, itlP99Ms }]) => {
    const id = `${prefix}.${inFlight}`;
    const past = inFlight >= publishedKnee;
    const onPlateau = inFlight >= 8 && inFlight <= 96;
    const note = littleNote(steady);
    const isFit = prefix.startsWith('exp1');
    const basis = past ? 'assumed' : 'prediction';
    const ttft = inFlight === 96 ? published.ttftP99At96Ms : inFlight === 128 ? published.ttftP99At128Ms : null;
    return [
      {
        ...rowOf(
          `${id}.poa`,
          published.poa[inFlight] ?? (onPlateau ? published.plateau : null),
          defined(steady.map(({ poa }) => poa)),
          'ratio',
          basis,
        ),
        note,
      },
      ...(past
        ? [
            rowOf(
              `${id}.poa-snapshots`,
              published.poa[inFlight] ?? null,
              defined(steady.map(({ poaSnapshots }) => poaSnapshots)),
              'ratio',
              basis,
            ),
          ]
        : []),
      {
        ...rowOf(
          `${id}.ttft-p99`,
          ttft,
          whole.map(({ ttftP99Ms }) => ttftP99Ms),
          'ms',
          inFlight === 96 && isFit ? 'fit' : basis,
        ),
        ...(whole.length > 1 ? { note: rangeNote(whole.map(({ ttftP99Ms }) => ttftP99Ms)) } : {}),
      },
      rowOf(
        `${id}.ttft-mean`,
        null,
        whole.map(({ ttftMeanMs }) => ttftMeanMs),
        'ms',
        basis,
      ),
      {
        ...rowOf(
          `${id}.rps`,
          null,
          steady.map(({ requestsPerSecond }) => requestsPerSecond),
          'rps',
          basis,
        ),
        note,
      },
      rowOf(`${id}.itl-p99`, published.itlP99Ms, itlP99Ms, 'ms', isFit && inFlight === 96 ? 'fit' : 'prediction'),
    ];
  });
}

function rangeNote(valuesMs: readonly number[]): string {
  return `runs from ${(Math.min(...valuesMs) / 1e3).toFixed(1)} to ${(Math.max(...valuesMs) / 1e3).toFixed(1)} s`;
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
