import * as Plot from '@observablehq/plot';
import type { RunDatabase } from '../run/query.js';
import { COLOURS, chart, formatNumber, shortTick, TIER_COLOURS, type TimeAxis } from './chart.js';
import { binWidth } from './latency-charts.js';

interface Band {
  time: number;
  mean: number;
  max: number;
}

const TIMELINES = [
  { metric: 'queue_depth', title: 'Queue per engine (requests)', share: false },
  { metric: 'batch_size', title: 'Batch per engine (sequences)', share: false },
  { metric: 'kv_use_g1', title: 'KV use of HBM (share)', share: true },
  { metric: 'link_use', title: 'Link use (share)', share: true },
  { metric: 'gpu_use', title: 'GPU use (share)', share: true },
  { metric: 'prefill_engines', title: 'Engines that serve prefill', share: false },
  { metric: 'scraped_ttft_p99', title: 'TTFT P99 as the controller scraped it (s)', share: false },
  { metric: 'placement_poa', title: 'Price of anarchy of the decode placement', share: false },
  { metric: 'output_tokens_per_second', title: 'Output tokens per second', share: false },
  { metric: 'poa_hat', title: 'PoA-hat (realised latencies)', share: false },
  { metric: 'poa_live', title: 'PoA-hat as known at the time', share: false },
  { metric: 'ttft_p99_seconds', title: 'TTFT P99 of the window (s)', share: false },
  { metric: 'itl_p99_seconds', title: 'ITL P99 of the window (s)', share: false },
] as const;

/** Mean over the entities as a line and their maximum as a band, one chart a metric that the run sampled. */
export async function timelineCharts(
  database: RunDatabase,
  axis: TimeAxis,
  simulatedSeconds: number,
): Promise<{ title: string; svg: string }[]> {
  const width = binWidth(simulatedSeconds);
  const charts: { title: string; svg: string }[] = [];
  for (const { metric, title, share } of TIMELINES) {
    const { rows } = await database.query(`select floor(time_s / ${width}) as bin, avg(value), max(value) from series
      where metric = '${metric}' group by bin order by bin`);
    if (rows.length === 0) continue;
    const bands = rows.map(([bin, mean, max]) => ({ time: (Number(bin) * width) / axis.seconds, mean: Number(mean), max: Number(max) }));
    charts.push({ title, svg: bandChart(bands, axis, share) });
  }
  return charts;
}

function bandChart(bands: readonly Band[], axis: TimeAxis, share: boolean): string {
  return chart({
    width: 560,
    height: 180,
    marginTop: 10,
    x: { label: `simulated time (${axis.unit})`, labelAnchor: 'center', labelArrow: 'none' },
    y: {
      label: null,
      grid: true,
      zero: true,
      ...(share ? { domain: [0, 1], tickFormat: '.0%', ticks: 5 } : { tickFormat: shortTick, ticks: 5 }),
    },
    marks: [
      Plot.areaY(bands, { x: 'time', y1: 'mean', y2: 'max', fill: COLOURS.main, fillOpacity: 0.16 }),
      Plot.lineY(bands, { x: 'time', y: 'mean', stroke: COLOURS.main, strokeWidth: 1.8 }),
      Plot.ruleY([0], { stroke: '#98a1b0' }),
    ],
  });
}

/** Share of input tokens found in each tier over the time of arrival. */
export async function hitChart(database: RunDatabase, axis: TimeAxis, simulatedSeconds: number): Promise<string> {
  const width = binWidth(simulatedSeconds);
  const { rows } = await database.query(`select floor(arrival_s / ${width}) as bin,
      sum(cached_tokens_g1) / sum(input_tokens), sum(cached_tokens_g2) / sum(input_tokens),
      sum(cached_tokens_g3) / sum(input_tokens), sum(cached_tokens_g4) / sum(input_tokens)
    from requests where prefill_start_ns is not null group by bin order by bin`);
  const tiers = ['G1', 'G2', 'G3', 'G4'];
  const points = rows.flatMap(([bin, ...values]) =>
    tiers.map((tier, i) => ({ time: ((Number(bin) + 0.5) * width) / axis.seconds, tier, share: Number(values[i]) })),
  );
  return chart({
    width: 1140,
    height: 200,
    x: { label: `arrival (${axis.unit})`, labelAnchor: 'center', labelArrow: 'none' },
    y: { label: 'share of input tokens cached', labelArrow: 'none', grid: true, zero: true, tickFormat: '.0%', ticks: 5 },
    color: { domain: tiers, range: TIER_COLOURS.slice(0, 4) },
    marks: [
      Plot.areaY(points, { x: 'time', y: 'share', fill: 'tier', z: 'tier', order: tiers as never }),
      Plot.ruleY([0], { stroke: '#98a1b0' }),
    ],
  });
}

