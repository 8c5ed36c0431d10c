import * as Plot from '@observablehq/plot';
import type { RunDatabase } from '../run/query.js';
import { COLOURS, chart, type TimeAxis } from './chart.js';

const CDF_STEPS = 200;

/** Cumulative distributions of the latencies, one panel each, with p50, p90 and p99 marked. `itl` are (ms, share) points of every gap. */
export async function cdfCharts(database: RunDatabase, itl: readonly (readonly [number, number])[]): Promise<string[]> {
  const panels: string[] = [];
  for (const [title, column] of [
    ['TTFT', 'ttft_ms'],
    ['TPOT', 'tpot_ms'],
    ['E2E', 'e2e_ms'],
    ['KV transfer', 'transfer_ms'],
  ] as const) {
    const points = await quantilePoints(database, column);
    if (points.length > 0) panels.push(cdfChart(title, points));
    if (column === 'ttft_ms' && itl.length > 0) panels.push(cdfChart('ITL, every gap', itl));
  }
  return panels;
}

async function quantilePoints(database: RunDatabase, column: string): Promise<[number, number][]> {
  const shares = Array.from({ length: CDF_STEPS + 1 }, (_, i) => i / CDF_STEPS);
  shares.splice(CDF_STEPS, 0, 0.9975, 0.999);
  const { rows } = await database.query(
    `select unnest(quantile_cont(${column}, [${shares.join(',')}])) as value from requests where outcome = 'completed' and ${column} is not null`,
  );
  return rows.flatMap(([value], i) => (typeof value === 'number' ? [[value, shares[i]!] as [number, number]] : []));
}

