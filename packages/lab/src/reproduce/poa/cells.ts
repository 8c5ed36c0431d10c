import type { WindowMeasure } from '../../measure-windows.js';
import { type ReproductionRow, type RowUnit, rowOf } from '../rows.js';
import type { ScenarioCase, SuitePart } from '../suite.js';
import { calmSnapshots, littleNote, noted, steadyCase, type TopologyName, windowsOf, workerClient } from './cases.js';
import { type PublishedTopology, publishedOmegaTtftMs, publishedTopologies } from './published.js';

const values = [0, 0.3, 0.7, 1] as const;
const quickValues = [0, 0.7] as const;

interface Cell {
  readonly tau: number;
  readonly omega: number;
  readonly place: number;
}

function cellsOf(quick: boolean): Cell[] {
  const used = quick ? quickValues : values;
  return used.flatMap((tau, row) => used.map((omega, column) => ({ tau, omega, place: row * used.length + column })));
}

/** Experiment 4: the grid of tau and omega at 64 and 128 in flight, a single run a cell, as published. */
export function cellsPart(topology: TopologyName, quick: boolean): SuitePart {
  const cells = cellsOf(quick);
  const caseOf = ({ tau, omega, place }: Cell, inFlight: number): ScenarioCase =>
    // A run a cell. The prompts and, at temperature 0, the answers are the same in all; the client is not. Neighbours in the grid are not neighbours in jitter.
    steadyCase(
      topology,
      inFlight,
      quick ? 120 : 240,
      [
        `router.parameters=${JSON.stringify({ tau, omega })}`,
        ...workerClient((place * 7) % cells.length, cells.length),
        ...(inFlight === 64 ? calmSnapshots : []),
      ],
      1,
    );
  return {
    id: `exp4.${topology}`,
    title: `Experiment 4: ${cells.length} cells of (tau, omega), ${topology}`,
    note: 'One run a cell: the same requests, another client jitter.',
    cases: cells.flatMap((cell) => [caseOf(cell, 64), caseOf(cell, 128)]),
    evaluate: (runsOf) => {
      const at = (inFlight: number) =>
        cells.map((cell) => {
          const [whole] = windowsOf(runsOf, caseOf(cell, inFlight), 'whole');
          const [steady] = windowsOf(runsOf, caseOf(cell, inFlight), 'steady');
          return { cell, whole: whole!, steady: steady!, poa: steady!.poa ?? Number.NaN };
        });
      return { rows: [...calmRows(topology, at(64)), ...pastRows(topology, at(128))] };
    },
  };
}

type MeasuredCell = { cell: Cell; whole: { ttftP99Ms: number }; steady: WindowMeasure; poa: number };

const spreadPercent = (numbers: readonly number[]): number => {
  const mean = numbers.reduce((sum, value) => sum + value, 0) / numbers.length;
  return (100 * (Math.max(...numbers) - Math.min(...numbers))) / mean;
};

function calmRows(topology: TopologyName, cells: readonly MeasuredCell[]): ReproductionRow[] {
  const { cells64, plateau } = publishedTopologies[topology] as PublishedTopology;
  const poa = cells.map((each) => each.poa);
  return noted(
    [
      rowOf(`exp4.${topology}.64.spread`, cells64, [Math.max(...poa) - Math.min(...poa)], 'ratio'),
      rowOf(`exp4.${topology}.64.spread-percent`, (100 * cells64) / plateau, [spreadPercent(poa)], 'percent'),
    ],
    littleNote(cells.map(({ steady }) => steady)),
  );
}

function pastRows(topology: TopologyName, cells: readonly MeasuredCell[]): ReproductionRow[] {
  const { low, high, factor } = (publishedTopologies[topology] as PublishedTopology).cells128;
  const poa = cells.map((each) => each.poa);
  const snapshots = cells.flatMap(({ steady }) => (steady.poaSnapshots === null ? [] : [steady.poaSnapshots]));
  const ttftAt = (omega: number): number[] => cells.filter(({ cell }) => cell.omega === omega).map(({ whole }) => whole.ttftP99Ms);
  const publishedOmega = topology === '70b-1p2d' ? publishedOmegaTtftMs : null;
  const last = Math.max(...cells.map(({ cell }) => cell.omega));
  const row = (name: string, published: number | null, values: readonly number[], unit: RowUnit): ReproductionRow =>
    rowOf(`exp4.${topology}.128.${name}`, published, values, unit, 'assumed');
  return noted(
    [
      row('poa-low', low, [Math.min(...poa)], 'ratio'),
      row('poa-high', high, [Math.max(...poa)], 'ratio'),
      row('factor', factor, [Math.max(...poa) / Math.min(...poa)], 'ratio'),
      {
        ...row('factor-snapshots', factor, [Math.max(...snapshots) / Math.min(...snapshots)], 'ratio'),
        note: `PoA-hat from snapshots: ${Math.min(...snapshots).toFixed(1)} to ${Math.max(...snapshots).toFixed(1)}`,
      },
      row('rps-spread', null, [spreadPercent(cells.map(({ steady }) => steady.requestsPerSecond))], 'percent'),
      row('omega-0.ttft-p99', publishedOmega?.[0] ?? null, ttftAt(0), 'ms'),
      row(`omega-${last}.ttft-p99`, last === 1 ? (publishedOmega?.[1] ?? null) : null, ttftAt(last), 'ms'),
    ],
    littleNote(cells.map(({ steady }) => steady)),
  );
}
