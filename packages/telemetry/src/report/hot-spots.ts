import * as Plot from '@observablehq/plot';
import type { RunDatabase } from '../run/query.js';
import { COLOURS, chart, formatNumber, formatShare, shortTick } from './chart.js';

/**
 * The busiest links by mean use over the run, with their peak. A link is told of when its period differs from what was told last, so its value holds
 * at the beats at which only others are told of; while no link is told of, the network rests. Null when links were not sampled.
 */
export async function linkChart(database: RunDatabase, sampledSeconds: number): Promise<string | null> {
  const { rows } = await database.query(`with told as (
      select entity, time_s, value, time_s - lag(time_s) over (partition by entity order by time_s) as gap
      from series where metric = 'link_use' and entity is not null),
    beats as (select time_s, time_s - lag(time_s, 1, 0) over (order by time_s) as since from (select distinct time_s from told)),
    period as (select min(gap) as seconds from told where gap > 0),
    links as (select entity, max(value) as peak from told group by entity),
    held as (
      select links.entity, coalesce(told.value, 0) * least(beats.since, coalesce(period.seconds, beats.since)) as use
      from links cross join beats cross join period asof left join told on told.entity = links.entity and told.time_s <= beats.time_s)
    select entity, least(1, sum(use) / ${Math.max(sampledSeconds, 1e-9)}) as mean, any_value(peak) as peak
    from held join links using (entity) group by entity order by mean desc, entity limit 12`);
  if (rows.length === 0) return null;
  const links = rows
    .map(([entity, mean, peak]) => ({ entity: String(entity), mean: Number(mean), peak: Number(peak) }))
    .filter(({ peak }) => peak > 0);
  if (links.length === 0) return '<p>None of the sampled links carried anything.</p>';
  return chart({
    width: 560,
    height: 44 + links.length * 22,
    marginLeft: roomFor(links.map(({ entity }) => entity)),
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
      Plot.barX(links, {
        x: 'mean',
        y: 'entity',
        fill: COLOURS.transfer,
        title: ({ entity, mean, peak }: { entity: string; mean: number; peak: number }) =>
          `${entity}: mean ${formatShare(mean)}, peak ${formatShare(peak)}`,
      }),
      Plot.tickX(links, { x: 'peak', y: 'entity', stroke: COLOURS.ink, strokeWidth: 1.6 }),
      Plot.ruleX([0], { stroke: '#98a1b0' }),
    ],
  });
}

/** Margin for the longest of the names beside the bars. */
function roomFor(names: readonly string[]): number {
  return 14 + 6 * Math.max(...names.map(({ length }) => length));
}

/** Workers up to which each has a bar with its name. */
const mostBars = 24;

export const STAGES = [
  { stage: 'prefill', name: 'prefill worker', colour: COLOURS.prefill },
  { stage: 'decode', name: 'decode worker', colour: COLOURS.decode },
] as const;

interface WorkerCount {
  readonly stage: string;
  readonly worker: string;
  readonly requests: number;
}

/** Requests of each worker that had any, by stage: the balance of the router. A worker that did both for a request counts once. */
export async function requestsOfWorkers(database: RunDatabase): Promise<WorkerCount[]> {
  const { rows } = await database.query(`select * from (
      select 'prefill' as stage, prefill_worker as worker, count(*) from requests group by all
      union all select 'decode', decode_worker, count(*) from requests where decode_worker is distinct from prefill_worker group by all)
    where worker is not null order by stage desc, worker`);
  return rows.map(([stage, worker, requests]) => ({ stage: String(stage), worker: String(worker), requests: Number(requests) }));
}

/** Workers that had no request: of `engines`, or where those are not known of the ones that were sampled. */
export async function idleWorkers(
  database: RunDatabase,
  engines: readonly string[] | undefined,
  busy: readonly WorkerCount[],
): Promise<number> {
  const names = new Set(busy.map(({ worker }) => worker));
  if (engines !== undefined) return engines.filter((engine) => !names.has(engine)).length;
  const { rows } = await database.query(`select distinct entity from series where metric = 'queue_depth' and entity is not null`);
  return rows.filter(([entity]) => !names.has(String(entity))).length;
}

/** A bar a worker; of many workers, those of each stage in order, as steps. */
export function balanceChart(workers: readonly WorkerCount[]): string {
  return workers.length > mostBars ? rankChart(workers) : barChart(workers);
}

const stageScale: Plot.ScaleOptions = { domain: STAGES.map(({ stage }) => stage), range: STAGES.map(({ colour }) => colour) };

function barChart(workers: readonly WorkerCount[]): string {
  const key = ({ worker, stage }: WorkerCount): string => `${worker} ${stage}`;
  return chart({
    width: 560,
    height: 44 + workers.length * 22,
    marginLeft: roomFor(workers.map(({ worker }) => worker)),
    marginRight: 60,
    marginTop: 4,
    x: { label: 'requests', labelAnchor: 'center', labelArrow: 'none', grid: true, tickFormat: shortTick },
    y: {
      label: null,
      domain: workers.map(key),
      tickSize: 0,
      padding: 0.3,
      tickFormat: (name: string) => name.slice(0, name.lastIndexOf(' ')),
    },
    color: stageScale,
    marks: [
      Plot.barX(workers, { x: 'requests', y: key, fill: 'stage', z: null }),
      Plot.text(workers, {
        x: 'requests',
        y: key,
        text: ({ requests }: WorkerCount) => formatNumber(requests),
        textAnchor: 'start',
        dx: 5,
      }),
      Plot.ruleX([0], { stroke: '#98a1b0' }),
    ],
  });
}

function rankChart(workers: readonly WorkerCount[]): string {
  const steps = STAGES.flatMap(({ stage }) => {
    const counts = workers.filter((worker) => worker.stage === stage).sort((one, other) => other.requests - one.requests);
    // The last one's step has an end, too.
    return [...counts, ...counts.slice(-1)].map(({ requests }, rank) => ({ stage, requests, rank }));
  });
  return chart({
    width: 560,
    height: 300,
    x: { label: 'workers with requests, the busiest first', labelAnchor: 'center', labelArrow: 'none', tickFormat: shortTick },
    y: { label: 'requests', labelArrow: 'none', grid: true, zero: true, tickFormat: shortTick },
    color: stageScale,
    marks: [
      Plot.areaY(steps, { x: 'rank', y1: 0, y2: 'requests', fill: 'stage', z: 'stage', fillOpacity: 0.12, curve: 'step-after' }),
      Plot.lineY(steps, { x: 'rank', y: 'requests', stroke: 'stage', strokeWidth: 2, curve: 'step-after' }),
      Plot.ruleY([0], { stroke: '#98a1b0' }),
    ],
  });
}
