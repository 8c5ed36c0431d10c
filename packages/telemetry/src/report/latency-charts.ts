import * as Plot from '@observablehq/plot';
import type { RunDatabase } from '../run/query.js';
import { COLOURS, chart, formatMs, type TimeAxis } from './chart.js';

const CDF_STEPS = 200;

/**
 * Cumulative distributions of the latencies of `measured` requests (an SQL condition), one panel each, with p50, p90 and p99 marked.
 * `itl` are (ms, share) points of every gap.
 */
export async function cdfCharts(database: RunDatabase, measured: string, itl: readonly CdfPoint[]): Promise<string[]> {
  const panels: string[] = [];
  for (const [title, column] of [
    ['TTFT', 'ttft_ms'],
    ['TPOT', 'tpot_ms'],
    ['E2E', 'e2e_ms'],
    ['KV transfer', 'transfer_ms'],
  ] as const) {
    const points = await quantilePoints(database, measured, column);
    if (points.length > 0) panels.push(cdfChart(title, points));
    if (column === 'ttft_ms' && itl.length > 0) panels.push(cdfChart('ITL, every gap', itl));
  }
  return panels;
}

type CdfPoint = readonly [number, number];

async function quantilePoints(database: RunDatabase, measured: string, column: string): Promise<CdfPoint[]> {
  const shares = Array.from({ length: CDF_STEPS + 1 }, (_, i) => i / CDF_STEPS);
  shares.splice(CDF_STEPS, 0, 0.9975, 0.999);
  const { rows } = await database.query(
    `select unnest(quantile_cont(${column}, [${shares.join(',')}])) as value from requests where ${measured} and ${column} is not null`,
  );
  return rows.flatMap(([value], i) => (typeof value === 'number' ? [[value, shares[i]!] as const] : []));
}

function cdfChart(title: string, points: readonly CdfPoint[]): string {
  const positive = points.filter(([ms]) => ms > 0);
  const unit = (positive.at(-1)?.[0] ?? 0) > 5000 ? 's' : 'ms';
  const scaled = positive.map(([ms, share]) => ({ value: unit === 's' ? ms / 1000 : ms, share }));
  const low = scaled[0]?.value ?? 0.1;
  scaled.unshift({ value: low, share: 0 });
  const high = scaled.at(-1)?.value ?? 1;
  const reached = (share: number): number => scaled.find((point) => point.share >= share)?.value ?? high;
  const marks = [0.5, 0.9, 0.99].map((share) => ({ value: reached(share), share }));
  const log = high / low > 4;
  const place = (value: number): number => (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  return chart({
    width: 372,
    height: 256,
    x: {
      type: log ? 'log' : 'linear',
      // One value alone still needs an axis with two ends.
      ...(high > low ? {} : { domain: [low * 0.9, low * 1.1] }),
      label: `${title} (${unit})`,
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
      ...marks.map(({ value, share }, line) =>
        quantileLabel(`p${Math.round(share * 100)}  ${plainTick(value)} ${unit}`, line, place(reached(0.4)) > 0.6),
      ),
    ],
  });
}

/** A line of a list in the corner that the curve leaves free: it never passes both, as its shares only grow. */
function quantileLabel(text: string, line: number, topLeft: boolean): Plot.Text {
  return Plot.text([text], {
    frameAnchor: topLeft ? 'top-left' : 'bottom-right',
    textAnchor: topLeft ? 'start' : 'end',
    dx: topLeft ? 10 : -6,
    dy: topLeft ? 8 + 16 * line : -38 + 16 * line,
    fontWeight: 600,
    fill: COLOURS.ink,
  });
}

function plainTick(value: number): string {
  return value >= 1 ? String(Number(value.toPrecision(3))) : String(Number(value.toPrecision(2)));
}

/** The parts of TTFT, in order: column, name in the chart, meaning. */
const TTFT_PHASES = [
  { column: 'queue_ms', phase: 'queue', meaning: 'queue' },
  { column: 'tier_fetch_ms', phase: 'fetch', meaning: 'fetch of KV from lower tiers' },
  { column: 'prefill_ms', phase: 'prefill', meaning: 'prefill' },
  { column: 'handover_ms', phase: 'transfer', meaning: 'transfer (with the wait for it)' },
  { column: 'first_decode_ms', phase: 'decode', meaning: 'decode, to the first token' },
] as const;

type TtftPhase = (typeof TTFT_PHASES)[number];

/** The phases that take any time in the run: aggregated engines, for one, hand nothing over. */
export async function phasesSeen(database: RunDatabase, measured: string): Promise<TtftPhase[]> {
  const sums = TTFT_PHASES.map(({ column }) => `sum(${column})`).join(', ');
  const { rows } = await database.query(`select ${sums} from requests where ${measured}`);
  return TTFT_PHASES.filter((_, i) => Number(rows[0]?.[i]) > 0);
}

const meansOf = (phases: readonly TtftPhase[]): string => phases.map(({ column }) => `avg(${column})`).join(', ');
const phaseColours = (phases: readonly TtftPhase[]): Plot.ScaleOptions => ({
  domain: phases.map(({ phase }) => phase),
  range: phases.map(({ phase }) => COLOURS[phase]),
});

/** Mean phases of TTFT among all requests and among those near its quantiles: what the slow ones waited for. */
export async function ttftSplitChart(database: RunDatabase, measured: string, phases: readonly TtftPhase[]): Promise<string> {
  const { rows } = await database.query(`with ranked as (
      select ${TTFT_PHASES.map(({ column }) => column).join(', ')}, percent_rank() over (order by ttft_ms) as p
      from requests where ${measured} and prefill_start_ns is not null
    ), grouped as (
      select 1 as n, 'all requests' as name, * from ranked
      union all select 2, 'around p50', * from ranked where p between 0.45 and 0.55
      union all select 3, 'around p90', * from ranked where p between 0.88 and 0.92
      union all select 4, 'slowest 1 %', * from ranked where p >= 0.99
    )
    select name, ${meansOf(phases)} from grouped group by n, name order by n`);
  const bars = rows.flatMap(([name, ...values]) => phases.map(({ phase }, i) => ({ name: String(name), phase, ms: Number(values[i]) })));
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
    color: phaseColours(phases),
    marks: [
      Plot.barX(bars, { x: 'ms', y: 'name', fill: 'phase', z: 'phase', order: phases.map(({ phase }) => phase) as never, insetRight: 0.5 }),
      Plot.text(totals, {
        x: 'ms',
        y: 'name',
        text: (d: { ms: number }) => formatMs(d.ms),
        textAnchor: 'start',
        dx: 6,
        fontWeight: 600,
      }),
      Plot.ruleX([0], { stroke: '#98a1b0' }),
    ],
  });
}

