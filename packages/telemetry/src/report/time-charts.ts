import * as Plot from '@observablehq/plot';
import type { RunDatabase } from '../run/query.js';
import { COLOURS, chart, shortTick, TIER_COLOURS, type TimeAxis } from './chart.js';
import { binOf, binWidth, stackedBins } from './latency-charts.js';

interface Band {
  time: number;
  mean: number;
  max: number;
}

interface Timeline {
  metric: string;
  title: string;
  share: boolean;
  /** Told of at each change, not each period: it holds from one sample to the next, and from the last one to the end. */
  changes?: boolean;
}

const TIMELINES: readonly Timeline[] = [
  { metric: 'queue_depth', title: 'Queue per engine (requests)', share: false },
  { metric: 'batch_size', title: 'Batch per engine (sequences)', share: false },
  { metric: 'kv_use_g1', title: 'KV use of HBM (share)', share: true },
  { metric: 'link_use', title: 'Link use (share)', share: true },
  { metric: 'gpu_use', title: 'GPU use (share)', share: true },
  { metric: 'prefill_engines', title: 'Engines that serve prefill', share: false, changes: true },
  { metric: 'scraped_ttft_p99', title: 'TTFT P99 as the controller scraped it (s)', share: false },
  { metric: 'placement_poa', title: 'Price of anarchy of the decode placement', share: false },
  { metric: 'output_tokens_per_second', title: 'Output tokens per second', share: false },
  { metric: 'poa_hat', title: 'PoA-hat (realised latencies)', share: false },
  { metric: 'poa_live', title: 'PoA-hat as known at the time', share: false },
  { metric: 'ttft_p99_seconds', title: 'TTFT P99 of the window (s)', share: false },
  { metric: 'itl_p99_seconds', title: 'ITL P99 of the window (s)', share: false },
];

/** Mean over the entities as a line and their maximum as a band, one chart a metric that the run sampled. */
export async function timelineCharts(
  database: RunDatabase,
  axis: TimeAxis,
  simulatedSeconds: number,
): Promise<{ title: string; svg: string }[]> {
  const width = binWidth(simulatedSeconds);
  const endS = await lastSampleS(database, simulatedSeconds);
  const charts: { title: string; svg: string }[] = [];
  for (const { metric, title, share, changes } of TIMELINES) {
    if (changes) {
      const steps = await stepsOf(database, metric, endS);
      if (steps.length > 0) charts.push({ title, svg: bandChart(inUnit(steps, axis), axis, share, endS / axis.seconds, 'step-after') });
      continue;
    }
    const { rows } = await database.query(`select floor(time_s / ${width}) as bin, avg(value), max(value) from series
      where metric = '${metric}' and time_s <= ${endS} group by bin order by bin`);
    if (rows.length === 0) continue;
    const bands = rows.map(([bin, mean, max]) => ({ time: Math.min(Number(bin) * width, endS), mean: Number(mean), max: Number(max) }));
    charts.push({ title, svg: bandChart(inUnit(bands, axis), axis, share, endS / axis.seconds) });
  }
  return charts;
}

/** The moments of change, each with the last value that was told then, and the end. Samples come in the order they were written. */
async function stepsOf(database: RunDatabase, metric: string, endS: number): Promise<Band[]> {
  const { rows } = await database.query(`select time_s, value from series where metric = '${metric}' and time_s <= ${endS}`);
  const values = new Map(rows.map(([time, value]) => [Number(time), Number(value)]));
  const steps: Band[] = [];
  for (const [time, value] of values) if (steps.at(-1)?.mean !== value) steps.push({ time, mean: value, max: value });
  const last = steps.at(-1);
  return last === undefined ? [] : [...steps, { ...last, time: endS }];
}

function inUnit(bands: readonly Band[], axis: TimeAxis): Band[] {
  return bands.map((band) => ({ ...band, time: band.time / axis.seconds }));
}

