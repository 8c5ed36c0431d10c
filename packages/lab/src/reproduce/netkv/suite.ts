import { isSelected, type ReproductionSuite, type SuitePart } from '../suite.js';
import { figure1Part, figure2Part, figure3Part, figure5Part } from './figures.js';
import { table2Part, table3Part, table4Part, table5Part, table6Part } from './tables.js';

const tables: Readonly<Record<number, (quick: boolean) => SuitePart>> = {
  2: table2Part,
  3: table3Part,
  4: table4Part,
  5: table5Part,
  6: table6Part,
};
const figures: Readonly<Record<number, (quick: boolean) => SuitePart>> = { 1: figure1Part, 2: figure2Part, 3: figure3Part, 5: figure5Part };

/** NetKV on the emulated cluster: configs/paper/netkv/, docs/reproduce.md. */
export const netkvSuite: ReproductionSuite = {
  name: 'netkv',
  title: 'NetKV on the emulated cluster',
  source: 'published numbers: arXiv 2606.03910v1, June 2026',
  tables: Object.keys(tables).map(Number),
  figures: Object.keys(figures).map(Number),
  seeds: (quick) => (quick ? [1, 2] : [1, 2, 3, 4, 5]),
  parts(selection) {
    const chosen = (kind: 'table' | 'figure', parts: typeof tables): SuitePart[] =>
      Object.entries(parts).flatMap(([number, part]) => (isSelected(selection, kind, Number(number)) ? [part(selection.quick)] : []));
    return [...chosen('table', tables), ...chosen('figure', figures)];
  },
};