function cdfChart(title: string, points: readonly (readonly [number, number])[]): string {
  const positive = points.filter(([ms]) => ms > 0);
  const seconds = (positive.at(-1)?.[0] ?? 0) > 5000;
  const scaled = positive.map(([ms, share]) => ({ value: seconds ? ms / 1000 : ms, share }));
  const low = scaled[0]?.value ?? 0.1;
  scaled.unshift({ value: low, share: 0 });
  const high = scaled.at(-1)?.value ?? 1;
  const marks = [0.5, 0.9, 0.99].flatMap((share) => {
    const point = scaled.find((candidate) => candidate.share >= share);
    return point === undefined ? [] : { value: point.value, share };
  });
  const log = high / low > 4;
  const place = (value: number): number => (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  const nearAxis = (value: number): boolean => place(value) < 0.3;
  return chart({
    width: 372,
    height: 256,
    x: {
      type: log ? 'log' : 'linear',
      label: `${title} (${seconds ? 's' : 'ms'})`,
      labelAnchor: 'center',
      labelArrow: 'none',
      ticks: log ? 4 : 5,
      tickFormat: plainTick,
    },
    y: {
      domain: [0, 1],
      label: 'share of ' + (title.startsWith('ITL') ? 'gaps' : 'requests'),
      tickFormat: '.0%',
      labelArrow: 'none',
      grid: true,
    },
    marks: [
      Plot.ruleY([0], { stroke: '#98a1b0' }),
      Plot.areaY(scaled, { x: 'value', y: 'share', fill: COLOURS.main, fillOpacity: 0.08 }),
      Plot.lineY(scaled, { x: 'value', y: 'share', stroke: COLOURS.main, strokeWidth: 2 }),
      Plot.dot(marks, { x: 'value', y: 'share', r: 3.5, fill: 'white', stroke: COLOURS.main, strokeWidth: 1.8 }),
      // A label stands left of its mark, or right of it where it would run into the axis.
      cdfLabels(
        marks.filter((mark) => !nearAxis(mark.value)),
        'end',
        -9,
      ),
      cdfLabels(
        marks.filter((mark) => nearAxis(mark.value)),
        'start',
        9,
      ),
    ],
  });
}

function cdfLabels(marks: readonly { value: number; share: number }[], textAnchor: 'start' | 'end', dx: number): Plot.Text {
  return Plot.text(marks, {
    x: 'value',
    y: 'share',
    text: (mark: { value: number; share: number }) => `p${Math.round(mark.share * 100)}  ${plainTick(mark.value)}`,
    textAnchor,
    dx,
    dy: textAnchor === 'start' ? 6 : -1,
    fontWeight: 600,
    stroke: 'white',
    strokeWidth: 4,
    fill: COLOURS.ink,
  });
}

function plainTick(value: number): string {
  return value >= 1 ? String(Number(value.toPrecision(3))) : String(Number(value.toPrecision(2)));
}

const PHASES = ['queue', 'prefill', 'transfer', 'decode'] as const;

/** Mean phases of TTFT among all requests and among those near its quantiles: what the slow ones waited for. */
export async function ttftSplitChart(database: RunDatabase): Promise<string> {
  const { rows } = await database.query(`with ranked as (
      select queue_ms, prefill_ms, handover_ms, first_decode_ms, percent_rank() over (order by ttft_ms) as p
      from requests where outcome = 'completed' and prefill_start_ns is not null
    ), grouped as (
      select 1 as n, 'all requests' as name, * from ranked
      union all select 2, 'around p50', * from ranked where p between 0.45 and 0.55
      union all select 3, 'around p90', * from ranked where p between 0.88 and 0.92
      union all select 4, 'slowest 1 %', * from ranked where p >= 0.99
    )
    select name, avg(queue_ms), avg(prefill_ms), avg(handover_ms), avg(first_decode_ms) from grouped group by n, name order by n`);
  const bars = rows.flatMap(([name, ...values]) => PHASES.map((phase, i) => ({ name: String(name), phase, ms: Number(values[i]) })));
  const totals = rows.map(([name, ...values]) => ({
    name: String(name),
    ms: values.reduce<number>((sum, value) => sum + Number(value), 0),
  }));
  return chart({
    width: 1140,
    height: 54 + rows.length * 39,
    marginTop: 8,
    marginLeft: 92,
    marginRight: 70,
    x: { label: 'mean time to first token (ms)', labelAnchor: 'center', labelArrow: 'none', grid: true },
    y: { label: null, domain: rows.map(([name]) => String(name)), tickSize: 0, padding: 0.28 },
    color: { domain: [...PHASES], range: PHASES.map((phase) => COLOURS[phase]) },
    marks: [
      Plot.barX(bars, { x: 'ms', y: 'name', fill: 'phase', z: 'phase', order: [...PHASES] as never, insetRight: 0.5 }),
      Plot.text(totals, {
        x: 'ms',
        y: 'name',
        text: (d: { ms: number }) => `${Math.round(d.ms).toLocaleString('en-US')} ms`,
        textAnchor: 'start',
        dx: 6,
        fontWeight: 600,
      }),
      Plot.ruleX([0], { stroke: '#98a1b0' }),
    ],
  });
}

/** TTFT phases over the time of arrival, as stacked means. */
export async function ttftTimeChart(database: RunDatabase, axis: TimeAxis, simulatedSeconds: number): Promise<string> {
  const width = binWidth(simulatedSeconds);
  const { rows } =
    await database.query(`select floor(arrival_s / ${width}) as bin, avg(queue_ms), avg(prefill_ms), avg(handover_ms), avg(first_decode_ms)
    from requests where outcome = 'completed' and prefill_start_ns is not null group by bin order by bin`);
  const points = rows.flatMap(([bin, ...values]) =>
    PHASES.map((phase, i) => ({ time: ((Number(bin) + 0.5) * width) / axis.seconds, phase, ms: Number(values[i]) })),
  );
  return chart({
    width: 1140,
    height: 240,
    x: { label: `arrival (${axis.unit})`, labelAnchor: 'center', labelArrow: 'none' },
    y: { label: 'mean TTFT (ms)', labelArrow: 'none', grid: true },
    color: { domain: [...PHASES], range: PHASES.map((phase) => COLOURS[phase]) },
    marks: [
      Plot.areaY(points, { x: 'time', y: 'ms', fill: 'phase', z: 'phase', order: [...PHASES] as never, fillOpacity: 0.92 }),
      Plot.ruleY([0], { stroke: '#98a1b0' }),
    ],
  });
}

/** Width in s of the bins that time is cut into: about 120 a run. */
export function binWidth(simulatedSeconds: number): number {
  return Math.max(simulatedSeconds / 120, 1e-6);
}
