import * as Plot from '@observablehq/plot';
import type { RunDatabase } from '../run/query.js';
import { chart } from './chart.js';

interface Cell {
  x: number;
  y: number;
  use: number;
  name: string;
}

interface Label {
  x: number;
  y: number;
  text: string;
}

/** A GPU and its mean use, 0 to 1. */
interface GpuUse {
  readonly name: string;
  readonly use: number;
}

/** GPUs by rack and node, in the order of their names. */
type Racks = Map<string, Map<string, GpuUse[]>>;

const CELL = 24;
/** Cells side by side; a longer row goes on in lines below. */
const mostColumns = 16;
/** GPUs up to which each has a cell of its own: 150 bytes of the page, and of 80,000 nobody finds one. */
export const mostCells = 16_384;

/**
 * Every GPU as a cell coloured by its mean use: a block per rack, a row per node, a column per GPU, after the actor names
 * (.../rack/node/gpu); of more than `mostCells` every server, a block per pod and a row per rack, by the mean of its GPUs. A sample is the mean since the one before, up to
 * its own time, be that after the end of the run; from the last one to `sampledSeconds` the GPU was idle, and so was one of `gpus` without any.
 * Null when GPUs were not sampled.
 */
export async function heatMap(
  database: RunDatabase,
  gpus: readonly string[],
  width: number,
  sampledSeconds: number,
): Promise<string | null> {
  const { rows } = await database.query(
    `with spans as (
      select entity, value, time_s - lag(time_s, 1, 0) over (partition by entity order by time_s) as seconds
      from series where metric = 'gpu_use' and entity is not null)
    select entity, least(1, sum(value * seconds) / ${Math.max(sampledSeconds, 1e-9)}) from spans group by entity order by entity`,
  );
  if (rows.length === 0) return null;
  const uses = new Map([...gpus.map((name) => [name, 0] as const), ...rows.map(([entity, use]) => [String(entity), Number(use)] as const)]);
  const drawn = gpus.length > mostCells ? meansOfServers(uses) : uses;
  const racks = groupByRack([...drawn].map(([name, use]) => ({ name, use })));
  const cell = drawn.size > 512 ? 14 : CELL;
  const { cells, labels, titles, height } = layOut(racks, cell, width);
  return chart({
    width,
    height,
    margin: 0,
    x: { domain: [0, width], range: [0, width], axis: null },
    y: { domain: [0, height], range: [0, height], axis: null },
    color: { type: 'linear', domain: [0, 1], scheme: 'YlGnBu' },
    marks: [
      Plot.rect(cells, {
        x1: 'x',
        x2: (d: Cell) => d.x + cell,
        y1: 'y',
        y2: (d: Cell) => d.y + cell,
        fill: 'use',
        inset: 1,
        rx: 3,
        title: (d: Cell) => `${d.name}: ${(d.use * 100).toFixed(1)} %`,
      }),
      Plot.text(cell >= CELL ? cells : [], {
        x: (d: Cell) => d.x + cell / 2,
        y: (d: Cell) => d.y + cell / 2,
        text: (d: Cell) => String(Math.round(d.use * 100)),
        fill: (d: Cell) => (d.use > 0.55 ? 'white' : '#1c2430'),
        fontSize: 9.5,
      }),
      Plot.text(labels, { x: 'x', y: 'y', text: 'text', textAnchor: 'end', fill: '#5a6474' }),
      Plot.text(titles, { x: 'x', y: 'y', text: 'text', textAnchor: 'start', fontWeight: 600 }),
    ],
  });
}

/** Places of cells of this size, and of the names of nodes and racks: as many blocks side by side as the width holds, in rows filled evenly. */
function layOut(racks: Racks, cell: number, width: number): { cells: Cell[]; labels: Label[]; titles: Label[]; height: number } {
  const inNode = most([...racks.values()].flatMap((nodes) => [...nodes.values()].map((list) => list.length)));
  const lines = Math.ceil(inNode / mostColumns);
  const columns = Math.ceil(inNode / lines);
  const nodes = most([...racks.values()].map((list) => list.size));
  const longest = most([...racks.values()].flatMap((list) => [...list.keys()].map((node) => node.length)));
  const labelWidth = 16 + longest * 6.5;
  const blockWidth = labelWidth + columns * cell + 24;
  const blockHeight = nodes * lines * cell + 44;
  const fitting = Math.max(1, Math.floor(width / blockWidth));
  const perRow = Math.ceil(racks.size / Math.ceil(racks.size / fitting));
  const cells: Cell[] = [];
  const labels: Label[] = [];
  const titles: Label[] = [];
  let block = 0;
  for (const [rack, nodesOfRack] of racks) {
    const left = (block % perRow) * blockWidth + labelWidth;
    const top = Math.floor(block / perRow) * blockHeight + 26;
    titles.push({ x: left, y: top - 8, text: rack });
    let row = 0;
    for (const [node, list] of nodesOfRack) {
      labels.push({ x: left - 8, y: top + (row + 0.5) * cell, text: node });
      list.forEach(({ name, use }, column) => {
        cells.push({ x: left + (column % columns) * cell, y: top + (row + Math.floor(column / columns)) * cell, use, name });
      });
      row += lines;
    }
    block++;
  }
  const height = Math.ceil(racks.size / perRow) * blockHeight;
  return { cells, labels, titles, height };
}

function meansOfServers(uses: ReadonlyMap<string, number>): Map<string, number> {
  const sums = new Map<string, { use: number; gpus: number }>();
  for (const [name, use] of uses) {
    const server = name.slice(0, name.lastIndexOf('/'));
    const sum = sums.get(server) ?? { use: 0, gpus: 0 };
    sums.set(server, { use: sum.use + use, gpus: sum.gpus + 1 });
  }
  return new Map([...sums].map(([server, { use, gpus }]) => [server, use / gpus]));
}

function most(numbers: readonly number[]): number {
  return numbers.reduce((highest, number) => Math.max(highest, number), 0);
}

function groupByRack(gpus: readonly GpuUse[]): Racks {
  const racks: Racks = new Map();
  const natural = new Intl.Collator('en', { numeric: true });
  for (const gpu of [...gpus].sort((a, b) => natural.compare(a.name, b.name))) {
    const parts = gpu.name.split('/');
    const node = parts.at(-2) ?? 'cluster';
    const rack = parts.slice(0, -2).join('/') || 'cluster';
    const nodes = racks.get(rack) ?? new Map<string, GpuUse[]>();
    racks.set(rack, nodes);
    const list = nodes.get(node);
    if (list === undefined) nodes.set(node, [gpu]);
    else list.push(gpu);
  }
  return racks;
}