/** The busiest links by mean use, with their peak. Null when links were not sampled. */
export async function linkChart(database: RunDatabase): Promise<string | null> {
  const { rows } = await database.query(`select entity, avg(value) as mean, max(value) as peak from series
    where metric = 'link_use' and entity is not null group by entity order by mean desc, entity limit 12`);
  if (rows.length === 0) return null;
  const links = rows.map(([entity, mean, peak]) => ({ entity: String(entity), mean: Number(mean), peak: Number(peak) }));
  return chart({
    width: 560,
    height: 44 + links.length * 22,
    marginLeft: 210,
    marginTop: 4,
    x: {
      label: 'mean use (bar) and peak (tick)',
      labelAnchor: 'center',
      labelArrow: 'none',
      domain: [0, 1],
      tickFormat: '.0%',
      grid: true,
    },
    y: { label: null, domain: links.map((link) => link.entity), tickSize: 0, padding: 0.3 },
    marks: [
      Plot.barX(links, { x: 'mean', y: 'entity', fill: COLOURS.transfer }),
      Plot.tickX(links, { x: 'peak', y: 'entity', stroke: COLOURS.ink, strokeWidth: 1.6 }),
      Plot.ruleX([0], { stroke: '#98a1b0' }),
    ],
  });
}

const mostBars = 64;

/** Requests of each worker, by stage: the balance of the router. A worker that did both for a request counts once. Null without requests. */
export async function balanceChart(database: RunDatabase): Promise<string | null> {
  const { rows } = await database.query(`select * from (
      select 'prefill' as stage, prefill_worker as worker, count(*) from requests group by all
      union all select 'decode', decode_worker, count(*) from requests where decode_worker is distinct from prefill_worker group by all)
    where worker is not null order by stage desc, worker`);
  if (rows.length === 0) return null;
  const bars = rows.slice(0, mostBars).map(([stage, worker, chosen]) => ({
    stage: String(stage),
    worker: String(worker),
    chosen: Number(chosen),
  }));
  const tall = bars.length <= 24;
  return chart({
    width: 560,
    height: 44 + bars.length * (tall ? 22 : 10),
    marginLeft: tall ? 210 : 56,
    marginRight: 60,
    marginTop: 4,
    x: {
      label: bars.length < rows.length ? `requests (the first ${mostBars} of ${rows.length})` : 'requests',
      labelAnchor: 'center',
      labelArrow: 'none',
      grid: true,
      tickFormat: shortTick,
    },
    y: {
      label: null,
      domain: bars.map((bar) => `${bar.worker} ${bar.stage}`),
      tickSize: 0,
      padding: 0.3,
      axis: tall ? 'left' : null,
      tickFormat: (name: string) => name.slice(0, name.lastIndexOf(' ')),
    },
    color: { domain: ['prefill', 'decode'], range: [COLOURS.prefill, COLOURS.decode] },
    marks: [
      Plot.barX(bars, { x: 'chosen', y: (bar: { worker: string; stage: string }) => `${bar.worker} ${bar.stage}`, fill: 'stage', z: null }),
      Plot.text(bars, {
        x: 'chosen',
        y: (bar: { worker: string; stage: string }) => `${bar.worker} ${bar.stage}`,
        text: (bar: { chosen: number }) => (tall ? formatNumber(bar.chosen) : ''),
        textAnchor: 'start',
        dx: 5,
      }),
      Plot.ruleX([0], { stroke: '#98a1b0' }),
    ],
  });
}
