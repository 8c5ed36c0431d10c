import type { FigureMean, Figures, RunFigures, Sweep, SweepPoint, SweepRun } from '@braess/lab';
import { plot } from 'asciichart';
import { fixed, textTable } from './text-output.js';

/** A figure in a table of points. */
interface Column {
  readonly head: string;
  of<Value>(figures: Figures<Value>): Value | null;
  text(value: number): string;
}

const decimals = (count: number) => (value: number) => fixed(value, count);

const columns: readonly Column[] = [
  { head: 'requests/s', of: ({ requestsPerSecond }) => requestsPerSecond, text: decimals(2) },
  { head: 'goodput', of: ({ goodput }) => goodput, text: decimals(2) },
  { head: 'SLO met', of: ({ sloAttainment }) => sloAttainment, text: (share) => `${fixed(100 * share, 1)} %` },
  { head: 'TTFT p50', of: ({ ttftMs }) => ttftMs?.p50 ?? null, text: decimals(1) },
  { head: 'TTFT p99', of: ({ ttftMs }) => ttftMs?.p99 ?? null, text: decimals(1) },
  { head: 'ITL p99', of: ({ itlMs }) => itlMs?.p99 ?? null, text: decimals(1) },
  { head: 'E2E p99', of: ({ e2eMs }) => e2eMs?.p99 ?? null, text: decimals(1) },
  { head: 'lost', of: ({ lost }) => lost, text: (count) => fixed(count, Number.isInteger(count) ? 0 : 1) },
];

/** Sweeps over one path as one table, the knees marked, and of a single one a plot; without a path the runs of the one point, seed by seed. */
export function sweepText(sweeps: readonly Sweep[]): string {
  const [{ held, path, seeds }] = sweeps as readonly [Sweep];
  const rows = path === null ? seedRows(sweeps[0]!.points[0]!) : sweeps.flatMap(sweepRows);
  const heads = [...held.map((axis) => axis.path), path ?? 'seed', ...columns.map(({ head }) => head), ''];
  // Knees and failures stand in a last column where there are some.
  const width = rows.some((row) => row.at(-1) !== '') ? heads.length : heads.length - 1;
  const lines = [
    textTable(
      heads.slice(0, width),
      rows.map((row) => row.slice(0, width)),
    ),
  ];
  if (seeds > 1)
    lines.push(
      `means of ${seeds} runs${path === null ? '' : ', with the same seeds at every point'}; +-: half the width of their 95 % interval`,
    );
  if (path === null) return lines.join('\n');
  const hasSlo = sweeps.every(({ points }) =>
    points.every(({ figures }) => figures.requestsPerSecond === null || figures.goodput !== null),
  );
  return [...lines, ...chartOf(sweeps, hasSlo), kneesText(sweeps, hasSlo)].join('\n');
}

function seedRows({ figures, runs }: SweepPoint): string[][] {
  const single = runs.map(({ summary, error }) => [
    summary?.seed ?? '-',
    ...cellsOf(summary, (value) => value),
    error === null ? '' : failed(error),
  ]);
  return [...single, ['mean', ...meansOf(figures), ''], ['+- 95 %', ...halfWidthsOf(figures), '']];
}

function sweepRows({ held, points, knee, seeds }: Sweep): string[][] {
  return points.flatMap(({ value, figures, runs }, index) => {
    const row = [
      ...held.map((axis) => axis.value),
      value ?? '',
      ...meansOf(figures),
      failuresOf(runs) ?? (index === knee ? '<- knee' : ''),
    ];
    return seeds === 1 ? [row] : [row, [...held.map(() => ''), '+- 95 %', ...halfWidthsOf(figures), '']];
  });
}

const meansOf = (figures: RunFigures): string[] => cellsOf(figures, ({ mean }) => mean);
const halfWidthsOf = (figures: RunFigures): string[] => cellsOf(figures, ({ halfWidth }) => halfWidth);

function cellsOf<Value>(figures: Figures<Value> | null, numberOf: (value: Value) => number | null): string[] {
  return columns.map(({ of, text }) => {
    const value = figures === null ? null : of(figures);
    const number = value === null ? null : numberOf(value);
    return number === null ? '-' : text(number);
  });
}

/** What became of the runs of a point that came to nothing, by the first of them. */
function failuresOf(runs: readonly SweepRun[]): string | null {
  const errors = runs.flatMap(({ error }) => error ?? []);
  if (errors.length === 0) return null;
  return runs.length === 1 ? failed(errors[0]!) : `${errors.length} of ${runs.length} runs ${failed(errors[0]!)}`;
}

const failed = (error: string): string => `failed: ${error.split('\n')[0]}`;

/** Goodput over the points, TTFT where there is no SLO; with several seeds between the ends of the intervals. */
function chartOf(sweeps: readonly Sweep[], hasSlo: boolean): string[] {
  const [{ points, isScale, seeds }] = sweeps as readonly [Sweep];
  const values = points.flatMap(({ figures }) => (hasSlo ? figures.goodput : figures.ttftMs?.p99) ?? []);
  if (sweeps.length > 1 || !isScale || values.length < 2) return [];
  const lineOf = (of: (value: FigureMean) => number): number[] => stretched(values.map(of));
  const ends = [-1, 1].map((side) => lineOf(({ mean, halfWidth }) => mean + side * (halfWidth ?? 0)));
  const lines = [...(seeds === 1 ? [] : ends), lineOf(({ mean }) => mean)];
  const title = `${hasSlo ? 'goodput (requests/s)' : 'TTFT p99 (ms)'} over the points${seeds === 1 ? '' : ', between the ends of its interval'}`;
  return [title, plot(lines, { height: seeds === 1 ? 8 : 12 })];
}

/** Straight lines between the points, which the plot would draw a column apart. */
function stretched(values: readonly number[]): number[] {
  const columns = Math.max(values.length, 60);
  return Array.from({ length: columns }, (_, column) => {
    const at = (column * (values.length - 1)) / (columns - 1);
    const [before, after] = [values[Math.floor(at)] as number, values[Math.ceil(at)] as number];
    return before + (at - Math.floor(at)) * (after - before);
  });
}

function kneesText(sweeps: readonly Sweep[], hasSlo: boolean): string {
  if (!hasSlo) return 'no SLO in the scenario (workload.slo), so no knee';
  if (sweeps[0]?.path === 'seed') return 'no knee: seeds come in no order';
  if (!sweeps.every(({ isScale }) => isScale)) return 'no knee: the values are no numbers that rise or fall';
  return sweeps
    .map((sweep) => {
      const held = sweep.held.map(({ path, value }) => `${path} = ${value}`).join(', ');
      return `${held === '' ? '' : `${held}: `}${kneeText(sweep)}`;
    })
    .join('\n');
}

function kneeText({ path, points, knee, sloShare, seeds }: Sweep): string {
  const kept = `the SLO for ${100 * sloShare} % of the requests${seeds === 1 ? '' : ' in the mean of its runs'}`;
  const next = points[knee + 1];
  if (next?.runs.some(({ error }) => error !== null) === true)
    return `knee unknown: ${path} = ${next.value} has runs that failed${knee < 0 ? '' : `; up to ${points[knee]?.value} each point keeps ${kept}`}`;
  if (knee < 0) return `not even the first point keeps ${kept}`;
  const last = knee === points.length - 1;
  return `knee: ${path} = ${points[knee]?.value} is the last point that keeps ${kept}${last ? ' (and the last of the sweep)' : ''}`;
}