/** TTFT phases over the time of arrival, as stacked means. */
export async function ttftTimeChart(
  database: RunDatabase,
  phases: readonly TtftPhase[],
  axis: TimeAxis,
  simulatedSeconds: number,
): Promise<string> {
  const width = binWidth(simulatedSeconds);
  const { rows } = await database.query(`select floor(arrival_s / ${width}) as bin, ${meansOf(phases)}
    from requests where outcome = 'completed' and prefill_start_ns is not null group by bin order by bin`);
  const points = rows.flatMap(([bin, ...values]) =>
    phases.map(({ phase }, i) => ({ ...binOf(Number(bin), width, axis), phase, ms: Number(values[i]) })),
  );
  return chart({
    width: 1140,
    height: 240,
    x: { label: `arrival (${axis.unit})`, labelAnchor: 'center', labelArrow: 'none' },
    y: { label: 'mean TTFT (ms)', labelArrow: 'none', grid: true },
    color: phaseColours(phases),
    marks: [
      stackedBins(
        points,
        'ms',
        'phase',
        phases.map(({ phase }) => phase),
      ),
      Plot.ruleY([0], { stroke: '#98a1b0' }),
    ],
  });
}

/** Width in s of the bins that time is cut into: about 120 a run. */
export function binWidth(simulatedSeconds: number): number {
  return Math.max(simulatedSeconds / 120, 1e-6);
}

/** Where a bin begins and ends on the axis. */
export function binOf(bin: number, width: number, axis: TimeAxis): { readonly from: number; readonly to: number } {
  return { from: (bin * width) / axis.seconds, to: ((bin + 1) * width) / axis.seconds };
}

/** A bar a bin: also one bin alone is seen, and where nothing arrived there is nothing. */
export function stackedBins(points: readonly object[], y: string, z: string, order: readonly string[]): Plot.Markish {
  return Plot.rectY(points as object[], Plot.stackY({ order: order as never }, { x1: 'from', x2: 'to', y, z, fill: z }));
}
