import * as Plot from '@observablehq/plot';
import { COLOURS, chart, escapeHtml, shortTick } from './chart.js';
import { frame, legend, section, table } from './layout.js';
import type { ComparisonPage, ComparisonSection, LineChart, LineSeries } from './write.js';

/** Colours of the groups of a chart, in the order in which they come. */
const GROUP_COLOURS = [COLOURS.main, COLOURS.second, COLOURS.decode, COLOURS.transfer, '#7b5ea7', COLOURS.queue] as const;

/** The HTML of a comparison page. */
export function renderComparison({ title, meta, sections }: ComparisonPage): string {
  const head = `<header><div><h1>${escapeHtml(title)}</h1><div class="meta">${escapeHtml(meta)}</div></div></header>`;
  return frame(title, [head, ...sections.map(comparisonSection)].join('\n'));
}

function comparisonSection({ title, note, charts, head, rows, numeric }: ComparisonSection): string {
  const drawn = charts.filter(({ series }) => series.some(({ points }) => points.length > 0)).map(lineChart);
  const figures = drawn.length === 0 ? '' : `<div class="${drawn.length > 1 ? 'grid2' : ''}">${drawn.join('')}</div>`;
  return section(title, escapeHtml(note), figures + (rows.length === 0 ? '' : table(head, rows, numeric)));
}

/** Dashed with hollow dots: published. Solid, with the interval as a bar: emulated. */
function lineChart({ title, xLabel, yLabel, xScale = 'linear', series }: LineChart): string {
  const groups = [...new Set(series.map(({ group }) => group))];
  const colour = (group: string): string => GROUP_COLOURS[groups.indexOf(group) % GROUP_COLOURS.length]!;
  const values = series.flatMap(({ points }) => points.flatMap(({ y, low, high }) => [y, low ?? y, high ?? y]));
  const least = Math.min(...values);
  const svg = chart({
    width: 560,
    height: 300,
    x: { type: xScale, label: xLabel, labelAnchor: 'center', labelArrow: 'none', tickFormat: shortTick, ticks: 6 },
    // From zero, so that a small difference looks small.
    y: { label: yLabel, labelArrow: 'none', grid: true, domain: [Math.min(0, least), Math.max(...values) * 1.05], tickFormat: shortTick },
    marks: [Plot.ruleY([0], { stroke: '#98a1b0' }), ...series.flatMap((line) => lineMarks(line, colour(line.group)))],
  });
  const entries = groups.map((group) => [group, colour(group)] as const);
  const kinds = '<span>dashed: published</span><span>solid: emulated, bars: 95 % interval</span>';
  return `<div><h3>${escapeHtml(title)}</h3>${legend(entries).replace(/<\/div>$/, `${kinds}</div>`)}${svg}</div>`;
}

function lineMarks({ points, kind }: LineSeries, stroke: string): Plot.Markish[] {
  const published = kind === 'published';
  const bounded = points.filter(({ low, high }) => typeof low === 'number' && typeof high === 'number');
  return [
    Plot.lineY(points, { x: 'x', y: 'y', stroke, strokeWidth: published ? 1.4 : 2, ...(published ? { strokeDasharray: '5 4' } : {}) }),
    ...(published || bounded.length === 0 ? [] : [Plot.ruleX(bounded, { x: 'x', y1: 'low', y2: 'high', stroke, strokeWidth: 1.2 })]),
    Plot.dot(points, { x: 'x', y: 'y', r: published ? 3.2 : 2.6, stroke, fill: published ? 'white' : stroke }),
  ];
}