/** End of the charts: samples of the period in which the run ended come a little later. */
async function lastSampleS(database: RunDatabase, simulatedSeconds: number): Promise<number> {
  const { rows } = await database.query(`select min(time_s) from series where time_s >= ${simulatedSeconds}`);
  const next = rows[0]?.[0];
  return typeof next === 'number' && next <= 1.1 * simulatedSeconds ? next : simulatedSeconds;
}

function bandChart(bands: readonly Band[], axis: TimeAxis, share: boolean, end: number, curve: 'linear' | 'step-after' = 'linear'): string {
  const idle = bands.every(({ max }) => max === 0);
  return chart({
    width: 560,
    height: 180,
    marginTop: 10,
    // The whole run in each, so that they compare.
    x: { label: `simulated time (${axis.unit})`, labelAnchor: 'center', labelArrow: 'none', domain: [0, end] },
    y: {
      label: null,
      grid: true,
      zero: true,
      ...(idle ? { domain: [0, 1] } : {}),
      ...(share ? { domain: [0, 1], tickFormat: '.0%', ticks: 5 } : { tickFormat: shortTick, ticks: 5 }),
    },
    marks: [
      Plot.areaY(bands, { x: 'time', y1: 'mean', y2: 'max', fill: COLOURS.main, fillOpacity: 0.16 }),
      Plot.lineY(bands, { x: 'time', y: 'mean', stroke: COLOURS.main, strokeWidth: 1.8, curve }),
      // A line through one or two samples can hardly be seen.
      Plot.dot(bands.length > 2 ? [] : bands, { x: 'time', y: 'mean', r: 3, fill: COLOURS.main }),
      Plot.ruleY([0], { stroke: '#98a1b0' }),
    ],
  });
}

const CACHE_TIERS = [
  { tier: 'g1', name: 'G1 HBM', colour: TIER_COLOURS[0] },
  { tier: 'g2', name: 'G2 host DRAM', colour: TIER_COLOURS[1] },
  { tier: 'g3', name: 'G3 NVMe', colour: TIER_COLOURS[2] },
  { tier: 'g4', name: 'G4 network storage', colour: TIER_COLOURS[3] },
] as const;

type CacheTier = (typeof CACHE_TIERS)[number];

/** Requests whose hits count, as in the summary. */
const measured = "prefill_start_ns is not null and outcome <> 'in_flight'";

/** Tiers in which input tokens were found. */
export async function tiersSeen(database: RunDatabase): Promise<CacheTier[]> {
  const sums = CACHE_TIERS.map(({ tier }) => `sum(cached_tokens_${tier})`).join(', ');
  const { rows } = await database.query(`select ${sums} from requests where ${measured}`);
  return CACHE_TIERS.filter((_, i) => Number(rows[0]?.[i]) > 0);
}

/** Share of input tokens found in each of the tiers over the time of arrival. */
export async function hitChart(
  database: RunDatabase,
  tiers: readonly CacheTier[],
  axis: TimeAxis,
  simulatedSeconds: number,
): Promise<string> {
  const width = binWidth(simulatedSeconds);
  const shares = tiers.map(({ tier }) => `sum(cached_tokens_${tier}) / sum(input_tokens)`).join(', ');
  const { rows } = await database.query(`select floor(arrival_s / ${width}) as bin, ${shares}
    from requests where ${measured} group by bin order by bin`);
  const points = rows.flatMap(([bin, ...values]) =>
    tiers.map(({ name }, i) => ({ ...binOf(Number(bin), width, axis), name, share: Number(values[i]) })),
  );
  const names = tiers.map(({ name }) => name);
  return chart({
    width: 1140,
    height: 200,
    x: { label: `arrival (${axis.unit})`, labelAnchor: 'center', labelArrow: 'none' },
    y: { label: 'share of input tokens cached', labelArrow: 'none', grid: true, zero: true, tickFormat: '.0%', ticks: 5 },
    color: { domain: names, range: tiers.map(({ colour }) => colour) },
    marks: [stackedBins(points, 'share', 'name', names), Plot.ruleY([0], { stroke: '#98a1b0' })],
  });
}
